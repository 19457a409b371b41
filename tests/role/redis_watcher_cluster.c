/* The watcher of a Cluster that is away at the start, or whose slots have no primary. */
#include "fixture.h"
#include "redis_cluster.h"
#include "role/watcher.h"

enum { SOON_MS = 5000 };

Test(redis_watcher_cluster, asks_again_while_slots_have_no_primary) {
    scoped(server_drop) server_t *server = server_start(&(server_options_t){.node = true});
    scoped(config_drop) config_t *config =
        fixture_config("redis = { nodes = [\"127.0.0.1:%d\"]; }; queues = ( { name = \"{a}\"; } );", server_port(server));
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    scoped(topology_drop) topology_t *topology = topology_new(&config->redis);
    scoped(driver_close) driver_t driver;
    static const unsigned slots[] = {0, 10}; /* of our queues */
    topology_need_slots(topology, slots, 2);
    topology_set_metrics(topology, metrics);
    fixture_capture_log();
    driver_open(&driver);
    watcher_t *watcher = watcher_new(topology, metrics, &driver.role);
    driver_add(&driver, watcher_tick, watcher);
    server_kill(server);
    cr_assert(driver_until(&driver, fixture_log_count("cannot learn where the primary is") == 1, SOON_MS));
    cr_assert_eq(metric_get(&metrics->primaries_missing), 1, "the alert NoPrimary looks at it");
    server_restart(server, SERVER_LOSE_DATA);
    redis_t *r = redis_open(server);
    redis_ok(r, "CLUSTER ADDSLOTS 0");
    cr_assert(driver_until(&driver, topology_shard_of(topology, 0) == 0, SOON_MS), "a node that has started is not found");
    cr_assert_eq(metric_get(&metrics->primaries_missing), 1, "a queue's slot has no primary");
    redis_ok(r, "CLUSTER ADDSLOTS 10");
    cr_assert(driver_until(&driver, topology_shard_of(topology, 10) == 0, SOON_MS), "slots that are served now are not found");
    cr_assert(driver_until(&driver, metric_get(&metrics->primaries_missing) == 0, SOON_MS));
    redis_close(r);
    watcher_free(watcher);
}
