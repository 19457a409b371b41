/* Least privilege in a Cluster: what docs/acl.md publishes is enough to find all primaries, and each right is needed. */
#include "fixture.h"
#include "queue/lock.h"
#include "redis/cluster/cluster.h"
#include "redis_cluster.h"
#include "rights.h"

/* The rights in a Cluster, without this one. */
static void grant(const nodes_t *nodes, const char *without) {
    scoped(rights_free) rights_t line = rights_read(NULL), more = rights_read_behind("\nIn a Cluster ");
    size_t skipped = SIZE_MAX;
    for (size_t i = 0; i < more.count; i++) line.words[line.count++] = more.words[i];
    for (size_t i = 0; without && i < line.count; i++)
        if (strcmp(line.words[i], without) == 0) skipped = i;
    cr_assert(!without || skipped < line.count, "docs/acl.md has no %s", without);
    for (size_t i = 0; i < nodes->count; i++) {
        scoped(redis_drop) redis_t *r = redis_open(nodes->servers[i]);
        rights_grant(r, &line, without ? line.words[skipped] : NULL);
    }
}

/* The epoch of the slot map that the user gets without this right; -1: it gets none. */
static int64_t epoch_without(const nodes_t *nodes, const config_t *config, const char *without) {
    grant(nodes, without);
    scoped(topology_drop) topology_t *topology = topology_new(&config->redis);
    redis_error_t error;
    int64_t epoch = cluster_refresh(topology, NULL, &error) == OUTCOME_OK ? topology_map_epoch(topology) : -1;
    if (epoch >= 0) cr_assert_lt(topology_shard_of(topology, 0), TOPOLOGY_SHARDS_MAX);
    return epoch;
}

Test(redis_cluster_acl, the_published_rights_find_the_slots_and_each_is_needed, .timeout = 60) {
    scoped(nodes_free) nodes_t nodes = nodes_start(2, 0);
    scoped(config_drop) config_t *config = fixture_config("redis = { host = \"127.0.0.1\"; port = %d; " RIGHTS_LOGIN " };\n"
                                                          "queues = ( { name = \"{a}\"; } );",
                                                          server_port(nodes.servers[0]));
    config->redis.mode = REDIS_MODE_CLUSTER;
    cr_assert_gt(epoch_without(&nodes, config, NULL), 0);
    cr_assert_eq(epoch_without(&nodes, config, "+cluster|info"), 0, "the epoch is known without CLUSTER INFO");
    cr_assert_eq(epoch_without(&nodes, config, "+cluster|slots"), -1);
}

/* Renews the lock of {a} at the node to which its slot is being moved. */
static outcome_t renew(const nodes_t *nodes, const config_t *config, size_t node, const char *token) {
    redis_error_t error;
    scoped(topology_drop) topology_t *topology = topology_new_at(&config->redis, "127.0.0.1", server_port(nodes->servers[node]));
    scoped(conn_drop) conn_t *conn = conn_new(topology_shard(topology, 0), "test", NULL);
    scoped(keyspace_drop) keyspace_t *keys = keyspace_new(config);
    cr_assert_eq(conn_open(conn, &error), OUTCOME_OK, "%s", error.text);
    const lock_call_t call = {.conn = conn, .keys = keys, .token = token, .ttl_ms = 60000, .error = &error};
    return lock_renew_asking(&call);
}

Test(redis_cluster_acl, asking_renews_the_lock_while_its_slot_is_moved, .timeout = 60) {
    static const char token[] = "0123456789abcdef0123456789abcdef-60000";
    scoped(nodes_free) nodes_t nodes = nodes_start(2, 0);
    scoped(config_drop) config_t *config = fixture_config("redis = { host = \"127.0.0.1\"; port = %d; " RIGHTS_LOGIN " };\n"
                                                          "lock = { scope = \"queue\"; }; queues = ( { name = \"{a}\"; } );",
                                                          server_port(nodes.servers[0]));
    unsigned slot = nodes_slot(&nodes, "{a}");
    size_t to = 1 - nodes_owner(&nodes, slot);
    scoped(redis_drop) redis_t *r = nodes_open(&nodes, "{a}");
    redis_ok(r, "SET sidecar:{a}:lock %s PX 60000", token);
    nodes_move_begin(&nodes, slot, to);
    cr_assert_eq(nodes_move_keys(&nodes, slot, to, 10), 0);
    grant(&nodes, NULL);
    cr_assert_eq(renew(&nodes, config, to, token), OUTCOME_OK);
    grant(&nodes, "+asking");
    cr_assert_neq(renew(&nodes, config, to, token), OUTCOME_OK);
}
