/* Dialect stream with real sidecars: failpoints, requeue, and what the commands show. */
#include "audit_log.h"
#include "cluster.h"
#include "suite.h"

#include <criterion/parameterized.h>

#define MAIL(more) "{ name = \"mail\"; dialect = \"stream\"; group = \"workers\"; dlq = \"mail:dead\"; " more " }"

#define await(cluster, cond, ms)                                                                                                 \
    do {                                                                                                                         \
        if (!wait_for(cond, ms)) cluster_fail(cluster, "still false: " #cond);                                                   \
    } while (0)

static cluster_t s;
SUITE_WITHIN(120, daemon_groups, s = cluster_begin(NULL), cluster_end(&s));

static void make_group(void) { redis_ok(s.r, "XGROUP CREATE mail workers 0 MKSTREAM"); }

static long long take(const char *consumer) {
    return redis_int(s.r, "EVAL %s 1 mail %s",
                     "local got = redis.call('XREADGROUP', 'GROUP', 'workers', ARGV[1], 'STREAMS', KEYS[1], '>') "
                     "return got and #got[1][2] or 0",
                     consumer);
}

static long long pending(void) {
    return redis_int(s.r, "EVAL %s 1 mail", "return redis.call('XPENDING', KEYS[1], 'workers')[1]");
}

static const char *const POINTS[] = {"settle_before", "settle_sent", "settle_answered"};
enum { POINT_COUNT = sizeof POINTS / sizeof *POINTS };

ParameterizedTestParameters(daemon_groups, crash_points) {
    static int numbers[POINT_COUNT];
    for (int i = 0; i < POINT_COUNT; i++) numbers[i] = i;
    return cr_make_param_array(int, numbers, POINT_COUNT);
}

/* The sidecar dies at each failpoint. The next sidecar continues: no job is lost or doubled. */
ParameterizedTest(int *number, daemon_groups, crash_points) {
    const sidecar_t spec = {.queues = MAIL("protected_timeout = \"100ms\"; retry_times = 1;"), .scan = "50ms", .all_roles = true};
    make_group();
    redis_ok(s.r, "XADD mail * data one");
    redis_ok(s.r, "XADD mail * data two");
    cr_assert_eq(take("w1"), 2);
    cr_assert_eq(cluster_crash(&s, spec, POINTS[*number]), 137, "%s is never reached", POINTS[*number]);
    daemon_t *d = cluster_sidecar_up(&s, spec);
    await(&s, pending() == 0, 20000);
    cr_assert_eq(redis_int(s.r, "XLEN mail"), 2, "%s", POINTS[*number]);
    cr_assert_eq(take("w2"), 2); /* another consumer dies with both */
    await(&s, redis_int(s.r, "XLEN mail:dead") == 2, 20000);
    cr_assert_eq(redis_int(s.r, "XLEN mail"), 0);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 2, 20000);
}

/* The same with the heartbeat's stamps. */
static const char *const STAMP_POINTS[] = {"stamp_before", "stamp_answered"};
ParameterizedTestParameters(daemon_groups, crash_points_of_stamps) {
    static int numbers[2] = {0, 1};
    return cr_make_param_array(int, numbers, 2);
}
ParameterizedTest(int *number, daemon_groups, crash_points_of_stamps) {
    const sidecar_t spec = {.queues = MAIL("protected_timeout = \"100ms\"; retry_times = 1; heartbeat = \"alive:*\";"),
                            .scan = "50ms",
                            .all_roles = true};
    make_group();
    redis_ok(s.r, "XADD mail * data one");
    cr_assert_eq(take("w1"), 1);
    cr_assert_eq(cluster_crash(&s, spec, STAMP_POINTS[*number]), 137);
    cluster_sidecar_up(&s, spec);
    await(&s, pending() == 0 && redis_int(s.r, "XLEN mail") == 1, 20000);
}

/* An entry of several fields and of any bytes comes back as it was. */
Test(daemon_groups, requeues_a_failure_with_its_fields) {
    daemon_t *d = cluster_sidecar_up(
        &s, (sidecar_t){.queues = MAIL("protected_timeout = \"200ms\"; retry_times = 0;"), .scan = "50ms", .all_roles = true});
    make_group();
    redis_ok(s.r, "XADD mail * data job bytes %b", "\xff\0", (size_t)2);
    cr_assert_eq(take("w1"), 1);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1, 30000);
    const daemon_output_t *out = daemon_run("audit", "requeue", "-c", daemon_config_path(d), "--db", daemon_audit_path(d),
                                            "--where", "-q", "mail", "--yes", "--by", "ann");
    cr_assert_eq(out->code, 0, "%s%s", out->out, out->err);
    cr_assert_eq(redis_int(s.r, "EVAL %s 1 mail %b",
                           "local f = redis.call('XRANGE', KEYS[1], '-', '+')[1][2] return f[1] == 'data' and f[2] == 'job' and "
                           "f[4] == ARGV[1] and #f or 0",
                           "\xff\0", (size_t)2),
                 4);
    out = daemon_run("audit", "requeue", "-c", daemon_config_path(d), "--db", daemon_audit_path(d), "--where", "-q", "mail",
                     "--state", "failed,requeued", "--yes", "--by", "ann");
    cr_assert_eq(redis_int(s.r, "XLEN mail"), 1, "a failure is requeued once: %s%s", out->out, out->err);
}

/* A requeue would reach the other group, too; and a record of a deleted entry has nothing to requeue. */
Test(daemon_groups, refuses_a_requeue_that_cannot_work) {
    daemon_t *d = cluster_sidecar_up(
        &s, (sidecar_t){.queues = MAIL("protected_timeout = \"200ms\"; retry_times = 0;"), .scan = "50ms", .all_roles = true});
    make_group();
    redis_ok(s.r, "XADD mail * data job");
    cr_assert_eq(take("w1"), 1);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1, 30000);
    redis_ok(s.r, "XGROUP CREATE mail audit 0");
    const daemon_output_t *out = daemon_run("audit", "requeue", "-c", daemon_config_path(d), "--db", daemon_audit_path(d),
                                            "--where", "-q", "mail", "--yes", "--by", "ann");
    cr_assert_neq(out->code, 0);
    cr_assert_not_null(strstr(out->out, "has 2 groups") ? out->out : strstr(out->err, "has 2 groups"), "%s%s", out->out,
                       out->err);
    cr_assert_eq(redis_int(s.r, "XLEN mail"), 0);
    redis_ok(s.r, "XGROUP DESTROY mail audit");
    redis_ok(s.r, "XADD mail * data gone");
    cr_assert_eq(take("w1"), 1);
    redis_ok(s.r, "XTRIM mail MAXLEN 0");
    await(&s, audit_log_rows(daemon_audit_path(d)) == 2, 30000);
    out = daemon_run("audit", "requeue", "-c", daemon_config_path(d), "--db", daemon_audit_path(d), "--where", "-q", "mail",
                     "--reason", "unreadable", "--yes", "--by", "ann");
    cr_assert_eq(redis_int(s.r, "XLEN mail"), 0, "%s%s", out->out, out->err);
}

Test(daemon_groups, people_see_all_states) {
    daemon_t *d = cluster_sidecar_up(
        &s,
        (sidecar_t){.queues = MAIL("protected_timeout = \"1h\"; retry_window = \"24h\"; id_path = \"/id\";"), .all_roles = true});
    make_group();
    redis_ok(s.r, "ZADD mail:delayed 4000000000000 %s", "{\"id\":\"later\"}");
    redis_ok(s.r, "XADD mail * data %s", "{\"id\":\"running\"}");
    cr_assert_eq(take("w1"), 1);
    redis_ok(s.r, "XADD mail * data %s", "{\"id\":\"waits\"}");
    static const char *const rows[][3] = {{"delayed", "later", ""}, {"ready", "waits", ""}, {"in-progress", "running", "w1"}};
    for (size_t i = 0; i < 3; i++) {
        const daemon_output_t *out =
            daemon_run("jobs", "list", "-c", daemon_config_path(d), "mail", "--state", rows[i][0], "-o", "json");
        cr_assert_eq(out->code, 0, "%s%s", out->out, out->err);
        for (size_t k = 0; k < 3; k++) cr_expect_eq(strstr(out->out, rows[k][1]) != NULL, k == i, "%s: %s", rows[i][0], out->out);
        cr_expect_not_null(strstr(out->out, rows[i][2]));
    }
    const daemon_output_t *status = cluster_status(d, daemon_config_path(d));
    cr_expect_not_null(strstr(status->out, "\"ready\":1"), "%s", status->out);
    cr_expect_not_null(strstr(status->out, "\"in_progress\":1"), "%s", status->out);
    cr_expect_not_null(strstr(status->out, "\"delayed\":1"), "%s", status->out);
    const daemon_output_t *out = daemon_run("jobs", "run", "-c", daemon_config_path(d), "mail", "later");
    cr_assert_eq(out->code, 0, "%s%s", out->out, out->err);
    await(&s, redis_int(s.r, "XLEN mail") == 3, 20000);
}
