/* bullmq_promote.lua against a real server: it changes a queue as BullMQ's own scripts do. After any refusal or error each job is
 * in exactly one place. */
#include "bullmq_own.h"
#include "cluster.h"
#include "dialects/bullmq/scripts.h"

static const char *const KEYS[] = {
    BULL_LOCK, BULL "delayed", BULL "wait",   BULL "paused", BULL "meta",          BULL "prioritized",
    BULL "pc", BULL "marker",  BULL "events", BULL "active", "sidecar:video:meta", "sidecar:video:aside",
    NULL};

typedef struct {
    const char *token, *group, *batch;
} ask_t;

static const ask_t ASK = {.token = "T", .group = "app", .batch = "1000"};

static eval_t promote_call(ask_t ask) {
    eval_t call = bull_begin(&script_bullmq_promote, KEYS);
    const char *const argv[] = {ask.token, ask.group, ask.batch, BULL, "10000"};
    for (size_t i = 0; i < sizeof argv / sizeof *argv; i++) call_text(&call, argv[i]);
    return call;
}

static redisReply *promote_unchanged(redis_t *r, ask_t ask) {
    eval_t call = promote_call(ask);
    return kept(call_in_vain(&call, r));
}

/* Promotes; returns how many jobs moved. */
static long long promoted(redis_t *r, ask_t ask) {
    eval_t call = promote_call(ask);
    redisReply *reply = kept(call_end(&call, r));
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

/* A random queue: jobs due and not due, with and without priorities; waiting, active, paused, with a limit of active jobs. */
static void random_queue(redis_t *r, const char *version, uint64_t seed, long long now) {
    static const char *const priorities[] = {"0", "0", "0", "1", "2", "5", "2097152"};
    static const int sizes[] = {3, 20, 60, 200};
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET " BULL_LOCK " T");
    redis_ok(r, "HSET " BULL "meta version bullmq:%s", version);
    bool paused = cluster_random(&seed, 4) == 0, mixed = cluster_random(&seed, 3) != 0;
    const char *waiting = paused && *version == '5' ? BULL "paused" : BULL "wait";
    if (paused) redis_ok(r, "HSET " BULL "meta paused 1");
    if (cluster_random(&seed, 3) == 0) redis_ok(r, "HSET " BULL "meta concurrency %d", (int)cluster_random(&seed, 4));
    if (cluster_random(&seed, 3) == 0) redis_ok(r, "SET " BULL "pc %d", (int)cluster_random(&seed, 1000));
    if (cluster_random(&seed, 2) == 0) redis_ok(r, "ZADD " BULL "marker %lld 1", now);
    if (cluster_random(&seed, 3) == 0) redis_ok(r, "SET " BULL "limiter 1 PX 60000");
    int count = 1 + (int)cluster_random(&seed, (uint64_t)sizes[cluster_random(&seed, 4)]);
    for (int i = 0; i < count; i++) {
        char id[24];
        snprintf(id, sizeof id, cluster_random(&seed, 9) ? "%d" : "repeat:%d:*->x", i);
        const char *priority = priorities[mixed ? cluster_random(&seed, 7) : 0];
        uint64_t place = cluster_random(&seed, 8);
        bull_job(r, id, priority);
        if (place < 5) delay(r, id, now - 5000 + (long long)cluster_random(&seed, 4) * 1000, i % 4096);
        if (place == 5) delay(r, id, now + 3600000, i % 4096);
        if (place == 6) redis_ok(r, "LPUSH %s %s", waiting, id);
        if (place == 7) redis_ok(r, "LPUSH " BULL "active %s", id);
    }
}

static void promote_by_bullmq(redis_t *r, const char *script, long long now) {
    redis_ok(r,
             "EVAL %s 11 " BULL "wait " BULL "active " BULL "prioritized " BULL "events " BULL "stalled " BULL "limiter " BULL
             "delayed " BULL "paused " BULL "meta " BULL "pc " BULL "marker " BULL " %s %b",
             script, kept_printf("%lld", now), "\x80", (size_t)1);
}

static void expect_same_as_bullmq(const char *version) {
    char *script = bullmq_own_promotion(version);
    scoped(fixture_stop) fixture_t f = fixture_start_locked();
    uint64_t seed = cluster_seed("bullmq_promote");
    for (int round = 0; round < 150; round++) {
        uint64_t of = cluster_random(&seed, UINT64_MAX);
        long long now = redis_ms(f.r);
        random_queue(f.r, version, of, now);
        promote_by_bullmq(f.r, script, now);
        char *theirs = bull_dump(f.r);
        random_queue(f.r, version, of, now);
        promoted(f.r, ASK);
        char *ours = bull_dump(f.r);
        cr_assert_str_eq(ours, theirs, "round %d", round);
        random_queue(f.r, version, of, now); /* again with small batches */
        ask_t small = ASK;
        for (small.batch = "3"; promoted(f.r, small);) {
        }
        ours = bull_dump(f.r);
        cr_assert_str_eq(ours, theirs, "round %d, small batches", round);
    }
}

Test(redis_bullmq_promote, equals_bullmq_5) { expect_same_as_bullmq("5.81.5"); }
Test(redis_bullmq_promote, equals_bullmq_6) { expect_same_as_bullmq("6.7.0"); }

static fixture_t f;
SUITE(redis_bullmq_promote, f = fixture_start_locked(), fixture_stop(&f));

Test(redis_bullmq_promote, jobs_are_promoted_at_their_due_time) {
    long long now = redis_ms(f.r);
    bull_job(f.r, "1", "0"), bull_job(f.r, "2", "0"), bull_job(f.r, "3", "0");
    delay(f.r, "1", now, 4095); /* due in this very millisecond */
    delay(f.r, "2", now + 60000, 0);
    redis_ok(f.r, "ZADD " BULL "delayed -5 3");
    cr_assert_eq(promoted(f.r, ASK), 2);
    redis_expect(f.r, "3", "RPOP " BULL "wait");
    redis_expect(f.r, "1", "RPOP " BULL "wait");
    for (int round = 0; round < 20; round++) {
        long long soon = redis_ms(f.r) + 3;
        delay(f.r, "2", soon, 4095);
        while (promoted(f.r, ASK) == 0) cr_assert_leq(redis_ms(f.r), soon + 10000);
        cr_assert_geq(redis_ms(f.r), soon, "round %d", round);
    }
    for (int round = 0; round < 200; round++) { /* a job that is due is due for its whole millisecond */
        delay(f.r, "2", redis_ms(f.r), 4095);
        cr_assert_eq(promoted(f.r, ASK), 1, "round %d", round);
    }
}

/* A worker that waits on `marker` would find no job to take. */
Test(redis_bullmq_promote, a_queue_that_takes_no_job_gets_no_marker) {
    redis_ok(f.r, "LPUSH " BULL "active 8 9");
    for (int limit = 1; limit <= 3; limit++) {
        redis_ok(f.r, "HSET " BULL "meta concurrency %d", limit);
        due(f.r, "1", "0");
        cr_assert_eq(promoted(f.r, ASK), 1);
        cr_assert_eq(redis_int(f.r, "EXISTS " BULL "marker"), limit == 3);
    }
    redis_ok(f.r, "DEL " BULL "marker");
    redis_ok(f.r, "HSET " BULL "meta paused 1");
    due(f.r, "1", "0");
    cr_assert_eq(promoted(f.r, ASK), 1);
    cr_assert_eq(redis_int(f.r, "EXISTS " BULL "marker"), 0);
}

/* An id that names no job stays in delayed, is postponed and enters the quarantine. No other key changes. */
Test(redis_bullmq_promote, quarantines_ids_without_a_job) {
    static const char *const odd[] = {"ghost", "wait", "meta", "text", "empty", "*"};
    enum { ODD = sizeof odd / sizeof *odd };
    for (int jobs = 0; jobs < 120; jobs += 40) { /* without jobs, with few jobs, and with so many that SORT reads them */
        redis_ok(f.r, "FLUSHALL");
        redis_ok(f.r, "SET " BULL_LOCK " T");
        redis_ok(f.r, "RPUSH " BULL "wait w");
        redis_ok(f.r, "HSET " BULL "meta concurrency 5");
        redis_ok(f.r, "SET " BULL "text x");
        redis_ok(f.r, "HSET " BULL "empty progress 5");
        for (int i = 0; i < jobs; i++) due(f.r, kept_printf("%d", i), i % 2 && jobs > 40 ? "7" : "0");
        long long before = redis_ms(f.r);
        for (size_t i = 0; i < ODD; i++) redis_ok(f.r, "ZADD " BULL "delayed %d %s", (int)i, odd[i]);
        cr_assert_eq(promoted(f.r, ASK), jobs);
        cr_assert_eq(redis_int(f.r, "LLEN " BULL "wait") + redis_int(f.r, "ZCARD " BULL "prioritized"), jobs + 1);
        cr_assert_eq(redis_int(f.r, "ZCARD " BULL "delayed"), ODD);
        cr_assert_eq(redis_int(f.r, "ZCARD sidecar:video:aside"), ODD);
        cr_assert_eq(redis_int(f.r, "XLEN " BULL "events"), jobs);
        cr_assert_eq(redis_int(f.r, "EXISTS " BULL "marker"), jobs > 0);
        for (size_t i = 0; i < ODD; i++) {
            char *score = redis_str(f.r, "ZSCORE " BULL "delayed %s", odd[i]);
            cr_assert(score && strtod(score, NULL) / 4096 >= (double)before + 10000);
        }
        redis_expect(f.r, NULL, "HGET " BULL "meta delay");
        redis_expect(f.r, NULL, "HGET " BULL "empty delay");
        redis_expect(f.r, "none", "TYPE " BULL "ghost");
        cr_assert_eq(promoted(f.r, ASK), 0, "a postponed id is due again");
    }
}

/* A hash without a priority is a job. No value of a priority or of `pc` makes the script fail between the push and the removal.
 */
Test(redis_bullmq_promote, a_job_with_a_wrong_priority_moves_once) {
    static const char *const odd[] = {"nan", "-nan", "inf", "-inf", "-5", "1e3", " 7",
                                      "7 ",  "0x10", "abc", "",     "00", "0.0", "1e400"};
    enum { ODD = sizeof odd / sizeof *odd };
    redis_ok(f.r, "SET " BULL "pc x");
    redis_ok(f.r, "HSET " BULL "bare name n");
    delay(f.r, "bare", 1, 0);
    for (size_t i = 0; i < ODD; i++) {
        due(f.r, kept_printf("%zu", i), "0");
        redis_ok(f.r, "HSET " BULL "%d priority %b", (int)i, odd[i], strlen(odd[i]));
    }
    cr_assert_eq(promoted(f.r, ASK), ODD + 1);
    cr_assert_eq(redis_int(f.r, "LLEN " BULL "wait") + redis_int(f.r, "ZCARD " BULL "prioritized"), ODD + 1);
    cr_assert_eq(redis_int(f.r, "EXISTS " BULL "delayed sidecar:video:aside"), 0);
    redis_expect(f.r, "8", "GET " BULL "pc");
}

Test(redis_bullmq_promote, each_failed_precondition_changes_nothing) {
    due(f.r, "1", "0"), due(f.r, "2", "3"), due(f.r, "ghost", "0");
    redis_ok(f.r, "DEL " BULL "ghost");
    ask_t ask = ASK;
    ask.token = "t";
    bull_expect(promote_unchanged(f.r, ask), "fenced", NULL, NULL);
    redis_ok(f.r, "HSET sidecar:video:meta group others");
    bull_expect(promote_unchanged(f.r, ASK), "owner", "others", NULL);
    static const struct {
        const char *what, *right;
    } keys[] = {{"delayed", "zset"},     {"wait", "list"}, {"paused", "list"}, {BULL "meta", "hash"},
                {"prioritized", "zset"}, {"pc", "string"}, {"marker", "zset"}, {"events", "stream"},
                {"active", "list"},      {"meta", "hash"}, {"aside", "zset"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            redis_ok(f.r, "FLUSHALL");
            redis_ok(f.r, "SET " BULL_LOCK " T");
            due(f.r, "1", "0"), due(f.r, "2", "3");
            fixture_make_key(f.r, KEYS[k + 1], type);
            bull_expect(promote_unchanged(f.r, ASK), "type", keys[k].what, type);
        }
}

/* A version may appear while the sidecar leads. */
Test(redis_bullmq_promote, other_versions_change_nothing) {
    static const struct {
        const char *version;
        bool fits;
    } rows[] = {{"bullmq:5.53.1", false}, {"bullmq:4.18.2", false}, {"bullmq:7.0.0", false},  {"bullmq:5.53.2", true},
                {"bullmq:6.99.9", true},  {"what", true},           {"bullmq-go:6.7.0", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        due(f.r, "1", "0");
        redis_ok(f.r, "HSET " BULL "meta version %s", rows[i].version);
        if (rows[i].fits)
            cr_expect_eq(promoted(f.r, ASK), 1, "%s", rows[i].version);
        else
            bull_expect(promote_unchanged(f.r, ASK), "type", BULL "meta",
                        "version whose jobs are not moved: that needs BullMQ 5.53.2 to 6");
    }
}

/* Without any one of the script's rights no job is lost or doubled. */
Test(redis_bullmq_promote, a_missing_right_loses_and_doubles_no_job) {
    static const char *const rights[] = {"sort",  "hget", "hexists", "hset",         "zadd", "zrem",  "zremrangebyrank",
                                         "lpush", "set",  "get",     "llen",         "xadd", "hmget", "exists",
                                         "type",  "time", "zrange",  "zrangebyscore"};
    scoped(redis_drop) redis_t *user = redis_open(f.server);
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        redis_ok(f.r, "FLUSHALL");
        redis_ok(f.r, "SET " BULL_LOCK " T");
        for (int n = 0; n < 40; n++) due(f.r, kept_printf("%d", n), n % 2 ? "3" : "0");
        redis_ok(f.r, "ZADD " BULL "delayed 1 ghost");
        redis_ok(f.r, "ACL SETUSER worker reset on >x +@all ~bull:video:* ~sidecar:* &* -%s", rights[i]);
        redis_ok(user, "AUTH worker x");
        eval_t call = promote_call(ASK);
        for (int again = 0; again < 3; again++) freeReplyObject(call_end(&call, user));
        for (int n = 0; n < 40; n++) {
            long long copies =
                redis_int(f.r, "EVAL %s 3 " BULL "delayed " BULL "prioritized " BULL "wait %d",
                          "local n = #redis.call('LPOS', KEYS[3], ARGV[1], 'COUNT', 0) "
                          "for k = 1, 2 do n = n + (redis.call('ZSCORE', KEYS[k], ARGV[1]) and 1 or 0) end return n",
                          n);
            cr_assert_eq(copies, 1, "without %s: %lld of job %d", rights[i], copies, n);
        }
    }
}

Test(redis_bullmq_promote, works_when_redis_is_full) {
    due(f.r, "1", "0"), due(f.r, "2", "3"), due(f.r, "ghost", "0");
    redis_ok(f.r, "DEL " BULL "ghost");
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    cr_assert_eq(promoted(f.r, ASK), 2);
    cr_assert_eq(redis_int(f.r, "LLEN " BULL "wait"), 1);
    cr_assert_eq(redis_int(f.r, "ZCARD " BULL "prioritized"), 1);
}

/* BullMQ itself can add no event then. */
Test(redis_bullmq_promote, events_at_the_last_id_keep_no_job_from_its_queue) {
    redis_ok(f.r, "XADD " BULL "events 18446744073709551615-18446744073709551615 f v");
    due(f.r, "1", "0"), due(f.r, "2", "3");
    cr_assert_eq(promoted(f.r, ASK), 2);
    cr_assert_eq(redis_int(f.r, "EXISTS " BULL "delayed"), 0);
}

/* No other script may run while there is no worker. */
Test(redis_bullmq_promote, events_are_trimmed_as_meta_says) {
    redis_ok(f.r, "HSET " BULL "meta opts.maxLenEvents 100");
    redis_ok(f.r, "CONFIG SET stream-node-max-entries 10");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++) due(f.r, kept_printf("%d", i), "0");
        cr_assert_eq(promoted(f.r, ASK), 200);
    }
    cr_assert_lt(redis_int(f.r, "XLEN " BULL "events"), 200);
}
