/* private_queues with real sidecars and a redis-py worker (tests/clients/private_queues): BLMOVE into a private list, LINDEX -1,
 * a set of finished ids, and a dead letter list. */
#include "audit_log.h"
#include "cluster.h"
#include "native.h"

#include <criterion/parameterized.h>
#include <signal.h>

#define FIGHTS(more)                                                                                                             \
    "{ name = \"fights\"; dialect = \"private_queues\"; main = \"fight-requests\"; private = \"queue-*\"; dlq = "                \
    "\"fights-dlq\"; "                                                                                                           \
    "dedup = \"fights-done\"; id_path = \"/id\"; roles = [\"monitor\"]; " more " }"

#define await(cluster, cond, ms)                                                                                                 \
    do {                                                                                                                         \
        if (!wait_for(cond, ms)) cluster_fail(cluster, "still false: " #cond);                                                   \
    } while (0)

static child_t *worker(const native_t *native, const char *name) { return native_run(native, "work", name); }

static void produce(const native_t *native, const char *lines) {
    native_finish(native, (const char *const[]){"produce", NULL}, NULL, lines);
}

/* Appends to *text one line for the producer for each number from `from` to `to` - 1. */
static void add(char **text, const char *kind, int from, int to) {
    for (int i = from; i < to; i++) {
        char *longer = NULL;
        cr_assert_gt(asprintf(&longer, "%s0 %s %d caf\xc3\xa9 \"quoted\" \\ 12345678901234567890\n", *text ? *text : "", kind, i),
                     0);
        free(*text);
        *text = longer;
    }
}

static cluster_t s;
SUITE_WITHIN(120, daemon_private, s = cluster_begin(&(server_options_t){.tcp = true}), cluster_end(&s));

Test(daemon_private, jobs_of_workers_that_die_are_done_by_others) {
    enum { OK = 200, DIE = 4, FLAKY = 5, POISON = 3 };
    scoped(native_end) native_t native = native_begin("private_queues", s.server);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = FIGHTS("protected_timeout = \"3s\";"), .scan = "50ms"});
    char *lines = NULL, name[16];
    add(&lines, "ok", 0, OK);
    add(&lines, "die", 0, DIE);
    add(&lines, "flaky", 0, FLAKY);
    add(&lines, "poison", 0, POISON);
    produce(&native, lines);
    child_t *workers[DIE + 1];
    for (int i = 0; i <= DIE; i++) { /* one worker more than deaths */
        snprintf(name, sizeof name, "w%d", i);
        workers[i] = worker(&native, name);
    }
    await(&s, native_count(&native, "finished", NULL) + native_count(&native, "duplicate", NULL) >= OK + DIE + FLAKY, 60000);
    await(&s, native_count(&native, "dead", NULL) == POISON, 30000);
    await(&s, audit_log_rows(daemon_audit_path(d)) >= POISON, 30000);
    for (int i = 0; i < DIE; i++) {
        snprintf(name, sizeof name, "die-%d", i);
        cr_expect_geq(native_count(&native, "done", name), 1, "%s is lost", name);
    }
    cr_expect_eq(redis_int(s.r, "LLEN fights-dlq"), POISON);
    cr_expect_eq(redis_int(s.r, "SCARD fights-done"), OK + DIE + FLAKY);
    for (int i = 0; i <= DIE; i++) {
        child_signal(workers[i], SIGTERM);
        child_wait(workers[i], 10000);
        child_free(workers[i]);
    }
    await(&s, redis_int(s.r, "EXISTS fight-requests queue-w0 queue-w1 queue-w2 queue-w3 queue-w4") == 0, 10000);
    cr_expect_eq(redis_int(s.r, "XLEN sidecar:fights:failures"), POISON + DIE, "each job of a dead worker must be retried once");
    free(lines);
}

/* With heartbeats a slow worker keeps its job past the protected timeout. */
Test(daemon_private, a_heartbeat_protects_a_slow_worker) {
    scoped(native_end) native_t native = native_begin("private_queues", s.server);
    cluster_sidecar_up(
        &s, (sidecar_t){.queues = FIGHTS("heartbeat = \"fights:*_alive\"; protected_timeout = \"200ms\";"), .scan = "500ms"});
    produce(&native, "0 wait 1 slow\n");
    child_t *slow =
        native_start(&native, (const char *const[]){"work", "slow", NULL}, (const char *const[]){"QS_BEAT_MS=300", NULL}, NULL);
    await(&s, native_count(&native, "taken", NULL) == 1, 30000);
    cr_assert(cluster_stays(redis_int(s.r, "LLEN queue-slow") == 1 && redis_int(s.r, "EXISTS fight-requests") == 0, 2500));
    child_kill(slow);
    child_free(slow);
    await(&s, redis_int(s.r, "LLEN fight-requests") == 1, 30000);
}

static const char *const POINTS[] = {"stamp_before", "stamp_answered", "settle_before", "settle_sent", "settle_answered"};
enum { POINT_COUNT = sizeof POINTS / sizeof *POINTS };

ParameterizedTestParameters(daemon_private, crash_points) {
    static int numbers[POINT_COUNT];
    for (int i = 0; i < POINT_COUNT; i++) numbers[i] = i;
    return cr_make_param_array(int, numbers, POINT_COUNT);
}

/* The sidecar dies at each failpoint. The next sidecar continues: no job is lost or doubled. */
ParameterizedTest(int *number, daemon_private, crash_points) {
    static const char QUEUE[] = FIGHTS("protected_timeout = \"100ms\"; retry_times = 1;");
    const sidecar_t spec = {.queues = QUEUE, .scan = "50ms"};
    redis_ok(s.r, "LPUSH queue-w1 one");
    redis_ok(s.r, "LPUSH queue-w2 two");
    cr_assert_eq(cluster_crash(&s, spec, POINTS[*number]), 137, "%s is never reached", POINTS[*number]);
    cluster_sidecar_up(&s, spec);
    await(&s, redis_int(s.r, "EXISTS queue-w1 queue-w2") == 0, 10000);
    cr_assert_eq(redis_int(s.r, "LLEN fight-requests"), 2, "%s", POINTS[*number]);
    cr_assert_eq(redis_int(s.r, "XLEN sidecar:fights:failures"), 2, "%s", POINTS[*number]);
    for (int i = 0; i < 2; i++)
        redis_ok(s.r, "LMOVE fight-requests queue-w3 RIGHT LEFT"); /* a second worker dies with both jobs */
    await(&s, redis_int(s.r, "LLEN fights-dlq") == 2, 10000);
    cr_assert_eq(redis_int(s.r, "EXISTS queue-w3 fight-requests"), 0);
    cr_assert(cluster_stays(redis_int(s.r, "XLEN sidecar:fights:failures") == 4, 500),
              "the sidecar's own dead letters must not get a second record");
}

/* `audit requeue` pushes the job to the left of main, so workers take it last. */
Test(daemon_private, requeues_a_dead_letter) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = FIGHTS("protected_timeout = \"1h\";"), .scan = "50ms"});
    redis_ok(s.r, "LPUSH fights-dlq %s", "{\"id\":\"a1\"}");
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1, 10000);
    redis_ok(s.r, "LPUSH fight-requests waits");
    const daemon_output_t *out = daemon_run("audit", "requeue", "-c", daemon_config_path(d), "--db", daemon_audit_path(d),
                                            "--where", "-q", "fights", "--yes", "--by", "ann");
    cr_assert_eq(out->code, 0, "%s%s", out->out, out->err);
    redis_expect(s.r, "{\"id\":\"a1\"}", "LINDEX fight-requests 0");
    cr_assert_eq(redis_int(s.r, "LLEN fight-requests"), 2);
    cr_assert_eq(redis_int(s.r, "LLEN fights-dlq"), 0, "the requeued job must leave dlq");
}
