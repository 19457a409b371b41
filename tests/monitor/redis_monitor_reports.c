/* Reports of workers in a long backup list: jobs near an end of the list are settled without a rotation, other jobs by a scan. */
#include "monitor_fixture.h"

enum { SLOW_JOBS = 20000, REPORTS = 100 };

static long long rotated(setup_t *d) {
    return server_commandstat(d->f.server, "rpoplpush") + server_commandstat(d->f.server, "brpoplpush");
}

static setup_t d;

/* Runs until two scans have found the report without a job. The second begins after three times what the first took, which may be
 * half a minute on a busy machine. */
static void await_orphan(void) {
    long long read = -1;
    while (metric_get(&of(&d)->stray_reports) == 0) {
        long long before = read;
        bool found = driver_until(&d.instance.driver, metric_get(&of(&d)->stray_reports) == 1, 1000);
        read = rotated(&d) + server_commandstat(d.f.server, "lrange") + server_commandstat(d.f.server, "hscan");
        cr_assert(found || read > before || driver_until(&d.instance.driver, metric_get(&of(&d)->stray_reports) == 1, 120000),
                  "the scans stand still");
    }
}

/* Adds jobs to the list. Two scans, which an orphan report asks for, know all jobs and have found no duplicates. */
static void fill(int jobs) {
    redis_ok(d.f.r, "EVAL %s 1 email:backup %d", "for i = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], 'slow' .. i) end", jobs);
    long long all = count(&d, "HLEN sidecar:email:stamps") + jobs;
    redis_ok(d.f.r, "HSET email:errors orphan x");
    await_orphan();
    cr_assert_geq(count(&d, "HLEN sidecar:email:stamps"), all);
    driver_run(&d.instance.driver, 100);
    metric_set(&of(&d)->stray_reports, 0);
}

/* Workers push jobs (by LPUSH or RPUSH) and report them. */
static void fail(setup_t *of, const char *push, int jobs, const char *text) {
    redis_ok(of->f.r, "EVAL %s 2 email:backup email:errors %s %d %s",
             "for i = 1, ARGV[2] do redis.call(ARGV[1], KEYS[1], 'job' .. i) "
             "redis.call('HSET', KEYS[2], 'job' .. i, ARGV[3]) end",
             push, jobs, text);
}

SUITE(redis_monitor_reports, , close_setup(&d));

Test(redis_monitor_reports, jobs_at_the_ends_are_settled_without_rotation, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 1;")});
    fill(SLOW_JOBS);
    redis_ok(d.f.r, "CONFIG RESETSTAT");
    int64_t scans = metric_get(&of(&d)->passes);
    fail(&d, "LPUSH", REPORTS, "boom");
    until(&d, count(&d, "LLEN email") == REPORTS);
    expect_reason(&d, "retried", "reported 1 boom");
    redis_ok(d.f.r, "DEL email");
    fail(&d, "RPUSH", REPORTS, "again");
    until(&d, records(&d) == 2 * REPORTS);
    expect_reason(&d, "failed", "reported 2 again");
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(rotated(&d), 0, "%lld entries were rotated", rotated(&d));
    cr_assert_eq(metric_get(&of(&d)->passes), scans);
    cr_assert_eq(count(&d, "EXISTS email:errors"), 0);
    cr_assert_eq(count(&d, "LLEN email:backup"), SLOW_JOBS);
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), SLOW_JOBS);
    cr_assert_eq(metric_get(&of(&d)->in_progress), SLOW_JOBS);
    cr_assert_eq(metric_get(&of(&d)->stray_reports) + metric_get(&of(&d)->copies) + metric_get(&of(&d)->stalled), 0);
    cr_assert_eq(metric_get(&of(&d)->retried), REPORTS);
    cr_assert_eq(metric_get(&of(&d)->ended_by[REASON_reported]), REPORTS);
}

/* A search writes no stamp before it settles a job. Equal jobs that fail one after another have lives of their own. */
Test(redis_monitor_reports, a_reported_job_needs_no_stamp_first, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    fill(3000);
    redis_ok(d.f.r, "HDEL sidecar:email:meta life"); /* stamp.lua writes the last birth there */
    for (int round = 1; round <= 3; round++) {
        fail(&d, "LPUSH", REPORTS, "!boom");
        until(&d, count(&d, "EXISTS email:errors") == 0);
        cr_assert_eq(records(&d), round * REPORTS);
    }
    cr_assert_eq(count(&d, "HEXISTS sidecar:email:meta life"), 0);
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), 3000);
    cr_assert_eq(
        redis_int(
            d.f.r, "EVAL %s 1 sidecar:email:failures",
            "local seen, n = {}, 0 for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
            "local event, times = nil, 0 for i = 1, #entry[2], 2 do local name, value = entry[2][i], entry[2][i + 1] "
            "if name == 'event' then event = value end "
            "if (name == 'created' or name == 'started') and tonumber(value) > 1000000000000 then times = times + 1 end end "
            "if not seen[event] and times == 2 then n = n + 1 end seen[event] = true end return n"),
        3 * REPORTS, "each record has an event and times of its own");
}

/* The reports are many more than one page, and more jobs are in progress than a search reads in vain. */
Test(redis_monitor_reports, a_search_goes_on_while_it_settles_jobs, .timeout = 60) {
    enum { MANY = 4000 };
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    fill(SLOW_JOBS);
    redis_ok(d.f.r, "CONFIG RESETSTAT");
    fail(&d, "LPUSH", MANY, "boom");
    until(&d, count(&d, "LLEN email") == MANY);
    cr_assert_eq(rotated(&d), 0);
    cr_assert_eq(records(&d), MANY);
}

Test(redis_monitor_reports, a_job_deep_in_the_list_is_settled_by_a_scan, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    fill(SLOW_JOBS);
    int64_t scans = metric_get(&of(&d)->passes);
    redis_ok(d.f.r, "HSET email:errors slow10000 boom slow20000 boom");
    until(&d, count(&d, "LLEN email") == 2);
    cr_assert(waiting(&d, "slow10000") && waiting(&d, "slow20000"));
    driver_run(&d.instance.driver, 1500);
    cr_assert_eq(metric_get(&of(&d)->passes) - scans, 1, "only one scan must follow");
}

/* More reports than a search reads first come all the time. */
Test(redis_monitor_reports, a_storm_of_reports_does_not_hide_a_job_deep_in_the_list, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 1000;")});
    fill(SLOW_JOBS);
    for (int round = 0; round < 2000 && !(waiting(&d, "slow10000") && metric_get(&of(&d)->stray_reports)); round++) {
        redis_ok(d.f.r, "EVAL %s 2 email:backup email:errors %d",
                 "for i = 1, 100 do local job = 'job' .. ARGV[1] .. '.' .. i redis.call('LPUSH', KEYS[1], job) "
                 "redis.call('HSET', KEYS[2], job, 'boom') end",
                 round);
        if (round == 1) redis_ok(d.f.r, "HSET email:errors slow10000 boom stray boom");
        driver_run(&d.instance.driver, 5);
    }
    cr_assert(waiting(&d, "slow10000") && metric_get(&of(&d)->stray_reports) == 1);
    until(&d, count(&d, "EXISTS email:errors") == 0);
    cr_assert_eq(count(&d, "LLEN email:backup"), SLOW_JOBS - 1);
}

/* Its worker has removed the job, although it reported it. */
Test(redis_monitor_reports, a_report_without_a_job_costs_two_scans, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    fill(3000);
    int64_t scans = metric_get(&of(&d)->passes);
    redis_ok(d.f.r, "HSET email:errors stray boom");
    fail(&d, "LPUSH", REPORTS, "boom");
    until(&d, count(&d, "EXISTS email:errors") == 0);
    cr_assert_eq(metric_get(&of(&d)->stray_reports), 1);
    cr_assert_eq(count(&d, "LLEN email"), REPORTS);
    driver_run(&d.instance.driver, 1500);
    cr_assert_eq(metric_get(&of(&d)->passes) - scans, 2);
}

/* Complete scans know of the two jobs, which are too far apart for the script that settles them. */
Test(redis_monitor_reports, duplicates_are_given_back_and_not_ended, .timeout = 60) {
    open_setup(&d, (fixture_options_t){
                       .config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; "
                                 "heartbeat = \"off\"; protected_timeout = \"1h\"; retry_times = 0; } );"});
    work_on(&d, "same");
    passes(&d, 1);
    fill(4000);
    work_on(&d, "same");
    passes(&d, 4);
    redis_ok(d.f.r, "HSET email:errors same boom");
    until(&d, count(&d, "EXISTS email:errors") == 0);
    cr_assert_eq(waiting(&d, "same"), 1);
    cr_assert_eq(working(&d, "same"), 1);
    expect_reason(&d, "failed", NULL);
}

/* No scan knows of the two jobs. Only the settle finds the second one. */
Test(redis_monitor_reports, new_duplicates_near_each_other_are_not_ended, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 0;")});
    fill(3000);
    redis_ok(d.f.r, "EVAL %s 1 email:backup",
             "for i = 1, 700 do redis.call('LPUSH', KEYS[1], (i == 50 or i == 70) and 'same' or 'new' .. i) end");
    redis_ok(d.f.r, "HSET email:errors same boom");
    until(&d, waiting(&d, "same") == 1);
    cr_assert_eq(working(&d, "same"), 1);
    expect_reason(&d, "failed", NULL);
}

/* No search comes to them. The first scan meets one of them long before the other. */
Test(redis_monitor_reports, new_duplicates_far_from_each_other_are_not_ended, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 0;")});
    fill(SLOW_JOBS);
    redis_ok(d.f.r, "LINSERT email:backup BEFORE slow5000 same");
    redis_ok(d.f.r, "LINSERT email:backup BEFORE slow15000 same");
    redis_ok(d.f.r, "LINSERT email:backup BEFORE slow10000 one");
    redis_ok(d.f.r, "HSET email:errors same boom one boom");
    until(&d, waiting(&d, "same") == 1 && count(&d, "EXISTS email:errors") == 0);
    cr_assert_eq(working(&d, "same"), 1);
    expect_reason(&d, "failed", "reported 1 boom");
    cr_assert_eq(records(&d), 2);
}

/* A scan needs no further one for them. */
Test(redis_monitor_reports, a_scan_retries_new_jobs_at_once, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    fill(SLOW_JOBS);
    redis_ok(d.f.r, "LINSERT email:backup BEFORE slow10000 deep");
    int64_t scans = metric_get(&of(&d)->passes);
    redis_ok(d.f.r, "HSET email:errors deep boom");
    until(&d, waiting(&d, "deep"));
    cr_assert_leq(metric_get(&of(&d)->passes) - scans, 1);
}

/* The search does not read all reports, because they are many. */
Test(redis_monitor_reports, new_duplicates_among_many_reports_are_not_ended, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 0;")});
    fill(3000);
    work_on(&d, "same");
    work_on(&d, "other");
    work_on(&d, "same");
    fail(&d, "LPUSH", REPORTS, "boom");
    redis_ok(d.f.r, "HSET email:errors same boom");
    until(&d, count(&d, "EXISTS email:errors") == 0);
    cr_assert_eq(waiting(&d, "same"), 1);
    cr_assert_eq(working(&d, "same"), 1);
    cr_assert_eq(records(&d), REPORTS + 1);
}

Test(redis_monitor_reports, an_oversized_job_stays_and_causes_no_scans, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("max_payload = \"1KiB\";")});
    char large[2000];
    memset(large, 'L', sizeof large);
    fill(3000);
    int64_t scans = metric_get(&of(&d)->passes);
    fail(&d, "LPUSH", REPORTS, "boom");
    redis_ok(d.f.r, "LPUSH email:backup %b", large, sizeof large);
    redis_ok(d.f.r, "HSET email:errors %b boom", large, sizeof large);
    until(&d, count(&d, "LLEN email") == REPORTS);
    driver_run(&d.instance.driver, 2500);
    cr_assert_eq(in_list(d.f.r, "email:backup", (slice_t){large, sizeof large}), 1);
    cr_assert_eq(count(&d, "HLEN email:errors"), 1);
    cr_assert_leq(metric_get(&of(&d)->passes) - scans, 2);
}

/* Reports come while searches run. */
Test(redis_monitor_reports, each_report_between_two_steps_is_answered_once, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 5;")});
    fill(3000);
    for (int round = 1; round <= 40; round++) {
        fail(&d, round % 2 ? "LPUSH" : "RPUSH", round, "boom");
        driver_run(&d.instance.driver, round % 4 * 5);
        redis_ok(d.f.r, "EVAL %s 1 email:errors", /* a worker writes another text */
                 "for i, job in ipairs(redis.call('HKEYS', KEYS[1])) do redis.call('HSET', KEYS[1], job, 'other') end");
        until(&d, count(&d, "EXISTS email:errors") == 0);
        cr_assert_eq(count(&d, "LLEN email"), round);
        cr_assert_eq(count(&d, "LLEN email:backup"), 3000);
        redis_ok(d.f.r, "DEL email sidecar:email:stamps");
    }
    cr_assert_eq(records(&d), 40 * 41 / 2);
}

/* The scan begins because of a report without a job. */
Test(redis_monitor_reports, reports_that_come_during_a_scan_need_no_further_scan, .timeout = 240) {
    enum { LONG = 40000 };
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 5;"), .proxy = true});
    fill(LONG);
    int64_t scans = metric_get(&of(&d)->passes);
    /* The search before the scan sends fewer requests than that. */
    proxy_rule(d.f.proxy, (proxy_rule_t){PROXY_HOLD, .match = "LRANGE email:backup", .begins = true, .nth = 80});
    redis_ok(d.f.r, "HSET email:errors orphan x");
    until(&d, proxy_fired(d.f.proxy) == 1);
    cr_assert_eq(metric_get(&of(&d)->passes), scans, "the scan was over too early for this test");
    fail(&d, "LPUSH", REPORTS, "boom");
    proxy_pass(d.f.proxy);
    until(&d, count(&d, "LLEN email") == REPORTS);
    cr_assert_eq(metric_get(&of(&d)->passes), scans + 1, "%d scans", (int)(metric_get(&of(&d)->passes) - scans));
    cr_assert_eq(count(&d, "HLEN email:errors"), 1);
    until(&d, count(&d, "EXISTS email:errors") == 0);
    cr_assert_eq(metric_get(&of(&d)->passes), scans + 2, "the report without a job costs two scans");
    cr_assert_eq(count(&d, "LLEN email:backup"), LONG);
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), LONG + REPORTS);
    cr_assert_eq(metric_get(&of(&d)->in_progress), LONG);
    cr_assert_eq(metric_get(&of(&d)->copies), 0);
    cr_assert_eq(rotated(&d), 0);
}

/* The failure stream is full, so no job is ended. Jobs behind the first ones are settled all the same. */
Test(redis_monitor_reports, jobs_that_cannot_end_do_not_hide_others, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 1;")});
    fill(3000);
    work_on(&d, "behind");
    redis_ok(d.f.r, "HSET sidecar:email:meta bytes 268435456");
    fail(&d, "LPUSH", REPORTS, "!never");
    redis_ok(d.f.r, "HSET email:errors behind boom");
    until(&d, waiting(&d, "behind"));
    cr_assert_eq(count(&d, "HLEN email:errors"), REPORTS);
    redis_ok(d.f.r, "HSET sidecar:email:meta bytes 0");
    work_on(&d, "next");
    redis_ok(d.f.r, "HSET email:errors next boom");
    until(&d, waiting(&d, "next"));
    cr_assert_eq(count(&d, "LLEN email:backup"), 3000 + REPORTS);
}

Test(redis_monitor_reports, a_search_without_rights_is_logged_and_loses_nothing, .timeout = 60) {
    enum { SHORT = 500 };
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    fill(SHORT);
    redis_ok(d.f.r, "ACL SETUSER default -lrange");
    fail(&d, "LPUSH", 100, "boom");
    until(&d, metric_get(&of(&d)->faults) > 0);
    cr_assert_eq(count(&d, "HLEN email:errors") + count(&d, "LLEN email"), 100);
    until(&d, count(&d, "LLEN email") == 100); /* by rotation, after a pause */
}

Test(redis_monitor_reports, a_long_list_waits_for_the_right_to_read_it, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    fill(3000);
    redis_ok(d.f.r, "ACL SETUSER default -lrange");
    fail(&d, "LPUSH", REPORTS, "boom");
    until(&d, metric_get(&of(&d)->faults) > 1);
    cr_assert_eq(count(&d, "HLEN email:errors"), REPORTS);
    redis_ok(d.f.r, "ACL SETUSER default +lrange");
    until(&d, count(&d, "LLEN email") == REPORTS);
}
