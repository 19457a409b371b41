/* The watcher's log and metrics, while sentinels and servers come and go. */
#include "fixture.h"
#include "redis/sentinel/locator.h"
#include "role/watcher.h"
#include "sentinels.h"

enum { SOON_MS = 5000, PERIOD_MS = 11000, DISAGREE_MS = 6000 };

typedef struct {
    sentinels_t *s;
    config_t *config;
    topology_t *topology;
    metrics_t *metrics;
    watcher_t *watcher;
    driver_t driver;
} fixture_watcher_t;

static void begin(fixture_watcher_t *w) {
    *w = (fixture_watcher_t){.s = sentinels_begin(NULL), .metrics = metrics_new(1)};
    char *settings = sentinels_settings(w->s);
    w->config = fixture_config("redis = { %s }; queues = ( { name = \"q\"; } );", settings);
    w->topology = topology_new(&w->config->redis);
    topology_set_metrics(w->topology, w->metrics);
    locator_attach(w->topology);
    driver_open(&w->driver);
    w->watcher = watcher_new(w->topology, w->metrics, &w->driver.role);
    driver_add(&w->driver, watcher_tick, w->watcher);
    fixture_capture_log();
    free(settings);
    cr_assert(driver_until(&w->driver, metric_get(&w->metrics->sentinels_answering) == SENTINELS, SOON_MS));
}

static void end(fixture_watcher_t *w) {
    watcher_free(w->watcher);
    driver_close(&w->driver);
    topology_free(w->topology);
    metrics_free(w->metrics);
    config_free(w->config);
    sentinels_end(w->s);
}

static fixture_watcher_t w;

/* Lets the period of the watcher pass. */
static void pass_period(void) {
    fixture_step_boottime(PERIOD_MS);
    driver_run(&w.driver, 100);
}

static int port_of_primary(void) {
    endpoint_t endpoint;
    shard_address(topology_shard(w.topology, 0), &endpoint);
    return endpoint.port;
}

SUITE(redis_sentinel_watcher, begin(&w), end(&w));

/* No role has lost its connection, and the period is far: only an event tells. */
Test(redis_sentinel_watcher, hears_a_failover_and_logs_it_once) {
    cr_assert_eq(port_of_primary(), sentinels_port(w.s, 0));
    cr_assert_eq(fixture_log_count("another server is the primary"), 0, "the first primary is no change");
    fixture_hold_boottime();
    sentinels_failover(w.s);
    cr_assert(driver_until(&w.driver, port_of_primary() != sentinels_port(w.s, 0), SENTINELS_SWITCH_MS), "no event was heard");
    cr_assert_eq(port_of_primary(), sentinels_port(w.s, sentinels_primary(w.s, NULL)));
    driver_run(&w.driver, 1500); /* the other events of this failover */
    cr_assert_eq(fixture_log_count("another server is the primary"), 1);
    cr_assert_eq(metric_get(&w.metrics->primary_changes), 1);
}

Test(redis_sentinel_watcher, logs_once_that_sentinels_are_gone_and_back) {
    sentinel_kill(w.s, 1);
    pass_period();
    cr_assert(driver_until(&w.driver, metric_get(&w.metrics->sentinels_answering) == SENTINELS - 1, SOON_MS));
    for (int i = 0; i < 3; i++) pass_period();
    cr_assert_eq(fixture_log_count("a sentinel does not answer"), 1);
    sentinel_kill(w.s, 0);
    sentinel_kill(w.s, 2);
    cr_assert(driver_until(&w.driver, metric_get(&w.metrics->sentinels_answering) == 0, SOON_MS), "a lost event connection");
    for (int i = 0; i < 3; i++) pass_period();
    cr_assert_eq(fixture_log_count("cannot learn where the primary is"), 1);
    for (int i = 0; i < SENTINELS; i++) sentinel_restart(w.s, i);
    cr_assert(driver_until(&w.driver, metric_get(&w.metrics->sentinels_answering) == SENTINELS, SOON_MS));
    cr_assert_eq(fixture_log_count("learned where the primary is"), 1);

    /* The events of restarted sentinels are heard again. */
    sentinels_await_settled(w.s);
    pass_period();
    fixture_hold_boottime();
    sentinels_failover(w.s);
    cr_assert(driver_until(&w.driver, port_of_primary() != sentinels_port(w.s, 0), SENTINELS_SWITCH_MS), "no event was heard");
}

Test(redis_sentinel_watcher, logs_a_disagreement_that_lasts) {
    scoped(server_drop) server_t *foreign = server_start(&(server_options_t){.tcp = true});
    sentinel_lie(w.s, 2, server_port(foreign), 0);
    pass_period();
    cr_assert_eq(fixture_log_count("the sentinels disagree"), 0, "a failover takes some time to spread");
    fixture_step_boottime(DISAGREE_MS);
    cr_assert(driver_until(&w.driver, fixture_log_count("the sentinels disagree") == 1, SOON_MS));
    cr_assert_eq(port_of_primary(), sentinels_port(w.s, 0));
}
