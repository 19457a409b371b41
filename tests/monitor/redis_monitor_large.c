/* Jobs that together are too large for the monitor's memory, and reports that take Redis long. */
#include "monitor_fixture.h"

enum { JOBS = 6, LARGE = 3000000, HOUR_MS = 3600 * 1000 };

static setup_t d;
SUITE(redis_monitor_large, , close_setup(&d));

/* A new leader does not know the sizes of jobs: its first scan has no memory for most of them, and the next scan begins at
 * once. */
Test(redis_monitor_large, a_job_without_room_in_memory_is_settled_by_the_next_scan, .timeout = 120) {
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 1;"), .preload = "shim_clock"});
    char *job = kept(calloc(1, LARGE));
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
}

/* Redis needs some 60 ms to read a report of this size. Other clients wait meanwhile. */
Test(redis_monitor_large, a_large_report_is_read_rarely_while_its_job_cannot_end) {
    enum { REPORT = 16 << 20, PAUSE_MS = 16 * 1024 };
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 1;")});
    char *text = kept(malloc(REPORT));
    memset(text, '!', REPORT);
    redis_ok(d.f.r, "HSET sidecar:email:meta bytes 268435456"); /* the stream is full */
    work_on(&d, "a");
    until(&d, count(&d, "HLEN sidecar:email:stamps") == 1);
    redis_ok(d.f.r, "HSET email:errors a %b", text, (size_t)REPORT);
    until(&d, metric_get(&of(&d)->ends_held) == 1);
    redis_ok(d.f.r, "CONFIG RESETSTAT");
    passes(&d, 5);
    cr_assert_eq(server_commandstat(d.f.server, "hscan"), 0);
    cr_assert_eq(metric_get(&of(&d)->ends_held), 1);
    work_on(&d, "b");
    until(&d, waiting(&d, "b"));
    cr_assert_eq(server_commandstat(d.f.server, "hscan"), 0);
    fixture_step_boottime(PAUSE_MS);
    until(&d, metric_get(&of(&d)->ends_held) == 2);
    redis_ok(d.f.r, "HSET sidecar:email:meta bytes 0");
    fixture_step_boottime(PAUSE_MS);
    until(&d, !working(&d, "a"));
    cr_assert_eq(count(&d, "HLEN email:errors"), 0);
    work_on(&d, "c");
    redis_ok(d.f.r, "HSET email:errors c now"); /* the large report is gone, so nothing delays the next one */
    until(&d, waiting(&d, "c"));
    expect_reason(&d, "retried", "reported 1 now");
}
