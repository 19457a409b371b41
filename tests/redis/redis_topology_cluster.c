/* The topology of a real Redis Cluster: refreshed, after failovers, moves and lies. */
#include "fixture.h"
#include "queue/lock.h"
#include "redis/cluster/cluster.h"
#include "redis/conn.h"
#include "redis_cluster.h"
#include "wait.h"

typedef struct {
    nodes_t nodes;
    config_t *config;
    topology_t *topology;
} world_t;

/* Whose first seed is this port. */
static config_t *seed_config(int port) {
    config_t *config = fixture_config("redis = { host = \"127.0.0.1\"; port = %d; }; queues = ( { name = \"{a}\"; } );", port);
    config->redis.mode = REDIS_MODE_CLUSTER;
    return config;
}

static world_t begin(size_t primaries, size_t replicas) {
    world_t w = {.nodes = nodes_start(primaries, replicas)};
    w.config = seed_config(server_port(w.nodes.servers[0]));
    w.topology = topology_new(&w.config->redis);
    return w;
}

static void end(world_t *w) {
    topology_free(w->topology);
    config_free(w->config);
    nodes_free(&w->nodes);
}

static world_t w;

static void refresh(void) {
    redis_error_t error;
    cr_assert_eq(cluster_refresh(w.topology, NULL, &error), OUTCOME_OK, "%s", error.text);
}

static int port_of(unsigned slot) {
    endpoint_t at;
    size_t shard = topology_shard_of(w.topology, slot);
    if (shard == TOPOLOGY_SHARDS_MAX) return 0;
    shard_address(topology_shard(w.topology, shard), &at);
    return at.port;
}

static void expect_owner(unsigned slot) {
    cr_assert_eq(port_of(slot), server_port(w.nodes.servers[nodes_owner(&w.nodes, slot)]), "slot %u", slot);
}

SUITE(redis_topology_cluster, , end(&w));

Test(redis_topology_cluster, knows_the_primary_of_each_slot) {
    w = begin(3, 0);
    cr_assert(topology_is_cluster(w.topology));
    cr_assert_eq(topology_shard_of(w.topology, 0), TOPOLOGY_SHARDS_MAX);
    refresh();
    cr_assert_eq(topology_shard_count(w.topology), 3);
    for (unsigned slot = 0; slot < SLOTS; slot += 331) expect_owner(slot);
    unsigned version = topology_version(w.topology);
    refresh();
    cr_assert_eq(topology_version(w.topology), version, "the same map is no change");
}

Test(redis_topology_cluster, a_shard_outlives_its_primary) {
    w = begin(3, 1);
    unsigned slot = 5;
    refresh();
    size_t shard = topology_shard_of(w.topology, slot), count = topology_shard_count(w.topology);
    unsigned epoch = shard_epoch(topology_shard(w.topology, shard)), version = topology_version(w.topology);
    nodes_kill_primary(&w.nodes, slot);
    refresh();
    expect_owner(slot);
    cr_assert_eq(topology_shard_of(w.topology, slot), shard);
    cr_assert_gt(shard_epoch(topology_shard(w.topology, shard)), epoch);
    cr_assert_eq(topology_version(w.topology), version);
    cr_assert_eq(topology_shard_count(w.topology), count);
}

/* This one too. */
static long long connections_of(server_t *server) { return server_info_int(server, "stats", "total_connections_received"); }

/* One node alone decides not where the password goes. */
Test(redis_topology_cluster, a_moved_reply_to_a_server_that_no_map_knows_asks_for_the_map) {
    w = begin(1, 0);
    scoped(server_drop) server_t *foreign = server_start(&(server_options_t){.tcp = true});
    address_t unknown = {.host = "127.0.0.1", .port = server_port(foreign)};
    refresh();
    topology_take_refresh(w.topology);
    long long connections = connections_of(foreign);
    topology_slot_moved(w.topology, 5, &unknown);
    expect_owner(5);
    cr_assert(topology_take_refresh(w.topology), "nobody asks for the map");
    refresh();
    expect_owner(5);
    cr_assert_eq(topology_shard_count(w.topology), 1);
    cr_assert_eq(connections_of(foreign), connections + 1);
}

Test(redis_topology_cluster, a_moved_reply_moves_one_slot_at_once_and_an_ask_none) {
    w = begin(2, 0);
    redis_error_t error;
    unsigned slot = nodes_slot(&w.nodes, "k");
    refresh();
    size_t from = nodes_owner(&w.nodes, slot), old = topology_shard_of(w.topology, slot);
    scoped(conn_drop) conn_t *conn = conn_new(topology_shard(w.topology, old), "test", NULL);
    cr_assert_eq(conn_open(conn, &error), OUTCOME_OK, "%s", error.text);
    nodes_move_begin(&w.nodes, slot, 1 - from);
    topology_take_refresh(w.topology);
    long long connections = connections_of(w.nodes.servers[1 - from]);
    request_begin(conn, "GET", "k");
    cr_assert_eq(request_ask(conn, NULL, &error), OUTCOME_REFUSED);
    cr_assert_eq(error.kind, ERROR_SLOT_IS_MOVING, "%s", error.text);
    cr_assert_eq(topology_shard_of(w.topology, slot), old, "ASK has changed the map");
    cr_assert_eq(connections_of(w.nodes.servers[1 - from]), connections + 1, "ASK was followed");
    nodes_move_finish(&w.nodes, slot, 1 - from);
    request_begin(conn, "GET", "k");
    cr_assert_eq(request_ask(conn, NULL, &error), OUTCOME_REFUSED);
    cr_assert_eq(error.kind, ERROR_SLOT_HAS_MOVED, "%s", error.text);
    cr_assert_neq(topology_shard_of(w.topology, slot), old);
    expect_owner(slot);
    cr_assert(topology_take_refresh(w.topology), "MOVED asks for the whole map");
}

Test(redis_topology_cluster, a_new_node_becomes_a_shard_and_an_empty_one_may_go) {
    w = begin(2, 0);
    refresh();
    size_t added = nodes_add(&w.nodes), old = nodes_owner(&w.nodes, 7);
    nodes_move(&w.nodes, 7, added);
    refresh();
    expect_owner(7);
    cr_assert_eq(topology_shard_count(w.topology), 3);
    nodes_move(&w.nodes, 7, old);
    nodes_remove(&w.nodes, added);
    refresh();
    expect_owner(7);
}

Test(redis_topology_cluster, a_node_with_an_old_map_is_not_believed) {
    w = begin(3, 1);
    unsigned slot = 5;
    refresh();
    size_t old = nodes_owner(&w.nodes, slot);
    server_freeze(w.nodes.servers[old]);
    w.nodes.down[old] = true;
    cr_assert(wait_for(nodes_owner(&w.nodes, slot) != old, 20000));
    refresh();
    expect_owner(slot);
    /* The frozen node is asked first and does not answer; the others agree. */
    refresh();
    expect_owner(slot);
    server_thaw(w.nodes.servers[old]);
}

Test(redis_topology_cluster, a_plain_redis_is_no_cluster) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.tcp = true});
    scoped(config_drop) config_t *config = seed_config(server_port(f.server));
    scoped(topology_drop) topology_t *topology = topology_new(&config->redis);
    redis_error_t error;
    cr_assert_eq(cluster_refresh(topology, NULL, &error), OUTCOME_REFUSED);
    char *expected =
        mem_printf("127.0.0.1:%d: ERR This instance has cluster support disabled; this server is no Cluster: correct "
                   "redis.nodes, or remove it and redis.mode",
                   server_port(f.server));
    cr_assert_str_eq(error.text, expected);
    free(expected);
}

Test(redis_topology_cluster, a_dead_node_is_missed_only_while_it_has_slots) {
    w = begin(2, 0);
    refresh();
    metrics_t *metrics = topology_metrics(w.topology);
    size_t dead = nodes_owner(&w.nodes, 0), other = 1 - dead;
    scoped(conn_drop) conn_t *conn = conn_new(topology_shard(w.topology, topology_shard_of(w.topology, 0)), "test", NULL);
    redis_error_t error;
    server_kill(w.nodes.servers[dead]);
    w.nodes.down[dead] = true;
    cr_assert_eq(conn_open(conn, &error), OUTCOME_DISCONNECTED);
    cr_assert_eq(metric_get(&metrics->primaries_missing), 1);
    address_t node = {.host = "127.0.0.1", .port = server_port(w.nodes.servers[other])};
    slot_map_t *map = mem_alloc(sizeof *map);
    *map = (slot_map_t){.nodes = &node, .node_count = 1};
    for (size_t i = 0; i < SLOT_COUNT; i++) map->owner[i] = 1;
    topology_set_slots(w.topology, map);
    cr_assert_eq(metric_get(&metrics->primaries_missing), 0, "another node has its slots");
    cr_assert_eq(conn_open(conn, &error), OUTCOME_DISCONNECTED);
    cr_assert_eq(metric_get(&metrics->primaries_missing), 0, "a late connect counts it again");
    free(map);
}

/* The node of the configuration, which is asked first, is no primary that has changed. */
Test(redis_topology_cluster, a_failover_after_a_reload_is_logged) {
    config_t *config = fixture_config("redis = { nodes = [\"127.0.0.1:1\"]; }; queues = ( { name = \"{q}\"; } );");
    topology_t *old = topology_new(&config->redis), *next = topology_new(&config->redis);
    address_t node = {.host = "127.0.0.1", .port = 2};
    slot_map_t *map = mem_alloc(sizeof *map);
    *map = (slot_map_t){.nodes = &node, .node_count = 1};
    for (size_t i = 0; i < SLOT_COUNT; i++) map->owner[i] = 1;
    fixture_capture_log();
    topology_set_slots(old, map);
    topology_inherit(next, old);
    topology_set_slots(next, map);
    cr_assert_eq(fixture_log_count("another server is the primary"), 0);
    node.port = 3;
    topology_set_slots(next, map);
    cr_assert_eq(fixture_log_count("another server is the primary"), 1);
    cr_assert_eq(metric_get(&topology_metrics(next)->primary_changes), 1);
    free(map);
    topology_free(old);
    topology_free(next);
    config_free(config);
}

/* A key that a script deletes cannot be made again then. */
Test(redis_topology_cluster, a_leader_acquires_its_lock_again_while_the_slot_is_being_moved) {
    w = begin(2, 0);
    refresh();
    scoped(keyspace_drop) keyspace_t *keys = keyspace_new(w.config);
    const lock_keys_t *lock = &keys->locks[0];
    unsigned slot = nodes_slot(&w.nodes, lock->key);
    scoped(redis_drop) redis_t *r = nodes_open(&w.nodes, lock->key);
    scoped(conn_drop) conn_t *conn = conn_new(topology_shard(w.topology, topology_shard_of(w.topology, slot)), "test", NULL);
    char token[TOKEN_SIZE];
    token_new(token, 60000);
    for (int i = 0; i < 2; i++) {
        redis_error_t error;
        lock_state_t state = {0};
        cr_assert_eq(conn_open(conn, &error), OUTCOME_OK, "%s", error.text);
        cr_assert_eq(lock_acquire(&(lock_call_t){conn, keys, 0, token, 60000, &error}, &state), OUTCOME_OK, "%s", error.text);
        cr_assert(state.acquired);
        redis_expect(r, token, "HGET %s {a}", lock->served);
        lock_state_clear(&state);
        redis_do(r, "HSET %s other 1", lock->standbys); /* now all keys of the script exist */
        if (i == 0) nodes_move_begin(&w.nodes, slot, 1 - nodes_owner(&w.nodes, slot));
    }
}
