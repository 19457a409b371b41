/* A queue of which only a dead letter list is watched, with real sidecars: workers push what failed, and an operator requeues. */
#include "audit_log.h"
#include "cluster.h"
#include "daemon.h"
#include "kept.h"
#include "text.h"

#include <criterion/parameterized.h>

enum { MS = 30000 };
#define MAIL "{ name = \"mail\"; watch = \"mail:dead\"; backup = \"\"; roles = [\"monitor\"]; id_path = \"/id\"; }"

static cluster_t s;
SUITE_WITHIN(120, daemon_list_watch, s = cluster_begin(NULL), cluster_end(&s));

#define await(cond)                                                                                                              \
    do {                                                                                                                         \
        if (!wait_for(cond, MS)) cluster_fail(&s, "never came: " #cond);                                                         \
    } while (0)

static const sidecar_t SPEC = {.queues = MAIL, .scan = "50ms", .all_roles = true};

/* A worker pushes the jobs first .. first + count - 1. */
static void fail(int first, int count) {
    for (int i = first; i < first + count; i++) redis_ok(s.r, "LPUSH mail:dead {\"id\":\"j%d\"}", i);
}

static long long rows_of(const daemon_t *d, int job) {
    return audit_log_int(daemon_audit_path(d), kept_printf("SELECT count(*) FROM failed_jobs WHERE queue = 'mail' AND dialect = "
                                                           "'list' AND reason = 'dead_letter' AND job_id = 'j%d'",
                                                           job));
}

/* Leaders are killed, and end by SIGTERM, while dead letters come. One instance after the other starts again. */
Test(daemon_list_watch, each_dead_letter_has_one_row_over_restarts_and_new_leaders) {
    enum { EACH = 25, ROUNDS = 4 };
    daemon_t *d[2] = {cluster_sidecar_up(&s, SPEC), cluster_sidecar_up(&s, SPEC)};
    for (int round = 0; round < ROUNDS; round++) {
        daemon_t *leader = cluster_await_leader(&s, "g", NULL, MS);
        fail(round * EACH, EACH);
        if (round % 2 == 0) daemon_kill(leader);
        if (round % 2 == 1) cr_assert_eq(daemon_terminate(leader, MS).code, 0);
        daemon_restart(leader);
        for (int i = 0; i < 2; i++) await(audit_log_rows(daemon_audit_path(d[i])) == (round + 1) * EACH);
    }
    cr_assert(cluster_stays(redis_int(s.r, "XLEN sidecar:mail:failures") == ROUNDS * EACH, 500));
    for (int i = 0; i < 2; i++)
        for (int job = 0; job < ROUNDS * EACH; job++) cr_assert_eq(rows_of(d[i], job), 1, "job %d in log %d", job, i);
    cr_assert_eq(redis_int(s.r, "LLEN mail:dead"), ROUNDS * EACH, "dead letters stay in their list");
}

static const char *const POINTS[] = {"letters_before", "letters_sent", "letters_answered"};

ParameterizedTestParameters(daemon_list_watch, crash_points) {
    static int numbers[] = {0, 1, 2};
    return cr_make_param_array(int, numbers, 3);
}

ParameterizedTest(int *number, daemon_list_watch, crash_points) {
    fail(0, 5);
    cr_assert_eq(cluster_crash(&s, SPEC, POINTS[*number]), 137, "%s is never reached", POINTS[*number]);
    daemon_t *d = cluster_sidecar_up(&s, SPEC);
    fail(5, 1);
    await(audit_log_rows(daemon_audit_path(d)) == 6);
    for (int job = 0; job < 6; job++) cr_assert_eq(rows_of(d, job), 1, "job %d, %s", job, POINTS[*number]);
}

static void requeue(const daemon_t *d, const char *job, const char *to) {
    char *ref = audit_log_word(daemon_audit_path(d), kept_printf("SELECT ref FROM failed_jobs WHERE job_id = '%s'", job));
    const daemon_output_t *out = daemon_run("audit", "requeue", "-c", daemon_config_path(d), "--db", daemon_audit_path(d), ref,
                                            "--yes", "--by", "ann", to ? "--to" : NULL, to);
    cr_assert_eq(out->code, 0, "%s%s", out->out, out->err);
}

Test(daemon_list_watch, a_requeue_puts_one_job_back_and_removes_it_from_the_list) {
    daemon_t *d = cluster_sidecar_up(
        &s, (sidecar_t){.queues = MAIL ", { name = \"other\"; heartbeat = \"off\"; }", .scan = "50ms", .all_roles = true});
    fail(0, 3);
    await(audit_log_rows(daemon_audit_path(d)) == 3);
    redis_ok(s.r, "LPUSH mail waits");
    requeue(d, "j1", NULL);
    redis_expect(s.r, "{\"id\":\"j1\"}", "LINDEX mail 0"); /* taken last */
    cr_assert_eq(redis_int(s.r, "LLEN mail"), 2);
    requeue(d, "j2", "other");
    redis_expect(s.r, "{\"id\":\"j2\"}", "LINDEX other 0");
    redis_expect(s.r, "{\"id\":\"j0\"}", "LINDEX mail:dead 0");
    cr_assert_eq(redis_int(s.r, "LLEN mail:dead"), 1);
    cr_assert(cluster_stays(audit_log_rows(daemon_audit_path(d)) == 3, 500), "a requeue is no new failure");
}

/* `check --redis` names the key. The sidecar holds the queue, and records the entries when the key is mended. */
Test(daemon_list_watch, a_key_of_the_wrong_type_holds_the_queue) {
    redis_ok(s.r, "ZADD mail:dead 1 x");
    daemon_t *d = cluster_sidecar_up(&s, SPEC);
    const daemon_output_t *out = daemon_run("check", "--redis", "-c", daemon_config_path(d));
    cr_assert_eq(out->code, 1);
    cr_assert(has(out->err, "queue \"mail\": watch key \"mail:dead\" holds a zset where a list is wanted"), "%s", out->err);
    await(daemon_log_count(d, "mail:dead") > 0);
    redis_ok(s.r, "DEL mail:dead");
    fail(0, 1);
    await(audit_log_rows(daemon_audit_path(d)) == 1);
}

/* The sample works as it is. */
Test(daemon_list_watch, check_of_the_sample_tells_no_commands) {
    const daemon_output_t *out = daemon_run("check", "-c", "conf/watch.cfg");
    cr_assert_eq(out->code, 0, "%s", out->err);
    cr_assert_str_empty(out->err);
    cr_assert(!has(out->out, "workers take") && has(out->out, "watch             = \"mail:dead\";"), "%s", out->out);
}
