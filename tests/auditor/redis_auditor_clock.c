/* The auditor and clocks that disagree. */
#include "auditor_fixture.h"
#include "wait.h"

/* A Redis clock that is ahead by more than audit.retain must not empty the log. */
static void expect_no_row_expires(int64_t retain_ms, int64_t ahead_ms) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.preload = "shim_clock"}, "", "", NULL);
    d.f.config->audit.retain_ms = retain_ms;
    restart(&d);
    redis_ok(d.f.r, "EVAL %s 1 sidecar:email:failures",
             "local id = string.rep('ab', 32) redis.call('XADD', KEYS[1], '*', 'event', id, 'kind', 'failed', 'job', '1', 'at', "
             "redis.call('TIME')[1] .. '000')");
    expect_rows(&d, 1);
    server_step_clock(d.f.server, ahead_ms);
    restart(&d);
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("too far apart") == 1, 5000));
    settle(&d);
    cr_assert_eq(audit_log_rows(d.path), 1);
    server_step_clock(d.f.server, -ahead_ms);
    restart(&d);
    settle(&d);
    cr_assert_eq(audit_log_rows(d.path), 1);
    close_auditor(&d);
}

static setup_t d;
SUITE(redis_auditor_clock, , close_auditor(&d));

Test(redis_auditor_clock, no_rows_expire_while_the_clocks_disagree) { expect_no_row_expires(1728000000, 2592000000); }

Test(redis_auditor_clock, a_short_retain_needs_closer_clocks) { expect_no_row_expires(3600000, 7200000); }

/* The lag ends with the last record, also if this record fills a reply exactly. */
Test(redis_auditor_clock, the_lag_ends_with_the_last_record) {
    open_auditor(&d, (fixture_options_t){0}, "", "", "{ name = \"email\"; }, { name = \"sms\"; }");
    settle(&d);
    for (int i = 1; i <= 3; i++) { /* records with old ids */
        audit_log_feed(d.f.r, i == 2 ? "sms" : "email", i, 1, "5");
        expect_rows(&d, i);
        cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->audit_lacks_ns) == 0, 5000), "%lld ms",
                  (long long)metric_get(&metrics_of(&d)->audit_lacks_ns));
    }
}

/* Without a reply there is no time: it is not 1970. */
Test(redis_auditor_clock, a_refused_look_at_the_streams_is_no_step_of_the_clock) {
    open_auditor(&d, (fixture_options_t){.preload = "shim_clock", .proxy = true}, "", "", NULL);
    settle(&d);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "EVALSHA", .error = "-ERR no", .times = -1});
    fixture_step_boottime(120000);
    server_step_clock(d.f.server, 120000);
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("cannot read failure stream") == 1, 10000));
    proxy_pass(d.f.proxy);
    fixture_step_boottime(120000);
    server_step_clock(d.f.server, 120000);
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("failure stream can be read again") == 1, 10000));
    cr_assert_eq(fixture_log_count("clock has stepped"), 0);
}
