/* The metric tracking_refused counts the roles to which Redis refuses client tracking. It outlives connections and, in a reload,
 * roles. */
#include "fixture.h"
#include "role/session.h"

static void reset(void *self) { (void)self; }

static const session_ops_t OPS = {.role = "dispatcher", .data_name = "data", .subscriber_name = "subscriber", .reset = reset};

Test(unit_session, refused_tracking_is_counted_once_per_role) {
    fixture_capture_log();
    scoped(config_drop) config_t *config = fixture_config("queues = ( { name = \"email\"; } );");
    scoped(topology_drop) topology_t *topology = topology_new(&config->redis);
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    atomic_bool stop = false;
    redis_error_t error;
    session_t session;
    session_init(&session, &OPS, NULL, topology_shard(topology, 0), metrics, &stop);
    redis_error_set(&error, OUTCOME_REFUSED, "NOPERM");
    for (int i = 0; i < 2; i++) session_disable_tracking(&session, &error, mono_now());
    cr_assert_eq(metric_get(&metrics->tracking_refused), 1);
    session_close(&session); /* the next connection may have the right */
    cr_assert_eq(metric_get(&metrics->tracking_refused), 0);
    session_disable_tracking(&session, &error, mono_now());
    cr_assert_eq(metric_get(&metrics->tracking_refused), 1);
    session_free(&session);
    cr_assert_eq(metric_get(&metrics->tracking_refused), 0, "a freed session is still counted");
}
