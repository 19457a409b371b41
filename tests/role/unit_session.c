/* How many roles are deaf is counted in the metrics, which outlive each connection and, over a reload, each role. */
#include "fixture.h"
#include "role/session.h"

#include <criterion/criterion.h>

static void reset(void *self) { (void)self; }

static const session_ops_t OPS = {.role = "dispatcher", .data_name = "data", .subscriber_name = "ear", .reset = reset};

Test(unit_session, refused_tracking_is_counted_once_per_role) {
    config_t *config = fixture_config("queues = ( { name = \"email\"; } );");
    metrics_t *metrics = metrics_new(1);
    atomic_bool stop = false;
    redis_error_t error;
    session_t link;
    session_init(&link, &OPS, NULL, &config->redis, metrics, &stop);
    redis_error_set(&error, OUTCOME_REFUSED, "NOPERM");
    for (int i = 0; i < 2; i++) session_disable_tracking(&link, &error, mono_now());
    cr_assert_eq(metric_get(&metrics->tracking_refused), 1);
    session_close(&link); /* nobody knows what the next connection may do */
    cr_assert_eq(metric_get(&metrics->tracking_refused), 0);
    session_disable_tracking(&link, &error, mono_now());
    cr_assert_eq(metric_get(&metrics->tracking_refused), 1);
    session_free(&link);
    cr_assert_eq(metric_get(&metrics->tracking_refused), 0, "the next one would be counted on top of it, for ever");
    metrics_free(metrics);
    config_free(config);
}
