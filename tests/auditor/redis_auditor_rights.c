/* Redis withdraws a right of the auditor, and gives it back. */
#include "auditor_fixture.h"
#include "wait.h"

Test(redis_auditor_rights, without_the_right_to_read_the_auditor_waits) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 1, NULL);
    expect_rows(&d, 1);
    redis_ok(d.f.r, "ACL SETUSER default -xread");
    audit_log_feed(d.f.r, "email", 1, 1, NULL);
    driver_run(&d.instance.driver, 4000);
    int64_t tries = metric_get(&metrics_of(&d)->reconnects);
    cr_assert(tries >= 2 && tries <= wait_scaled_ms(16), "%lld tries", (long long)tries);
    redis_ok(d.f.r, "ACL SETUSER default +xread");
    expect_rows(&d, 2);
    close_auditor(&d);
}
