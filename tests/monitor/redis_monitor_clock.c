/* Redis's clock is stepped, by minutes and by a year, while jobs are in progress. A failover to a server with another clock is
 * the same. */
#include "monitor_fixture.h"

static const int64_t STEPS[] = {INT64_C(300000), INT64_C(31536000000)}; /* five minutes, a year */
enum { STEP_COUNT = sizeof STEPS / sizeof *STEPS, MANY = 40 };

#define HEARTBEATS(settings)                                                                                                     \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; protected_timeout = \"100ms\"; "   \
    "retry_times = 1; heartbeat = \"*_alive\"; id_path = \"/id\"; " settings " } );"

static void open_stepped(setup_t *d, const char *config) {
    open_setup(d, (fixture_options_t){.preload = "shim_clock", .config = config});
}

/* The lock expires by a step forward, so the leader has a new term. */
static void step(setup_t *d, int64_t ms) {
    server_step_clock(d->f.server, ms);
    instance_lead(&d->instance, d->f.r);
}

static stamp_t stamp_in(setup_t *d, const char *job) { return stamp_of(d->f.r, slice_text(job)); }

static void take_again(setup_t *d, int jobs) {
    for (int i = 0; i < jobs; i++) redis_ok(d->f.r, "LMOVE email email:backup RIGHT LEFT");
}

/* Jobs that were seen while the clock was ahead, and jobs that come later, stall and end as all others. */
Test(redis_monitor_clock, a_clock_set_back_leaves_no_job_unwatched) {
    for (int i = 0; i < STEP_COUNT; i++) {
        setup_t d;
        open_stepped(&d, ALONE("retry_times = 1;"));
        step(&d, STEPS[i]);
        work_on(&d, "ahead");
        until(&d, stamp_in(&d, "ahead").seen);
        step(&d, -STEPS[i]);
        work_on(&d, "later");
        until(&d, waiting(&d, "ahead") && waiting(&d, "later"));
        cr_assert_leq(stamp_in(&d, "ahead").retried_at, redis_ms(d.f.r));
        take_again(&d, 2);
        until(&d, records(&d) == 4);
        expect_reason(&d, "failed", "retries_exhausted 2 -");
        cr_assert_eq(count(&d, "LLEN email"), 0);
        close_setup(&d);
    }
}

/* A retry while the clock was ahead still counts. retry_window runs from the step, also for a job that does not come back. */
Test(redis_monitor_clock, a_clock_set_back_keeps_the_count_of_retries) {
    for (int i = 0; i < STEP_COUNT; i++) {
        setup_t d;
        open_stepped(&d, ALONE("retry_times = 1; retry_window = \"1s\";"));
        step(&d, STEPS[i]);
        work_on(&d, "again"); /* began first, so the next worker takes it */
        work_on(&d, "done");
        until(&d, waiting(&d, "again") && waiting(&d, "done"));
        step(&d, -STEPS[i]);
        take_again(&d, 1);
        cr_assert_eq(working(&d, "again"), 1);
        until(&d, records(&d) == 3);
        expect_reason(&d, "failed", "retries_exhausted 2 -");
        redis_ok(d.f.r, "DEL email");
        until(&d, stamp_in(&d, "done").retried_at <= redis_ms(d.f.r));
        cr_assert_eq(stamp_in(&d, "done").retries, 1);
        close_setup(&d);
    }
}

Test(redis_monitor_clock, a_lost_heartbeat_is_noticed_after_the_clock_is_set_back) {
    for (int i = 0; i < STEP_COUNT; i++) {
        static const char LOST[] = "{\"id\":1}", LIVING[] = "{\"id\":2}";
        setup_t d;
        open_stepped(&d, HEARTBEATS(""));
        redis_ok(d.f.r, "MSET 1_alive me 2_alive me");
        work_on(&d, LOST);
        work_on(&d, LIVING);
        until(&d, stamp_in(&d, LOST).seen && stamp_in(&d, LIVING).seen);
        stamp_t noted = stamp_in(&d, LOST);
        noted.missing = redis_ms(d.f.r) + STEPS[i]; /* a scan noted this while the clock was ahead */
        set_stamp(d.f.r, slice_text(LOST), noted);
        redis_ok(d.f.r, "DEL 1_alive");
        until(&d, waiting(&d, LOST));
        cr_assert_eq(working(&d, LIVING), 1);
        passes(&d, 3);
        step(&d, STEPS[i]); /* a heartbeat protects its job at any time */
        passes(&d, 3);
        step(&d, -STEPS[i]);
        passes(&d, 3);
        cr_assert_eq(working(&d, LIVING), 1);
        cr_assert_eq(records(&d), 1);
        close_setup(&d);
    }
}

/* Without `created_path` the age of a job begins when a scan first sees the job. */
Test(redis_monitor_clock, a_clock_set_back_keeps_the_alive_timeout) {
    for (int i = 0; i < STEP_COUNT; i++) {
        static const char AHEAD[] = "{\"id\":1}", LATER[] = "{\"id\":2}";
        setup_t d;
        open_stepped(&d, HEARTBEATS("alive_timeout = \"300ms\"; alive_kills = true;"));
        redis_ok(d.f.r, "MSET 1_alive me 2_alive me");
        redis_ok(d.f.r, "HSET sidecar:email:meta life %lld", (long long)(redis_ms(d.f.r) + STEPS[i]) * 1000); /* of 0.1.0 */
        step(&d, STEPS[i]);
        work_on(&d, AHEAD);
        until(&d, stamp_in(&d, AHEAD).seen);
        step(&d, -STEPS[i]);
        work_on(&d, LATER);
        long long came = redis_ms(d.f.r);
        until(&d, records(&d) == 2);
        cr_assert_geq(redis_ms(d.f.r) - came, 300, "a job was ended before its alive timeout");
        expect_reason(&d, "failed", "alive_timeout 1 -");
        cr_assert_eq(count(&d, "EXISTS email"), 0);
        close_setup(&d);
    }
}

/* By the new time every job in progress is overdue: each is retried, once, and none is lost. */
Test(redis_monitor_clock, a_step_forward_and_back_retries_each_job_once) {
    for (int i = 0; i < STEP_COUNT; i++) {
        setup_t d;
        open_stepped(&d, "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; heartbeat = "
                         "\"off\"; protected_timeout = \"4m\"; retry_times = 1; } );");
        for (int job = 0; job < MANY; job++) redis_ok(d.f.r, "LPUSH email:backup %d", job);
        until(&d, count(&d, "HLEN sidecar:email:stamps") == MANY);
        step(&d, STEPS[i]);
        until(&d, count(&d, "LLEN email") == MANY);
        step(&d, -STEPS[i]);
        take_again(&d, MANY);
        passes(&d, 3);
        cr_assert_eq(count(&d, "EXISTS email"), 0, "a job was retried again before its protected timeout");
        cr_assert_eq(records(&d), MANY);
        for (int job = 0; job < MANY; job++) {
            char text[16];
            snprintf(text, sizeof text, "%d", job);
            stamp_t stamp = stamp_in(&d, text);
            cr_assert(working(&d, text) == 1 && stamp.retries == 1 && stamp.seen && stamp.seen <= redis_ms(d.f.r), "%s", text);
        }
        close_setup(&d);
    }
}
