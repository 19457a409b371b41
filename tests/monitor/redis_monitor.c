/* Ticks of the monitor: stalled and reported jobs are retried or ended once, living jobs stay in backup, and idle queues cause
 * no requests. */
#include "monitor_fixture.h"

static setup_t d;
SUITE(redis_monitor, , close_setup(&d));

Test(redis_monitor, a_stalled_job_is_retried_and_then_ends_with_one_record) {
    open_setup(&d, (fixture_options_t){0});
    work_on(&d, "a");
    until(&d, stamp_of(d.f.r, slice_text("a")).seen);
    long long seen = stamp_of(d.f.r, slice_text("a")).seen;
    until(&d, waiting(&d, "a"));
    cr_assert_gt(redis_ms(d.f.r) - seen, 100, "the job was retried before the protected timeout");
    cr_assert_eq(working(&d, "a"), 0);
    expect_reason(&d, "retried", "stalled 1 -");
    redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT");
    until(&d, records(&d) == 2);
    expect_reason(&d, "failed", "retries_exhausted 2 -");
    cr_assert_eq(waiting(&d, "a") + working(&d, "a"), 0);
    driver_run(&d.instance.driver, 200);
    cr_assert_eq(records(&d), 2);
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), 0);
    cr_assert_eq(metric_get(&of(&d)->stalled), 2);
    cr_assert_eq(metric_get(&of(&d)->stalled_by[CAUSE_timeout]), 2);
    cr_assert_eq(metric_get(&of(&d)->ended_by[REASON_retries_exhausted]), 1);
    cr_assert_eq(metric_get(&of(&d)->retried), 1);
    cr_assert_eq(metric_get(&of(&d)->ended), 1);
}

Test(redis_monitor, a_finished_job_is_left_alone) {
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 0;")});
    work_on(&d, "done");
    passes(&d, 1);
    redis_ok(d.f.r, "LREM email:backup 1 done");
    until(&d, count(&d, "HLEN sidecar:email:stamps") == 0);
    cr_assert_eq(records(&d), 0);
}

Test(redis_monitor, backoff_puts_a_retry_into_delayed) {
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_backoff = \"fixed\"; retry_delay = \"20s\"; retry_jitter = 0.5;")});
    long long before = redis_ms(d.f.r);
    work_on(&d, "a");
    until(&d, is_delayed(d.f.r, slice_text("a")));
    char *score = redis_str(d.f.r, "ZSCORE email:delayed a");
    double in = strtod(score, NULL) - (double)before;
    cr_assert(in >= 10000 && in <= 30000 + 8000, "in %f ms", in);
    cr_assert_eq(working(&d, "a") + waiting(&d, "a"), 0);
}

#define JOB "{\"id\":7}"

Test(redis_monitor, a_lost_heartbeat_must_be_missing_in_two_scans) {
    open_setup(
        &d,
        (fixture_options_t){
            .config =
                "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; protected_timeout = "
                "\"100ms\"; retry_times = 1; heartbeat = \"*_alive\"; id_path = \"/id\"; } );"});
    redis_ok(d.f.r, "SET 7_alive me");
    work_on(&d, JOB);
    long long began = redis_ms(d.f.r);
    until(&d, redis_ms(d.f.r) > began + 400);
    cr_assert_eq(working(&d, JOB), 1);
    for (int round = 0; round < 3; round++) { /* missing in one scan only */
        redis_ok(d.f.r, "DEL 7_alive");
        until(&d, stamp_of(d.f.r, slice_text(JOB)).missing);
        redis_ok(d.f.r, "SET 7_alive me");
        until(&d, !stamp_of(d.f.r, slice_text(JOB)).missing);
    }
    cr_assert_eq(working(&d, JOB), 1);
    redis_ok(d.f.r, "DEL 7_alive");
    until(&d, waiting(&d, JOB));
    expect_reason(&d, "retried", "stalled 1 -");
    cr_assert_eq(metric_get(&of(&d)->stalled_by[CAUSE_heartbeat_lost]), 1);
    cr_assert_eq(metric_get(&of(&d)->stalled), 1);
}

#define BEATING                                                                                                                  \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; protected_timeout = \"100ms\"; "   \
    "retry_times = 1; heartbeat = \"*_alive\"; id_path = \"/id\"; } );"

/* Returns a field of the last record of a kind; owned. "-": the record lacks the field. */
static char *last_of(const char *kind, const char *name) {
    return redis_str(d.f.r, "EVAL %s 1 sidecar:email:failures %s %s",
                     "for _, e in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-')) do local f = {} "
                     "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                     "if f.kind == ARGV[1] then return f[ARGV[2]] or '-' end end",
                     kind, name);
}

static void expect_worker(const char *kind, const char *expected) {
    char *worker = last_of(kind, "worker");
    cr_assert(worker && strcmp(worker, expected) == 0, "%s: %s", kind, worker);
}

/* Waits until the monitor has read the heartbeat of an overdue job. */
static void overdue(setup_t *of) {
    long long began = redis_ms(of->f.r);
    until(of, redis_ms(of->f.r) > began + 200);
    passes(of, 2);
}

Test(redis_monitor, a_record_names_the_last_worker) {
    open_setup(&d, (fixture_options_t){.config = BEATING});
    redis_ok(d.f.r, "SET 7_alive %b", "host-1\n\xff", (size_t)8);
    work_on(&d, JOB);
    overdue(&d);
    redis_ok(d.f.r, "SET 7_alive %s", " \t"); /* the heartbeat is alive without a name: the last name stays */
    passes(&d, 2);
    cr_assert_eq(working(&d, JOB), 1);
    redis_ok(d.f.r, "DEL 7_alive");
    until(&d, waiting(&d, JOB));
    expect_worker("retried", "host-1\\u000a\\ufffd");
    redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT");
    until(&d, records(&d) == 2);
    expect_worker("failed", "-"); /* the second execution had another worker */
}

Test(redis_monitor, a_heartbeat_may_hold_any_value) {
    open_setup(&d, (fixture_options_t){.config = BEATING});
    work_on(&d, JOB);
    for (size_t t = 0; t < FIXTURE_TYPES; t++) {
        fixture_make_key(d.f.r, "7_alive", fixture_types[t]);
        overdue(&d);
        cr_assert_eq(working(&d, JOB), 1, "%s", fixture_types[t]);
    }
    redis_ok(d.f.r, "SET 7_alive %s", "");
    overdue(&d);
    cr_assert_eq(working(&d, JOB), 1);
    redis_ok(d.f.r, "EVAL %s 1 7_alive",
             "redis.call('SET', KEYS[1], string.rep('5', 100000))"); /* only the first 256 bytes are read */
    overdue(&d);
    redis_ok(d.f.r, "ACL SETUSER default -getrange"); /* an ACL from a version that did not need it */
    overdue(&d);
    cr_assert_eq(metric_get(&of(&d)->faults), 0);
    cr_assert_eq(working(&d, JOB), 1);
    redis_ok(d.f.r, "DEL 7_alive");
    until(&d, waiting(&d, JOB));
    char *worker = last_of("retried", "worker");
    cr_assert_eq(strlen(worker), 256);
}

Test(redis_monitor, acts_on_a_report_at_once) {
    open_setup(&d, (fixture_options_t){.config = SLOW("retry_times = 1;")});
    work_on(&d, "a");
    work_on(&d, "b");
    passes(&d, 1);
    redis_ok(d.f.r, "HSET email:errors a %s", "boom: 500");
    until(&d, waiting(&d, "a"));
    expect_reason(&d, "retried", "reported 1 boom: 500");
    cr_assert_eq(count(&d, "HLEN email:errors"), 0);
    redis_ok(d.f.r, "HSET email:errors b %s", "!never");
    until(&d, !working(&d, "b"));
    expect_reason(&d, "failed", "reported 1 !never");
    redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT");
    redis_ok(d.f.r, "HSET email:errors a again");
    until(&d, records(&d) == 3);
    expect_reason(&d, "failed", "reported 2 again");
    cr_assert_eq(metric_get(&of(&d)->ended_by[REASON_reported]), 2);
    cr_assert_eq(metric_get(&of(&d)->stalled), 0);
    work_on(&d, "c"); /* the report comes before a scan has seen the job */
    redis_ok(d.f.r, "HSET email:errors c early");
    until(&d, waiting(&d, "c"));
}

Test(redis_monitor, an_orphan_report_is_removed_after_two_scans) {
    open_setup(&d, (fixture_options_t){0});
    work_on(&d, "a");
    passes(&d, 1);
    redis_ok(d.f.r, "HSET email:errors stray text");
    until(&d, count(&d, "HLEN email:errors") == 0);
    cr_assert_eq(metric_get(&of(&d)->stray_reports), 1);
    cr_assert_eq(fixture_log_count("removed a report"), 1);
    redis_ok(d.f.r, "EVAL %s 1 email:errors", "for i = 1, 3000 do redis.call('HSET', KEYS[1], 'job' .. i, 'x') end");
    until(&d, count(&d, "HLEN email:errors") == 0);
    cr_assert_eq(metric_get(&of(&d)->stray_reports), 3001);
}

/* The monitor's own HDEL clears tracking, so the monitor must read again to arm it for the next report. */
Test(redis_monitor, a_report_after_an_orphan_is_acted_on_at_once) {
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    work_on(&d, "a");
    passes(&d, 1);
    redis_ok(d.f.r, "HSET email:errors stray 1");
    passes(&d, 1);
    redis_ok(d.f.r, "HSET email:errors stray2 2");
    until(&d, metric_get(&of(&d)->stray_reports) == 1);
    driver_run(&d.instance.driver, 100);
    redis_ok(d.f.r, "HSET email:errors a boom");
    until(&d, waiting(&d, "a"));
    until(&d, count(&d, "EXISTS email:errors") == 0);
    cr_assert(driver_until(&d.instance.driver, metric_get(&of(&d)->retried) == 1, 3000), "the report gives the job back once");
    cr_assert_eq(working(&d, "a"), 0);
}

Test(redis_monitor, alive_timeout_ends_an_old_job) {
    open_setup(&d, (fixture_options_t){.config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = "
                                                 "\"email\"; protected_timeout = \"1h\"; "
                                                 "heartbeat = \"off\"; alive_timeout = \"2h\"; created_path = \"/at\"; } );"});
    char *old = kept_printf("{\"at\":%lld}", redis_ms(d.f.r) - 7200001),
         *young = kept_printf("{\"at\":%lld}", redis_ms(d.f.r) - 7000000);
    work_on(&d, old);
    work_on(&d, young);
    work_on(&d, "no age");
    until(&d, records(&d) == 1);
    expect_reason(&d, "failed", "alive_timeout 1 -");
    cr_assert_eq(metric_get(&of(&d)->ended_by[REASON_alive_timeout]), 1);
    cr_assert_eq(metric_get(&of(&d)->stalled_by[CAUSE_alive_timeout]), 1);
    passes(&d, 2);
    cr_assert_eq(working(&d, young) + working(&d, "no age"), 2);
}

static long long calls(void) { return server_info_int(d.f.server, "stats", "total_commands_processed"); }

Test(redis_monitor, an_idle_queue_causes_no_requests_until_a_worker_wakes_it) {
    open_setup(&d, (fixture_options_t){.proxy = true});
    idle(&d);
    for (int round = 0; round < 2; round++) {
        long before = proxy_requests(d.f.proxy, NULL);
        cr_assert_leq(driver_run(&d.instance.driver, 500), 5);
        cr_assert_eq(proxy_requests(d.f.proxy, NULL), before);
        redis_ok(d.f.r, "RPUSH email a"); /* the monitor does not track ready */
        driver_run(&d.instance.driver, 60);
        cr_assert_eq(proxy_requests(d.f.proxy, NULL), before);
        redis_ok(d.f.r, "BLMOVE email email:backup RIGHT LEFT 1");
        until(&d, stamp_of(d.f.r, slice_text("a")).seen);
        redis_ok(d.f.r, "LREM email:backup 1 a");
        until(&d, count(&d, "HLEN sidecar:email:stamps") == 0);
        idle(&d); /* backup holds only the sentinel */
        cr_assert_eq(count(&d, "LLEN email:backup"), 1);
    }
    cr_assert_gt(calls(), 0);
}

Test(redis_monitor, an_idle_queue_is_woken_by_a_report) {
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(metric_get(&of(&d)->passes), 0, "the queue must be idle");
    redis_ok(d.f.r, "HSET email:errors stray 1");
    until(&d, metric_get(&of(&d)->passes) > 0);
}

Test(redis_monitor, stamps_of_retried_jobs_do_not_keep_an_idle_queue_awake) {
    open_setup(&d, (fixture_options_t){.proxy = true});
    work_on(&d, "a");
    until(&d, waiting(&d, "a"));
    idle(&d);
    long before = proxy_requests(d.f.proxy, NULL);
    driver_run(&d.instance.driver, 300);
    cr_assert_eq(proxy_requests(d.f.proxy, NULL), before);
    cr_assert_eq(stamp_of(d.f.r, slice_text("a")).retries, 1, "the stamp must keep the retry");
    redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT");
    until(&d, records(&d) == 2);
    expect_reason(&d, "failed", "retries_exhausted 2 -");
}

Test(redis_monitor, oversized_entries_stay_and_are_logged) {
    open_setup(&d, (fixture_options_t){.config = ALONE("max_payload = \"1KiB\";")});
    char large[2000];
    memset(large, 'L', sizeof large);
    slice_t job = {large, sizeof large};
    redis_ok(d.f.r, "LPUSH email:backup %b", large, sizeof large);
    redis_ok(d.f.r, "HSET email:errors %b x", large, sizeof large);
    work_on(&d, "a");
    until(&d, waiting(&d, "a"));
    driver_run(&d.instance.driver, 400);
    cr_assert_eq(in_list(d.f.r, "email:backup", job), 1);
    cr_assert_eq(count(&d, "HLEN email:errors"), 1, "the report of an oversized job is no orphan");
    cr_assert_eq(metric_get(&of(&d)->large), 1, "one entry, however many scans have met it");
    cr_assert_leq(metric_get(&of(&d)->passes), 6 + 3 * wait_scaled_ms(600) / 50, "an oversized entry must not cause extra scans");
    cr_assert_geq(fixture_log_count("larger than max_payload"), 1);
    redis_ok(d.f.r, "DEL email:backup email:errors");
    until(&d, metric_get(&of(&d)->large) == 0);
}

Test(redis_monitor, duplicates_are_retried_and_not_ended) {
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 0;")});
    for (int i = 0; i < 3; i++) work_on(&d, "same");
    until(&d, waiting(&d, "same") == 2);
    cr_assert_gt(metric_get(&of(&d)->copies), 0);
    until(&d, working(&d, "same") == 0); /* the last entry is no duplicate any more */
    cr_assert_eq(waiting(&d, "same"), 2);
    expect_reason(&d, "failed", "retries_exhausted 3 -");
}

/* More equal jobs than the first request has, of a worker whose name is known: under a sanitizer this shows who owns the name. */
Test(redis_monitor, equal_jobs_of_a_known_worker_fill_several_requests) {
    open_setup(&d, (fixture_options_t){.config = BEATING});
    redis_ok(d.f.r, "SET 7_alive a-worker-with-a-rather-long-name");
    for (int i = 0; i < 60; i++) work_on(&d, JOB);
    overdue(&d);
    redis_ok(d.f.r, "DEL 7_alive");
    until(&d, waiting(&d, JOB) > 0);
    expect_worker("retried", "a-worker-with-a-rather-long-name");
}

Test(redis_monitor, end_duplicates_ends_duplicates) {
    open_setup(&d, (fixture_options_t){.config = ALONE("end_duplicates = true; retry_times = 0;")});
    for (int i = 0; i < 3; i++) work_on(&d, "same");
    until(&d, records(&d) == 3);
    cr_assert_eq(waiting(&d, "same") + working(&d, "same"), 0);
    redis_expect(
        d.f.r, "3", "EVAL %s 1 sidecar:email:failures", /* each entry is an event of its own */
        "local ids, n = {}, 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
        "for i = 1, #e[2], 2 do if e[2][i] == 'event' and not ids[e[2][i + 1]] then ids[e[2][i + 1]] = 1 n = n + 1 end end end "
        "return tostring(n)");
}

Test(redis_monitor, retries_jobs_older_than_the_sidecar) {
    open_setup(&d, (fixture_options_t){0});
    for (int i = 0; i < 500; i++) redis_ok(d.f.r, "LPUSH email:backup job%d", i);
    until(&d, count(&d, "HLEN sidecar:email:stamps") == 500);
    cr_assert_eq(count(&d, "LLEN email"), 0, "a job was retried before its protected timeout from the first scan");
    until(&d, count(&d, "LLEN email") == 500);
    cr_assert_eq(count(&d, "LLEN email:backup"), 1);
}

Test(redis_monitor, queues_take_turns) {
    open_setup(&d, (fixture_options_t){
                       .config = "group = \"app\"; monitor = { scan_interval = \"1h\"; }; defaults = { heartbeat = \"off\"; "
                                 "protected_timeout = \"1h\"; }; queues = ( { name = \"email\"; }, { name = \"sms\"; } );",
                       .proxy = true});
    driver_run(&d.instance.driver, 100);
    redis_ok(d.f.r, "EVAL %s 1 email:backup", "for i = 1, 60000 do redis.call('LPUSH', KEYS[1], 'job' .. i) end");
    until(&d, count(&d, "HLEN sidecar:email:stamps") > 0);
    cr_assert_lt(count(&d, "HLEN sidecar:email:stamps"), 59000, "one tick scanned nearly the whole list");
    redis_ok(d.f.r, "LPUSH sms:backup x");
    until(&d, count(&d, "HLEN sidecar:sms:stamps") == 1);
    cr_assert_lt(count(&d, "HLEN sidecar:email:stamps"), 60000, "sms had to wait for all of email");
    until(&d, count(&d, "HLEN sidecar:email:stamps") == 60000);
}

/* Requests for another queue come between those of a long scan, and each gets its own reply. */
Test(redis_monitor, scans_of_two_queues_interleave, .timeout = 60) {
    open_setup(&d, (fixture_options_t){
                       .config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; defaults = { heartbeat = \"off\"; "
                                 "protected_timeout = \"1h\"; }; queues = ( { name = \"email\"; }, { name = \"sms\"; } );"});
    metrics_queue_t *sms = &d.instance.metrics->queues[1];
    redis_ok(d.f.r, "LPUSH sms:backup x");
    redis_ok(d.f.r, "EVAL %s 1 email:backup", "for i = 1, 60000 do redis.call('LPUSH', KEYS[1], 'job' .. i) end");
    cr_assert(driver_until(&d.instance.driver, metric_get(&of(&d)->passes) == 2, 30000));
    cr_assert_gt(metric_get(&sms->passes), 2);
    cr_assert_eq(metric_get(&of(&d)->in_progress), 60000);
    cr_assert_eq(metric_get(&sms->in_progress), 1);
    cr_assert_eq(metric_get(&of(&d)->faults) + metric_get(&sms->faults), 0);
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), 60000);
    cr_assert_eq(count(&d, "LLEN sms:backup"), 2);
    cr_assert_eq(fixture_log_count("level"), 0, "a line was logged");
}

/* The duplicates are so far from each other and from the ends that no settle finds both: only whole scans do. */
Test(redis_monitor, a_new_leader_ends_no_job_before_it_knows_its_duplicates) {
    open_setup(&d, (fixture_options_t){.config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = "
                                                 "\"email\"; protected_timeout = \"1h\"; heartbeat = \"off\"; retry_times = 0; "
                                                 "} );"});
    redis_ok(d.f.r, "EVAL %s 1 email:backup",
             "for i = 1, 900 do redis.call('LPUSH', KEYS[1], (i == 1 or i == 450) and 'twin' or 'job' .. i) end");
    set_stamp(d.f.r, slice_text("twin"), (stamp_t){.born_us = 1, .seen = 1});
    until(&d, waiting(&d, "twin") == 1 || records(&d) > 0);
    passes(&d, 2);
    expect_reason(&d, "failed", NULL);
    cr_assert_eq(waiting(&d, "twin") + working(&d, "twin"), 2);
}

/* Workers have taken two equal jobs since the last scan and reported that they must not be retried. The jobs are far from each
 * other and from the ends. */
Test(redis_monitor, no_scan_ends_a_job_that_it_meets_for_the_first_time) {
    open_setup(&d, (fixture_options_t){.config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = "
                                                 "\"email\"; protected_timeout = \"1h\"; heartbeat = \"off\"; } );"});
    redis_ok(d.f.r, "EVAL %s 1 email:backup", "for i = 1, 6000 do redis.call('LPUSH', KEYS[1], 'job' .. i) end");
    passes(&d, 4);
    redis_ok(d.f.r, "EVAL %s 2 email:backup email:errors",
             "redis.call('LSET', KEYS[1], 2000, 'twin') redis.call('LSET', KEYS[1], 4000, 'twin') "
             "redis.call('HSET', KEYS[2], 'twin', '!broken') return 1");
    until(&d, waiting(&d, "twin") > 0 || records(&d) > 0);
    expect_reason(&d, "failed", NULL);
    cr_assert_eq(waiting(&d, "twin") + working(&d, "twin"), 2);
}

/* A turn ends behind a page whose jobs the scan gives back. Without LSET the list closes up. With LSET jobs that the scan has met
 * take the places of others, also places that the next page reads again. */
static void expect_counted_once(const char *right) {
    enum { JOBS = 5000 };
    open_setup(&d, (fixture_options_t){.config = "group = \"app\"; monitor = { scan_interval = \"1h\"; rotation = 100; }; "
                                                 "defaults = { heartbeat = \"off\"; protected_timeout = \"1h\"; }; "
                                                 "queues = ( { name = \"email\"; }, { name = \"sms\"; } );"});
    redis_ok(d.f.r, "ACL SETUSER default %s", right);
    redis_ok(d.f.r, "EVAL %s 2 email:backup sms:backup %d",
             "for i = 1, ARGV[1] do for _, key in ipairs(KEYS) do redis.call('LPUSH', key, 'job' .. i) end end", JOBS);
    long long stalled = 0;
    for (int i = 1; i <= JOBS; i++) {
        char job[16];
        if (i % 5 == 0) continue;
        snprintf(job, sizeof job, "job%d", i);
        set_stamp(d.f.r, slice_text(job), (stamp_t){.born_us = 1, .seen = 1});
        stalled++;
    }
    until(&d, metric_get(&of(&d)->passes) == 1);
    cr_assert_eq(count(&d, "LLEN email"), stalled);
    cr_assert_eq(metric_get(&of(&d)->in_progress), JOBS);
}

Test(redis_monitor, jobs_in_the_places_of_others_are_counted_once, .timeout = 60) { expect_counted_once("+lset"); }
Test(redis_monitor, a_list_that_closes_up_during_a_scan_is_counted_once, .timeout = 60) { expect_counted_once("-lset"); }

/* In a long list each entry is read once, and stalled jobs end only when duplicates are known. */
Test(redis_monitor, scans_a_hundred_thousand_entries, .timeout = 60) {
    enum { ENTRIES = 100000 };
    open_setup(&d, (fixture_options_t){
                       .config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; "
                                 "heartbeat = \"off\"; protected_timeout = \"30s\"; retry_times = 0; } );"});
    redis_ok(d.f.r, "EVAL %s 1 email:backup", "for i = 1, 100000 do redis.call('LPUSH', KEYS[1], 'job' .. i) end");
    cr_assert(driver_until(&d.instance.driver, metric_get(&of(&d)->passes) == 2, 30000));
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), ENTRIES);
    cr_assert_eq(count(&d, "LLEN email:backup"), ENTRIES, "a long list is read in place and needs no sentinel");
    cr_assert_eq(metric_get(&of(&d)->in_progress), ENTRIES);
    set_stamp(d.f.r, slice_text("job77777"), (stamp_t){.born_us = 1, .seen = 1});
    until(&d, records(&d) == 1);
    cr_assert_eq(working(&d, "job77777"), 0);
    passes(&d, 1);
    cr_assert_eq(records(&d), 1);
}

/* A large slice makes large batches: the second batch of a page is prepared before the first one is answered. */
Test(redis_monitor, large_batches_find_the_jobs_of_a_long_list, .timeout = 60) {
    enum { LIVING = 300, STALLED = 2000 };
    open_setup(&d,
               (fixture_options_t){.redis = "slice = \"20ms\";",
                                   .config = "group = \"app\"; monitor = { scan_interval = \"1h\"; rotation = 0; }; queues = ( { "
                                             "name = \"email\"; heartbeat = \"off\"; protected_timeout = \"1h\"; } );"});
    long long now = redis_ms(d.f.r);
    for (int i = 0; i < LIVING + STALLED; i++) {
        char job[16];
        snprintf(job, sizeof job, "job%d", i);
        set_stamp(d.f.r, slice_text(job), (stamp_t){.born_us = now * 1000, .seen = i % 8 == 0 && i / 8 < LIVING ? now : 1});
    }
    redis_ok(d.f.r, "EVAL %s 1 email:backup %d", "for i = 0, ARGV[1] - 1 do redis.call('LPUSH', KEYS[1], 'job' .. i) end",
             LIVING + STALLED);
    until(&d, count(&d, "LLEN email") >= STALLED);
    cr_assert_leq(metric_get(&of(&d)->passes), 1, "one scan must find all of them");
    cr_assert_eq(count(&d, "LLEN email:backup") + count(&d, "LLEN email"), LIVING + STALLED);
}
