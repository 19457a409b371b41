#include "operate/shards.h"

#include "base/buffer.h"
#include "redis/cluster/cluster.h"
#include "redis/reply.h"
#include "redis/sentinel/locator.h"

queue_shards_t *shards_new(const config_t *config, const char *name, const atomic_bool *stop) {
    queue_shards_t *shards = mem_alloc(sizeof *shards);
    keyspace_t *keys = keyspace_new(config);
    *shards = (queue_shards_t){.config = config, .name = name, .stop = stop, .topology = topology_new(&config->redis)};
    locator_attach(shards->topology);
    shards->slots = mem_array(config->queue_count, sizeof *shards->slots);
    for (size_t i = 0; i < keys->queue_count; i++) shards->slots[i] = keyspace_slot(keys->locks[keys->queues[i].lock].key);
    keyspace_free(keys);
    shard_address(topology_shard(shards->topology, 0), &shards->first);
    return shards;
}

static void shards_forget(queue_shards_t *shards) {
    for (size_t i = 0; i < shards->count; i++) {
        conn_free(shards->items[i].conn);
        keyspace_free(shards->items[i].keys);
    }
    shards->count = 0;
    conn_free(shards->other);
    shards->other = NULL;
}

void shards_free(queue_shards_t *shards) {
    if (!shards) return;
    shards_forget(shards);
    topology_free(shards->topology);
    free(shards->slots);
    free(shards);
}

static void shards_add(queue_shards_t *shards, size_t index) {
    bool *wanted = mem_array(shards->config->queue_count, sizeof *wanted);
    bool any = false;
    for (size_t i = 0; i < shards->config->queue_count; i++) {
        wanted[i] = topology_shard_of(shards->topology, shards->slots[i]) == index;
        any |= wanted[i];
    }
    if (any)
        shards->items[shards->count++] =
            (queue_shard_t){.conn = conn_new(topology_shard(shards->topology, index), shards->name, shards->stop),
                            .keys = keyspace_new_part(shards->config, wanted)};
    free(wanted);
}

outcome_t shards_find(queue_shards_t *shards, bool ask, redis_error_t *error) {
    *error = (redis_error_t){0};
    bool moved = topology_take_refresh(shards->topology);
    if (topology_is_cluster(shards->topology) && (ask || moved)) cluster_refresh(shards->topology, shards->stop, error);
    if (error->outcome != OUTCOME_OK || (shards->version && shards->slots_version == topology_version(shards->topology)))
        return error->outcome;
    shards_forget(shards);
    shards->version++;
    shards->slots_version = topology_version(shards->topology);
    for (size_t i = 0; i < topology_shard_count(shards->topology); i++) shards_add(shards, i);
    return OUTCOME_OK;
}

outcome_t shards_connect(queue_shards_t *shards, unsigned slot, conn_t **conn, redis_error_t *error) {
    if (shards_find(shards, shards->version == 0, error) != OUTCOME_OK) return error->outcome;
    size_t index = topology_shard_of(shards->topology, slot);
    if (index == TOPOLOGY_SHARDS_MAX) return redis_error_set(error, OUTCOME_RETRY, "no node of the Cluster serves slot %u", slot);
    if (!shards->other) shards->other = conn_new(topology_shard(shards->topology, index), shards->name, shards->stop);
    *conn = shards->other;
    return conn_open(*conn, error);
}

const char *shards_target(const queue_shards_t *shards) {
    return shards->count ? conn_target(shards->items[0].conn) : shards->first.text;
}

bool shards_in_cluster(const queue_shards_t *shards) { return topology_is_cluster(shards->topology); }

bool shards_is_served(const queue_shards_t *shards, size_t queue) {
    return topology_shard_of(shards->topology, shards->slots[queue]) < TOPOLOGY_SHARDS_MAX;
}

enum { WAIT_MS = 1000, REPLY_MS = 5000 }; // for a replica

static bool shards_have_replica(conn_t *conn) {
    redisReply *role;
    redis_error_t error;
    request_begin(conn, "ROLE");
    outcome_t outcome = request_ask(conn, &role, &error);
    const redisReply *replicas = reply_at(role, 2);
    bool exists = outcome == OUTCOME_OK && reply_is(reply_at(role, 0), "master") && replicas && replicas->elements > 0;
    conn_reply_free(role);
    return exists;
}

char *shards_wait_for_replica(conn_t *conn) {
    redisReply *reply;
    redis_error_t error;
    if (!conn_is_open(conn) || !shards_have_replica(conn)) return NULL;
    request_begin(conn, "WAIT", "1");
    request_int(conn, WAIT_MS);
    request_end(conn);
    outcome_t outcome = conn_read(conn, WAIT_MS + REPLY_MS, &reply, &error);
    bool answered = outcome == OUTCOME_OK, confirmed = answered && reply_int(reply) > 0;
    conn_reply_free(reply);
    if (confirmed) return NULL;
    return mem_printf("redis at %s: no replica has confirmed this%s%s; a failover now may undo it", conn_target(conn),
                      answered ? " within 1 s" : ": ", answered ? "" : error.text);
}
