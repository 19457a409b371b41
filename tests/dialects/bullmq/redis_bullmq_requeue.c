/* bullmq_requeue.lua requeues a failed job once, as BullMQ's own Job.retry() does, and makes the hash again if it is gone. */
#include "bullmq_own.h"
#include "dialects/bullmq/scripts.h"

#define EVENT   "0123456789abcdef"
#define SIDECAR "sidecar:video:"
#define PARENT  "bull:parents:p"

/* One call; begins as ask_new gives it. */
typedef struct {
    const char *again, *made, *lifo, *parent;
    bool bare; /* the audit log has no fields of the job */
} ask_t;

static ask_t ask_new(void) { return (ask_t){.again = "0", .made = "1700000000000", .lifo = "0", .parent = PARENT}; }

static const char *const FIELDS[] = {"name",  "job", "data",      "{\"a\":12345678901234567890}",
                                     "opts",  "{}",  "timestamp", "1700000000000",
                                     "delay", "0",   "priority",  "0"};
enum { FIELD_WORDS = sizeof FIELDS / sizeof *FIELDS };

static eval_t requeue_call(ask_t ask) {
    eval_t call = call_begin(&script_bullmq_requeue, "21");
    const char *const words[] = {SIDECAR "requeued",
                                 SIDECAR "failures",
                                 SIDECAR "meta",
                                 BULL "7",
                                 BULL "7:lock",
                                 BULL "failed",
                                 BULL "wait",
                                 BULL "paused",
                                 BULL "meta",
                                 BULL "active",
                                 BULL "delayed",
                                 BULL "id",
                                 BULL "prioritized",
                                 BULL "pc",
                                 BULL "marker",
                                 BULL "events",
                                 BULL "waiting-children",
                                 PARENT,
                                 PARENT ":unsuccessful",
                                 PARENT ":failed",
                                 PARENT ":dependencies",
                                 EVENT,
                                 "ann@host",
                                 ask.again,
                                 "7",
                                 ask.made,
                                 ask.lifo,
                                 ask.parent,
                                 "26",
                                 ask.bare ? "0" : "12"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) call_text(&call, words[i]);
    for (size_t i = 0; !ask.bare && i < FIELD_WORDS; i++) call_text(&call, FIELDS[i]);
    const char *const record[] = {"kind", "requeued", "worker", "ann@host", "x", "1234567890"};
    for (size_t i = 0; i < sizeof record / sizeof *record; i++) call_text(&call, record[i]);
    return call;
}

static void requeued(redis_t *r, ask_t ask) {
    eval_t call = requeue_call(ask);
    expect_word(call_end(&call, r), "done");
}

/* Expects a reply `word` with a detail that begins with `detail`, and no changed key. */
static void expect_refused(redis_t *r, ask_t ask, const char *word, const char *detail) {
    eval_t call = requeue_call(ask);
    redisReply *reply = call_in_vain(&call, r);
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 2, "%s", reply->str);
    cr_expect(strncmp(reply->element[1]->str, detail, strlen(detail)) == 0, "%s", reply->element[1]->str);
    expect_word(reply, word);
}

/* A job that a worker let fail for good. */
static void fail(redis_t *r) {
    redis_ok(r, "HSET " BULL "7 name job data %s opts {} timestamp 1700000000000 delay 0 priority 0 atm 1 ats 2 stc 1",
             FIELDS[3]);
    redis_ok(r, "HSET " BULL "7 failedReason boom finishedOn 1700000001000 processedOn 1700000000500");
    redis_ok(r, "ZADD " BULL "failed 1700000001000 7 1700000002000 8");
    redis_ok(r, "SET " BULL "id 9");
    redis_ok(r, "HSET " BULL "meta opts.maxLenEvents 10000");
}

static fixture_t f;
SUITE(redis_bullmq_requeue, f = fixture_start(NULL); fail(f.r), fixture_stop(&f));

enum { LIFO = 1, PAUSED = 2, PRIORITY = 4, MAXED = 8, UNSUCCESSFUL = 16, IGNORED = 32, WAYS = 64 };

static void prepare(const char *version, int way) {
    bool renames = way & PAUSED && *version == '5';
    redis_ok(f.r, "FLUSHALL");
    fail(f.r);
    redis_ok(f.r, "HSET " BULL "meta version bullmq:%s", version);
    redis_ok(f.r, "RPUSH " BULL "%s 5 6", renames ? "paused" : "wait");
    redis_ok(f.r, "RPUSH " BULL "active 9 10");
    redis_ok(f.r, "ZADD " BULL "prioritized 12884901889 4");
    redis_ok(f.r, "SET " BULL "pc 4294967297");
    if (way & PAUSED) redis_ok(f.r, "HSET " BULL "meta paused 1");
    if (way & PRIORITY) redis_ok(f.r, "HSET " BULL "7 priority 3");
    if (way & MAXED) redis_ok(f.r, "HSET " BULL "meta concurrency 2");
    if (way & (UNSUCCESSFUL | IGNORED)) {
        redis_ok(f.r, "HSET " BULL "7 parentKey " PARENT);
        redis_ok(f.r, "HSET " PARENT " name parent");
    }
    if (way & UNSUCCESSFUL) redis_ok(f.r, "ZADD " PARENT ":unsuccessful 1 " BULL "7");
    if (way & IGNORED) redis_ok(f.r, "HSET " PARENT ":failed " BULL "7 boom " BULL "8 boom");
}

/* Requeues a job by the sidecar's script and by BullMQ's own, from each state of the queue. All of BullMQ's keys must be equal
 * afterwards. */
static void expect_as_bullmqs_own(const char *version) {
    char *script = bullmq_own_script(version, "reprocessJob");
    bool of_6 = *version == '6';
    for (int way = 0; way < WAYS; way++) {
        char *dumps[2];
        ask_t ask = ask_new();
        ask.lifo = way & LIFO ? "1" : "0";
        prepare(version, way);
        requeued(f.r, ask);
        dumps[0] = bull_dump(f.r);
        prepare(version, way);
        cr_assert_eq(redis_int(f.r,
                               of_6 ? "EVAL %s 9 " BULL "7 " BULL "events " BULL "failed " BULL "wait " BULL "meta " BULL
                                      "active " BULL "marker " BULL "prioritized " BULL "pc 7 %s failedReason failed 0 0"
                                    : "EVAL %s 8 " BULL "7 " BULL "events " BULL "failed " BULL "wait " BULL "meta " BULL
                                      "paused " BULL "active " BULL "marker 7 %s failedReason failed 0 0",
                               script, way & LIFO ? "RPUSH" : "LPUSH"),
                     1);
        dumps[1] = bull_dump(f.r);
        cr_expect_str_eq(dumps[0], dumps[1], "BullMQ %s, way %d: ours\n%s\nand BullMQ's own\n%s", version, way, dumps[0],
                         dumps[1]);
    }
}

Test(redis_bullmq_requeue, as_bullmqs_own_script_5) { expect_as_bullmqs_own("5.81.5"); }
Test(redis_bullmq_requeue, as_bullmqs_own_script_6) { expect_as_bullmqs_own("6.7.0"); }

Test(redis_bullmq_requeue, the_version_decides_where_a_job_waits) {
    static const struct {
        const char *version, *key;
        bool paused, priority;
    } rows[] = {{"", "paused", true, false},
                {"bullmq:5.81.5", "paused", true, true},
                {"bullmq:5.0.0", "wait", false, true},
                {"bullmq:6.0.0", "wait", true, false},
                {"bullmq:6.3.11", "wait", true, true},
                {"bullmq:6.3.15", "prioritized", true, true},
                {"bullmq:6.4.0", "prioritized", false, true},
                {"bullmq-go:6.7.0", "prioritized", true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(f.r, "FLUSHALL");
        fail(f.r);
        if (*rows[i].version) redis_ok(f.r, "HSET " BULL "meta version %s", rows[i].version);
        if (rows[i].paused) redis_ok(f.r, "HSET " BULL "meta paused 1");
        if (rows[i].priority) redis_ok(f.r, "HSET " BULL "7 priority 3");
        requeued(f.r, ask_new());
        cr_expect_eq(redis_int(f.r, "EXISTS " BULL "%s", rows[i].key), 1, "row %zu", i);
        cr_expect_eq(redis_int(f.r, "EXISTS " BULL "wait " BULL "paused " BULL "prioritized"), 1, "row %zu", i);
        cr_expect_eq(redis_int(f.r, "EXISTS " BULL "marker"), !rows[i].paused, "row %zu", i);
    }
}

/* Its parent no longer waits for it. */
Test(redis_bullmq_requeue, rebuilds_a_removed_job) {
    redis_ok(f.r, "DEL " BULL "7 " BULL "failed " BULL "id");
    redis_ok(f.r, "HSET " BULL "7 atm 9 failedReason x"); /* a worker wrote fields of a job that was gone */
    requeued(f.r, ask_new());
    for (size_t i = 0; i < FIELD_WORDS; i += 2) redis_expect(f.r, FIELDS[i + 1], kept_printf("HGET " BULL "7 %s", FIELDS[i]));
    cr_expect_eq(redis_int(f.r, "HEXISTS " BULL "7 failedReason"), 0);
    redis_expect(f.r, "7", "LINDEX " BULL "wait 0");
    redis_expect(f.r, "7", "GET " BULL "id"); /* otherwise BullMQ would drop the seventh new job */
    ask_t again = ask_new();
    expect_refused(f.r, again, "known", "requeued ");
    again.again = "1";
    expect_refused(f.r, again, "waiting", "it is no longer failed");
}

Test(redis_bullmq_requeue, a_job_that_is_not_failed_stays_where_it_is) {
    static const struct {
        const char *make, *why;
    } rows[] = {{"SET " BULL "7:lock token", "a worker has it"},
                {"RPUSH " BULL "active 7", "it is active"},
                {"ZADD " BULL "delayed 5 7", "it is delayed, or waits"},
                {"ZADD " BULL "prioritized 5 7", "it is delayed, or waits"},
                {"ZADD " BULL "waiting-children 5 7", "it is delayed, or waits"},
                {"HSET " BULL "7 timestamp 5", "another job has its id now"},
                {"ZREM " BULL "failed 7", "it is no longer failed"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(f.r, "FLUSHALL");
        fail(f.r);
        redis_ok(f.r, rows[i].make);
        expect_refused(f.r, ask_new(), "waiting", rows[i].why);
    }
    ask_t bare = ask_new();
    bare.bare = true;
    redis_ok(f.r, "FLUSHALL");
    expect_refused(f.r, bare, "waiting", "its hash is gone, and the audit log has no copy");
    redis_ok(f.r, "SET " BULL "7 text");
    expect_refused(f.r, ask_new(), "waiting", "its key holds a string");
}

/* A key that comes from a job is written only if a queue of the config has it. */
Test(redis_bullmq_requeue, a_foreign_parent_refuses_the_requeue) {
    ask_t ask = ask_new();
    ask.parent = "";
    redis_ok(f.r, "HSET " BULL "7 parentKey bull:other:9");
    expect_refused(f.r, ask, "unfit", "its parent bull:other:9 is in no bullmq queue of this config");
    expect_refused(f.r, ask_new(), "unfit", "its parent bull:other:9 is in no bullmq queue of this config");
}

Test(redis_bullmq_requeue, keys_of_the_wrong_type_change_nothing) {
    static const struct {
        const char *key, *right;
    } keys[] = {{SIDECAR "requeued", "hash"},
                {SIDECAR "failures", "stream"},
                {SIDECAR "meta", "hash"},
                {BULL "failed", "zset"},
                {BULL "wait", "list"},
                {BULL "paused", "list"},
                {BULL "meta", "hash"},
                {BULL "active", "list"},
                {BULL "delayed", "zset"},
                {BULL "id", "string"},
                {BULL "prioritized", "zset"},
                {BULL "pc", "string"},
                {BULL "marker", "zset"},
                {BULL "events", "stream"},
                {BULL "waiting-children", "zset"},
                {PARENT, "hash"},
                {PARENT ":unsuccessful", "zset"},
                {PARENT ":failed", "hash"},
                {PARENT ":dependencies", "set"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            redis_ok(f.r, "FLUSHALL");
            fail(f.r);
            redis_ok(f.r, "DEL %s", keys[k].key);
            fixture_make_key(f.r, keys[k].key, type);
            eval_t call = requeue_call(ask_new());
            expect_type(call_in_vain(&call, f.r), keys[k].key, type);
        }
}

/* BullMQ itself can add no event then. */
Test(redis_bullmq_requeue, events_at_the_last_id_keep_no_job_from_its_queue) {
    redis_ok(f.r, "XADD " BULL "events 18446744073709551615-18446744073709551615 f v");
    requeued(f.r, ask_new());
    redis_expect(f.r, "7", "LINDEX " BULL "wait 0");
    cr_expect_eq(redis_int(f.r, "ZCARD " BULL "failed"), 1);
}

Test(redis_bullmq_requeue, a_stream_at_its_last_id_leaves_the_failure_as_it_was) {
    redis_ok(f.r, "XADD " SIDECAR "failures 18446744073709551615-18446744073709551615 f v");
    eval_t call = requeue_call(ask_new());
    redisReply *reply = kept(call_in_vain(&call, f.r));
    cr_assert(reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "last possible"), "%s", reply->str);
}
