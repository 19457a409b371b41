/* bull_promote.lua against a real server: it changes a queue as Bull's own script does. After any refusal or error each job is in
 * exactly one place. */
#include "bull_call.h"
#include "cluster.h"
#include "dialects/bull/scripts.h"
#include "wait.h"

static const char *const KEYS[] = {BULL_LOCK,
                                   BULL "delayed",
                                   BULL "wait",
                                   BULL "paused",
                                   BULL "meta-paused",
                                   BULL "priority",
                                   BULL "active",
                                   "sidecar:video:meta",
                                   "sidecar:video:aside",
                                   BULL "events",
                                   BULL "marker",
                                   BULL "prioritized",
                                   BULL "pc",
                                   NULL};

typedef struct {
    const char *token, *group, *batch, *limit, *prefix, *later, *work;
} ask_t;

static const ask_t ASK = {
    .token = "T", .group = "app", .batch = "1000", .limit = "0", .prefix = BULL, .later = "10000", .work = "1000000"};

static redisReply *promote_with(redis_t *r, ask_t ask, bool unchanged) {
    eval_t call = bull_begin(&script_bull_promote, KEYS);
    const char *const argv[] = {ask.token, ask.group, ask.batch, ask.limit, ask.prefix, ask.later, ask.work};
    for (size_t i = 0; i < sizeof argv / sizeof *argv; i++) call_text(&call, argv[i]);
    return kept(unchanged ? call_in_vain(&call, r) : call_end(&call, r));
}

static redisReply *promote_unchanged(redis_t *r, ask_t ask) { return promote_with(r, ask, true); }

/* Promotes; returns how many jobs moved. */
static long long promoted(redis_t *r, ask_t ask) {
    redisReply *reply = promote_with(r, ask, false);
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 11, "%s", bull_word(reply));
    cr_assert_str_eq(reply->element[0]->str, "moved");
    cr_assert_eq(strlen(reply->element[2]->str), 16);
    return reply->element[1]->integer;
}

static void delay(redis_t *r, const char *id, long long due_ms, int counter) {
    redis_ok(r, "ZADD " BULL "delayed %lld %s", due_ms * 4096 + counter, id);
}

static void due(redis_t *r, const char *id, const char *priority) {
    bull_job(r, id, priority);
    delay(r, id, redis_ms(r) - 5000, 0);
}

/* A random queue: jobs due and not due, with and without priorities, waiting, active, paused, and ids that are in a list twice.
 */
static void random_queue(redis_t *r, uint64_t seed, long long now) {
    static const char *const priorities[] = {"0", "0", "0", "1", "2", "5", "2097151"};
    static const int sizes[] = {3, 20, 60, 200};
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET " BULL_LOCK " T");
    bool paused = cluster_random(&seed, 5) == 0, mixed = cluster_random(&seed, 3) != 0, tidy = cluster_random(&seed, 2) == 0;
    const char *waiting = paused ? BULL "paused" : BULL "wait";
    if (paused) redis_ok(r, "SET " BULL "meta-paused 1");
    int count = 1 + (int)cluster_random(&seed, (uint64_t)sizes[cluster_random(&seed, 4)]);
    for (int i = 0; i < count; i++) {
        char id[24];
        snprintf(id, sizeof id, cluster_random(&seed, 9) ? "%d" : "own:%d*->x", i);
        const char *priority = priorities[mixed ? cluster_random(&seed, 7) : 0];
        uint64_t place = cluster_random(&seed, 8);
        bull_job(r, id, priority);
        if (place < 5) delay(r, id, now - 5000 + (long long)cluster_random(&seed, 4) * 1000, i % 4096);
        if (place < 5 && cluster_random(&seed, 50) == 0) redis_ok(r, "ZADD " BULL "priority 2 %s", id);
        if (place == 5) delay(r, id, now + 3600000, i % 4096);
        if (place == 6) {
            redis_ok(r, "LPUSH %s %s", waiting, id);
            if (*priority != '0') redis_ok(r, "ZADD " BULL "priority %s %s", priority, id);
        }
        if (place == 7 || cluster_random(&seed, 20) == 0) redis_ok(r, "LPUSH " BULL "active %s", id);
        if (!tidy && cluster_random(&seed, 20) == 0) redis_ok(r, "LPUSH %s %s", waiting, id); /* twice */
        if (!tidy && cluster_random(&seed, 20) == 0) redis_ok(r, "ZADD " BULL "priority 3 stale%d", i);
    }
}

/* Bull's script promotes jobs that were due 1 ms ago; random_queue makes no job in that ms. */
static void promote_by_bull(redis_t *r, const char *script, long long now) {
    char text[24];
    snprintf(text, sizeof text, "%lld", now);
    redis_ok(r,
             "EVAL %s 6 " BULL "delayed " BULL "active " BULL "wait " BULL "priority " BULL "paused " BULL "meta-paused " BULL
             " %s tok",
             script, text);
}

static void expect_same_as_bull(const char *version) {
    char *script = bull_own_script(version, "updateDelaySet");
    scoped(fixture_stop) fixture_t f = fixture_start_locked();
    uint64_t seed = cluster_seed("bull_promote");
    for (int round = 0; round < 150; round++) {
        uint64_t of = cluster_random(&seed, UINT64_MAX);
        long long now = redis_ms(f.r);
        random_queue(f.r, of, now);
        promote_by_bull(f.r, script, now);
        char *theirs = bull_dump(f.r);
        random_queue(f.r, of, now);
        promoted(f.r, ASK);
        char *ours = bull_dump(f.r);
        cr_assert_str_eq(ours, theirs, "round %d", round);
        random_queue(f.r, of, now); /* again with small batches, which end when inserts have walked over `work` entries */
        ask_t small = ASK;
        small.batch = "3", small.work = "10";
        for (int still = 0; still < 2;) still = promoted(f.r, small) ? 0 : still + 1;
        ours = bull_dump(f.r);
        cr_assert_str_eq(ours, theirs, "round %d, small batches", round);
    }
}

Test(redis_bull_promote, equals_the_newest_bull) { expect_same_as_bull("4.16.5"); }
Test(redis_bull_promote, equals_the_oldest_bull) { expect_same_as_bull("4.10.4"); }

static fixture_t f;
SUITE(redis_bull_promote, f = fixture_start_locked(), fixture_stop(&f));

Test(redis_bull_promote, jobs_are_promoted_at_their_due_time) {
    long long now = redis_ms(f.r);
    bull_job(f.r, "1", "0"), bull_job(f.r, "2", "0"), bull_job(f.r, "3", "0");
    delay(f.r, "1", now, 4095); /* due in this very millisecond */
    delay(f.r, "2", now + 60000, 0);
    redis_ok(f.r, "ZADD " BULL "delayed -5 3");
    cr_assert_eq(promoted(f.r, ASK), 2);
    redis_expect(f.r, "3", "RPOP " BULL "wait");
    redis_expect(f.r, "1", "RPOP " BULL "wait");
    for (int round = 0; round < 20; round++) {
        long long soon = redis_ms(f.r) + 20;
        delay(f.r, "2", soon, 0);
        redisReply *reply = promote_with(f.r, ASK, false);
        while (reply->element[1]->integer == 0) reply = promote_with(f.r, ASK, false);
        cr_assert_geq(strtoll(reply->element[2]->str, NULL, 10), soon * 1000, "round %d", round);
    }
}

/* Bull's own script removes it there, too. */
Test(redis_bull_promote, a_promoted_job_is_no_longer_active) {
    redis_ok(f.r, "LPUSH " BULL "active 1 2 1");
    for (int prioritized = 0; prioritized < 2; prioritized++) {
        due(f.r, prioritized ? "2" : "1", prioritized ? "5" : "0");
        cr_assert_eq(promoted(f.r, ASK), 1);
        cr_assert_eq(redis_int(f.r, "LLEN " BULL "active"), prioritized ? 0 : 1);
    }
    cr_assert_eq(redis_int(f.r, "LLEN " BULL "wait"), 2);
}

/* An id that names no job stays in delayed, is postponed and enters the quarantine. No other key changes. */
Test(redis_bull_promote, quarantines_ids_without_a_job) {
    char huge[8193];
    memset(huge, 'h', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    const struct {
        const char *id;
        size_t len;
    } odd[] = {{"ghost", 5}, {"wait", 4}, {"meta", 4},  {"", 0}, {huge, sizeof huge - 1},
               {"a\0b", 3},  {"text", 4}, {"empty", 5}, {"*", 1}};
    enum { ODD = sizeof odd / sizeof *odd };
    for (int jobs = 0; jobs < 120; jobs += 40) { /* without jobs, with few jobs, and with so many that SORT reads them */
        redis_ok(f.r, "FLUSHALL");
        redis_ok(f.r, "SET " BULL_LOCK " T");
        redis_ok(f.r, "RPUSH " BULL "wait w");
        redis_ok(f.r, "HSET " BULL "meta paused 1");
        redis_ok(f.r, "SET " BULL "text x");
        redis_ok(f.r, "HSET " BULL "empty progress 5");
        for (int i = 0; i < jobs; i++) {
            char id[24];
            snprintf(id, sizeof id, "%d", i);
            due(f.r, id, i % 2 && jobs > 40 ? "7" : "0");
        }
        long long before = redis_ms(f.r);
        for (size_t i = 0; i < ODD; i++) redis_ok(f.r, "ZADD " BULL "delayed %d %b", (int)i, odd[i].id, odd[i].len);
        cr_assert_eq(promoted(f.r, ASK), jobs);
        cr_assert_eq(redis_int(f.r, "LLEN " BULL "wait"), jobs + 1);
        cr_assert_eq(redis_int(f.r, "ZCARD " BULL "delayed"), ODD);
        cr_assert_eq(redis_int(f.r, "ZCARD sidecar:video:aside"), ODD);
        for (size_t i = 0; i < ODD; i++) {
            char *score = redis_str(f.r, "ZSCORE " BULL "delayed %b", odd[i].id, odd[i].len);
            char *since = redis_str(f.r, "ZSCORE sidecar:video:aside %b", odd[i].id, odd[i].len);
            cr_assert(score && strtod(score, NULL) / 4096 >= (double)before + 10000 && since &&
                      strtod(since, NULL) >= (double)before);
        }
        redis_expect(f.r, NULL, "HGET " BULL "meta delay");
        redis_expect(f.r, NULL, "HGET " BULL "empty delay");
        redis_expect(f.r, "none", "TYPE " BULL "ghost");
        cr_assert_eq(promoted(f.r, ASK), 0, "a postponed id is due again");
    }
}

/* A hash without a priority is a job. No value of a priority makes the script fail between the push and the removal. */
Test(redis_bull_promote, a_job_with_a_wrong_priority_moves_once) {
    static const char *const odd[] = {"nan", "-nan", "inf", "-inf", "-5", "1e3", " 7",
                                      "7 ",  "0x10", "abc", "",     "00", "0.0", "1e400"};
    enum { ODD = sizeof odd / sizeof *odd };
    redis_ok(f.r, "HSET " BULL "bare name n");
    delay(f.r, "bare", 1, 0);
    for (size_t i = 0; i < ODD; i++) {
        char id[24];
        snprintf(id, sizeof id, "%zu", i);
        due(f.r, id, "0");
        redis_ok(f.r, "HSET " BULL "%s priority %b", id, odd[i], strlen(odd[i]));
    }
    cr_assert_eq(promoted(f.r, ASK), ODD + 1);
    cr_assert_eq(redis_int(f.r, "LLEN " BULL "wait"), ODD + 1);
    cr_assert_eq(redis_int(f.r, "EXISTS " BULL "delayed sidecar:video:aside"), 0);
    for (size_t i = 0; i < ODD; i++) cr_assert_eq(redis_int(f.r, "LREM " BULL "wait 0 %d", (int)i), 1, "%s", odd[i]);
}

Test(redis_bull_promote, a_pause_between_batches_moves_the_rest_to_paused) {
    for (int i = 0; i < 6; i++) due(f.r, (char[]){(char)('a' + i), '\0'}, "0");
    ask_t two = ASK;
    two.batch = "2";
    cr_assert_eq(promoted(f.r, two), 2);
    redis_ok(f.r, "RENAME " BULL "wait " BULL "paused"); /* as Bull's pause does */
    redis_ok(f.r, "SET " BULL "meta-paused 1");
    cr_assert_eq(promoted(f.r, two), 2);
    cr_assert_eq(redis_int(f.r, "EXISTS " BULL "wait"), 0);
    cr_assert_eq(redis_int(f.r, "LLEN " BULL "paused"), 4);
    redis_ok(f.r, "RENAME " BULL "paused " BULL "wait");
    redis_ok(f.r, "DEL " BULL "meta-paused");
    cr_assert_eq(promoted(f.r, two), 2);
    for (int i = 0; i < 6; i++) redis_expect(f.r, (char[]){(char)('a' + i), '\0'}, "RPOP " BULL "wait");
}

Test(redis_bull_promote, each_failed_precondition_changes_nothing) {
    due(f.r, "1", "0"), due(f.r, "2", "3"), due(f.r, "ghost", "0");
    redis_ok(f.r, "DEL " BULL "ghost");
    ask_t ask = ASK;
    ask.token = "t";
    bull_expect(promote_unchanged(f.r, ask), "fenced", NULL, NULL);
    redis_ok(f.r, "HSET sidecar:video:meta group others");
    bull_expect(promote_unchanged(f.r, ASK), "owner", "others", NULL);
    redis_ok(f.r, "DEL sidecar:video:meta");
    ask = ASK;
    ask.limit = "2";
    redis_ok(f.r, "RPUSH " BULL "wait x y");
    bull_expect(promote_unchanged(f.r, ask), "full", NULL, NULL);
    ask.limit = "3";
    cr_assert_eq(promoted(f.r, ask), 1);
    static const struct {
        const char *what, *right;
    } keys[] = {{"delayed", "zset"},  {"wait", "list"},   {"paused", "list"}, {"meta-paused", "string"},
                {"priority", "zset"}, {"active", "list"}, {"meta", "hash"},   {"aside", "zset"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            redis_ok(f.r, "FLUSHALL");
            redis_ok(f.r, "SET " BULL_LOCK " T");
            due(f.r, "1", "0"), due(f.r, "2", "3");
            fixture_make_key(f.r, KEYS[k + 1], type);
            bull_expect(promote_unchanged(f.r, ASK), "type", keys[k].what, type);
        }
}

/* A key that only BullMQ has refuses the queue, unless the key is a hash: then it is a job of Bull with that id. */
Test(redis_bull_promote, a_queue_of_bullmq_is_refused) {
    static const struct {
        const char *key, *type;
    } keys[] = {{BULL "events", "stream"},
                {BULL "marker", "zset"},
                {BULL "marker", "list"},
                {BULL "prioritized", "zset"},
                {BULL "pc", "string"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        due(f.r, "1", "0");
        fixture_make_key(f.r, keys[i].key, keys[i].type);
        char *found = kept_printf("%s" OF_BULLMQ, keys[i].type);
        bull_expect(promote_unchanged(f.r, ASK), "type", keys[i].key, found);
        redis_ok(f.r, "DEL %s", keys[i].key);
        due(f.r, strrchr(keys[i].key, ':') + 1, "0");
        cr_assert_eq(promoted(f.r, ASK), 2);
        redis_ok(f.r, "FLUSHALL");
        redis_ok(f.r, "SET " BULL_LOCK " T");
    }
}

static void subscribe(redis_t *subscriber, const char *command, const char *channel) {
    redis_do(subscriber, "%s %s", command, channel);
}

/* Expects this message next. */
static void expect_message(redis_t *subscriber, const char *channel, const char *message) {
    redisReply *reply;
    cr_assert_eq(redisGetReply(subscriber, (void **)&reply), REDIS_OK, "%s", subscriber->errstr);
    cr_assert_str_eq(reply->element[reply->elements - 2]->str, channel);
    cr_assert_str_eq(reply->element[reply->elements - 1]->str, message);
    freeReplyObject(reply);
}

Test(redis_bull_promote, bulls_subscribers_get_messages) {
    scoped(redis_drop) redis_t *subscriber = redis_open(f.server), *other = redis_open(f.server);
    subscribe(subscriber, "PSUBSCRIBE", BULL "waiting*");
    subscribe(other, "SUBSCRIBE", BULL "delayed");
    due(f.r, "1", "0"), due(f.r, "2", "3");
    redis_ok(f.r, "ZADD " BULL "delayed 9000000000000001 later");
    cr_assert_eq(promoted(f.r, ASK), 2);
    expect_message(subscriber, BULL "waiting@sidecar", "1");
    expect_message(subscriber, BULL "waiting@sidecar", "2");
    expect_message(other, BULL "delayed", "2197265625001"); /* in ms, rounded up */
}

/* Without any one of the script's rights no job is lost or doubled. */
Test(redis_bull_promote, a_missing_right_loses_and_doubles_no_job) {
    static const char *const rights[] = {
        "publish", "pubsub",  "sort",   "hget",          "hexists", "hset",    "zadd", "zrem",   "zremrangebyrank",
        "lpush",   "linsert", "lindex", "zcount",        "llen",    "exists",  "lrem", "lrange", "rpush",
        "type",    "time",    "zrange", "zrangebyscore", "rename",  "zmscore", "del"};
    scoped(redis_drop) redis_t *user = redis_open(f.server);
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        redis_ok(f.r, "FLUSHALL");
        redis_ok(f.r, "SET " BULL_LOCK " T");
        for (int n = 0; n < 40; n++) {
            char id[8];
            snprintf(id, sizeof id, "%d", n);
            due(f.r, id, n % 2 ? "3" : "0");
        }
        redis_ok(f.r, "LPUSH " BULL "active 7");
        redis_ok(f.r, "ACL SETUSER worker reset on >x +@all ~bull:video:* ~sidecar:* &* -%s", rights[i]);
        redis_ok(user, "AUTH worker x");
        eval_t call = bull_begin(&script_bull_promote, KEYS);
        const char *const argv[] = {ASK.token, ASK.group, ASK.batch, ASK.limit, ASK.prefix, ASK.later, ASK.work};
        for (size_t a = 0; a < sizeof argv / sizeof *argv; a++) call_text(&call, argv[a]);
        for (int again = 0; again < 3; again++) freeReplyObject(call_end(&call, user));
        for (int n = 0; n < 40; n++) {
            long long copies = redis_int(f.r, "EVAL %s 2 " BULL "delayed " BULL "wait %d",
                                         "return #redis.call('LPOS', KEYS[2], ARGV[1], 'COUNT', 0) + "
                                         "(redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0)",
                                         n);
            cr_assert_eq(copies, 1, "without %s: %lld of job %d", rights[i], copies, n);
        }
    }
}

Test(redis_bull_promote, works_when_redis_is_full) {
    due(f.r, "1", "0"), due(f.r, "2", "3"), due(f.r, "ghost", "0");
    redis_ok(f.r, "DEL " BULL "ghost");
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    cr_assert_eq(promoted(f.r, ASK), 2);
    cr_assert_eq(redis_int(f.r, "LLEN " BULL "wait"), 2);
}

/* Each insert walks over a long list, so a batch ends early to keep Redis responsive; later batches move the rest. */
Test(redis_bull_promote, a_long_list_makes_small_batches) {
    redis_ok(f.r, "EVAL %s 2 " BULL "wait " BULL "priority",
             "for i = 1, 5000 do redis.call('LPUSH', KEYS[1], 'w' .. i) redis.call('ZADD', KEYS[2], 1, 'w' .. i) end");
    for (int i = 0; i < 20; i++) due(f.r, (char[]){(char)('a' + i), '\0'}, "1");
    ask_t ask = ASK;
    ask.work = "100";
    redis_ok(f.r, "RPUSH " BULL "wait urgent"); /* each insert must walk over many entries */
    for (int i = 0; i < 100; i++) redis_ok(f.r, "LPUSH " BULL "wait plain");
    long long first = promoted(f.r, ask), all = first;
    cr_assert(first > 0 && first < 20, "%lld", first);
    for (long long moved; (moved = promoted(f.r, ask)) > 0;) all += moved;
    cr_assert_eq(all, 20);
}
