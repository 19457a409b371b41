/* The lines about an outage: one when it begins, one a minute while it lasts, and one when it ends, of all connections together.
 */
#include "redis/service/outage.h"

#include "fixture.h"

static bool fails(outage_t *outage, bool fresh, outcome_t outcome, int64_t expected_s) {
    int64_t lasted_s;
    bool tell = outage_failed(outage, fresh, outcome, &lasted_s);
    cr_assert_eq(lasted_s, expected_s, "%lld s", (long long)lasted_s);
    return tell;
}

static bool recovers(outage_t *outage, int64_t expected_s) {
    int64_t lasted_s;
    bool tell = outage_recovered(outage, &lasted_s);
    cr_assert(!tell || lasted_s == expected_s, "%lld s", (long long)lasted_s);
    return tell;
}

Test(unit_outage, all_connections_log_once_a_minute) {
    outage_t begun = {0}, *outage = &begun;
    fixture_hold_boottime();
    cr_assert(fails(outage, true, OUTCOME_DISCONNECTED, 0), "the beginning");
    cr_assert_not(fails(outage, true, OUTCOME_DISCONNECTED, 0), "another connection");
    for (int s = 1; s < 60; s++) {
        fixture_step_boottime(1000);
        cr_assert_not(fails(outage, false, OUTCOME_DISCONNECTED, s));
    }
    cr_assert(fails(outage, false, OUTCOME_RETRY, 59), "another kind of error");
    fixture_step_boottime(1000);
    cr_assert(fails(outage, false, OUTCOME_DISCONNECTED, 60), "a minute later");
    cr_assert_not(fails(outage, false, OUTCOME_RETRY, 60));
    fixture_step_boottime(5000);
    cr_assert_not(recovers(outage, 65), "another connection still fails");
    cr_assert(recovers(outage, 65), "the end");

    cr_assert_not(fails(outage, true, OUTCOME_DISCONNECTED, 0), "a connection that comes and goes fills no log");
    cr_assert_not(recovers(outage, 0), "the end of what nobody was told");
    fixture_step_boottime(60000);
    cr_assert(fails(outage, true, OUTCOME_DISCONNECTED, 0));
    cr_assert(recovers(outage, 0));
}
