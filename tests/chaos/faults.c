/* The faults. Their schedule is drawn from the seed alone: kinds, targets, times and lengths. A fault whose target another fault
 * already holds is left out. */
#include "chaos.h"

#include "tempdir.h"

enum { GAP_MS = 900, SECOND_MS = 1000, MINUTE_MS = 60 * SECOND_MS, HOUR_MS = 60 * MINUTE_MS, WINDOW_MS = 30 * MINUTE_MS };
enum { STORM_JOBS = 400, STORM_MOST = 5000 };
#define FULL_BYTES (INT64_C(1) << 40) /* more than any stream takes */
#define YEAR_MS    (365 * 24 * INT64_C(3600000))

/* Of `weight` in the sum of all weights; the fault lasts up to `longest_ms`. */
static const struct {
    const char *name;
    unsigned weight, longest_ms;
} kinds[KINDS] = {
    [CALM] = {"", 0, 1},
    [KILL] = {"kill", 24, 2500},
    [FREEZE] = {"freeze", 14, 4000},
    [REDIS_KILL] = {"redis_kill", 4, 600},
    [REDIS_FREEZE] = {"redis_freeze", 5, 2500},
    [CUT] = {"cut", 12, 1},
    [CLOCK] = {"clock", 8, 15000},
    [RIGHTS] = {"rights", 14, 6000},
    [RELOAD] = {"reload", 12, 1},
    [REMOVE] = {"remove", 6, 9000},
    [RENAME] = {"rename", 5, 4000},
    [WIPE] = {"wipe", 3, 1500},
    [BLIND] = {"blind", 6, 8000},
    [FULL] = {"full", 6, 5000},
    [FORGET] = {"forget", 6, 1},
    [STORM] = {"storm", 6, 1},
    [GUEST] = {"guest", 8, 3000},
    [NEIGHBOUR] = {"neighbour", 10, 1},
    [MEMORY] = {"memory", 8, 2000},
};

static uint64_t pick(chaos_t *c, uint64_t below) { return cluster_random(&c->fault_random, below); }

static chaos_kind_t pick_kind(chaos_t *c) {
    unsigned sum = 0;
    for (int k = 0; k < KINDS; k++) sum += kinds[k].weight;
    uint64_t drawn = pick(c, sum);
    chaos_kind_t kind = KILL;
    while (drawn >= kinds[kind].weight) drawn -= kinds[kind++].weight;
    return kind;
}

static int64_t pick_step(chaos_t *c) {
    const int64_t steps[] = {2 * SECOND_MS, 40 * SECOND_MS, 5 * MINUTE_MS, 2 * HOUR_MS, YEAR_MS};
    int64_t step = steps[pick(c, sizeof steps / sizeof *steps)];
    return pick(c, 2) ? step : -step;
}

/* Draws the same number of values for each fault, so that the schedule does not depend on which kinds are switched off. */
static void draw_next(chaos_t *c, int64_t from_us) {
    chaos_fault_t *next = &c->next;
    next->at_us = from_us + (int64_t)pick(c, 2 * GAP_MS) * 1000;
    next->kind = pick_kind(c);
    next->target = (int)pick(c, CHAOS_SIDECARS * CHAOS_QUEUES);
    next->until_us = next->at_us + (int64_t)pick(c, kinds[next->kind].longest_ms) * 1000;
    int64_t step = pick_step(c);
    next->amount = (int64_t)pick(c, 1000000);
    if (next->kind == CLOCK) next->amount = step;
}

/* ---- configs */

char *chaos_config(chaos_t *c, int sidecar) {
    static const char *const slices[] = {"500us", "50us", "2ms", "100ms"}, *const batches[] = {"5000", "1", "2", "50"},
                             *const monitors[] = {"", "rotation = 0;", "rotation = 10;", "rotation = 100;"};
    const chaos_sidecar_t *of = &c->sidecars[sidecar];
    char redis[128], dispatcher[64];
    snprintf(redis, sizeof redis, RIGHTS_LOGIN " slice = \"%s\";", slices[of->flavour >> 3 & 3]);
    snprintf(dispatcher, sizeof dispatcher, "batch = %s;", batches[of->flavour >> 5 & 3]);
    char *queues = NULL, *scan = of->flavour & 1 ? "100ms" : "250ms";
    size_t size = 0;
    FILE *out = open_memstream(&queues, &size);
    const char *comma = "";
    for (int i = 0; i < CHAOS_QUEUES; i++) {
        int q = of->flavour & 2 ? CHAOS_QUEUES - 1 - i : i;
        if (of->lacks[q]) continue;
        int retries = CHAOS_RETRIES - (int)(of->flavour >> 2 & 1);
        bool counts = chaos_queues[q].counts && !chaos_queues[q].is_event;
        fprintf(out, "%s{ name = \"%s\"; %s", comma, chaos_queues[q].name, chaos_queues[q].settings);
        if (counts) fprintf(out, "retry_times = %d; ", retries);
        fprintf(out, "}");
        comma = ", ";
    }
    fclose(out);
    char *text = cluster_config(&c->cluster, (sidecar_t){.redis = redis,
                                                         .dispatcher = dispatcher,
                                                         .ttl = "900ms",
                                                         .poll = "1s",
                                                         .scan = scan,
                                                         .monitor = monitors[of->flavour >> 7 & 3],
                                                         .queues = queues,
                                                         .more = "reload = { poll = \"1s\"; };\n"
                                                                 "stream = { min_copies = 100; };\n"});
    free(queues);
    return text;
}

static void write_config(chaos_t *c, int sidecar) {
    char *text = chaos_config(c, sidecar);
    daemon_write_config(c->cluster.sidecars[sidecar], "%s", text);
    free(text);
}

/* ---- rights */

static void read_rights(chaos_t *c) {
    static const char *const dialects[] = {NULL,     "kmqueue",       "private_queues", "bull",
                                           "bullmq", "delayed_queue", "stream",         "sidekiq"};
    for (size_t d = 0; d < sizeof dialects / sizeof *dialects; d++) {
        rights_t rights = rights_read(dialects[d]);
        for (size_t i = d ? rights.own : 0; i < rights.count; i++) {
            bool known = *rights.words[i] != '+';
            for (size_t k = 0; k < c->word_count; k++) known |= strcmp(c->words[k], rights.words[i]) == 0;
            if (!known) snprintf(c->words[c->word_count++], CHAOS_NAME, "%s", rights.words[i]);
        }
        rights_free(&rights);
    }
}

/* Half of the rights withdrawn are of commands by which scripts write, or read what they decide on. */
static int64_t pick_word(const chaos_t *c, uint64_t amount) {
    static const char *const weighty[] = {
        "+hset", "+hdel", "+lpush",    "+rpush", "+lrem",    "+zadd",    "+zrem", "+zremrangebyrank", "+xadd",   "+xtrim",
        "+set",  "+del",  "+sadd",     "+srem",  "+publish", "+pexpire", "+xlen", "+rpoplpush",       "+lindex", "+hget",
        "+xack", "+xdel", "+xpending", "+hscan", "+pttl",    "+sscan"};
    if (amount % 2) return (int64_t)(amount / 2 % c->word_count);
    const char *word = weighty[amount / 2 % (sizeof weighty / sizeof *weighty)];
    for (size_t i = 0; i < c->word_count; i++)
        if (strcmp(c->words[i], word) == 0) return (int64_t)i;
    return 0;
}

static void grant(chaos_t *c) {
    const char *argv[MAX_RIGHTS + 10] = {"ACL", "SETUSER", "sidecar", "reset", "on", ">secret", "-@all", "~*", "&*"};
    int argc = 9;
    for (size_t i = 0; i < c->word_count; i++)
        if (!c->withdrawn[i]) argv[argc++] = c->words[i];
    redisReply *reply = redisCommandArgv(c->cluster.r, argc, argv, NULL);
    cr_assert(reply && reply->type == REDIS_REPLY_STATUS, "%s", reply ? reply->str : c->cluster.r->errstr);
    freeReplyObject(reply);
}

static void set_right(chaos_t *c, int64_t word, bool there) {
    c->withdrawn[word] = !there;
    redis_ok(c->cluster.r, "ACL SETUSER sidecar %s%s", there ? "+" : "-", c->words[word] + 1);
}

/* ---- Redis */

static void step_clock(chaos_t *c, int64_t ms) {
    server_step_clock(c->cluster.server, ms);
    c->offset_ms += ms;
    if (c->offset_ms > c->ceiling_ms) c->ceiling_ms = c->offset_ms;
    if (ms > 0) c->forward_ms += ms;
    if (ms >= WINDOW_MS) c->forgotten++;
    if (ms < -10 * MINUTE_MS) c->stepped_back = true;
}

static void pause_run(int64_t until_us) {
    while (wait_now_us() < until_us) (void)wait_for(wait_now_us() >= until_us, 1000);
}

static void restart_redis(chaos_t *c, int64_t until_us) {
    server_kill(c->cluster.server);
    pause_run(until_us);
    server_restart(c->cluster.server, SERVER_KEEP_DATA);
    cluster_reopen(&c->cluster);
    grant(c);
}

static void freeze_redis(chaos_t *c, int64_t until_us) {
    server_freeze(c->cluster.server);
    pause_run(until_us);
    server_thaw(c->cluster.server);
}

static void fill_memory(chaos_t *c, int64_t until_us) {
    redis_ok(c->cluster.r, "CONFIG SET maxmemory 1");
    pause_run(until_us);
    redis_ok(c->cluster.r, "CONFIG SET maxmemory 0");
}

/* Staging uses another database of this server, with the same queues and the same ids of jobs. There the last jobs have failed.
 */
static void fail_in_other_database(chaos_t *c) {
    static const char script[] =
        "redis.call('SELECT', 1) for i = ARGV[1], ARGV[2] do local id = 'j' .. i local job = '{\"id\":\"' .. id .. '\"}' "
        "for _, q in ipairs({'beat', 'plain'}) do redis.call('HSET', q .. ':errors', job, 'staging') "
        "redis.call('LPUSH', q .. ':backup', job) end redis.call('SET', id .. '_alive', 'x', 'PX', 1) "
        "local at = redis.call('TIME')[1] * 1000 local b = 'bull:video:' "
        "redis.call('HSET', b .. id, 'name', '__default__', 'data', '{}', 'failedReason', 'staging', 'finishedOn', at) "
        "redis.call('ZADD', b .. 'failed', at, id) redis.call('PUBLISH', b .. 'failed', "
        "'{\"jobId\":\"' .. id .. '\",\"val\":\"staging\"}') "
        "redis.call('PUBLISH', b .. 'added', id) redis.call('LPUSH', 'de_event', id) end redis.call('SELECT', 0)";
    int last = c->added - 1;
    redisReply *reply = redis_do(c->cluster.r, "EVAL %s 0 %d %d", script, last > 60 ? last - 60 : 0, last);
    if (reply->type == REDIS_REPLY_ERROR) chaos_fail(c, "database 1: %s", reply->str);
    freeReplyObject(reply);
}

/* A list or zset that the application renames, and later unites with what came meanwhile. */
static bool rename_key(chaos_t *c, const chaos_fault_t *fault, bool away) {
    static const char *const keys[] = {"beat", "beat:delayed", "plain", "plain:delayed", "task", "fight"};
    static const char script[] =
        "local key, aside = KEYS[1], KEYS[1] .. ':aside' "
        "if ARGV[1] == '1' then if redis.call('EXISTS', key) == 0 or redis.call('EXISTS', aside) == 1 then "
        "return 0 end redis.call('RENAME', key, aside) return 1 end "
        "if redis.call('TYPE', aside).ok == 'zset' then redis.call('ZUNIONSTORE', key, 2, key, aside) "
        "else while redis.call('LMOVE', aside, key, 'RIGHT', 'RIGHT') do end end redis.call('DEL', aside)";
    const char *key = keys[(size_t)fault->amount % (sizeof keys / sizeof *keys)];
    redisReply *reply = redis_do(c->cluster.r, "EVAL %s 1 %s %d", script, key, away);
    if (reply->type == REDIS_REPLY_ERROR) chaos_fail(c, "rename of %s: %s", key, reply->str);
    bool done = reply->integer == 1;
    freeReplyObject(reply);
    return done;
}

/* ---- sidecars */

static void remove_log(const daemon_t *d) {
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s%s", daemon_audit_path(d), ends[i]) < 0) abort();
        unlink(path);
        free(path);
    }
}

static bool begin_sidecar_fault(chaos_t *c, chaos_fault_t *fault) {
    fault->target %= CHAOS_SIDECARS;
    chaos_sidecar_t *of = &c->sidecars[fault->target];
    daemon_t *d = c->cluster.sidecars[fault->target];
    if (of->held) return false;
    of->held = 1;
    if (fault->kind == FREEZE) {
        daemon_pause(d);
    } else {
        daemon_kill(d);
        if (fault->kind == WIPE) remove_log(d);
    }
    return true;
}

/* A pod that lives for seconds: its instance may lead, and its audit log ends with it. */
static bool begin_guest(chaos_t *c, chaos_fault_t *fault) {
    char *config = chaos_config(c, fault->target % CHAOS_SIDECARS);
    fault->guest = daemon_start("%s", config);
    free(config);
    return true;
}

static void end_guest(chaos_fault_t *fault) {
    if (fault->amount % 2) {
        daemon_stop(fault->guest);
    } else {
        daemon_kill(fault->guest);
        daemon_free(fault->guest);
    }
}

/* The rights of new connections. */
static bool begin_blind(chaos_t *c, chaos_fault_t *fault) {
    for (fault->amount = 0; strcmp(c->words[fault->amount], "+client|tracking") != 0; fault->amount++) continue;
    if (c->withdrawn[fault->amount]) return false;
    set_right(c, fault->amount, false);
    cluster_kill_connections(c->cluster.r, "");
    return true;
}

static void fill_stream(chaos_t *c, const chaos_fault_t *fault, int64_t bytes) {
    const char *queue = chaos_queues[fault->target % CHAOS_QUEUES].name;
    redis_int(c->cluster.r, "HINCRBY sidecar:%s:meta bytes %lld", queue, (long long)bytes);
}

/* Leaves a queue out of the config of one instance or, a third of the time, of all. */
static void set_lacks(chaos_t *c, const chaos_fault_t *fault, bool lacks) {
    int queue = fault->target % CHAOS_QUEUES, instance = fault->target / CHAOS_QUEUES;
    bool everywhere = fault->amount % 3 == 0;
    for (int i = 0; i < CHAOS_SIDECARS; i++) {
        if (!everywhere && i != instance) continue;
        c->sidecars[i].lacks[queue] = lacks;
        write_config(c, i);
    }
}

static bool begin(chaos_t *c, chaos_fault_t *fault) {
    switch (fault->kind) {
    case KILL:
    case WIPE:
    case FREEZE: return begin_sidecar_fault(c, fault);
    case REDIS_KILL: restart_redis(c, fault->until_us); return true;
    case REDIS_FREEZE: freeze_redis(c, fault->until_us); return true;
    case CUT: cluster_kill_connections(c->cluster.r, ""); return true;
    case CLOCK: step_clock(c, fault->amount); return true;
    case RIGHTS:
        fault->amount = pick_word(c, (uint64_t)fault->amount);
        if (c->withdrawn[fault->amount]) return false;
        set_right(c, fault->amount, false);
        return true;
    case RELOAD:
        c->sidecars[fault->target % CHAOS_SIDECARS].flavour = (uint64_t)fault->amount;
        write_config(c, fault->target % CHAOS_SIDECARS);
        return true;
    case REMOVE: set_lacks(c, fault, true); return true;
    case RENAME: return rename_key(c, fault, true);
    case BLIND: return begin_blind(c, fault);
    case FULL: fill_stream(c, fault, FULL_BYTES); return true;
    case FORGET: redis_ok(c->cluster.r, "SCRIPT FLUSH"); return true;
    case STORM:
        chaos_storm(c, fault->target % CHAOS_QUEUES, fault->amount % 25 ? (int)(fault->amount % STORM_JOBS) + 1 : STORM_MOST);
        return true;
    case GUEST: return begin_guest(c, fault);
    case NEIGHBOUR: fail_in_other_database(c); return true;
    case MEMORY: fill_memory(c, fault->until_us); return true;
    default: return false;
    }
}

static void end(chaos_t *c, chaos_fault_t *fault) {
    daemon_t *d = c->cluster.sidecars[fault->target % CHAOS_SIDECARS];
    switch (fault->kind) {
    case KILL:
    case WIPE: daemon_restart(d); break;
    case FREEZE: daemon_continue(d); break;
    case CLOCK: step_clock(c, -fault->amount); break;
    case BLIND:
    case RIGHTS: set_right(c, fault->amount, true); break;
    case FULL: fill_stream(c, fault, -FULL_BYTES); break;
    case REMOVE: set_lacks(c, fault, false); break;
    case RENAME: rename_key(c, fault, false); break;
    case GUEST: end_guest(fault); break;
    default: break;
    }
    if (fault->kind == KILL || fault->kind == WIPE || fault->kind == FREEZE) c->sidecars[fault->target % CHAOS_SIDECARS].held = 0;
    fault->kind = CALM;
}

void chaos_faults_begin(chaos_t *c) {
    const char *given = getenv("CHAOS_FAULTS");
    char *list = strdup(given ? given : ""), *rest = list;
    for (int k = KILL; k < KINDS; k++) c->allowed[k] = !*list;
    for (char *word = strsep(&rest, ","); word && *word; word = strsep(&rest, ",")) {
        bool known = false;
        for (int k = KILL; k < KINDS; k++) {
            if (strcmp(kinds[k].name, word) != 0) continue;
            known = c->allowed[k] = true;
        }
        cr_assert(known, "CHAOS_FAULTS: there is no fault %s", word);
    }
    free(list);
    read_rights(c);
    grant(c);
    draw_next(c, c->began_us);
}

void chaos_disturb(chaos_t *c) {
    int64_t now = wait_now_us();
    chaos_fault_t *room = NULL;
    for (int i = 0; i < CHAOS_FAULTS; i++) {
        chaos_fault_t *fault = &c->faults[i];
        if (fault->kind != CALM && now >= fault->until_us) end(c, fault);
        if (fault->kind == CALM) room = fault;
    }
    if (now < c->next.at_us || !room) return;
    chaos_fault_t fault = c->next;
    fault.until_us += now - fault.at_us;
    if (c->allowed[fault.kind] && begin(c, &fault)) {
        c->made[fault.kind]++;
        *room = fault;
    }
    draw_next(c, c->next.at_us);
}

void chaos_calm(chaos_t *c) {
    for (int i = 0; i < CHAOS_FAULTS; i++)
        if (c->faults[i].kind != CALM) end(c, &c->faults[i]);
    if (c->offset_ms < c->ceiling_ms) step_clock(c, c->ceiling_ms - c->offset_ms);
    for (int i = 0; i < CHAOS_SIDECARS; i++) write_config(c, i);
}

void chaos_check_sidecars(chaos_t *c) {
    for (int i = 0; i < CHAOS_SIDECARS; i++)
        if (!c->sidecars[i].held && !daemon_running(c->cluster.sidecars[i])) chaos_fail(c, "sidecar %d has ended by itself", i);
}

void chaos_tell_faults(const chaos_t *c) {
    for (int k = KILL; k < KINDS; k++)
        if (c->made[k]) fprintf(stderr, " %s %d", kinds[k].name, c->made[k]);
}
