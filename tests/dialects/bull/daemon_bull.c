/* Bull's own workers from npm, the oldest version that is served and the newest, with all of their own timers on, beside a real
 * sidecar: what they give up is recorded and can be put back, and the stalled check is done by one at a time. */
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
} election_t;

static daemon_t *more_sidecar(election_t *stand, const char *settings) {
    char queue[256];
    snprintf(queue, sizeof(queue), VIDEO, settings);
    return cluster_sidecar_up(&stand->cluster, (sidecar_t){.queues = queue});
}

static void stand_begin(election_t *stand, const char *version, const char *settings) {
    *stand = (election_t){.cluster = cluster_begin(&(server_options_t){.tcp = true}),
                          .env = {version, "QS_STALLED_MS=1000", "QS_LOCK_MS=1000"}};
    stand->native = native_begin("bull", stand->cluster.server);
    stand->sidecar = more_sidecar(stand, settings);
}

static child_t *worker(election_t *stand) {
    int ready = native_count(&stand->native, "ready", NULL);
    child_t *child = native_start(&stand->native, (const char *const[]){"work", "video", NULL}, stand->env, NULL);
    if (!wait_for(native_count(&stand->native, "ready", NULL) > ready, SOON_MS))
        native_fail(&stand->native, "a worker does not start");
    return child;
}

static void stop(election_t *stand, child_t *child) {
    child_signal(child, SIGTERM);
    if (!child_wait(child, SOON_MS) || child->exit_code != 0) native_fail(&stand->native, "a worker ended badly");
    child_free(child);
}

static void stand_end(election_t *stand) {
    native_end(&stand->native);
    cluster_end(&stand->cluster);
}

/* Jobs of one kind, numbered; the opts are those of add(), as JSON. */
static void produce(election_t *stand, const char *kind, int count, const char *opts) {
    char *in = NULL, *more = NULL;
    size_t size;
    FILE *out = open_memstream(&in, &size);
    const char *env[8] = {stand->env[0]};
    for (int i = 0; i < count; i++) fprintf(out, "0 %s %d caf\xc3\xa9 \"quoted\" \\ {\"n\": 12345678901234567890}\n", kind, i);
    fclose(out);
    if (asprintf(&more, "QS_OPTS=%s", opts) > 0) env[1] = more;
    native_finish(&stand->native, (const char *const[]){"produce", "video", NULL}, env, in);
    free(more);
    free(in);
}

#define await_native(stand, cond)                                                                                                \
    do {                                                                                                                         \
        if (wait_for(cond, SOON_MS)) break;                                                                                      \
        char *log_ = daemon_log((stand)->sidecar);                                                                               \
        fprintf(stderr, "%s\n", log_);                                                                                           \
        native_fail(&(stand)->native, "never came: " #cond);                                                                     \
    } while (0)

static long long rows(const election_t *stand, const char *where) {
    char sql[256];
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM events WHERE %s", where);
    return audit_log_int(daemon_audit_path(stand->sidecar), sql);
}

/* Of each job the hex of what its worker took, which is what its producer wrote, twice: before and after it was put back. */
static void expect_same_bytes(const election_t *stand, const char *kind, int times) {
    native_lines_t all = native_lines(&stand->native);
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
            cr_expect(made && strcmp(all.lines[k].detail, made) == 0, "%s came in other bytes", key);
        }
        cr_expect_eq(taken, times, "%s was taken %d times", key, taken);
    }
    native_free_lines(&all);
}

/* Fails each job once, and puts all of them back: as they stand in `failed`, or after Bull has removed them. How many were put
 * back, and done. */
static long long put_back(const char *version, bool gone) {
    election_t stand;
    stand_begin(&stand, version, "");
    child_t *one = worker(&stand);
    produce(&stand, "flaky", JOBS, "{}");
    await_native(&stand, rows(&stand, "kind = 'failed'") == JOBS);
    cr_expect_eq(rows(&stand, "reason = 'worker_failed' AND attempts = 1 AND error LIKE 'not yet%' AND json_valid(payload)"),
                 JOBS);
    cr_expect_eq(rows(&stand, "payload LIKE '%12345678901234567890%'"), JOBS);
    await_native(&stand, native_count(&stand.native, "failed", NULL) == JOBS); /* they say so when Redis has it */
    if (gone)
        redis_ok(stand.cluster.r, "EVAL %s 1 " BULL "failed",
                 "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('DEL', 'bull:video:' .. id) end "
                 "redis.call('DEL', KEYS[1], 'bull:video:id')");
    const daemon_output_t *done = cli(stand.sidecar, "requeue", "--where", "-q", "video", "--yes", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
    await_native(&stand, native_count(&stand.native, "finished", NULL) == JOBS);
    expect_same_bytes(&stand, "flaky", 2);
    cr_expect_eq(redis_int(stand.cluster.r, "EXISTS " BULL "failed"), 0);
    cr_expect_eq(redis_int(stand.cluster.r, "ZCARD " BULL "completed"), JOBS);
    await_native(&stand, rows(&stand, "kind = 'requeued'") == JOBS);
    const daemon_output_t *again = cli(stand.sidecar, "requeue", "--where", "-q", "video", "--yes", "--again");
    cr_expect(has(again->out, "it is no longer failed") || has(again->err, "it is no longer failed"), "%s%s", again->out,
              again->err);
    produce(&stand, "ok", JOBS, "{}"); /* and ids go on where they were */
    await_native(&stand, native_count(&stand.native, "finished", NULL) == 2 * JOBS);
    long long back = rows(&stand, "kind = 'requeued'");
    stop(&stand, one);
    stand_end(&stand);
    return back;
}

Test(daemon_bull, requeues_failed_jobs_4_10) { cr_assert_eq(put_back("QS_BULL=4.10.4", false), JOBS); }
Test(daemon_bull, requeues_failed_jobs_4_16) { cr_assert_eq(put_back("QS_BULL=4.16.5", false), JOBS); }
Test(daemon_bull, requeues_jobs_that_bull_removed_4_10) { cr_assert_eq(put_back("QS_BULL=4.10.4", true), JOBS); }
Test(daemon_bull, requeues_jobs_that_bull_removed_4_16) { cr_assert_eq(put_back("QS_BULL=4.16.5", true), JOBS); }

/* removeOnFail: true leaves nothing but the message. How many were recorded from it. */
static long long removed_on_fail(const char *version) {
    election_t stand;
    stand_begin(&stand, version, "");
    child_t *one = worker(&stand);
    produce(&stand, "poison", JOBS, "{\"removeOnFail\":true}");
    await_native(&stand, rows(&stand, "kind = 'failed'") == JOBS);
    long long recorded = rows(&stand, "reason = 'worker_failed' AND error LIKE '%poison%' AND payload = ''");
    cr_expect_eq(redis_int(stand.cluster.r, "EXISTS " BULL "failed"), 0);
    const daemon_output_t *done = cli(stand.sidecar, "requeue", "--where", "-q", "video", "--yes");
    cr_expect(has(done->out, "the log does not have its payload") || has(done->err, "the log does not have its payload"), "%s%s",
              done->out, done->err);
    stop(&stand, one);
    stand_end(&stand);
    return recorded;
}

Test(daemon_bull, removed_on_fail_4_10) { cr_assert_eq(removed_on_fail("QS_BULL=4.10.4"), JOBS); }
Test(daemon_bull, removed_on_fail_4_16) { cr_assert_eq(removed_on_fail("QS_BULL=4.16.5"), JOBS); }

/* Retries with a backoff are Bull's; both sides promote them. Each failure in the end is one record, whoever leads: how many
 * there are. */
static long long both_sides(const char *version) {
    election_t stand;
    stand_begin(&stand, version, "");
    daemon_t *other = more_sidecar(&stand, "");
    child_t *one = worker(&stand), *two = worker(&stand);
    produce(&stand, "poison", JOBS, "{\"attempts\":3,\"backoff\":150,\"delay\":100}");
    produce(&stand, "flaky", JOBS, "{\"attempts\":3,\"backoff\":{\"type\":\"exponential\",\"delay\":50},\"priority\":2}");
    daemon_t *leader = cluster_await_leader(&stand.cluster, "g", NULL, SOON_MS);
    if (leader == stand.sidecar) stand.sidecar = other;
    daemon_kill(leader);
    await_native(&stand, rows(&stand, "kind = 'failed'") == JOBS);
    await_native(&stand, native_count(&stand.native, "finished", NULL) == JOBS);
    long long recorded = rows(&stand, "kind = 'failed' AND reason = 'worker_failed' AND attempts = 3");
    expect_same_bytes(&stand, "poison", 3);
    expect_same_bytes(&stand, "flaky", 2);
    stop(&stand, one);
    stop(&stand, two);
    stand_end(&stand);
    return recorded;
}

Test(daemon_bull, both_sides_4_10) { cr_assert_eq(both_sides("QS_BULL=4.10.4"), JOBS); }
Test(daemon_bull, both_sides_4_16) { cr_assert_eq(both_sides("QS_BULL=4.16.5"), JOBS); }

/* While a sidecar leads the workers leave the stalled check to it: how many stalled jobs they found. */
static int hold(const char *version) {
    election_t stand;
    stand_begin(&stand, version, "");
    child_t *dies = worker(&stand), *lives = NULL;
    produce(&stand, "hang", 1, "{}");
    await_native(&stand, native_count(&stand.native, "hangs", NULL) == 1);
    lives = worker(&stand);
    child_kill(dies);
    await_native(&stand, native_count(&stand.native, "finished", NULL) == 1);
    if (!wait_for(cluster_says(stand.sidecar, "\"queue\":\"video\"", "retried a job"), SOON_MS))
        cluster_fail(&stand.cluster, "who gave it back?");
    redis_expect(stand.cluster.r, "sidecar", "GET " BULL "stalled-check");
    child_free(dies);
    stop(&stand, lives);
    int found = native_count(&stand.native, "stalled", NULL);
    stand_end(&stand);
    return found;
}

Test(daemon_bull, hold_4_10) { cr_assert_eq(hold("QS_BULL=4.10.4"), 0, "a worker has checked"); }
Test(daemon_bull, hold_4_16) { cr_assert_eq(hold("QS_BULL=4.16.5"), 0, "a worker has checked"); }

enum { HANGING = 4 };

/* When every sidecar is dead, or has ended, the workers go on by themselves: how many stalled jobs they found. */
static int resume(const char *version, bool killed) {
    election_t stand;
    stand_begin(&stand, version, "");
    child_t *dies = worker(&stand), *lives = worker(&stand);
    await_native(&stand, redis_int(stand.cluster.r, "EXISTS " BULL "stalled-check") == 1);
    if (killed)
        daemon_kill(stand.sidecar);
    else
        cr_expect_eq(daemon_terminate(stand.sidecar, SOON_MS).code, 0);
    produce(&stand, "hang", HANGING, "{}"); /* all that one worker takes at once, or both some */
    await_native(&stand, native_count(&stand.native, "hangs", NULL) == HANGING);
    child_kill(dies);
    child_kill(lives);
    child_free(lives);
    child_free(dies);
    lives = worker(&stand);
    await_native(&stand, native_count(&stand.native, "finished", NULL) == HANGING);
    stop(&stand, lives);
    int found = native_count(&stand.native, "stalled", NULL);
    stand_end(&stand);
    return found;
}

Test(daemon_bull, resume_after_a_kill_4_10) { cr_assert_eq(resume("QS_BULL=4.10.4", true), HANGING); }
Test(daemon_bull, resume_after_a_kill_4_16) { cr_assert_eq(resume("QS_BULL=4.16.5", true), HANGING); }
Test(daemon_bull, resume_after_an_orderly_end_4_16) { cr_assert_eq(resume("QS_BULL=4.16.5", false), HANGING); }

/* ---- Least privilege: what docs/acl.md publishes, and nothing else. */

/* Bull's own workers on keys of their own, and a sidecar that may do no more than docs/acl.md says: it promotes, gives a dead
 * worker's job back, ends one, records failures and puts them back. How often Redis has refused it something. */
static size_t least_privilege(const char *version) {
    election_t stand = {.cluster = cluster_begin(&(server_options_t){.tcp = true}),
                        .env = {version, "QS_STALLED_MS=600000", "QS_LOCK_MS=1000"}};
    redis_t *r = stand.cluster.r;
    char queue[256];
    rights_t rights = rights_read("bull");
    rights_leave_out(&rights, "~email"); /* a queue that is not served here */
    rights_grant(r, &rights, NULL);
    stand.native = native_begin("bull", stand.cluster.server);
    snprintf(queue, sizeof(queue), VIDEO, "max_stalled = 1;");
    stand.sidecar = cluster_sidecar_up(&stand.cluster, (sidecar_t){.queues = queue, .redis = RIGHTS_LOGIN});
    produce(&stand, "ok", JOBS, "{\"delay\":100}"); /* no worker runs: these are ours to promote */
    produce(&stand, "slow", JOBS, "{\"delay\":100,\"priority\":3}");
    await_native(&stand, redis_int(r, "LLEN " BULL "wait") == 2 * JOBS);
    child_t *dies = worker(&stand);
    await_native(&stand, native_count(&stand.native, "finished", NULL) == 2 * JOBS);
    produce(&stand, "flaky", JOBS, "{}");
    await_native(&stand, rows(&stand, "reason = 'worker_failed'") == JOBS);
    produce(&stand, "hang", 1, "{}");
    await_native(&stand, native_count(&stand.native, "hangs", NULL) == 1);
    child_kill(dies);
    child_free(dies);
    await_native(&stand, rows(&stand, "kind = 'retried' AND reason = 'stalled'") == 1);
    redis_ok(r, "RPOPLPUSH " BULL "wait " BULL "active"); /* and a second worker dies with it */
    await_native(&stand, rows(&stand, "reason = 'retries_exhausted'") == 1);
    const daemon_output_t *done = cli(stand.sidecar, "requeue", "--where", "-q", "video", "--yes", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
    child_t *lives = worker(&stand);
    await_native(&stand, native_count(&stand.native, "finished", NULL) == 3 * JOBS + 1);
    stop(&stand, lives);
    size_t refused = rights_refused(r);
    cr_expect_eq(daemon_log_count(stand.sidecar, "\"level\":\"error\""), 0);
    rights_free(&rights);
    stand_end(&stand);
    return refused;
}

Test(daemon_bull, least_privilege_4_10) { cr_assert_eq(least_privilege("QS_BULL=4.10.4"), 0); }
Test(daemon_bull, least_privilege_4_16) { cr_assert_eq(least_privilege("QS_BULL=4.16.5"), 0); }
