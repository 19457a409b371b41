/* Log lines about terms. */
#include "fixture.h"

/* The log must not suppress the end of a term as a repeat of the end of another lock's or an earlier term. */
Test(redis_leader_log, end_of_each_term_is_logged) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; lock = { scope = \"queue\"; ttl = \"800ms\"; }; queues = ( { name = \"{a}\"; }, "
                  "{ name = \"{b}\"; } );",
        .closed = true});
    scoped(instance_stop) instance_t instance;
    instance_start(&instance, f.keys, INSTANCE_LEADER);
    for (int ends = 2; ends <= 4; ends += 2) {
        cr_assert(driver_until(&instance.driver, metric_get(&instance.metrics->leading) == 2, 10000), "%s", fixture_log());
        redis_ok(f.r, "DEL sidecar:{a}:lock sidecar:{b}:lock");
        cr_assert(driver_until(&instance.driver, metric_get(&instance.metrics->terms_lost) >= ends, 10000));
        cr_assert_eq(fixture_log_count("no longer leading"), metric_get(&instance.metrics->terms_lost), "%s", fixture_log());
    }
}
