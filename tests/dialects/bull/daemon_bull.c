/* Workers of Bull from npm, in the oldest and the newest supported version and with all their timers on, beside real sidecars. A
 * sidecar records the failures that workers decide, an operator requeues them, and only one side does the stalled check. */
#include "cli/audit/requeue_fixture.h"
#include "native.h"
#include "rights.h"

TestSuite(daemon_bull, .timeout = 300);

#define BULL  "bull:video:"
#define VIDEO "{ name = \"video\"; dialect = \"bull\"; roles = [\"dispatcher\", \"monitor\"]; stalled_interval = \"1s\"; %s }"

enum { JOBS = 20, SOON_MS = 60000 };

/* A server, a sidecar on it, and workers of one version of Bull. */
typedef struct {
    cluster_t cluster;
    native_t native;
    daemon_t *sidecar;
    const char *env[8];
} setup_t;

static daemon_t *setup_add_sidecar(setup_t *setup, const char *settings) {
    char queue[256];
    snprintf(queue, sizeof(queue), VIDEO, settings);
    return cluster_sidecar_up(&setup->cluster, (sidecar_t){.queues = queue});
}

static void setup_begin(setup_t *setup, const char *version, const char *settings) {
    *setup = (setup_t){.cluster = cluster_begin(&(server_options_t){.tcp = true}),
                       .env = {version, "QS_STALLED_MS=1000", "QS_LOCK_MS=1000"}};
    setup->native = native_begin("bull", setup->cluster.server);
    setup->sidecar = setup_add_sidecar(setup, settings);
}

static child_t *worker(setup_t *setup) {
    int ready = native_count(&setup->native, "ready", NULL);
    child_t *child = native_start(&setup->native, (const char *const[]){"work", "video", NULL}, setup->env, NULL);
    if (!wait_for(native_count(&setup->native, "ready", NULL) > ready, SOON_MS))
        native_fail(&setup->native, "a worker did not start");
    return child;
}

static void stop(setup_t *setup, child_t *child) {
    child_signal(child, SIGTERM);
    if (!child_wait(child, SOON_MS) || child->exit_code != 0)
        native_fail(&setup->native, "a worker did not end with exit code 0");
    child_free(child);
}

static void setup_end(setup_t *setup) {
    native_end(&setup->native);
    cluster_end(&setup->cluster);
}

/* Adds `count` numbered jobs of one kind; `opts` are the options of Bull's add(), as JSON. */
static void produce(setup_t *setup, const char *kind, int count, const char *opts) {
    char *in = NULL, *more = NULL;
    size_t size;
    FILE *out = open_memstream(&in, &size);
    const char *env[8] = {setup->env[0]};
    for (int i = 0; i < count; i++) fprintf(out, "0 %s %d caf\xc3\xa9 \"quoted\" \\ {\"n\": 12345678901234567890}\n", kind, i);
    fclose(out);
    if (asprintf(&more, "QS_OPTS=%s", opts) > 0) env[1] = more;
    native_finish(&setup->native, (const char *const[]){"produce", "video", NULL}, env, in);
    free(more);
    free(in);
}

#define await_native(setup, cond)                                                                                                \
    do {                                                                                                                         \
        if (wait_for(cond, SOON_MS)) break;                                                                                      \
        char *log_ = daemon_log((setup)->sidecar);                                                                               \
        fprintf(stderr, "%s\n", log_);                                                                                           \
        native_fail(&(setup)->native, "timeout: " #cond);                                                                        \
    } while (0)

static long long rows(const setup_t *setup, const char *where) {
    char sql[256];
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM events WHERE %s", where);
    return audit_log_int(daemon_audit_path(setup->sidecar), sql);
}

/* Expects that workers took each job of this kind `times` times, always with the bytes that the producer wrote. */
static void expect_same_bytes(const setup_t *setup, const char *kind, int times) {
    native_lines_t all = native_lines(&setup->native);
    for (int i = 0; i < JOBS; i++) {
        char key[32];
        const char *made = NULL;
        int taken = 0;
        snprintf(key, sizeof(key), "%s-%d", kind, i);
        for (size_t k = 0; k < all.count; k++)
            if (strcmp(all.lines[k].key, key) == 0 && strcmp(all.lines[k].word, "produced") == 0)
                made = strchr(all.lines[k].detail, ' ') + 1;
        for (size_t k = 0; k < all.count; k++) {
            if (strcmp(all.lines[k].key, key) != 0 || strcmp(all.lines[k].word, "taken") != 0) continue;
            taken++;
            cr_expect(made && strcmp(all.lines[k].detail, made) == 0, "a worker took %s with other bytes", key);
        }
        cr_expect_eq(taken, times, "%s was taken %d times", key, taken);
    }
    native_free_lines(&all);
}

/* Fails each job once, then requeues all of them: while they are in `failed`, or after Bull removed them (gone). Returns how many
 * were requeued. */
static long long requeue_all(const char *version, bool gone) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, "");
    child_t *one = worker(&setup);
    produce(&setup, "flaky", JOBS, "{}");
    await_native(&setup, rows(&setup, "kind = 'failed'") == JOBS);
    cr_expect_eq(rows(&setup, "reason = 'worker_failed' AND attempts = 1 AND error LIKE 'not yet%' AND json_valid(payload)"),
                 JOBS);
    cr_expect_eq(rows(&setup, "payload LIKE '%12345678901234567890%'"), JOBS);
    /* A worker prints "failed" after Redis has the failure. */
    await_native(&setup, native_count(&setup.native, "failed", NULL) == JOBS);
    if (gone)
        redis_ok(setup.cluster.r, "EVAL %s 1 " BULL "failed",
                 "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('DEL', 'bull:video:' .. id) end "
                 "redis.call('DEL', KEYS[1], 'bull:video:id')");
    const daemon_output_t *done = cli(setup.sidecar, "requeue", "--where", "-q", "video", "--yes", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == JOBS);
    expect_same_bytes(&setup, "flaky", 2);
    cr_expect_eq(redis_int(setup.cluster.r, "EXISTS " BULL "failed"), 0);
    cr_expect_eq(redis_int(setup.cluster.r, "ZCARD " BULL "completed"), JOBS);
    await_native(&setup, rows(&setup, "kind = 'requeued'") == JOBS);
    const daemon_output_t *again = cli(setup.sidecar, "requeue", "--where", "-q", "video", "--yes", "--again");
    cr_expect(has(again->out, "it is no longer failed") || has(again->err, "it is no longer failed"), "%s%s", again->out,
              again->err);
    produce(&setup, "ok", JOBS, "{}"); /* new jobs get new ids */
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 2 * JOBS);
    long long back = rows(&setup, "kind = 'requeued'");
    stop(&setup, one);
    return back;
}

Test(daemon_bull, requeues_failed_jobs_4_10) { cr_assert_eq(requeue_all("QS_BULL=4.10.4", false), JOBS); }
Test(daemon_bull, requeues_failed_jobs_4_16) { cr_assert_eq(requeue_all("QS_BULL=4.16.5", false), JOBS); }
Test(daemon_bull, requeues_jobs_that_bull_removed_4_10) { cr_assert_eq(requeue_all("QS_BULL=4.10.4", true), JOBS); }
Test(daemon_bull, requeues_jobs_that_bull_removed_4_16) { cr_assert_eq(requeue_all("QS_BULL=4.16.5", true), JOBS); }

/* With removeOnFail: true only the message of a failure is left. Returns how many failures were recorded from messages. */
static long long record_removed(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, "");
    child_t *one = worker(&setup);
    produce(&setup, "poison", JOBS, "{\"removeOnFail\":true}");
    await_native(&setup, rows(&setup, "kind = 'failed'") == JOBS);
    long long recorded = rows(&setup, "reason = 'worker_failed' AND error LIKE '%poison%' AND payload = ''");
    cr_expect_eq(redis_int(setup.cluster.r, "EXISTS " BULL "failed"), 0);
    const daemon_output_t *done = cli(setup.sidecar, "requeue", "--where", "-q", "video", "--yes");
    cr_expect(has(done->out, "the log does not have its payload") || has(done->err, "the log does not have its payload"), "%s%s",
              done->out, done->err);
    stop(&setup, one);
    return recorded;
}

Test(daemon_bull, records_jobs_removed_on_fail_4_10) { cr_assert_eq(record_removed("QS_BULL=4.10.4"), JOBS); }
Test(daemon_bull, records_jobs_removed_on_fail_4_16) { cr_assert_eq(record_removed("QS_BULL=4.16.5"), JOBS); }

/* Bull's workers retry jobs with a backoff; workers and sidecars promote them. Each final failure has one record, also after the
 * leader dies. Returns the number of records. */
static long long promote_by_both(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, "");
    daemon_t *other = setup_add_sidecar(&setup, "");
    child_t *one = worker(&setup), *two = worker(&setup);
    produce(&setup, "poison", JOBS, "{\"attempts\":3,\"backoff\":150,\"delay\":100}");
    produce(&setup, "flaky", JOBS, "{\"attempts\":3,\"backoff\":{\"type\":\"exponential\",\"delay\":50},\"priority\":2}");
    daemon_t *leader = cluster_await_leader(&setup.cluster, "g", NULL, SOON_MS);
    if (leader == setup.sidecar) setup.sidecar = other;
    daemon_kill(leader);
    await_native(&setup, rows(&setup, "kind = 'failed'") == JOBS);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == JOBS);
    long long recorded = rows(&setup, "kind = 'failed' AND reason = 'worker_failed' AND attempts = 3");
    expect_same_bytes(&setup, "poison", 3);
    expect_same_bytes(&setup, "flaky", 2);
    stop(&setup, one);
    stop(&setup, two);
    return recorded;
}

Test(daemon_bull, records_each_failure_once_when_both_promote_4_10) { cr_assert_eq(promote_by_both("QS_BULL=4.10.4"), JOBS); }
Test(daemon_bull, records_each_failure_once_when_both_promote_4_16) { cr_assert_eq(promote_by_both("QS_BULL=4.16.5"), JOBS); }

/* While a sidecar leads, workers skip their stalled check. Returns how many stalled jobs the workers found. */
static int skip_check(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, "");
    child_t *dies = worker(&setup), *lives = NULL;
    produce(&setup, "hang", 1, "{}");
    await_native(&setup, native_count(&setup.native, "hangs", NULL) == 1);
    lives = worker(&setup);
    child_kill(dies);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 1);
    if (!wait_for(cluster_says(setup.sidecar, "\"queue\":\"video\"", "retried a job"), SOON_MS))
        cluster_fail(&setup.cluster, "no sidecar retried the job");
    redis_expect(setup.cluster.r, "sidecar", "GET " BULL "stalled-check");
    child_free(dies);
    stop(&setup, lives);
    return native_count(&setup.native, "stalled", NULL);
}

Test(daemon_bull, workers_skip_the_stalled_check_4_10) {
    cr_assert_eq(skip_check("QS_BULL=4.10.4"), 0, "a worker did the stalled check");
}
Test(daemon_bull, workers_skip_the_stalled_check_4_16) {
    cr_assert_eq(skip_check("QS_BULL=4.16.5"), 0, "a worker did the stalled check");
}

enum { HANGING = 4 };

/* After the only sidecar was killed or terminated, workers do the stalled check again. Returns how many stalled jobs it found. */
static int resume_check(const char *version, bool killed) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, "");
    child_t *dies = worker(&setup), *lives = worker(&setup);
    await_native(&setup, redis_int(setup.cluster.r, "EXISTS " BULL "stalled-check") == 1);
    if (killed)
        daemon_kill(setup.sidecar);
    else
        cr_expect_eq(daemon_terminate(setup.sidecar, SOON_MS).code, 0);
    produce(&setup, "hang", HANGING, "{}"); /* one worker takes all of them, or each takes some */
    await_native(&setup, native_count(&setup.native, "hangs", NULL) == HANGING);
    child_kill(dies);
    child_kill(lives);
    child_free(lives);
    child_free(dies);
    lives = worker(&setup);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == HANGING);
    stop(&setup, lives);
    return native_count(&setup.native, "stalled", NULL);
}

Test(daemon_bull, workers_resume_the_check_after_kill_4_10) { cr_assert_eq(resume_check("QS_BULL=4.10.4", true), HANGING); }
Test(daemon_bull, workers_resume_the_check_after_kill_4_16) { cr_assert_eq(resume_check("QS_BULL=4.16.5", true), HANGING); }
Test(daemon_bull, workers_resume_the_check_after_sigterm_4_16) { cr_assert_eq(resume_check("QS_BULL=4.16.5", false), HANGING); }

/* ---- Least privilege: only the rights that docs/acl.md publishes. */

/* A sidecar with the rights of docs/acl.md promotes jobs, retries and ends jobs of dead workers, and records failures; an
 * operator requeues them. Returns how many commands Redis refused. */
static size_t least_privilege(const char *version) {
    scoped(setup_end) setup_t setup = {.cluster = cluster_begin(&(server_options_t){.tcp = true}),
                                       .env = {version, "QS_STALLED_MS=600000", "QS_LOCK_MS=1000"}};
    redis_t *r = setup.cluster.r;
    char queue[256];
    scoped(rights_free) rights_t rights = rights_read("bull");
    rights_leave_out(&rights, "~email"); /* this test has no queue `email` */
    rights_grant(r, &rights, NULL);
    setup.native = native_begin("bull", setup.cluster.server);
    snprintf(queue, sizeof(queue), VIDEO, "max_stalled = 1;");
    setup.sidecar = cluster_sidecar_up(&setup.cluster, (sidecar_t){.queues = queue, .redis = RIGHTS_LOGIN});
    produce(&setup, "ok", JOBS, "{\"delay\":100}"); /* no worker runs, so the sidecar must promote these */
    produce(&setup, "slow", JOBS, "{\"delay\":100,\"priority\":3}");
    await_native(&setup, redis_int(r, "LLEN " BULL "wait") == 2 * JOBS);
    child_t *dies = worker(&setup);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 2 * JOBS);
    produce(&setup, "flaky", JOBS, "{}");
    await_native(&setup, rows(&setup, "reason = 'worker_failed'") == JOBS);
    produce(&setup, "hang", 1, "{}");
    await_native(&setup, native_count(&setup.native, "hangs", NULL) == 1);
    child_kill(dies);
    child_free(dies);
    await_native(&setup, rows(&setup, "kind = 'retried' AND reason = 'stalled'") == 1);
    redis_ok(r, "RPOPLPUSH " BULL "wait " BULL "active"); /* as if a second worker took the job and died */
    await_native(&setup, rows(&setup, "reason = 'retries_exhausted'") == 1);
    const daemon_output_t *done = cli(setup.sidecar, "requeue", "--where", "-q", "video", "--yes", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
    child_t *lives = worker(&setup);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 3 * JOBS + 1);
    stop(&setup, lives);
    size_t refused = rights_refused(r);
    cr_expect_eq(daemon_log_count(setup.sidecar, "\"level\":\"error\""), 0);
    return refused;
}

Test(daemon_bull, least_privilege_4_10) { cr_assert_eq(least_privilege("QS_BULL=4.10.4"), 0); }
Test(daemon_bull, least_privilege_4_16) { cr_assert_eq(least_privilege("QS_BULL=4.16.5"), 0); }
