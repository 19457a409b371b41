/* Jobs that together are too large for the monitor's memory. */
#include "monitor_fixture.h"

#include <stdlib.h>

enum { JOBS = 6, LARGE = 3000000, HOUR_MS = 3600 * 1000 };

/* A new leader does not know the sizes of jobs: its first scan has no memory for most of them, and the next scan begins at
 * once. */
Test(redis_monitor_large, a_job_without_room_in_memory_is_settled_by_the_next_scan, .timeout = 120) {
    setup_t d;
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 1;"), .preload = "shim_clock"});
    char *job = calloc(1, LARGE);
    for (int i = 0; i < JOBS; i++) {
        job[0] = (char)('a' + i);
        redis_ok(d.f.r, "LPUSH email:backup %b", job, (size_t)LARGE);
    }
    until(&d, count(&d, "HLEN sidecar:email:stamps") == JOBS);
    driver_settle(&d.instance.driver, d.f.r);
    server_step_clock(d.f.server, HOUR_MS + 1000);
    instance_stop(&d.instance);
    instance_start(&d.instance, d.f.keys, INSTANCE_MONITOR);
    instance_lead(&d.instance, d.f.r);
    until(&d, count(&d, "LLEN email") == JOBS);
    cr_assert_eq(count(&d, "LLEN email:backup"), 1, "backup must hold only the sentinel");
    cr_assert_eq(records(&d), JOBS);
    free(job);
    close_setup(&d);
}
