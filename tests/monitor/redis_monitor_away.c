/* Jobs that leave the backup list and come back: a worker hands its job back, or somebody renames the list for a while. */
#include "monitor_fixture.h"

#include <pthread.h>

#define WATCHED                                                                                                                  \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; protected_timeout = \"1h\"; "      \
    "heartbeat = \"off\"; retry_window = \"24h\"; retry_times = 1; } );"

enum { JOBS = 100, FINISHED = 30, HOUR_MS = 3600 * 1000 };

static stamp_t stamp_in(setup_t *d, const char *job) { return stamp_of(d->f.r, slice_text(job)); }

/* The scans of an empty list follow each other within milliseconds, so two of them prove little. */
Test(redis_monitor_away, a_job_that_comes_back_keeps_its_retries) {
    for (int others = 0; others < 2; others++) {
        for (int scans = 1; scans <= 3; scans++) {
            setup_t d;
            open_setup(&d, (fixture_options_t){.config = WATCHED});
            long long began = redis_ms(d.f.r);
            work_on(&d, "job");
            passes(&d, 1);
            set_stamp(d.f.r, slice_text("job"), (stamp_t){.born_us = 1, .seen = began, .retries = 1, .retried_at = began});
            passes(&d, 1);
            for (int i = 0; i < others; i++) work_on(&d, "another");
            redis_ok(d.f.r, "LREM email:backup 1 job");
            if (scans <= 2)
                passes(&d, scans);
            else
                driver_run(&d.instance.driver, 300);
            work_on(&d, "job");
            passes(&d, 2);
            stamp_t stamp = stamp_in(&d, "job");
            cr_expect_eq(stamp.retries, 1, "%d scans, %d other jobs", scans, others);
            cr_expect_eq(stamp.born_us, 1);
            cr_expect(scans < 3 || stamp.seen > began, "a new execution must begin");
            close_setup(&d);
        }
    }
}

/* While the reply with the first page is on its way, workers finish jobs, so the third page has the first jobs again. */
static void *finish_jobs(void *setup) {
    setup_t *d = setup;
    scoped(redis_drop) redis_t *r = redis_open(d->f.server);
    cr_assert(wait_for(proxy_fired(d->f.proxy) > 0, 8000));
    for (int job = JOBS - FINISHED; job < JOBS; job++) redis_ok(r, "LREM email:backup 1 job%d", job);
    proxy_pass(d->f.proxy);
    return NULL;
}

/* The stamp of the second observation is of the retry. It must not say that a worker has taken the job. */
Test(redis_monitor_away, a_job_that_a_scan_retries_and_sees_again_is_not_in_progress) {
    setup_t d;
    pthread_t worker;
    open_setup(&d, (fixture_options_t){.config = WATCHED, .proxy = true});
    long long now = redis_ms(d.f.r);
    for (int job = 0; job < JOBS; job++) {
        char name[16];
        snprintf(name, sizeof name, "job%d", job);
        set_stamp(d.f.r, slice_text(name), (stamp_t){.born_us = 1, .seen = job ? now : now - 2 * HOUR_MS});
        work_on(&d, name);
    }
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = "BRPOPLPUSH"});
    pthread_create(&worker, NULL, finish_jobs, &d);
    until(&d, waiting(&d, "job0"));
    pthread_join(worker, NULL);
    passes(&d, 1);
    cr_expect_eq(stamp_in(&d, "job0").seen, 0);
    driver_run(&d.instance.driver, 300);
    cr_expect_eq(stamp_in(&d, "job0").retries, 1);
    close_setup(&d);
}
