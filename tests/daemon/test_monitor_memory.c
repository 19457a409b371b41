/* What the monitor holds in memory follows the largest job, and not how many there are: it runs beside a worker in a pod of 64
 * MiB, and what kills it once would kill it again and again. */
#include "audit_log.h"
#include "scene.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"500ms\"; retry_times = 0; }"

enum { MIB = 1024 * 1024, LARGE = 4 * MIB, JOBS = 10, MOST_KIB = 48 * 1024, END_MS = 60000 };

/* The bytes of one job; owned. */
static char *large_job(int number) {
    char *job = malloc(LARGE);
    memset(job, 'x', LARGE);
    memcpy(job, &number, sizeof number);
    return job;
}

static void expect(scene_t *s, daemon_t *d, int rows, const char *when) {
    if (!wait_for(audit_log_rows(daemon_audit_path(d)) == rows, END_MS)) scene_fail(s, when);
    if (daemon_is_sanitized(d)) return;
    cr_assert_leq(daemon_peak_kib(d), MOST_KIB, "%s: %ld KiB", when, daemon_peak_kib(d));
}

Test(daemon_monitor_memory, is_bounded_however_many_large_jobs_stall_at_once, .timeout = 180) {
    scene_t s = scene_begin(NULL);
    for (int i = 0; i < JOBS; i++) {
        char *job = large_job(i);
        redis_ok(s.r, "LPUSH q:backup %b", job, (size_t)LARGE);
        free(job);
    }
    daemon_t *d = scene_sidecar_up(&s, (sidecar_t){.queues = QUEUE, .scan = "50ms"});
    expect(&s, d, JOBS, "they stall at once");
    scene_end(&s);
}
