/* Workers of BullMQ 5 and 6 from npm beside a real sidecar, which records the failures that workers decide, and
 * requeues them. */
#include "bullmq_story.h"

TestSuite(daemon_bullmq, .timeout = 300);

/* A job that fails for good has one record, and one that fails at first has none. Returns the number of records with payload. */
static long long record_failures(const char *version, const char *opts) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, "");
    child_t *one = worker(&setup);
    produce(&setup, "poison", JOBS, opts);
    produce(&setup, "flaky", JOBS, opts);
    await_native(&setup, rows(&setup, "kind = 'failed'") >= JOBS);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == JOBS);
    cr_expect_eq(rows(&setup, "kind = 'failed' AND reason = 'worker_failed' AND error LIKE 'poison%'"), JOBS);
    long long whole = rows(&setup, "attempts = 2 AND worker = 'w1' AND type = 'job' AND json_valid(payload) AND payload LIKE "
                                   "'%12345678901234567890%'");
    stop(&setup, one);
    return whole;
}

#define TWICE "\"attempts\":2,\"backoff\":50"
Test(daemon_bullmq, records_failures_5) { cr_assert_eq(record_failures("QS_BULLMQ=5.81.5", "{" TWICE "}"), JOBS); }
Test(daemon_bullmq, records_failures_6) { cr_assert_eq(record_failures("QS_BULLMQ=6.7.0", "{" TWICE "}"), JOBS); }
Test(daemon_bullmq, records_jobs_kept_for_a_minute_5) {
    cr_assert_eq(record_failures("QS_BULLMQ=5.81.5", "{" TWICE ",\"removeOnFail\":{\"age\":60}}"), JOBS);
}
Test(daemon_bullmq, records_jobs_kept_for_a_minute_6) {
    cr_assert_eq(record_failures("QS_BULLMQ=6.7.0", "{" TWICE ",\"removeOnFail\":{\"age\":60}}"), JOBS);
}
Test(daemon_bullmq, records_jobs_removed_on_fail_5) {
    cr_assert_eq(record_failures("QS_BULLMQ=5.81.5", "{" TWICE ",\"removeOnFail\":true}"), 0);
}
Test(daemon_bullmq, records_jobs_removed_on_fail_6) {
    cr_assert_eq(record_failures("QS_BULLMQ=6.7.0", "{" TWICE ",\"removeOnFail\":true}"), 0);
}
Test(daemon_bullmq, records_jobs_removed_with_a_count_of_0_5) {
    cr_assert_eq(record_failures("QS_BULLMQ=5.81.5", "{" TWICE ",\"removeOnFail\":0}"), 0);
}
Test(daemon_bullmq, records_jobs_removed_with_a_count_of_0_6) {
    cr_assert_eq(record_failures("QS_BULLMQ=6.7.0", "{" TWICE ",\"removeOnFail\":0}"), 0);
}

/* Requeues jobs that failed once. `prepare` changes the queue while they are failed. Returns how many were requeued. */
static long long requeue_all(const char *version, const char *opts, void (*prepare)(setup_t *), void (*end)(setup_t *)) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, "");
    child_t *one = worker(&setup);
    produce(&setup, "flaky", JOBS, opts);
    await_native(&setup, rows(&setup, "kind = 'failed'") == JOBS);
    await_native(&setup, native_count(&setup.native, "failed", NULL) == JOBS);
    if (prepare) prepare(&setup);
    const daemon_output_t *done = cli(setup.sidecar, "requeue", "--where", "-q", "video", "--yes", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
    if (end) end(&setup);
    int others = end ? JOBS : 0;
    await_native(&setup, native_count(&setup.native, "finished", NULL) == JOBS + others);
    cr_expect_eq(native_count(&setup.native, "taken", NULL), 2 * JOBS + others);
    cr_expect_eq(redis_int(setup.cluster.r, "EXISTS " BULL "failed " BULL "wait " BULL "paused " BULL "prioritized"), 0);
    cr_expect_eq(redis_int(setup.cluster.r, "ZCARD " BULL "completed"), JOBS + others);
    await_native(&setup, rows(&setup, "kind = 'requeued'") == JOBS);
    const daemon_output_t *again = cli(setup.sidecar, "requeue", "--where", "-q", "video", "--yes", "--again");
    cr_expect(has(again->out, "it is no longer failed") || has(again->err, "it is no longer failed"), "%s%s", again->out,
              again->err);
    produce(&setup, "ok", JOBS, "{}"); /* new jobs get new ids */
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 2 * JOBS + others);
    stop(&setup, one);
    return rows(&setup, "kind = 'requeued'");
}

static void remove_jobs(setup_t *setup) {
    redis_ok(setup->cluster.r, "EVAL %s 1 " BULL "failed",
             "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('DEL', 'bull:video:' .. id) end "
             "redis.call('DEL', KEYS[1], 'bull:video:id')");
}
/* BullMQ 5 renames the list of the paused queue over `wait` at the resume. */
static void pause_queue(setup_t *setup) {
    call_queue_api(setup, "pause", NULL);
    produce(setup, "slow", JOBS, "{}");
}
static void resume_queue(setup_t *setup) {
    cr_expect_eq(native_count(&setup->native, "taken", NULL), JOBS, "a worker took a job of a paused queue");
    call_queue_api(setup, "resume", NULL);
}

Test(daemon_bullmq, requeues_failed_jobs_5) { cr_assert_eq(requeue_all("QS_BULLMQ=5.81.5", "{}", NULL, NULL), JOBS); }
Test(daemon_bullmq, requeues_failed_jobs_6) { cr_assert_eq(requeue_all("QS_BULLMQ=6.7.0", "{}", NULL, NULL), JOBS); }
Test(daemon_bullmq, requeues_jobs_with_a_priority_5) {
    cr_assert_eq(requeue_all("QS_BULLMQ=5.81.5", "{\"priority\":3}", NULL, NULL), JOBS);
}
Test(daemon_bullmq, requeues_jobs_with_a_priority_6) {
    cr_assert_eq(requeue_all("QS_BULLMQ=6.7.0", "{\"priority\":3}", NULL, NULL), JOBS);
}
Test(daemon_bullmq, requeues_jobs_that_are_gone_5) {
    cr_assert_eq(requeue_all("QS_BULLMQ=5.81.5", "{}", remove_jobs, NULL), JOBS);
}
Test(daemon_bullmq, requeues_jobs_that_are_gone_6) {
    cr_assert_eq(requeue_all("QS_BULLMQ=6.7.0", "{}", remove_jobs, NULL), JOBS);
}
/* A job that was pushed to `wait` of a paused queue of BullMQ 5 would be lost at the resume. */
Test(daemon_bullmq, requeues_into_a_paused_queue_5) {
    cr_assert_eq(requeue_all("QS_BULLMQ=5.81.5", "{}", pause_queue, resume_queue), JOBS);
}
Test(daemon_bullmq, requeues_into_a_paused_queue_6) {
    cr_assert_eq(requeue_all("QS_BULLMQ=6.7.0", "{}", pause_queue, resume_queue), JOBS);
}

/* A child fails, and its parent waits for it. After the requeue the child runs, then its parent. Returns how many parents ran. */
static int requeue_children(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, "}, { name = \"parents\"; dialect = \"bullmq\"; roles = [\"monitor\"];");
    child_t *one = worker(&setup), *two = worker_of(&setup, "parents");
    produce_children(&setup, "flaky", JOBS, "{}", "parents");
    await_native(&setup, rows(&setup, "kind = 'failed'") == JOBS);
    await_native(&setup, native_count(&setup.native, "failed", NULL) == JOBS);
    cr_expect_eq(redis_int(setup.cluster.r, "ZCARD bull:parents:waiting-children"), JOBS);
    const daemon_output_t *done = cli(setup.sidecar, "requeue", "--where", "-q", "video", "--yes", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 2 * JOBS);
    stop(&setup, one);
    stop(&setup, two);
    return (int)redis_int(setup.cluster.r, "ZCARD bull:parents:completed");
}

Test(daemon_bullmq, requeues_children_5) { cr_assert_eq(requeue_children("QS_BULLMQ=5.81.5"), JOBS); }
Test(daemon_bullmq, requeues_children_6) { cr_assert_eq(requeue_children("QS_BULLMQ=6.7.0"), JOBS); }

Test(daemon_bullmq, a_parent_outside_of_the_config_refuses_the_requeue) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, "QS_BULLMQ=6.7.0", "");
    child_t *one = worker(&setup);
    produce_children(&setup, "flaky", 1, "{}", "parents");
    await_native(&setup, rows(&setup, "kind = 'failed'") == 1);
    const daemon_output_t *done = cli(setup.sidecar, "requeue", "--where", "-q", "video", "--yes", "--by", "ann");
    cr_expect(has(done->out, "its parent bull:parents:") || has(done->err, "its parent bull:parents:"), "%s%s", done->out,
              done->err);
    cr_expect_eq(redis_int(setup.cluster.r, "ZCARD " BULL "failed"), 1);
    stop(&setup, one);
}
