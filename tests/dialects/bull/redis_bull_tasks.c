/* Dialect bull from C: side tasks, adoption and promotion, as monitor, preflight and dispatcher call them. */
#include "bull_tasks.h"
#include "dialects/bull/internal.h"
#include "dialects/registry.h"

static setup_t s;
SUITE(redis_bull_tasks, s = setup(), teardown(&s));

Test(redis_bull_tasks, a_stalled_job_is_retried_and_then_ends) {
    redis_t *r = s.f.r;
    s.f.config->queues[0].policy.alive_timeout_ms = 0;
    active(r, "1", NULL);
    redis_ok(r, "HSET " BULL "1 attemptsMade 2 processedOn 1700000000123");
    check_until(&s, 1);
    redis_expect(r, "1", "RPOP " BULL "wait");
    expect_field(r, "1", "kind", "retried");
    expect_field(r, "1", "reason", "stalled");
    expect_field(r, "1", "attempts", "3");
    expect_field(r, "1", "payload", NULL);
    cr_assert_eq(fixture_log_count("retried a job"), 1);
    redis_ok(r, "DEL " STREAM);
    redis_ok(r, "LPUSH " BULL "active 1");
    check_until(&s, 2);
    cr_expect_eq(fixture_log_count("\"queue\":\"video\",\"ref\":\""), 1);
    expect_field(r, "1", "kind", "failed");
    expect_field(r, "1", "dialect", "bull");
    expect_field(r, "1", "queue", "video");
    expect_field(r, "1", "type", "n");
    expect_field(r, "1", "reason", "retries_exhausted");
    expect_field(r, "1", "error", "job stalled more than allowable limit");
    expect_field(r, "1", "attempts", "4");
    expect_field(r, "1", "created", "1700000000000");
    expect_field(r, "1", "started", "1700000000123");
    expect_field(r, "1", "term", "T");
    char *payload = field(r, "1", "payload");
    cr_assert(payload && strstr(payload, "\"id\":\"1\"") && strstr(payload, "\"name\":\"n\"") && strstr(payload, "\"data\":{}"),
              "%s", payload);
    redis_expect(r, "2", "HGET " BULL "1 stalledCounter");
    cr_assert_eq(redis_int(r, "ZCARD " BULL "failed"), 1);
    cr_assert_eq(redis_int(r, "EXISTS " BULL "active"), 0);
    cr_assert_eq(metric_get(&s.metrics->queues[0].stalled), 2);
    cr_assert_eq(metric_get(&s.metrics->queues[0].stalled_by[CAUSE_lock_lost]), 2);
    cr_assert_eq(metric_get(&s.metrics->queues[0].ended_by[REASON_retries_exhausted]), 1);
}

/* Job 1 has a lock. A worker takes job 2 after the mark, and makes its lock a moment after BRPOPLPUSH. */
Test(redis_bull_tasks, a_job_taken_since_the_mark_has_not_stalled) {
    redis_t *r = s.f.r;
    active(r, "1", NULL);
    redis_ok(r, "SET " BULL "1:lock w");
    step(&s);
    active(r, "2", NULL);
    check_once(&s);
    cr_assert_eq(redis_int(r, "LLEN " BULL "active"), 2);
    redis_ok(r, "SET " BULL "2:lock w"); /* as moveToActive does */
    redis_ok(r, "SREM " BULL "stalled 2");
    check_once(&s);
    redis_ok(r, "SET " BULL "stalled-check 1700000000000 PX 600000"); /* a worker's check came first, and marked the jobs */
    redis_ok(r, "DEL " BULL "1:lock " BULL "2:lock");
    check_once(&s);
    cr_assert_eq(redis_int(r, "LLEN " BULL "active"), 2);
    cr_assert_eq(redis_int(r, "EXISTS " STREAM), 0);
    check_once(&s);
    cr_assert_eq(redis_int(r, "EXISTS " BULL "active"), 0, "without locks after a whole interval both jobs end");
}

static bool marks_are_due(redis_t *r) {
    char *marked = redis_str(r, "HGET sidecar:video:meta marked");
    return marked && *marked && redis_ms(r) - strtoll(marked, NULL, 10) >= INTERVAL_MS;
}

/* A connection breaks, or a leader dies, before the check of each page. The jobs must not wait for another interval. */
Test(redis_bull_tasks, marks_that_are_due_outlive_connection_and_leader) {
    enum { JOBS = 1000 };
    redis_t *r = s.f.r;
    s.f.config->queues[0].policy.alive_timeout_ms = 0;
    redis_ok(r, "EVAL %s 1 " BULL "active %d",
             "for i = 1, ARGV[1] do redis.call('HSET', 'bull:video:' .. i, 'name', 'n') redis.call('LPUSH', KEYS[1], i) end",
             JOBS);
    do step(&s);
    while (redis_int(r, "SCARD " BULL "stalled") < JOBS); /* one part in each step */
    cr_assert(wait_for(marks_are_due(r), 5000));
    char *marked = redis_str(r, "HGET sidecar:video:meta marked");
    for (int i = 0; i < JOBS && redis_int(r, "LLEN " BULL "active") > 0; i++) {
        redis_expect(r, marked, "HGET sidecar:video:meta marked");
        bull_stalled_task.forget(s.states[0]);
        step(&s);
    }
    cr_assert_eq(redis_int(r, "LLEN " BULL "wait"), JOBS);
}

Test(redis_bull_tasks, marks_that_are_not_due_outlive_a_leader) {
    redis_t *r = s.f.r;
    bull_config(&s.f.config->queues[0])->stalled_interval_ms = 60000;
    active(r, "1", NULL);
    step(&s);
    char *marked = redis_str(r, "HGET sidecar:video:meta marked");
    bull_stalled_task.forget(s.states[0]);
    step(&s);
    redis_expect(r, marked, "HGET sidecar:video:meta marked");
    cr_assert_eq(redis_int(r, "LLEN " BULL "active"), 1);
}

Test(redis_bull_tasks, ids_without_a_job_end_with_their_reason) {
    redis_t *r = s.f.r;
    redis_ok(r, "LPUSH " BULL "active ghost wait meta");
    redis_ok(r, "RPUSH " BULL "wait x");
    redis_ok(r, "HSET " BULL "meta paused 1");
    check_until(&s, 3);
    expect_field(r, "ghost", "reason", "unreadable");
    expect_field(r, "ghost", "error", "the key of this id holds no job");
    expect_field(r, "meta", "reason", "unreadable");
    expect_field(r, "wait", "reason", "invalid_target");
    expect_field(r, "wait", "error", "the key of this id holds a list");
    cr_assert_eq(redis_int(r, "EXISTS " BULL "active " BULL "failed " BULL "ghost"), 0);
    redis_expect(r, "x", "LINDEX " BULL "wait 0");
    cr_assert_eq(redis_int(r, "HLEN " BULL "meta"), 1);
}

Test(redis_bull_tasks, a_job_past_its_alive_timeout_ends) {
    redis_t *r = s.f.r;
    char now[24];
    snprintf(now, sizeof now, "%lld", redis_ms(r));
    active(r, "old", NULL), active(r, "young", NULL), active(r, "odd", NULL);
    redis_ok(r, "HSET " BULL "young timestamp %s", now);
    redis_ok(r, "HSET " BULL "odd timestamp 9e99");
    check_until(&s, 3);
    expect_field(r, "old", "reason", "alive_timeout");
    expect_field(r, "young", "reason", "stalled");
    expect_field(r, "odd", "reason", "stalled");
    redis_expect(r, "job is older than its alive_timeout", "HGET " BULL "old failedReason");
}

/* As in Bull, the values true and 0 remove the job, and any other value keeps it. */
Test(redis_bull_tasks, remove_on_fail_is_true_or_0) {
    redis_t *r = s.f.r;
    s.f.config->queues[0].policy.alive_timeout_ms = 0;
    char deep[160], *large = kept(malloc((1 << 20) + 64));
    size_t len = (size_t)sprintf(large, "{\"x\":\"");
    memset(large + len, 'x', 1 << 20);
    strcpy(large + len + (1 << 20), "\",\"removeOnFail\":true}");
    snprintf(deep, sizeof deep, "{\"x\":%.*s1%.*s,\"removeOnFail\":true}", 65,
             "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 65,
             "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
    const struct {
        const char *opts;
        bool removes;
    } rows[] = {{"{\"removeOnFail\":true}", true},
                {"{\"removeOnFail\":0}", true},
                {"{\"removeOnFail\":false}", false},
                {"{\"removeOnFail\":5}", false},
                {"{\"removeOnFail\":{\"age\":0}}", false},
                {"{\"removeOnFail\":{\"count\":0}}", false},
                {"{}", false},
                {"", false},
                {"nonsense", false},
                {"{\"removeOnFail\":\"true\"}", false},
                {"{\"removeOnFail\":true,\"removeOnFail\":false}", false},
                {deep, false},
                {large, true}};
    enum { ROWS = sizeof rows / sizeof *rows };
    for (size_t i = 0; i < ROWS; i++) {
        char id[8];
        snprintf(id, sizeof id, "%d", (int)i);
        active(r, id, "1");
        redis_ok(r, "HSET " BULL "%s opts %s", id, rows[i].opts);
        redis_ok(r, "RPUSH " BULL "%s:logs x", id);
    }
    check_until(&s, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        long long left = redis_int(r, "EXISTS " BULL "%d " BULL "%d:logs", (int)i, (int)i);
        char *score = redis_str(r, "ZSCORE " BULL "failed %d", (int)i);
        cr_assert(left == (rows[i].removes ? 0 : 2) && !score == rows[i].removes, "%s", rows[i].opts);
    }
    cr_assert_eq(redis_int(r, "XLEN " STREAM), ROWS);
}

Test(redis_bull_tasks, settles_many_jobs_and_large_jobs) {
    redis_t *r = s.f.r;
    s.f.config->queues[0].policy.alive_timeout_ms = 0;
    s.f.config->queues[0].policy.max_payload = 1000;
    redis_ok(r, "EVAL %s 1 " BULL "active",
             "for i = 1, 100 do redis.call('HSET', 'bull:video:' .. i, 'name', 'n', 'stalledCounter', i % 2) "
             "redis.call('LPUSH', KEYS[1], i) end redis.call('HSET', 'bull:video:1', 'data', string.rep('x', 2000), "
             "'opts', '{\"removeOnFail\":true}')");
    check_until(&s, 100);
    cr_assert_eq(redis_int(r, "LLEN " BULL "wait"), 50);
    cr_assert_eq(redis_int(r, "ZCARD " BULL "failed"), 50);
    cr_assert_eq(redis_int(r, "XLEN " STREAM), 100);
    expect_field(r, "1", "payload", NULL);
    expect_field(r, "1", "size", "2023");
    cr_assert_eq(redis_int(r, "HEXISTS " BULL "1 data"), 1, "no record has its data, so the job stays");
}

/* While the stream is full no job ends, but jobs behind those are still retried. */
Test(redis_bull_tasks, a_full_stream_does_not_stop_retries) {
    redis_t *r = s.f.r;
    s.f.config->queues[0].policy.alive_timeout_ms = 0;
    s.f.config->stream.max_bytes = 1;
    redis_ok(r, "EVAL %s 1 " BULL "active",
             "for i = 1, 100 do redis.call('HSET', 'bull:video:' .. i, 'name', 'n', 'stalledCounter', i <= 80 and 1 or 0) "
             "redis.call('LPUSH', KEYS[1], i) end");
    check_until(&s, 20);
    cr_assert_eq(redis_int(r, "LLEN " BULL "active"), 80);
    cr_assert_eq(fixture_log_count("the failure stream is full"), 1);
    s.f.config->stream.max_bytes = 1 << 30;
    check_until(&s, 100);
    cr_assert_eq(redis_int(r, "XLEN " STREAM), 80);
}

Test(redis_bull_tasks, a_lost_lock_fences_it) {
    active(s.f.r, "1", NULL);
    cr_assert_eq(step_as(&s, "other"), OUTCOME_FENCED);
    step(&s);
    redis_ok(s.f.r, "SET " BULL_LOCK " other");
    cr_assert(wait_for((mono_reached(s.call.next, mono_now()) && step_as(&s, "T") == OUTCOME_FENCED), 5000));
    cr_assert_eq(redis_int(s.f.r, "LLEN " BULL "active"), 1);
}

/* Workers may do their own check when the marks are an interval old, not later. */
Test(redis_bull_tasks, leaves_the_check_to_the_workers) {
    bull_config(&s.f.config->queues[0])->stalled_interval_ms = 60000;
    step(&s);
    cr_assert_gt(redis_int(s.f.r, "PTTL " BULL "stalled-check"), 40000);
    redis_ok(s.f.r, "HSET sidecar:video:meta marked 1700000000000");
    cr_assert_eq(bull_stalled_task.leave(s.states[0], &s.call), OUTCOME_OK);
    cr_assert(wait_for(redis_int(s.f.r, "EXISTS " BULL "stalled-check") == 0, 5000));
}

/* ---- Ids that promotion has quarantined. */

static void promote(void) {
    const promote_ops_t *ops = dialect_bull.promote;
    promote_reply_t reply;
    const call_t call = fixture_call(&s.f, "T");
    ops->append(&call, &(promote_request_t){.batch = 100});
    cr_assert_eq(promote_read_replies(s.f.conn, &reply, 1, &s.f.error), OUTCOME_OK, "%s", s.f.error.text);
    cr_assert_eq(reply.error.outcome, OUTCOME_OK, "%s", reply.error.text);
}

static bool quarantine_is_empty(void) {
    step(&s);
    return redis_int(s.f.r, "EXISTS sidecar:video:aside") == 0;
}

Test(redis_bull_tasks, ids_in_delayed_that_name_no_job_end) {
    redis_t *r = s.f.r;
    redis_ok(r, "RPUSH " BULL "wait x");
    redis_ok(r, "HSET " BULL "meta paused 1");
    redis_ok(r, "ZADD " BULL "delayed 1 ghost 2 wait 3 meta 4 gone 5 late 6 %b", "a\0b", (size_t)3);
    promote();
    redis_ok(r, "ZREM " BULL "delayed gone"); /* a client removed it, and another client made a job with a long name */
    redis_ok(r, "EVAL %s 1 " BULL "late", "redis.call('HSET', KEYS[1], 'name', string.rep('x', 2^24 + 1))");
    cr_assert(wait_for(quarantine_is_empty(), 5000));
    expect_field(r, "ghost", "reason", "unreadable");
    expect_field(r, "meta", "reason", "unreadable");
    expect_field(r, "wait", "reason", "invalid_target");
    expect_field(r, "ghost", "kind", "failed");
    expect_field(r, "ghost", "dialect", "bull");
    cr_expect_geq(fixture_log_count(
                      "\"msg\":\"ended an id in delayed that has no job\",\"role\":\"monitor\",\"queue\":\"video\",\"ref\":\""),
                  1);
    cr_assert_eq(redis_int(r, "XLEN " STREAM), 4);
    cr_assert_eq(redis_int(r, "ZCARD " BULL "delayed"), 1, "late names a job, so it stays delayed");
    redis_expect(r, "x", "LINDEX " BULL "wait 0");
    cr_assert_eq(metric_get(&s.metrics->queues[0].ended), 4);
    cr_assert_eq(metric_get(&s.metrics->queues[0].ended_by[REASON_invalid_target]), 1);
    cr_assert_eq(metric_get(&s.metrics->queues[0].ended_by[REASON_unreadable]), 3);
}

Test(redis_bull_tasks, quarantined_ids_wait_while_the_stream_is_full) {
    s.f.config->stream.max_bytes = 1;
    for (int i = 0; i < 40; i++) redis_ok(s.f.r, "ZADD " BULL "delayed %d g%d", i + 1, i);
    promote();
    cr_assert(wait_for((step(&s), fixture_log_count("the failure stream is full")), 5000));
    cr_assert_eq(redis_int(s.f.r, "ZCARD " BULL "delayed"), 40);
    s.f.config->stream.max_bytes = 1 << 30;
    cr_assert(wait_for(quarantine_is_empty(), 10000));
    cr_assert_eq(redis_int(s.f.r, "XLEN " STREAM), 40);
}

/* ---- Adoption. */

static void expect_refusal(const char *refusal) {
    scoped(buffer_free) buffer_t text = {0};
    const call_t call = fixture_call(&s.f, NULL);
    outcome_t outcome = dialect_bull.adopt(&call, &text);
    cr_assert_eq(outcome, OUTCOME_OK, "%s", s.f.error.text);
    cr_assert_str_eq(buffer_text(&text), refusal);
}

Test(redis_bull_tasks, refuses_bullmq_and_the_unreleased_layout) {
    static const struct {
        const char *make, *refusal;
    } rows[] = {
        {"XADD " BULL "events * f v",
         "the queue belongs to BullMQ (bull:video:events exists): dialect bull serves Bull 4; see dialect bullmq"},
        {"ZADD " BULL "marker 0 0",
         "the queue belongs to BullMQ (bull:video:marker exists): dialect bull serves Bull 4; see dialect bullmq"},
        {"LPUSH " BULL "marker 0",
         "the queue belongs to BullMQ (bull:video:marker exists): dialect bull serves Bull 4; see dialect bullmq"},
        {"ZADD " BULL "prioritized 0 1",
         "the queue belongs to BullMQ (bull:video:prioritized exists): dialect bull serves Bull 4; see dialect bullmq"},
        {"SET " BULL "pc 1",
         "the queue belongs to BullMQ (bull:video:pc exists): dialect bull serves Bull 4; see dialect bullmq"},
        {"HSET " BULL "meta opts.maxLenEvents 10000",
         "the queue belongs to BullMQ (bull:video:meta names its version): dialect bull serves Bull 4; see dialect bullmq"},
        {"HSET " BULL "meta version bullmq:5.63.2",
         "the queue belongs to BullMQ (bull:video:meta names its version): dialect bull serves Bull 4; see dialect bullmq"}};
    expect_refusal("");
    redis_ok(s.f.r, "HSET " BULL "meta paused 1");
    bull_job(s.f.r, "events", "0"), bull_job(s.f.r, "pc", "0");
    expect_refusal("");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(s.f.r, "FLUSHALL");
        redis_ok(s.f.r, rows[i].make);
        expect_refusal(rows[i].refusal);
    }
    redis_ok(s.f.r, "SET " BULL "meta x"); /* `meta` of a wrong type: an error, not BullMQ */
    buffer_t text = {0};
    const call_t call = fixture_call(&s.f, NULL);
    cr_assert_eq(dialect_bull.adopt(&call, &text), OUTCOME_REFUSED);
    cr_assert_eq(text.len, 0);
}

/* Each row is a part of one script's request; the proxy breaks the reply of this script. */
Test(redis_bull_tasks, broken_replies_are_refused) {
    static const char *const requests[] = {"bull:video:marker", "recorded T 600000",
                                           "recorded bull:video: ", "sidecar:video:meta bull:video:active"};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        teardown(&s);
        s = (setup_t){.f = fixture_start(&(fixture_options_t){.config = CONFIG, .proxy = true}), .metrics = metrics_new(1)};
        bull_config_t *own = bull_config(&s.f.config->queues[0]);
        own->record_failed = true;
        own->stalled_interval_ms = INTERVAL_MS;
        for (int task = 0; task < SIDE_TASKS_MAX; task++)
            s.states[task] = dialect_bull.side_tasks[task]->open(&s.f.keys->queues[0]);
        redis_ok(s.f.r, "SET " BULL_LOCK " T");
        proxy_rule(s.f.proxy, (proxy_rule_t){.action = PROXY_REPLACE, .match = requests[i], .error = "+what", .times = -1});
        cr_expect(wait_for(step_as(&s, "T") == OUTCOME_REFUSED, 2000), "%s", requests[i]);
        cr_expect(strstr(s.f.error.text, "unexpected reply"), "%s: %s", requests[i], s.f.error.text);
    }
}

Test(redis_bull_tasks, a_queue_that_bullmq_takes_over_is_refused) {
    redis_ok(s.f.r, "XADD " BULL "events * f v");
    cr_assert_eq(step_as(&s, "T"), OUTCOME_REFUSED);
    cr_assert_str_eq(
        s.f.error.text,
        "bull:video:events holds a stream: the queue belongs to BullMQ, and dialect bull serves Bull 4 (see dialect bullmq)");
    cr_assert_eq(redis_int(s.f.r, "EXISTS " BULL "stalled-check"), 0);
    redis_ok(s.f.r, "DEL " BULL "events");
    fixture_make_key(s.f.r, BULL "stalled", "list");
    cr_assert_eq(step_as(&s, "T"), OUTCOME_REFUSED);
    cr_assert_str_eq(s.f.error.text, "stalled holds a list");
}

/* ---- Promotion from C. */

Test(redis_bull_tasks, promotes_through_the_interface) {
    const promote_ops_t *ops = dialect_bull.promote;
    promote_reply_t reply;
    long long due = redis_ms(s.f.r) - 1234;
    bull_job(s.f.r, "1", "0");
    redis_ok(s.f.r, "ZADD " BULL "delayed %lld 1", due * 4096 + 17);
    const call_t call = fixture_call(&s.f, "T");
    ops->append(&call, &(promote_request_t){.batch = 5000});
    cr_assert_eq(promote_read_replies(s.f.conn, &reply, 1, &s.f.error), OUTCOME_OK, "%s", s.f.error.text);
    cr_assert_eq(reply.error.outcome, OUTCOME_OK, "%s", reply.error.text);
    cr_assert(!reply.full && reply.moved == 1 && reply.has_oldest);
    cr_assert_eq(ops->due_us(s.f.keys->queues[0].config, reply.oldest), due * 1000);
    redis_expect(s.f.r, "1", "RPOP " BULL "wait");
    const queue_config_t *queue = s.f.keys->queues[0].config;
    cr_assert_eq(ops->due_us(queue, 1700000000000.0 * 4096 + 4095), INT64_C(1700000000000000));
    cr_assert_eq(ops->due_us(queue, 1700000000000.0 * 4096 + 4096), INT64_C(1700000000001000));
    cr_assert_eq(ops->due_us(queue, 1e300), INT64_MAX);
    cr_assert_eq(ops->due_us(queue, -1e300), INT64_MIN);
    cr_assert_eq(ops->due_us(queue, -1), -1000);
}
