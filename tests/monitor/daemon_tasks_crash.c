/* The leader dies at each failpoint of a side task: its successor continues, no job is lost, and nothing happens twice. */
#include "cli/audit/requeue_fixture.h"

#include <criterion/parameterized.h>

#define ROLES "roles = [\"dispatcher\", \"monitor\"];"
#define FAILURES(reason)                                                                                                         \
    "local n = 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do for i = 1, #e[2], 2 do "                         \
    "if e[2][i] == 'reason' and e[2][i + 1] == '" reason "' then n = n + 1 end end end return n"

static long long failures(redis_t *r, const char *script) { return redis_int(r, "EVAL %s 1 sidecar:q:failures", script); }

/* ---- delayed_queue: an event in a shape that the monitor sends, and an entry that is no event. */

#define EVENT(attempt) "{\"payload\":{},\"type\":\"a.B\",\"attempt\":" attempt ",\"logContext\":{\"user\":\"ann\"}}"

static void delayed_begin(redis_t *r) {
    redis_ok(r, "HSET de_events a.B###1 %s a.B###2 garbage", EVENT("1"));
    redis_ok(r, "ZADD de_delayed_events 1 a.B###1 2 a.B###2");
}

static bool delayed_over(redis_t *r) {
    return redis_int(r, "LLEN de_b") > 0 && redis_int(r, "EXISTS sidecar:q:aside") == 0 && redis_int(r, "HLEN de_events") == 1;
}

static void delayed_expect(redis_t *r) {
    cr_assert_eq(redis_int(r, "LLEN de_b"), 1);
    redis_expect(r, EVENT("1"), "LINDEX de_b 0");
    redis_expect(r, EVENT("2"), "HGET de_events a.B###1");
    cr_assert_eq(redis_int(r, "XLEN sidecar:q:failures"), 1);
    cr_assert_eq(failures(r, FAILURES("unreadable")), 1);
}

/* ---- bull: an id without a job, a job that stalled more than max_stalled times, a job that a worker failed. */

static void bull_begin(redis_t *r) {
    redis_ok(r, "ZADD bull:v:delayed 1 ghost");
    redis_ok(r, "HSET bull:v:1 name n data {} opts {} timestamp 1700000000000");
    redis_ok(r, "LPUSH bull:v:active 1");
    redis_ok(r, "HSET bull:v:2 name n data {} opts {} timestamp 1700000000000 failedReason boom");
    redis_ok(r, "ZADD bull:v:failed %lld 2", redis_ms(r));
    redis_ok(r, "ZADD sidecar:q:recorded %lld :seen", redis_ms(r) - 1000); /* the sidecar has served the queue before */
}

static bool bull_over(redis_t *r) {
    return redis_int(r, "EXISTS bull:v:delayed bull:v:active sidecar:q:aside") == 0 &&
           redis_int(r, "XLEN sidecar:q:failures") >= 3;
}

static void bull_expect(redis_t *r) {
    cr_assert_eq(redis_int(r, "XLEN sidecar:q:failures"), 3);
    cr_assert_eq(failures(r, FAILURES("unreadable")), 1);
    cr_assert_eq(failures(r, FAILURES("retries_exhausted")), 1);
    cr_assert_eq(failures(r, FAILURES("worker_failed")), 1);
    cr_assert_eq(redis_int(r, "ZCARD bull:v:failed"), 2);
    cr_assert_eq(redis_int(r, "EXISTS bull:v:wait"), 0);
}

/* ---- bullmq: the same, and an event of a job that its worker removed. The stalled job goes back. */

static void bullmq_begin(redis_t *r) {
    bull_begin(r);
    redis_ok(r, "HSET bull:v:meta version bullmq:6.7.0");
    redis_ok(r, "XADD bull:v:events * event added jobId 2 name n");
    redis_ok(r, "HSET sidecar:q:meta failed_cursor 0-0");
    redis_ok(r, "XADD bull:v:events * event failed jobId 9 failedReason boom prev active");
}

static bool bullmq_over(redis_t *r) {
    return redis_int(r, "EXISTS bull:v:delayed bull:v:active sidecar:q:aside") == 0 &&
           redis_int(r, "XLEN sidecar:q:failures") >= 4;
}

static void bullmq_expect(redis_t *r) {
    cr_assert_eq(redis_int(r, "XLEN sidecar:q:failures"), 4);
    cr_assert_eq(failures(r, FAILURES("unreadable")), 1);
    cr_assert_eq(failures(r, FAILURES("stalled")), 1);
    cr_assert_eq(failures(r, FAILURES("worker_failed")), 2);
    cr_assert_eq(redis_int(r, "ZCARD bull:v:failed"), 1);
    cr_assert_eq(redis_int(r, "LLEN bull:v:wait"), 1);
    redis_expect(r, "1", "HGET bull:v:1 stc");
    cr_assert_eq(redis_int(r, "HEXISTS bull:v:1 defa"), 1);
    cr_assert_eq(redis_int(r, "XLEN bull:v:events"), 4);
}

/* ---- private_queues: dead letters of workers. */

static void private_begin(redis_t *r) { redis_ok(r, "LPUSH dead one two three"); }

static bool private_over(redis_t *r) { return redis_int(r, "XLEN sidecar:q:failures") >= 3; }

static void private_expect(redis_t *r) {
    cr_assert_eq(redis_int(r, "LLEN dead"), 3);
    cr_assert_eq(redis_int(r, "XLEN sidecar:q:failures"), 3);
    cr_assert_eq(failures(r, FAILURES("dead_letter")), 3);
}

static const struct {
    const char *queue;
    void (*begin)(redis_t *r);
    bool (*over)(redis_t *r);
    void (*expect)(redis_t *r);
} dialects[] = {
    {"{ name = \"q\"; dialect = \"delayed_queue\"; types = [\"a.B\"]; delays = [\"*: 10m\"]; " ROLES " }", delayed_begin,
     delayed_over, delayed_expect},
    {"{ name = \"q\"; dialect = \"bull\"; bull_queue = \"v\"; stalled_interval = \"1s\"; max_stalled = 0; " ROLES " }",
     bull_begin, bull_over, bull_expect},
    {"{ name = \"q\"; dialect = \"private_queues\"; main = \"m\"; private = \"p-*\"; dlq = \"dead\"; roles = [\"monitor\"]; }",
     private_begin, private_over, private_expect},
    {"{ name = \"q\"; dialect = \"bullmq\"; bull_queue = \"v\"; stalled_interval = \"1s\"; max_stalled = 0; " ROLES " }",
     bullmq_begin, bullmq_over, bullmq_expect},
};

typedef struct {
    int dialect;
    char point[32];
} death_t;

ParameterizedTestParameters(daemon_tasks, crash_points) {
    static death_t deaths[] = {
        {0, "watch_before"},         {0, "watch_answered"},         {0, "quarantine_before"},    {0, "quarantine_sent"},
        {0, "quarantine_answered"},  {0, "quarantine_answered:2"},  {1, "watch_before"},         {1, "watch_answered"},
        {1, "bull_mark_before"},     {1, "bull_mark_answered"},     {1, "bull_mark_before:2"},   {1, "failed_seen_before"},
        {1, "failed_seen_answered"}, {1, "quarantine_before"},      {1, "quarantine_sent"},      {1, "quarantine_answered"},
        {1, "failed_record_before"}, {1, "failed_record_answered"}, {2, "watch_before"},         {2, "watch_answered"},
        {2, "letters_before"},       {2, "letters_sent"},           {2, "letters_answered"},     {2, "letters_answered:3"},
        {3, "bull_mark_before"},     {3, "bull_mark_answered"},     {3, "settle_before"},        {3, "settle_sent"},
        {3, "settle_answered"},      {3, "failed_seen_before"},     {3, "failed_record_before"}, {3, "failed_record_answered"},
        {3, "quarantine_before"},    {3, "quarantine_sent"},        {3, "quarantine_answered"}};
    return cr_make_param_array(death_t, deaths, sizeof deaths / sizeof *deaths);
}

ParameterizedTest(death_t *death, daemon_tasks, crash_points) {
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    const sidecar_t spec = {.queues = dialects[death->dialect].queue, .scan = "50ms"};
    dialects[death->dialect].begin(s.r);
    cr_assert_eq(cluster_crash(&s, spec, death->point), 137, "%s is never reached", death->point);
    cluster_sidecar_up(&s, spec);
    await(&s, dialects[death->dialect].over(s.r), 20000);
    cr_assert(cluster_stays(dialects[death->dialect].over(s.r), 300), "%s", death->point);
    dialects[death->dialect].expect(s.r);
}
