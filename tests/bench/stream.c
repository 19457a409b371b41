// Dialect stream: due members become entries, and entries of dead consumers come back. Each against a client that asks for a bare
// script of BATCH jobs again and again, without any check, record or stamp: XADD and ZREMRANGEBYRANK, or XPENDING, XRANGE, XADD,
// XACK and XDEL. A round has both, so that the ratio does not depend on the load of the machine. And 200,000 pending entries: how
// long a scan holds Redis, and how much memory the sidecar takes.
#include "bench.h"

enum {
    DUE = 100000,
    DEAD = 20000,
    MANY = 200000,
    SCANS = 3,
    SLOWLOG = 100000,
    BATCH = 64,
    PER_CALL = 5000,
    POLL_US = 1000,
    POLLS_MAX = 120000
};

#define QUEUE                                                                                                                    \
    "{ name = \"q0\"; dialect = \"stream\"; group = \"workers\"; protected_timeout = \"1m\"; id_path = \"/id\"; roles = "        \
    "[\"dispatcher\", \"monitor\"]; }"
// A scan reads all entries: their ids are older than the timeout. Those of living workers do not stall meanwhile.
#define MANY_QUEUE "{ name = \"q0\"; dialect = \"stream\"; group = \"workers\"; protected_timeout = \"30m\"; id_path = \"/id\"; }"
#define JOB                                                                                                                      \
    "'{\"id\":' .. i .. ',\"to\":\"ann@example.org\",\"template\":\"welcome\",\"text\":\"' .. string.rep('x', 40) .. '\"}'"

typedef struct round {
    double rate;   // jobs a second
    double cpu_us; // CPU time of Redis for one job
} round_t;

static const char DUE_FLOOR[] = "local jobs = redis.call('ZRANGEBYSCORE', 'q0:delayed', '-inf', ARGV[2], 'LIMIT', 0, ARGV[1]) "
                                "for _, job in ipairs(jobs) do redis.call('XADD', 'q0', '*', 'data', job) end "
                                "if #jobs > 0 then redis.call('ZREMRANGEBYRANK', 'q0:delayed', 0, #jobs - 1) end return #jobs";

static const char DEAD_FLOOR[] =
    "local pending, ids = redis.call('XPENDING', 'q0', 'workers', 'IDLE', '60000', '-', '+', ARGV[1]), {} "
    "for i, entry in ipairs(pending) do ids[i] = entry[1] "
    "redis.call('XADD', 'q0', '*', unpack(redis.call('XRANGE', 'q0', entry[1], entry[1])[1][2])) end "
    "if #ids > 0 then redis.call('XACK', 'q0', 'workers', unpack(ids)) redis.call('XDEL', 'q0', unpack(ids)) end return #ids";

// The same, with all that a retry of the sidecar writes besides: a record of 20 fields, and a stamp.
static const char RECORD_FLOOR[] =
    "local pending, ids, fields = redis.call('XPENDING', 'q0', 'workers', 'IDLE', '60000', '-', '+', ARGV[1]), {}, {} "
    "for i = 1, 20 do fields[2 * i - 1], fields[2 * i] = 'field' .. i, string.rep('x', 16) end "
    "for i, entry in ipairs(pending) do ids[i] = entry[1] "
    "redis.call('HSET', 'stamps', entry[1], string.rep('x', 28)) redis.call('XADD', 'failures', '*', unpack(fields)) "
    "redis.call('XADD', 'q0', '*', unpack(redis.call('XRANGE', 'q0', entry[1], entry[1])[1][2])) end "
    "if #ids > 0 then redis.call('XACK', 'q0', 'workers', unpack(ids)) redis.call('XDEL', 'q0', unpack(ids)) end return #ids";

static void group_make(redisContext *redis) {
    redis_do(redis, "FLUSHALL");
    redis_do(redis, "XGROUP CREATE q0 workers 0 MKSTREAM");
}

// Fills the zset `stage`, in the order of the due times.
static void due_load(redisContext *redis) {
    for (int i = 0; i < DUE; i += PER_CALL)
        redis_do(redis, "EVAL %s 0 %d %d",
                 "for i = ARGV[1], ARGV[2] do redis.call('ZADD', 'stage', 1600000000000 + i, " JOB ") end", i, i + PER_CALL - 1);
}

// Puts entries of an hour ago in progress, at a consumer that got them `idle_ms` ago.
static void pending_load(redisContext *redis, int count, int idle_ms) {
    for (int i = 0; i < count; i += PER_CALL)
        redis_do(redis, "EVAL %s 0 %d %d %lld %d",
                 "local ids = {} for i = ARGV[1], ARGV[2] do ids[#ids + 1] = redis.call('XADD', 'q0', string.format('%.0f-%d', "
                 "ARGV[3], i), 'data', " JOB ") end "
                 "redis.call('XREADGROUP', 'GROUP', 'workers', 'w1', 'COUNT', 100000, 'STREAMS', 'q0', '>') "
                 "for _, id in ipairs(ids) do redis.call('XCLAIM', 'q0', 'workers', 'w1', 0, id, 'IDLE', ARGV[4], 'RETRYCOUNT', "
                 "1) end",
                 i, i + PER_CALL - 1, (long long)(wall_us() / 1000 - 3600000 + i), idle_ms);
}
static void dead_load(redisContext *redis) { pending_load(redis, DEAD, 3600000); }

static int64_t pending(redisContext *redis) {
    return redis_do(redis, "EVAL %s 0", "return redis.call('XPENDING', 'q0', 'workers')[1]");
}
static int64_t dead_back(redisContext *redis) { return DEAD - pending(redis); }
static int64_t many_back(redisContext *redis) { return MANY - pending(redis); }
static int64_t due_done(redisContext *redis) { return redis_do(redis, "XLEN q0"); }

static int64_t await_jobs(redisContext *redis, int64_t (*count)(redisContext *), int64_t least) {
    for (int i = 0; i < POLLS_MAX; i++, sleep_us(POLL_US)) {
        int64_t done = count(redis);
        if (done >= least) return done;
    }
    die("fewer than %lld jobs arrived; see the log of the sidecar", (long long)least);
}

static round_t round_of(int64_t jobs, int64_t began, double cpu_us) {
    return (round_t){(double)jobs / (double)(mono_us() - began) * 1e6, cpu_us / (double)jobs};
}

static round_t floor_round(redisContext *redis, const char *script, bool due) {
    group_make(redis);
    (due ? due_load : dead_load)(redis);
    if (due) redis_do(redis, "RENAME stage q0:delayed");
    scoped_reply *sha = redis_ask(redis, "SCRIPT LOAD %s", script);
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    while (redis_do(redis, "EVALSHA %s 0 %d %lld", sha->str, BATCH, (long long)(wall_us() / 1000)) > 0) continue;
    return round_of(due ? DUE : DEAD, began, redis_cpu_us(redis) - cpu);
}

static round_t due_round(const bench_t *bench, redisContext *redis) {
    group_make(redis);
    due_load(redis);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "stream-due", .queue = QUEUE, .scan = "1h"});
    redis_do(redis, "ZADD q0:delayed 0 warm-up");
    await_jobs(redis, due_done, 1);
    sleep_us(50000); // for the last read of the head, which registers the key for wake-ups
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    redis_do(redis, "RENAME stage q0:delayed");
    await_jobs(redis, due_done, DUE + 1);
    round_t round = round_of(DUE, began, redis_cpu_us(redis) - cpu);
    sidecar_stop(pid, SIGTERM);
    return round;
}

static round_t dead_round(const bench_t *bench, redisContext *redis) {
    group_make(redis);
    dead_load(redis);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "stream-dead", .queue = QUEUE, .scan = "1s"});
    int64_t first = await_jobs(redis, dead_back, 1), began = mono_us();
    double cpu = redis_cpu_us(redis);
    await_jobs(redis, dead_back, DEAD);
    round_t round = round_of(DEAD - first, began, redis_cpu_us(redis) - cpu);
    sidecar_stop(pid, SIGTERM);
    return round;
}

static void measure(bench_t *bench, redisContext *redis, bool due, double goal) {
    series_t rates = {0}, floors = {0}, ratios = {0}, cpu = {0}, floor_cpu = {0}, recorded = {0}, recorded_cpu = {0};
    const char *what = due ? "100,000 due members to entries" : "20,000 entries of dead consumers back";
    for (int i = 0; i < bench->rounds; i++) {
        round_t least = floor_round(redis, due ? DUE_FLOOR : DEAD_FLOOR, due);
        round_t ours = (due ? due_round : dead_round)(bench, redis);
        series_add(&rates, ours.rate);
        series_add(&floors, least.rate);
        series_add(&ratios, ours.rate / least.rate);
        series_add(&cpu, ours.cpu_us);
        series_add(&floor_cpu, least.cpu_us);
        if (!due) {
            least = floor_round(redis, RECORD_FLOOR, due);
            series_add(&recorded, ours.rate / least.rate);
            series_add(&recorded_cpu, least.cpu_us);
        }
        fprintf(stderr, "stream: %s, round %d: %.0f jobs/s, %.1f us of Redis each; bare scripts %.0f, %.1f\n", what, i + 1,
                ours.rate, ours.cpu_us, least.rate, least.cpu_us);
    }
    char label[96];
    snprintf(label, sizeof label, "%s, jobs/s", what);
    table_row(bench, label, &rates, 0, 0, 0);
    table_row(bench, "  bare scripts of 64, jobs/s", &floors, 0, 0, 0);
    table_row(bench, "  ratio", &ratios, 2, '>', goal);
    if (!due) table_row(bench, "  ratio, if the scripts also write records and stamps", &recorded, 2, 0, 0);
    table_row(bench, "  us of Redis for a job", &cpu, 1, 0, 0);
    table_row(bench, "  bare scripts, us of Redis for a job", &floor_cpu, 1, 0, 0);
    if (!due) table_row(bench, "  the same with records and stamps", &recorded_cpu, 1, 0, 0);
}

// ---- 200,000 pending entries.

// Scripts of the sidecar in the slow log, by their number of keys: stream_group.lua has 3, stream_page.lua 2.
typedef struct scripts {
    double *us;
    size_t count, scans;
    double sum_us;
} scripts_t;

static scripts_t scripts_read(redisContext *redis, const char *keys) {
    scoped_reply *log = redis_ask(redis, "SLOWLOG GET %d", SLOWLOG);
    scripts_t scripts = {.us = calloc(log->elements + 1, sizeof(double))};
    for (size_t i = 0; scripts.us && i < log->elements; i++) {
        const redisReply *entry = log->element[i], *words = entry->element[3];
        if (words->elements < 3 || strcasecmp(words->element[0]->str, "evalsha") != 0) continue;
        scripts.scans += strcmp(words->element[2]->str, "3") == 0;
        if (keys && strcmp(words->element[2]->str, keys) != 0) continue;
        scripts.us[scripts.count++] = (double)entry->element[2]->integer;
        scripts.sum_us += (double)entry->element[2]->integer;
    }
    return scripts;
}

static int64_t scans_done(redisContext *redis) {
    scripts_t scripts = scripts_read(redis, NULL);
    free(scripts.us);
    return (int64_t)scripts.scans;
}

static void slowlog_begin(redisContext *redis) {
    redis_do(redis, "CONFIG SET slowlog-max-len %d", SLOWLOG);
    redis_do(redis, "CONFIG SET slowlog-log-slower-than 0");
    redis_do(redis, "SLOWLOG RESET");
}

static void await_scans(redisContext *redis) {
    for (int i = 0; scans_done(redis) <= SCANS; i++, sleep_us(500000))
        if (i > 600) die("the scans do not end; see the log of the sidecar");
}

typedef struct many {
    series_t pages, half, most, longest, sum_ms, mib, back, back_longest, back_mib;
} many_t;

static void living_round(const bench_t *bench, redisContext *redis, many_t *to) {
    group_make(redis);
    pending_load(redis, MANY, 0);
    slowlog_begin(redis);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "stream-many", .queue = MANY_QUEUE, .scan = "1s"});
    await_scans(redis); // the last one has only begun
    scripts_t pages = scripts_read(redis, "2");
    series_add(&to->pages, (double)pages.count / SCANS);
    series_add(&to->sum_ms, pages.sum_us / SCANS / 1000);
    series_add(&to->longest, percentile(pages.us, pages.count, 1));
    series_add(&to->half, percentile(pages.us, pages.count, 0.5));
    series_add(&to->most, percentile(pages.us, pages.count, 0.95));
    series_add(&to->mib, (double)status_kib(pid, "VmHWM") / 1024);
    free(pages.us);
    sidecar_stop(pid, SIGTERM);
}

static void dead_many_round(const bench_t *bench, redisContext *redis, many_t *to) {
    group_make(redis);
    pending_load(redis, MANY, 3600000);
    slowlog_begin(redis);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "stream-back", .queue = MANY_QUEUE, .scan = "1s"});
    int64_t first = await_jobs(redis, many_back, 1), began = mono_us();
    await_jobs(redis, many_back, MANY);
    series_add(&to->back, round_of(MANY - first, began, 0).rate);
    scripts_t all = scripts_read(redis, NULL);
    series_add(&to->back_longest, percentile(all.us, all.count, 1));
    series_add(&to->back_mib, (double)status_kib(pid, "VmHWM") / 1024);
    free(all.us);
    sidecar_stop(pid, SIGTERM);
}

static void measure_many(bench_t *bench, redisContext *redis) {
    many_t many = {0};
    for (int i = 0; i < bench->rounds; i++) {
        living_round(bench, redis, &many);
        dead_many_round(bench, redis, &many);
    }
    redis_do(redis, "CONFIG SET slowlog-log-slower-than 10000");
    table_row(bench, "200,000 pending entries of living workers, pages of a scan", &many.pages, 0, 0, 0);
    table_row(bench, "  us of Redis for a page, p50", &many.half, 0, 0, 0);
    table_row(bench, "  us of Redis for a page, p95", &many.most, 0, '<', 500);
    table_row(bench, "  us of Redis for the longest page", &many.longest, 0, 0, 0);
    table_row(bench, "  ms of Redis for a scan", &many.sum_ms, 0, 0, 0);
    table_row(bench, "  MiB of the sidecar, at most", &many.mib, 1, '<', 64);
    table_row(bench, "200,000 entries of dead consumers back, jobs/s", &many.back, 0, 0, 0);
    table_row(bench, "  us of Redis for the longest script", &many.back_longest, 0, 0, 0);
    table_row(bench, "  MiB of the sidecar, at most", &many.back_mib, 1, '<', 64);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    table_head("stream: a consumer group");
    measure(&bench, redis, true, 0.8);
    measure(&bench, redis, false, 0.6);
    measure_many(&bench, redis);
    redisFree(redis);
    return bench_end(&bench);
}
