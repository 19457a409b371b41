/* Least privilege in a Cluster: what docs/acl.md publishes is enough to find all primaries, and each right is needed. */
#include "fixture.h"
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
