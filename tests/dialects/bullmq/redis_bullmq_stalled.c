/* The stalled check of dialect bullmq against a real server: bullmq_settle.lua changes a queue as BullMQ's own check does, and
 * the side task finds the jobs for it. After any refusal or error each job is in exactly one place. */
#define BULL_DIALECT  dialect_bullmq
#define BULL_SETTINGS "dialect = \"bullmq\"; "
#include "bullmq_own.h"
#include "cluster.h"
#include "dialects/bull/bull_tasks.h"
#include "dialects/bullmq/scripts.h"
#include "queue/settle_reply.h"

#define REASON "job stalled more than allowable limit"

/* Settles one job; begins as ask_new gives it. */
typedef struct {
    const char *token, *id, *counter, *flags, *rjk, *most;
} ask_t;

static ask_t ask_new(const char *id) {
    return (ask_t){.token = "T", .id = id, .counter = "", .flags = "r", .rjk = "", .most = "99999"};
}

static eval_t settle_call(ask_t ask) {
    const char *keys[] = {BULL_LOCK,
                          BULL "stalled",
                          BULL "active",
                          BULL "wait",
                          BULL "paused",
                          BULL "meta",
                          BULL "marker",
                          BULL "events",
                          BULL "repeat",
                          STREAM,
                          "sidecar:video:meta",
                          kept_printf(BULL "%s", ask.id),
                          kept_printf(BULL "%s:lock", ask.id),
                          strchr(ask.flags, 's') ? kept_printf(BULL "repeat:%s", ask.rjk) : NULL,
                          NULL};
    eval_t call = bull_begin(&script_bullmq_settle, keys);
    const char *const argv[] = {ask.token, ask.most, "",     "0",         "0",       "2",    "kind",
                                "x",       "0",      ask.id, ask.counter, ask.flags, REASON, ask.rjk};
    for (size_t i = 0; i < sizeof argv / sizeof *argv; i++) call_text(&call, argv[i]);
    return call;
}

static void settled(redis_t *r, ask_t ask, const char *word) {
    eval_t call = settle_call(ask);
    bull_expect(settle_answer(call_end(&call, r)), word, NULL, NULL);
}

static void refused(redis_t *r, ask_t ask, const char *word) {
    eval_t call = settle_call(ask);
    bull_expect(settle_answer(call_in_vain(&call, r)), word, NULL, NULL);
}

/* A random queue of which some active jobs have stalled: with and without locks, priorities and job schedulers. */
static void random_queue(redis_t *r, const char *version, uint64_t seed) {
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET " BULL_LOCK " T");
    redis_ok(r, "HSET " BULL "meta version bullmq:%s opts.maxLenEvents 10000", version);
    bool paused = cluster_random(&seed, 4) == 0;
    if (paused) redis_ok(r, "HSET " BULL "meta paused 1");
    int jobs = 1 + (int)cluster_random(&seed, 12);
    if (cluster_random(&seed, 3) == 0) redis_ok(r, "HSET " BULL "meta concurrency %d", (int)cluster_random(&seed, 6));
    redis_ok(r, "RPUSH " BULL "%s 90 91", paused && *version == '5' ? "paused" : "wait");
    redis_ok(r, "HSET " BULL "repeat:s1 name x");
    redis_ok(r, "ZADD " BULL "repeat 5 old");
    for (int i = 1; i <= jobs; i++) {
        char *id = kept_printf("%d", i);
        bull_job(r, id, cluster_random(&seed, 3) ? "0" : "5");
        redis_ok(r, "LPUSH " BULL "active %s", id);
        if (cluster_random(&seed, 3)) redis_ok(r, "SADD " BULL "stalled %s", id);
        if (cluster_random(&seed, 4) == 0) redis_ok(r, "SET " BULL "%s:lock w", id);
        uint64_t stalls = cluster_random(&seed, 3);
        if (stalls) redis_ok(r, "HSET " BULL "%s stc %d", id, (int)stalls);
        static const char *const schedulers[] = {NULL, NULL, "s1", "old", "gone"};
        const char *rjk = schedulers[cluster_random(&seed, 5)];
        if (rjk) redis_ok(r, "HSET " BULL "%s rjk %s", id, rjk);
    }
}

static void settle_all(redis_t *r) {
    redisReply *ids = redis_do(r, "SMEMBERS " BULL "stalled"); /* in the order in which BullMQ's own check takes them */
    for (size_t i = 0; i < ids->elements; i++) {
        ask_t ask = ask_new(kept_printf("%s", ids->element[i]->str));
        char *counter = redis_str(r, "HGET " BULL "%s stc", ask.id), *rjk = redis_str(r, "HGET " BULL "%s rjk", ask.id);
        ask.counter = counter ? counter : "", ask.rjk = rjk ? rjk : "";
        ask.flags = kept_printf("r%s%s", atoi(ask.counter) >= 1 ? "f" : "", rjk ? "s" : "");
        eval_t call = settle_call(ask);
        freeReplyObject(call_end(&call, r));
    }
}

static char *dump_after(redis_t *r) {
    redis_ok(r, "DEL " BULL "stalled " BULL "stalled-check"); /* BullMQ's check marks again in the same step */
    return bull_dump(r);
}

enum { ROUNDS = 150 };

/* Random queues, which both checks must leave equal. Returns the number of jobs that came back. */
static long long jobs_back(const char *version) {
    char *script = bullmq_own_script(version, "moveStalledJobsToWait");
    scoped(fixture_stop) fixture_t f = fixture_start_locked();
    uint64_t seed = cluster_seed("bullmq_stalled");
    long long back = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t of = cluster_random(&seed, UINT64_MAX);
        random_queue(f.r, version, of);
        redis_ok(f.r,
                 "EVAL %s 9 " BULL "stalled " BULL "wait " BULL "active " BULL "stalled-check " BULL "meta " BULL "paused " BULL
                 "marker " BULL "events " BULL "repeat 1 " BULL " 1700000000000 30000",
                 script);
        char *theirs = dump_after(f.r);
        random_queue(f.r, version, of);
        back += redis_int(f.r, "LLEN " BULL "active");
        settle_all(f.r);
        back -= redis_int(f.r, "LLEN " BULL "active");
        char *ours = dump_after(f.r);
        cr_assert_str_eq(ours, theirs, "round %d: ours\n%s\nand BullMQ's own\n%s", round, ours, theirs);
    }
    return back;
}

Test(redis_bullmq_own_check, equals_bullmq_5) { cr_assert_gt(jobs_back("5.81.5"), ROUNDS); }
Test(redis_bullmq_own_check, equals_bullmq_6) { cr_assert_gt(jobs_back("6.7.0"), ROUNDS); }

static setup_t s;
SUITE(redis_bullmq_stalled, s = setup(), teardown(&s));

static void stall(const char *id, const char *more) {
    bull_job(s.f.r, id, "0");
    redis_ok(s.f.r, "HSET " BULL "%s ats 1 processedOn 1700000000123", id);
    if (more) redis_ok(s.f.r, kept_printf("HSET " BULL "%s %s", id, more));
    redis_ok(s.f.r, "LPUSH " BULL "active %s", id);
}

/* The worker that takes the job with `defa` fails it; the reader of failures records that. */
Test(redis_bullmq_stalled, a_stalled_job_goes_back_and_is_marked_when_it_stalls_too_often) {
    redis_t *r = s.f.r;
    stall("1", NULL);
    check_until(&s, 1);
    redis_expect(r, "1", "HGET " BULL "1 stc");
    redis_expect(r, NULL, "HGET " BULL "1 defa");
    redis_expect(r, "1", "RPOP " BULL "wait");
    cr_assert_eq(redis_int(r, "EXISTS " BULL "active " BULL "stalled"), 0);
    cr_assert_eq(redis_int(r, "ZCARD " BULL "marker"), 1);
    cr_assert_eq(redis_int(r, "XLEN " BULL "events"), 2);
    expect_field(r, "1", "kind", "retried");
    expect_field(r, "1", "reason", "stalled");
    expect_field(r, "1", "dialect", "bullmq");
    expect_field(r, "1", "attempts", "1");
    expect_field(r, "1", "payload", NULL);
    cr_assert_eq(fixture_log_count("retried a job"), 1);
    redis_ok(r, "LPUSH " BULL "active 1");
    check_until(&s, 2);
    redis_expect(r, "2", "HGET " BULL "1 stc");
    redis_expect(r, REASON, "HGET " BULL "1 defa");
    redis_expect(r, "1", "RPOP " BULL "wait");
    cr_assert_eq(redis_int(r, "EXISTS " BULL "failed " BULL "active"), 0);
    cr_assert_eq(metric_get(&s.metrics->queues[0].stalled), 2);
    cr_assert_eq(metric_get(&s.metrics->queues[0].ended), 0);
}

Test(redis_bullmq_stalled, a_job_with_a_lock_has_not_stalled) {
    stall("1", NULL), stall("2", NULL);
    redis_ok(s.f.r, "SET " BULL "1:lock w");
    check_until(&s, 1);
    redis_expect(s.f.r, "1", "LINDEX " BULL "active 0");
    cr_assert_eq(redis_int(s.f.r, "LLEN " BULL "active"), 1);
    check_once(&s);
    cr_assert_eq(redis_int(s.f.r, "LLEN " BULL "active"), 1);
    redis_expect(s.f.r, "sidecar", "GET " BULL "stalled-check"); /* workers skip their check */
}

/* A job of a scheduler runs again at its next time, so BullMQ never fails it for its stalls. */
Test(redis_bullmq_stalled, jobs_of_a_scheduler_never_stall_too_often) {
    redis_ok(s.f.r, "HSET " BULL "repeat:s1 name x");
    redis_ok(s.f.r, "ZADD " BULL "repeat 5 s2");
    stall("1", "stc 7 rjk s1"), stall("2", "stc 7 rjk s2"), stall("3", "stc 7 rjk gone");
    check_until(&s, 3);
    redis_expect(s.f.r, NULL, "HGET " BULL "1 defa");
    redis_expect(s.f.r, NULL, "HGET " BULL "2 defa");
    redis_expect(s.f.r, REASON, "HGET " BULL "3 defa");
}

Test(redis_bullmq_stalled, active_ids_without_a_job_end_with_a_record) {
    redis_t *r = s.f.r;
    redis_ok(r, "SET " BULL "text x");
    redis_ok(r, "LPUSH " BULL "active ghost text");
    stall("1", NULL);
    check_until(&s, 3);
    expect_field(r, "ghost", "reason", "unreadable");
    expect_field(r, "text", "reason", "invalid_target");
    expect_field(r, "text", "error", "the key of this id holds a string");
    redis_expect(r, "none", "TYPE " BULL "ghost");
    cr_assert_eq(redis_int(r, "LLEN " BULL "wait"), 1);
    cr_assert_eq(redis_int(r, "EXISTS " BULL "active"), 0);
}

/* Older versions keep the count of stalls in another field. Their workers do the check. */
Test(redis_bullmq_stalled, an_old_version_keeps_its_own_check) {
    static const char *const rows[] = {"bullmq:5.53.1", "bullmq:5.0.0", "bullmq:7.0.0"};
    stall("1", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(s.f.r, "HSET " BULL "meta version %s", rows[i]);
        step(&s);
        cr_assert_eq(redis_int(s.f.r, "EXISTS " BULL "stalled " BULL "stalled-check"), 0, "%s", rows[i]);
    }
    redis_ok(s.f.r, "SADD " BULL "stalled 1");
    refused(s.f.r, ask_new("1"), "type");
    redis_ok(s.f.r, "HSET " BULL "meta version bullmq:5.53.2");
    check_until(&s, 1);
}

Test(redis_bullmq_stalled, each_failed_precondition_changes_nothing) {
    redis_t *r = s.f.r;
    stall("1", "stc 1 rjk s1");
    redis_ok(r, "SADD " BULL "stalled 1");
    ask_t good = ask_new("1"), ask;
    good.counter = "1", good.rjk = "s1", good.flags = "rs";
    ask = good, ask.token = "t", refused(r, ask, "fenced");
    ask = good, ask.counter = "", refused(r, ask, "changed");
    ask = good, ask.rjk = "", ask.flags = "r", refused(r, ask, "changed");
    ask = good, ask.flags = "b", refused(r, ask, "changed");
    redis_ok(r, "SET " BULL "1:lock w"), refused(r, good, "alive"), redis_ok(r, "DEL " BULL "1:lock");
    redis_ok(r, "SREM " BULL "stalled 1"), refused(r, good, "gone"), redis_ok(r, "SADD " BULL "stalled 1");
    redis_ok(r, "SADD " BULL "stalled ghost");
    redis_ok(r, "LPUSH " BULL "active ghost");
    ask = ask_new("ghost"), refused(r, ask, "changed");
    ask.flags = "b", ask.most = "1", refused(r, ask, "full");
    cr_assert_eq(redis_int(r, "LLEN " BULL "active"), 2);
    cr_assert_eq(redis_int(r, "EXISTS " BULL "wait " STREAM), 0);
    redis_expect(r, "1", "HGET " BULL "1 stc");
    ask = good, ask.most = "1", settled(r, ask, "unrecorded");
    cr_assert_eq(redis_int(r, "LLEN " BULL "wait"), 1);
    static const struct {
        const char *what, *key, *right;
    } keys[] = {{"stalled", BULL "stalled", "set"},    {"active", BULL "active", "list"},  {"wait", BULL "wait", "list"},
                {"paused", BULL "paused", "list"},     {BULL "meta", BULL "meta", "hash"}, {"marker", BULL "marker", "zset"},
                {"events", BULL "events", "stream"},   {"repeat", BULL "repeat", "zset"},  {"failures", STREAM, "stream"},
                {"meta", "sidecar:video:meta", "hash"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            redis_ok(r, "FLUSHALL");
            redis_ok(r, "SET " BULL_LOCK " T");
            fixture_make_key(r, keys[k].key, type);
            refused(r, good, "type");
        }
}

/* The job itself no longer counts among the active ones. */
Test(redis_bullmq_stalled, a_full_queue_wakes_a_worker_when_a_job_leaves) {
    redis_ok(s.f.r, "HSET " BULL "meta concurrency 2");
    stall("1", NULL), stall("2", NULL), stall("3", NULL);
    redis_ok(s.f.r, "SADD " BULL "stalled 1 2");
    settled(s.f.r, ask_new("1"), "settled");
    cr_assert_eq(redis_int(s.f.r, "EXISTS " BULL "marker"), 0);
    settled(s.f.r, ask_new("2"), "settled");
    cr_assert_eq(redis_int(s.f.r, "EXISTS " BULL "marker"), 1);
}

/* BullMQ itself can add no event then. */
Test(redis_bullmq_stalled, events_at_the_last_id_keep_no_job_from_its_queue) {
    redis_ok(s.f.r, "XADD " BULL "events 18446744073709551615-18446744073709551615 f v");
    stall("1", NULL);
    redis_ok(s.f.r, "SADD " BULL "stalled 1");
    settled(s.f.r, ask_new("1"), "settled");
    cr_assert_eq(redis_int(s.f.r, "LLEN " BULL "wait"), 1);
    cr_assert_eq(redis_int(s.f.r, "EXISTS " BULL "active " BULL "stalled"), 0);
}

Test(redis_bullmq_stalled, a_failure_stream_at_its_last_id_holds_no_retry) {
    redis_ok(s.f.r, "XADD " STREAM " 18446744073709551615-18446744073709551615 f v");
    stall("1", NULL);
    redis_ok(s.f.r, "SADD " BULL "stalled 1");
    settled(s.f.r, ask_new("1"), "unrecorded");
    redis_expect(s.f.r, "1", "LINDEX " BULL "wait -1");
    cr_assert_eq(redis_int(s.f.r, "EXISTS " BULL "active " BULL "stalled"), 0);
    cr_assert_eq(redis_int(s.f.r, "XLEN " STREAM), 1);
}

/* Without any one of the script's rights no job is lost or doubled. */
Test(redis_bullmq_stalled, a_missing_right_loses_and_doubles_no_job) {
    static const char *const rights[] = {"hmget", "hset", "xadd", "rpush",  "zadd",   "lrem",
                                         "srem",  "llen", "lpos", "exists", "zscore", "sismember"};
    scoped(redis_drop) redis_t *user = redis_open(s.f.server);
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        redis_ok(s.f.r, "FLUSHALL");
        redis_ok(s.f.r, "SET " BULL_LOCK " T");
        stall("1", "rjk s1 stc 3");
        redis_ok(s.f.r, "SADD " BULL "stalled 1");
        redis_ok(s.f.r, "ACL SETUSER worker reset on >x +@all ~bull:video:* ~sidecar:* &* -%s", rights[i]);
        redis_ok(user, "AUTH worker x");
        ask_t ask = ask_new("1");
        ask.rjk = "s1", ask.counter = "3", ask.flags = "rfs";
        eval_t call = settle_call(ask);
        for (int again = 0; again < 2; again++) freeReplyObject(call_end(&call, user));
        cr_assert_eq(redis_int(s.f.r, "LLEN " BULL "active") + redis_int(s.f.r, "LLEN " BULL "wait"), 1, "without %s", rights[i]);
    }
}
