/* A sidecar that moves jobs of BullMQ 5 and 6: it promotes alone, so that a worker finds the jobs when it starts, and beside
 * workers; and only one side at a time does the stalled check. */
#include "bullmq_story.h"

TestSuite(daemon_bullmq_moves, .timeout = 300);

#define BOTH "roles = [\"dispatcher\", \"monitor\"];"

static int lines_with(const char *text, const char *what) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) count++;
    return count;
}

/* With no worker the sidecar promotes; with an idle worker its marker wakes the worker. Returns how many jobs ran. */
static int promote_without_workers(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin_as(&setup, version, BOTH);
    produce(&setup, "ok", JOBS, "{\"delay\":300}");
    produce(&setup, "slow", JOBS, "{\"delay\":300,\"priority\":3}");
    await_native(&setup, redis_int(setup.cluster.r, "LLEN " BULL "wait") == JOBS);
    await_native(&setup, redis_int(setup.cluster.r, "ZCARD " BULL "prioritized") == JOBS);
    const char *config = daemon_config_path(setup.sidecar);
    const daemon_output_t *ready =
        daemon_run("jobs", "list", "video", "--state", "ready", "-n", "1000", "-o", "jsonl", "-c", config);
    cr_expect_eq(lines_with(ready->out, "\"state\""), 2 * JOBS, "%s%s", ready->out, ready->err);
    const daemon_output_t *status = daemon_run("status", "-o", "json", "-c", config);
    cr_expect(has(status->out, kept_printf("\"ready\":%d", 2 * JOBS)) || has(status->out, kept_printf("\"ready\": %d", 2 * JOBS)),
              "%s", status->out);
    child_t *one = worker(&setup);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 2 * JOBS);
    cr_expect_eq(native_count(&setup.native, "taken", NULL), 2 * JOBS);
    stop(&setup, one);
    return (int)redis_int(setup.cluster.r, "ZCARD " BULL "completed");
}

Test(daemon_bullmq_moves, promotes_without_a_worker_5) { cr_assert_eq(promote_without_workers("QS_BULLMQ=5.81.5"), 2 * JOBS); }
Test(daemon_bullmq_moves, promotes_without_a_worker_6) { cr_assert_eq(promote_without_workers("QS_BULLMQ=6.7.0"), 2 * JOBS); }

/* Workers retry with a backoff; workers and sidecars promote. Each attempt runs once, and each final failure has one record, also
 * after the leader dies. Returns the number of records. */
static long long promote_by_both(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin_as(&setup, version, BOTH);
    daemon_t *other = setup_add_sidecar(&setup, BOTH);
    child_t *one = worker(&setup), *two = worker(&setup);
    produce(&setup, "poison", JOBS, "{\"attempts\":3,\"backoff\":150,\"delay\":100}");
    produce(&setup, "flaky", JOBS, "{\"attempts\":3,\"backoff\":{\"type\":\"exponential\",\"delay\":50},\"priority\":2}");
    daemon_t *leader = cluster_await_leader(&setup.cluster, "g", NULL, SOON_MS);
    if (leader == setup.sidecar) setup.sidecar = other;
    daemon_kill(leader);
    await_native(&setup, rows(&setup, "kind = 'failed'") == JOBS);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == JOBS);
    cr_expect_eq(native_count(&setup.native, "taken", NULL), 3 * JOBS + 2 * JOBS);
    long long recorded = rows(&setup, "kind = 'failed' AND reason = 'worker_failed' AND attempts = 3");
    stop(&setup, one);
    stop(&setup, two);
    return recorded;
}

Test(daemon_bullmq_moves, promotes_beside_workers_5) { cr_assert_eq(promote_by_both("QS_BULLMQ=5.81.5"), JOBS); }
Test(daemon_bullmq_moves, promotes_beside_workers_6) { cr_assert_eq(promote_by_both("QS_BULLMQ=6.7.0"), JOBS); }

#define CHECKS "roles = [\"monitor\"]; stalled_interval = \"1s\";"

/* While a sidecar leads, workers skip their stalled check. Returns how many stalled jobs the workers found. */
static int skip_check(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin_as(&setup, version, CHECKS);
    child_t *dies = worker(&setup), *lives = NULL;
    produce(&setup, "hang", 1, "{}");
    await_native(&setup, native_count(&setup.native, "hangs", NULL) == 1);
    lives = worker(&setup);
    child_kill(dies);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 1);
    if (!wait_for(cluster_says(setup.sidecar, "\"queue\":\"video\"", "retried a job"), SOON_MS))
        cluster_fail(&setup.cluster, "no sidecar retried the job");
    redis_expect(setup.cluster.r, "sidecar", "GET " BULL "stalled-check");
    await_native(&setup, rows(&setup, "kind = 'retried' AND reason = 'stalled' AND attempts = 1") == 1);
    child_free(dies);
    stop(&setup, lives);
    return native_count(&setup.native, "stalled", NULL);
}

Test(daemon_bullmq_moves, workers_skip_the_stalled_check_5) { cr_assert_eq(skip_check("QS_BULLMQ=5.81.5"), 0); }
Test(daemon_bullmq_moves, workers_skip_the_stalled_check_6) { cr_assert_eq(skip_check("QS_BULLMQ=6.7.0"), 0); }

enum { HANGING = 4 };

/* After the only sidecar was killed or terminated, workers do the stalled check again. Returns how many stalled jobs it found. */
static int resume_check(const char *version, bool killed) {
    scoped(setup_end) setup_t setup;
    setup_begin_as(&setup, version, CHECKS);
    child_t *dies = worker(&setup);
    await_native(&setup, redis_int(setup.cluster.r, "EXISTS " BULL "stalled-check") == 1);
    if (killed)
        daemon_kill(setup.sidecar);
    else
        cr_expect_eq(daemon_terminate(setup.sidecar, SOON_MS).code, 0);
    produce(&setup, "hang", HANGING, "{}");
    await_native(&setup, native_count(&setup.native, "hangs", NULL) == HANGING);
    child_kill(dies);
    child_free(dies);
    child_t *lives = worker(&setup);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == HANGING);
    stop(&setup, lives);
    return native_count(&setup.native, "stalled", NULL);
}

Test(daemon_bullmq_moves, workers_resume_the_check_after_kill_5) {
    cr_assert_eq(resume_check("QS_BULLMQ=5.81.5", true), HANGING);
}
Test(daemon_bullmq_moves, workers_resume_the_check_after_kill_6) { cr_assert_eq(resume_check("QS_BULLMQ=6.7.0", true), HANGING); }
Test(daemon_bullmq_moves, workers_resume_the_check_after_sigterm_6) {
    cr_assert_eq(resume_check("QS_BULLMQ=6.7.0", false), HANGING);
}

/* No worker is left. The sidecar gives the jobs back; one that stalls again is failed by the next worker that takes it, and the
 * failure is recorded once. The queue is paused meanwhile, and resumed: no job is lost. Returns the number of recorded failures.
 */
static long long give_back_while_paused(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin_as(&setup, version, CHECKS);
    child_t *dies = worker(&setup);
    produce(&setup, "hang", HANGING, "{}");
    await_native(&setup, native_count(&setup.native, "hangs", NULL) == HANGING);
    call_queue_api(&setup, "pause", NULL);
    produce(&setup, "ok", JOBS, "{}"); /* a resume of BullMQ 5 renames the list of these over `wait` */
    child_kill(dies);
    child_free(dies);
    await_native(&setup, redis_int(setup.cluster.r, "LLEN " BULL "active") == 0);
    redis_ok(setup.cluster.r, "HSET " BULL "1 stc 5"); /* as if it had stalled more often */
    call_queue_api(&setup, "resume", NULL);
    redis_ok(setup.cluster.r, "RPOPLPUSH " BULL "wait " BULL "active"); /* as if a worker took the job and died */
    await_native(&setup, redis_int(setup.cluster.r, "LLEN " BULL "active") == 0);
    child_t *lives = worker(&setup);
    await_native(&setup,
                 redis_int(setup.cluster.r, "ZCARD " BULL "completed") + redis_int(setup.cluster.r, "ZCARD " BULL "failed") ==
                     HANGING + JOBS);
    await_native(&setup, rows(&setup, "kind = 'failed'") == redis_int(setup.cluster.r, "ZCARD " BULL "failed"));
    await_native(&setup, rows(&setup, "kind = 'retried' AND reason = 'stalled'") == HANGING + 1);
    cr_expect_eq(rows(&setup, "reason = 'retries_exhausted' AND error LIKE 'job stalled more than allowable limit%'"),
                 redis_int(setup.cluster.r, "ZCARD " BULL "failed"));
    stop(&setup, lives);
    return redis_int(setup.cluster.r, "ZCARD " BULL "completed") + rows(&setup, "kind = 'failed'");
}

Test(daemon_bullmq_moves, gives_jobs_back_while_paused_5) {
    cr_assert_eq(give_back_while_paused("QS_BULLMQ=5.81.5"), HANGING + JOBS);
}
Test(daemon_bullmq_moves, gives_jobs_back_while_paused_6) {
    cr_assert_eq(give_back_while_paused("QS_BULLMQ=6.7.0"), HANGING + JOBS);
}

/* The worker of docs/dialects/bullmq.md, as it is there. */
Test(daemon_bullmq_moves, worker_of_the_page) {
    scoped(setup_end) setup_t setup;
    setup_begin_as(&setup, "QS_BULLMQ=6.7.0", BOTH);
    native_t page = native_begin("bullmq_node", setup.cluster.server);
    produce(&setup, "ok", JOBS, "{\"delay\":300}");
    produce(&setup, "poison", 1, "{\"attempts\":2,\"backoff\":100}");
    await_native(&setup, redis_int(setup.cluster.r, "LLEN " BULL "wait") == JOBS + 1);
    child_t *one = native_run(&page, "worker");
    await_native(&setup, rows(&setup, "kind = 'failed' AND error LIKE 'poison%' AND attempts = 2 AND json_valid(payload)") == 1);
    await_native(&setup, native_count(&page, "done", NULL) == JOBS);
    child_signal(one, SIGTERM);
    cr_expect(child_wait(one, SOON_MS) && one->exit_code == 0, "the worker does not end at SIGTERM");
    cr_expect_eq(native_count(&page, "taken", NULL), JOBS + 2);
    cr_expect_eq(redis_int(setup.cluster.r, "ZCARD " BULL "completed"), JOBS);
    child_free(one);
    native_end(&page);
}

/* Only the rights that docs/acl.md publishes. Returns how many commands Redis refused. */
static size_t least_privilege(const char *version) {
    scoped(setup_end) setup_t setup = {.cluster = cluster_begin(&(server_options_t){.tcp = true}), .env = {version}};
    redis_t *r = setup.cluster.r;
    scoped(rights_free) rights_t rights = rights_read("bullmq");
    rights_leave_out(&rights, "~email"); /* this test has no queue `email` */
    rights_grant(r, &rights, NULL);
    setup.native = native_begin("bullmq", setup.cluster.server);
    setup.sidecar = cluster_sidecar_up(
        &setup.cluster, (sidecar_t){.queues = kept_printf(VIDEO, BOTH "stalled_interval = \"1s\";"), .redis = RIGHTS_LOGIN});
    produce(&setup, "ok", 2 * JOBS, "{\"delay\":100}");
    produce(&setup, "slow", JOBS, "{\"delay\":100,\"priority\":3}");
    await_native(&setup, redis_int(r, "ZCARD " BULL "prioritized") == JOBS);
    child_t *dies = worker(&setup);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 3 * JOBS);
    produce(&setup, "flaky", JOBS, "{}");
    await_native(&setup, rows(&setup, "reason = 'worker_failed'") == JOBS);
    produce(&setup, "hang", 1, "{}");
    await_native(&setup, native_count(&setup.native, "hangs", NULL) == 1);
    /* It reads the oldest active job. */
    const daemon_output_t *status = daemon_run("status", "-c", daemon_config_path(setup.sidecar));
    cr_expect(strstr(status->out, "video"), "%s%s", status->out, status->err);
    child_kill(dies);
    child_free(dies);
    await_native(&setup, rows(&setup, "kind = 'retried' AND reason = 'stalled'") == 1);
    const daemon_output_t *done = cli(setup.sidecar, "requeue", "--where", "-q", "video", "--yes", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
    child_t *lives = worker(&setup);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 4 * JOBS + 1);
    stop(&setup, lives);
    cr_expect_eq(daemon_log_count(setup.sidecar, "\"level\":\"error\""), 0);
    return rights_refused(r);
}

Test(daemon_bullmq_moves, least_privilege_5) { cr_assert_eq(least_privilege("QS_BULLMQ=5.81.5"), 0); }
Test(daemon_bullmq_moves, least_privilege_6) { cr_assert_eq(least_privilege("QS_BULLMQ=6.7.0"), 0); }
