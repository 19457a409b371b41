/* The auditor removes rows while new records arrive. */
#include "auditor_fixture.h"

enum { RETAIN_MS = 172800000, STEP_MS = 61000, OLD = 200 };

/* Starts an auditor with OLD rows that expire in half a minute. Stops its local clock. */
static void open_old(setup_t *d) {
    open_auditor(d, (fixture_options_t){.proxy = true}, "", "", NULL);
    d->f.config->redis.timeout_ms = 60000;
    d->f.config->audit.retain_ms = RETAIN_MS;
    fixture_hold_boottime();
    restart(d);
    redis_ok(d->f.r, "EVAL %s 1 sidecar:email:failures %d %d",
             "local at = tonumber(redis.call('TIME')[1]) * 1000 - ARGV[1] + 30000 "
             "for i = 1, tonumber(ARGV[2]) do redis.call('XADD', KEYS[1], '*', 'event', redis.sha1hex(i) .. string.rep('0', 24), "
             "'kind', 'failed', 'job', i, 'at', string.format('%.0f', at)) end",
             RETAIN_MS, OLD);
    expect_rows(d, OLD);
    settle(d);
}

/* A reply arrives in hundreds of parts. A removal after each part would delay new rows by as many commits. */
Test(redis_auditor_retain, no_rows_are_removed_while_a_reply_arrives) {
    setup_t d = {0};
    open_old(&d);
    proxy_stall_after(d.f.proxy, PROXY_DOWN, 40000);
    redis_ok(d.f.r, "EVAL %s 1 sidecar:email:failures",
             "redis.call('XADD', KEYS[1], '*', 'event', string.rep('ab', 32), 'kind', 'failed', 'job', 'new', 'at', "
             "redis.call('TIME')[1] .. '000', 'payload', string.rep('p', 200000))");
    cr_assert(driver_until(&d.instance.driver, proxy_fired(d.f.proxy) == 1, 5000));
    driver_run(&d.instance.driver, 50); /* reads the parts that have arrived */
    fixture_step_boottime(STEP_MS);
    for (int i = 0; i < 10; i++) driver_step(&d.instance.driver, 5);
    cr_assert_eq(audit_log_rows(d.path), OLD, "%lld rows are left", audit_log_rows(d.path));
    proxy_pass(d.f.proxy);
    expect_rows(&d, OLD + 1);
    settle(&d);
    fixture_step_boottime(STEP_MS);
    expect_rows(&d, 1); /* although no record arrives */
    cr_assert_eq(metric_get(&metrics_of(&d)->reconnects), 0);
    cr_assert_eq(audit_log_int(d.path, "SELECT count(*) FROM events WHERE job = 'new'"), 1);
    close_auditor(&d);
}

/* The stream still has their records, and each start reads it from the beginning. */
Test(redis_auditor_retain, removed_rows_are_not_copied_again) {
    setup_t d = {0};
    open_old(&d);
    fixture_step_boottime(STEP_MS);
    expect_rows(&d, 0);
    restart(&d);
    settle(&d);
    cr_assert_eq(redis_int(d.f.r, "XLEN sidecar:email:failures"), OLD);
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_rows), 0);
    cr_assert_eq(audit_log_rows(d.path), 0);
    close_auditor(&d);
}

/* A log of 32 MiB gets 75 MiB at once. */
Test(redis_auditor_retain, a_storm_exceeds_a_limit_by_little, .timeout = 300) {
    enum { RECORDS = 40000, PART = 4000 };
    setup_t d = {.audit = "retain_bytes = \"32MiB\";"};
    int64_t fullest = 0;
    open_auditor(&d, (fixture_options_t){0}, "", "stream = { max_bytes = \"1GiB\"; };", NULL);
    settle(&d);
    for (int i = 0; i < RECORDS; i += PART)
        redis_ok(d.f.r, "EVAL %s 1 sidecar:email:failures %d %d",
                 "for i = ARGV[1] + 1, ARGV[1] + ARGV[2] do redis.call('XADD', KEYS[1], '*', 'event', redis.sha1hex(i) .. "
                 "string.rep('0', 24), "
                 "'kind', 'failed', 'job', i, 'at', redis.call('TIME')[1] .. '000', 'payload', string.rep('p', 1000)) end",
                 i, PART);
    bool copied = driver_until(&d.instance.driver, ({
        int64_t full = metric_get(&metrics_of(&d)->audit_full_percent);
        if (full > fullest) fullest = full;
        metric_get(&metrics_of(&d)->audit_rows) == RECORDS;
    }),
                               60000);
    cr_assert(copied);
    cr_assert_leq(fullest, 140, "%lld %% of the limit", (long long)fullest);
    cr_assert_geq(fullest, 100, "it was never full");
    close_auditor(&d);
}
