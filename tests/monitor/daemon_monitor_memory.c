/* The monitor's memory depends on the largest job, not on the number of jobs. Otherwise a pod with 64 MiB would be killed again
 * and again. */
#include "audit_log.h"
#include "cluster.h"

#define QUEUE(timeout)                                                                                                           \
    "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; retry_times = 0; protected_timeout = \"" timeout "\"; }"

/* A lease of 600 ms could end while a slow machine sends large jobs; then the scan begins anew. */
#define TTL "10s"

enum { MIB = 1024 * 1024, LARGE = 4 * MIB, JOBS = 10, MAX_KIB = 40 * 1024, END_MS = 60000 };

static cluster_t s;

/* Pushes a large job to backup, and adds a report; NULL = no report. */
static void work_on(int number, const char *report) {
    char *job = kept(malloc(LARGE));
    memset(job, 'x', LARGE);
    memcpy(job, &number, sizeof number);
    redis_ok(s.r, "LPUSH q:backup %b", job, (size_t)LARGE);
    if (report) redis_ok(s.r, "HSET q:errors %b %s", job, (size_t)LARGE, report);
}

static void expect(daemon_t *d, int rows, const char *when) {
    if (!wait_for(audit_log_rows(daemon_audit_path(d)) == rows, END_MS)) cluster_fail(&s, when);
    if (daemon_is_sanitized(d)) return;
    cr_assert_leq(daemon_peak_kib(d), MAX_KIB, "%s: %ld KiB", when, daemon_peak_kib(d));
}

SUITE(daemon_monitor_memory, s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_monitor_memory, is_bounded_however_many_large_jobs_stall_at_once, .timeout = 180) {
    for (int i = 0; i < JOBS; i++) work_on(i, NULL);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = TTL, .queues = QUEUE("500ms"), .scan = "50ms"});
    expect(d, JOBS, "jobs that stall at once");
}

Test(daemon_monitor_memory, is_bounded_however_many_large_jobs_are_reported_at_once, .timeout = 180) {
    for (int i = 0; i < JOBS; i++) work_on(i, "no");
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = TTL, .queues = QUEUE("1h"), .scan = "50ms"});
    expect(d, JOBS, "jobs that are reported at once");
}

/* For Bull the sidecar itself builds the record of a failed job. */
Test(daemon_monitor_memory, is_bounded_however_many_large_jobs_fail_in_bull_at_once, .timeout = 180) {
    daemon_t *d =
        cluster_sidecar_up(&s, (sidecar_t){.ttl = TTL, .queues = "{ name = \"q\"; dialect = \"bull\"; roles = [\"monitor\"]; }"});
    if (!wait_for(redis_int(s.r, "ZCARD sidecar:q:recorded") > 0, END_MS)) cluster_fail(&s, "the queue is not adopted");
    redis_ok(s.r, "EVAL %s 0 %d %d",
             "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) " /* older is found in a
                                                                                                           minute */
             "for i = 1, ARGV[1] do "
             "redis.call('HSET', 'bull:q:' .. i, 'name', 'n', 'data', '\"' .. string.rep('x', ARGV[2]) .. '\"', 'opts', '{}') "
             "redis.call('ZADD', 'bull:q:failed', now, i) end return 1",
             JOBS, LARGE);
    expect(d, JOBS, "Bull jobs that fail at once");
}
