/* The monitor on every server: a stall, a retry, an end, a heartbeat, and reports that wake the monitor. */
#include "audit_log.h"
#include "cluster.h"
#include "every_server.h"

#define WATCHED                                                                                                                  \
    "{ name = \"fast\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"300ms\"; retry_times = 1; },"          \
    "{ name = \"beat\"; roles = [\"monitor\"]; id_path = \"/id\"; protected_timeout = \"100ms\"; }"
#define WOKEN "{ name = \"slow\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"1h\"; retry_times = 1; }"

#define await(cluster, cond)                                                                                                     \
    do {                                                                                                                         \
        if (!wait_for(cond, 15000)) cluster_fail(cluster, "still false: " #cond);                                                \
    } while (0)

static void take(cluster_t *s, const char *queue, const char *job) {
    redis_expect(s->r, job, "LMOVE %s %s:backup RIGHT LEFT", queue, queue);
}

static void a_dead_worker(cluster_t *s) {
    redis_ok(s->r, "LPUSH fast job");
    take(s, "fast", "job");
    await(s, redis_int(s->r, "LLEN fast") == 1);
    take(s, "fast", "job");
    await(s, redis_int(s->r, "XLEN sidecar:fast:failures") == 2);
    await(s, redis_int(s->r, "LLEN fast:backup") <= 1);
    cr_assert_eq(redis_int(s->r, "LLEN fast"), 0);
}

static void reports(cluster_t *s) {
    /* At once: a scan that sees one job alone is the last for an hour. */
    redis_ok(s->r, "LPUSH slow:backup one two");
    await(s, redis_int(s->r, "HLEN sidecar:slow:stamps") == 2);
    redis_ok(s->r, "HSET slow:errors one boom");
    await(s, redis_int(s->r, "LLEN slow") == 1);
    take(s, "slow", "one");
    redis_ok(s->r, "HSET slow:errors two !no");
    await(s, redis_int(s->r, "XLEN sidecar:slow:failures") == 2);
    redis_ok(s->r, "HSET slow:errors one again");
    await(s, redis_int(s->r, "XLEN sidecar:slow:failures") == 3);
    cr_assert_eq(redis_int(s->r, "EXISTS slow slow:errors"), 0);
}

#define JOB "{\"id\":7}"

static void heartbeats(cluster_t *s) {
    long long reads = server_commandstat(s->server, "getrange");
    redis_ok(s->r, "SET 7_alive someone");
    redis_ok(s->r, "LPUSH beat:backup %s", JOB);
    await(s, server_commandstat(s->server, "getrange") > reads);
    cr_assert_eq(redis_int(s->r, "LLEN beat"), 0);
    redis_ok(s->r, "DEL 7_alive");
    await(s, redis_int(s->r, "LLEN beat") == 1);
}

static long long rows(daemon_t *d, const char *where) {
    char *sql = kept_printf("SELECT count(*) FROM events WHERE %s", where);
    return audit_log_int(daemon_audit_path(d), sql);
}

ON_EVERY_SERVER(daemon_monitor_servers, stalls_end_as_they_should) {
    scoped(cluster_end) cluster_t s = cluster_begin(&(server_options_t){.binary = every_server_binary(*number)});
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = "20s", .queues = WATCHED, .scan = "50ms"});
    a_dead_worker(&s);
    heartbeats(&s);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1);
    cr_assert_eq(rows(d, "kind = 'failed' AND reason = 'retries_exhausted' AND queue = 'fast' AND attempts = 2"), 1);
    await(&s, rows(d, "kind = 'retried' AND worker = 'someone'") == 1);
    cr_assert_eq(daemon_log_count(d, "\"level\":\"error\""), 0);
}

/* The next scan without a wake-up would begin in an hour. */
ON_EVERY_SERVER(daemon_monitor_servers, reports_wake_the_monitor) {
    scoped(cluster_end) cluster_t s = cluster_begin(&(server_options_t){.binary = every_server_binary(*number)});
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = WOKEN, .scan = "1h"});
    reports(&s);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 2);
    cr_assert_eq(rows(d, "kind = 'failed' AND reason = 'reported' AND error = '!no'"), 1);
    cr_assert_eq(rows(d, "kind = 'failed' AND reason = 'reported' AND error = 'again' AND attempts = 2"), 1);
    cr_assert_eq(daemon_log_count(d, "\"level\":\"error\""), 0);
}
