/* Ticks of the dispatcher: every due job reaches ready exactly once, soon and not early, and Redis gets no needless request. */
#include "dispatcher_fixture.h"

/* Moves due jobs and a later job. Returns the largest lateness in us. */
static int64_t moved_late_us(void) {
    scoped(setup_end) setup_t d;
    setup_begin(&d, (fixture_options_t){.proxy = true});
    add_due(&d, 3);
    expect_ready(&d, 3);
    settle(&d);
    redis_ok(d.f.r, "ZADD email:delayed %lld later", redis_ms(d.f.r) + 300);
    long before = proxy_requests(d.f.proxy, NULL), steps = 0;
    for (int rounds = 0; rounds < 20 && delayed(&d); rounds++) steps += driver_run(&d.instance.driver, 500) - 1;
    cr_assert_eq(delayed(&d), 0);
    cr_assert_leq(steps, 8 * wait_scaled_ms(1));
    cr_assert_leq(proxy_requests(d.f.proxy, NULL) - before, 12 * wait_scaled_ms(1));
    redis_expect(d.f.r, "later", "LINDEX email 0");
    cr_assert_eq(metric_get(&of(&d, 0)->promoted), 4);
    int64_t late_us = metric_get(&of(&d, 0)->lateness_max_us);
    cr_assert_gt(late_us, 0);
    return late_us;
}

static setup_t d;
SUITE(redis_dispatcher, , setup_end(&d));

Test(redis_dispatcher, moves_due_jobs_and_waits_for_the_others, .timeout = 60) {
    cr_assert(wait_for(moved_late_us() < INT64_C(1000) * wait_scaled_ms(150), 15000));
}

Test(redis_dispatcher, producers_wake_the_dispatcher) {
    setup_begin(&d, (fixture_options_t){0});
    settle(&d);
    for (int i = 1; i <= 5; i++) {
        redis_ok(d.f.r, "ZADD email:delayed %d job%d", i, i);
        expect_ready(&d, i);
    }
    cr_assert_eq(metric_get(&of(&d, 0)->wakeups), 5);
    cr_assert_eq(metric_get(&of(&d, 0)->missed), 0);
    redis_ok(d.f.r, "ZADD email:delayed %lld mind", redis_ms(d.f.r) + 3600000);
    settle(&d);
    redis_ok(d.f.r, "ZADD email:delayed %lld mind", redis_ms(d.f.r) + 50); /* sooner than before */
    expect_ready(&d, 6);
    redis_ok(d.f.r, "FLUSHALL");
    instance_lead(&d.instance, d.f.r);
    settle(&d);
    redis_ok(d.f.r, "ZADD email:delayed 1 after");
    expect_ready(&d, 1);
}

Test(redis_dispatcher, sends_no_request_without_a_reason) {
    setup_begin(&d, (fixture_options_t){.proxy = true});
    add_due(&d, 30);
    redis_ok(d.f.r, "ZADD email:delayed %lld later", redis_ms(d.f.r) + 3600000);
    expect_ready(&d, 30);
    settle(&d);
    long before = proxy_requests(d.f.proxy, NULL);
    for (int i = 0; i < 30; i++) redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT"); /* what workers do */
    redis_ok(d.f.r, "LPUSH email now");
    redis_ok(d.f.r, "PEXPIRE sidecar:app:lock 50000");
    long steps = driver_run(&d.instance.driver, 300);
    cr_assert_eq(proxy_requests(d.f.proxy, NULL), before);
    cr_assert_leq(steps, 3);
}

Test(redis_dispatcher, a_backlog_goes_in_order_and_in_batches) {
    setup_begin(&d, (fixture_options_t){.redis = "slice = \"100ms\";"}); /* only dispatcher.batch limits a batch */
    add_due(&d, 95);
    expect_ready(&d, 95);
    expect_each_once(&d, 95);
    cr_assert_eq(metric_get(&of(&d, 0)->batches), 10);
    for (int i = 0; i < 95; i++) {
        char job[16];
        snprintf(job, sizeof job, "job%04d", i);
        redis_expect(d.f.r, job, "RPOP email");
    }
}

/* The next due time matters only after the backlog. */
Test(redis_dispatcher, a_backlog_reads_the_head_only_at_its_end) {
    enum { JOBS = 2000 };
    setup_begin(&d, (fixture_options_t){.proxy = true, .preload = "shim_clock"});
    settle(&d);
    redis_ok(d.f.r, "EVAL %s 1 email:delayed", "for i = 1, 2000 do redis.call('ZADD', KEYS[1], i, 'job' .. i) end");
    redis_ok(d.f.r, "ZADD email:delayed %lld later", redis_ms(d.f.r) + 3600000);
    long reads_next_due = proxy_requests(d.f.proxy, "1 email:delayed"), batches = proxy_requests(d.f.proxy, "4 sidecar:app:lock");
    expect_ready(&d, JOBS);
    settle(&d);
    cr_assert_geq(proxy_requests(d.f.proxy, "4 sidecar:app:lock") - batches, JOBS / 10);
    reads_next_due = proxy_requests(d.f.proxy, "1 email:delayed") - reads_next_due;
    cr_assert(reads_next_due >= 2 && reads_next_due <= 20, "%ld reads of the head", reads_next_due);
    server_step_clock(d.f.server, 3600000);
    fixture_step_boottime(3600000);
    expect_ready(&d, JOBS + 1);
    cr_assert_eq(metric_get(&of(&d, 0)->missed), 0);
    cr_assert_lt(metric_get(&of(&d, 0)->empty), 10);
    redis_ok(d.f.r, "ZADD email:delayed 1 woken");
    expect_ready(&d, JOBS + 2);
}

/* Other clients would wait for the batch and for a request behind it. */
Test(redis_dispatcher, nothing_is_sent_behind_a_batch_of_a_backlog) {
    enum { NTH = 5 };
    setup_begin(&d, (fixture_options_t){.proxy = true, .config = TWO});
    settle(&d);
    add_due(&d, 200);
    redis_ok(d.f.r, "ZADD sms:delayed 1 text");
    long before = proxy_requests(d.f.proxy, "EVALSHA"), batches = proxy_requests(d.f.proxy, "4 sidecar:app:lock email");
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = "4 sidecar:app:lock email", .nth = NTH});
    proxy_refuse_new(d.f.proxy, true);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->reconnects) > 0, 15000)); /* no reply in time */
    cr_assert_eq(proxy_requests(d.f.proxy, "4 sidecar:app:lock email") - batches, NTH);
    cr_assert_leq(proxy_requests(d.f.proxy, "EVALSHA") - before, 3 * NTH, "only reads and other queues may come between batches");
    proxy_pass(d.f.proxy);
    cr_assert(driver_until(&d.instance.driver, ready(&d) == 200, 15000));
    cr_assert_eq(redis_int(d.f.r, "LLEN sms"), 1);
}

/* Adds jobs, so that a fast machine does not end the backlog. */
static void keep_up_backlog(void) {
    if (delayed(&d) >= 5000 && redis_int(d.f.r, "ZCARD sms:delayed") >= 5000) return;
    redis_ok(d.f.r, "EVAL %s 2 email:delayed sms:delayed",
             "for i = 1, 20000 do for _, key in ipairs(KEYS) do redis.call('ZADD', key, i, 'job' .. i) end end");
}

/* A head that the safety poll reads during a backlog is no lost wake-up. */
Test(redis_dispatcher, a_safety_poll_in_a_backlog_misses_nothing) {
    setup_begin(&d, (fixture_options_t){.config = "group = \"app\"; dispatcher = { safety_poll = \"50ms\"; batch = 1; };"
                                                  "queues = ( { name = \"email\"; }, { name = \"sms\"; } );"});
    settle(&d);
    keep_up_backlog();
    int64_t polls = metric_get(&d.instance.metrics->safety_polls);
    cr_assert(
        driver_until(&d.instance.driver, (keep_up_backlog(), metric_get(&d.instance.metrics->safety_polls) >= polls + 8), 20000));
    cr_assert_eq(metric_get(&of(&d, 0)->missed) + metric_get(&of(&d, 1)->missed), 0);
}

Test(redis_dispatcher, queues_take_turns) {
    setup_begin(&d, (fixture_options_t){.proxy = true,
                                        .config = "group = \"app\"; dispatcher = { safety_poll = \"24h\"; batch = 1; };"
                                                  "queues = ( { name = \"email\"; }, { name = \"sms\"; } );"});
    settle(&d);
    redis_ok(d.f.r, "EVAL %s 1 email:delayed", "for i = 1, 50000 do redis.call('ZADD', KEYS[1], i, 'job' .. i) end");
    cr_assert(driver_until(&d.instance.driver, ready(&d) > 0, 5000));
    cr_assert_gt(delayed(&d), 100, "a tick is too long");
    long before = proxy_requests(d.f.proxy, "4 sidecar:app:lock email:delayed");
    redis_ok(d.f.r, "ZADD sms:delayed 1 other");
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN sms") == 1, 5000));
    char *log = proxy_log(d.f.proxy), *sms = strstr(log, "sms:delayed sms ");
    cr_assert_not_null(sms);
    for (char *at = log; (at = strstr(at, "4 sidecar:app:lock email:delayed")) && at < sms; at++) before--;
    /* Until the sidecar hears of the job, email has its batches: on a busy machine for some 10 ms. */
    cr_assert_geq(before, -1000, "sms had to wait for %ld of 50,000 batches", -before);
    free(log);
}

Test(redis_dispatcher, oversized_entries_in_a_backlog_hide_no_job) {
    setup_begin(&d, (fixture_options_t){.config = ALONE("max_payload = \"1KiB\";")});
    char oversized[2000];
    memset(oversized, 'L', sizeof oversized);
    enum { JOBS = 200, EVERY = 7 };
    redis_ok(d.f.r, "MULTI");
    add_due(&d, JOBS);
    for (int i = 0; i < JOBS; i += EVERY) {
        snprintf(oversized, sizeof oversized, "large%d", i);
        redis_ok(d.f.r, "ZADD email:delayed %d.5 %b", i, oversized, sizeof oversized);
    }
    redis_ok(d.f.r, "EXEC");
    expect_ready(&d, JOBS);
    settle(&d);
    cr_assert_eq(delayed(&d), (JOBS + EVERY - 1) / EVERY);
    cr_assert_geq(metric_get(&of(&d, 0)->large), (JOBS + EVERY - 1) / EVERY);
    cr_assert_leq(driver_run(&d.instance.driver, 200), 5, "the dispatcher spins on oversized entries");
    redis_ok(d.f.r, "ZADD email:delayed -1 first 9999 last");
    expect_ready(&d, JOBS + 2);
    redis_ok(d.f.r, "ZPOPMIN email:delayed");
    redis_ok(d.f.r, "ZADD email:delayed 50000 another");
    expect_ready(&d, JOBS + 3);
    redis_ok(d.f.r, "DEL email:delayed"); /* an operator removes the oversized entries */
    redis_ok(d.f.r, "ZADD email:delayed 1 new");
    expect_ready(&d, JOBS + 4);
}

Test(redis_dispatcher, waits_while_ready_is_full) {
    setup_begin(&d, (fixture_options_t){.config = ALONE("ready_limit = 5;"), .proxy = true});
    add_due(&d, 12);
    expect_ready(&d, 5);
    long before = proxy_requests(d.f.proxy, "EVALSHA");
    long steps = driver_run(&d.instance.driver, 600);
    cr_assert_eq(ready(&d), 5);
    cr_assert_leq(proxy_requests(d.f.proxy, "EVALSHA") - before, 2 * (2 + wait_scaled_ms(600) / 250),
                  "at most two requests for each retry");
    cr_assert_leq(steps, 12);
    cr_assert(driver_until(&d.instance.driver, metric_get(&of(&d, 0)->full_us) > 0, 3000));
    for (long long left = 7; left > 0; left -= 5) {
        redis_ok(d.f.r, "DEL email");
        expect_ready(&d, left < 5 ? left : 5);
    }
}

Test(redis_dispatcher, without_the_lock_nothing_moves) {
    setup_begin(&d, (fixture_options_t){.proxy = true});
    settle(&d);
    redis_ok(d.f.r, "SET sidecar:app:lock another");
    add_due(&d, 5);
    cr_assert(driver_until(&d.instance.driver, lease_take_suspicion(d.instance.leases, 0), 3000),
              "the dispatcher must report the lost lock to the leader");
    long before = proxy_requests(d.f.proxy, NULL);
    cr_assert_leq(driver_run(&d.instance.driver, 200), 3);
    cr_assert_leq(proxy_requests(d.f.proxy, NULL), before);
    cr_assert_eq(delayed(&d), 5);
    cr_assert(wait_for(proxy_connections(d.f.proxy) == 0, 3000), "a dispatcher that does not lead keeps a connection");
    cr_assert_eq(fixture_log_count("fenced"), 1);
    instance_lead(&d.instance, d.f.r);
    expect_ready(&d, 5);
    lease_end(d.instance.leases, 0);
    driver_step(&d.instance.driver, 1);
    cr_assert(wait_for(proxy_connections(d.f.proxy) == 0, 3000));
}

Test(redis_dispatcher, an_expired_lease_is_not_used) {
    setup_begin(&d, (fixture_options_t){.proxy = true});
    settle(&d);
    fixture_step_boottime(24 * 3600 * 1000 + 1);
    add_due(&d, 5);
    settle(&d);
    cr_assert_eq(delayed(&d), 5);
    cr_assert(wait_for(proxy_connections(d.f.proxy) == 0, 3000));
}

/* Scripts that promote a backlog of JOBS jobs when each may take this long. */
static int64_t scripts_with_slice(const char *slice) {
    enum { JOBS = 20000 };
    char *settings = kept_printf("slice = \"%s\";", slice);
    setup_begin(&d, (fixture_options_t){.redis = settings, .config = "group = \"app\"; queues = ( { name = \"email\"; } );"});
    redis_ok(d.f.r, "EVAL %s 1 email:delayed %d", "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], i, 'job' .. i) end", JOBS);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN email") == JOBS, 20000));
    int64_t scripts = metric_get(&of(&d, 0)->batches);
    setup_end(&d);
    return scripts;
}

Test(redis_dispatcher, batches_are_as_large_as_the_slice_allows, .timeout = 60) {
    int64_t many = scripts_with_slice("50us"), few = scripts_with_slice("100ms");
    cr_assert_gt(many, 2 * few, "%lld scripts of 50 us, %lld of 100 ms", (long long)many, (long long)few);
}

/* The script reads all active jobs, which takes longer than redis.slice. Batches of one job would repeat that for each job. */
Test(redis_dispatcher, many_active_jobs_of_bull_leave_batches_large, .timeout = 120) {
    enum { ACTIVE = 10000, DUE = 4000, MOST_SCRIPTS = DUE / 10 };
    setup_begin(&d, (fixture_options_t){.redis = "slice = \"100us\";",
                                        .config = "group = \"app\"; queues = ( { name = \"video\"; dialect = \"bull\"; } );"});
    settle(&d);
    redis_ok(d.f.r, "EVAL %s 0 %d %d",
             "for i = 1, ARGV[1] do redis.call('LPUSH', 'bull:video:active', 'a' .. i) end "
             "for i = 1, ARGV[2] do redis.call('HSET', 'bull:video:' .. i, 'name', 'n', 'priority', '0') "
             "redis.call('ZADD', 'bull:video:delayed', string.format('%.0f', i * 4096), i) end return 1",
             ACTIVE, DUE);
    redis_ok(d.f.r, "CONFIG RESETSTAT");
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN bull:video:wait") == DUE, 60000));
    long long scripts = server_commandstat(d.f.server, "evalsha");
    cr_assert_lt(scripts, MOST_SCRIPTS, "%lld scripts", scripts);
}
