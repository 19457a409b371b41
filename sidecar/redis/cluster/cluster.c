#include "redis/cluster/cluster.h"

#include "base/buffer.h"
#include "redis/conn.h"
#include "redis/reply.h"

enum {
    ASK_MS = 500,
    FIND_MODE_MS = 1000,
    ENOUGH = 3, // maps of nodes that are all cut off, or of a Cluster that is down
};

typedef struct refresh {
    topology_t *topology;
    const atomic_bool *stop;
    slot_map_t best;      // of the nodes that have answered
    size_t answered;      // maps; 0 = `best` is none
    bool sound;           // `best` is of a node that counts itself to the majority
    redis_error_t *error; // of the last node that had no map
} refresh_t;

// A node that is cut off from the others keeps an old map. It notices after its cluster-node-timeout.
static int64_t cluster_read_info(conn_t *conn, bool *sound, redis_error_t *error) {
    redisReply *reply = conn_read_next(conn, NULL, error);
    slice_t text = reply_info(reply, "cluster_current_epoch:");
    int64_t epoch = 0;
    if (text.len) slice_integer(text, &epoch);
    *sound = !slice_is(reply_info(reply, "cluster_state:"), "fail");
    conn_reply_free(reply);
    return epoch;
}

static bool cluster_ask(conn_t *conn, const char *host, slot_map_t *map, bool *sound, redis_error_t *error) {
    redis_error_t refused = {0}; // a user may lack the right to CLUSTER INFO
    if (conn_connect(conn, error) != OUTCOME_OK) return false;
    request_append(conn, "CLUSTER", "INFO");
    request_append(conn, "CLUSTER", "SLOTS");
    int64_t epoch = cluster_read_info(conn, sound, &refused);
    redisReply *reply = conn_read_next(conn, NULL, error);
    bool good = reply && slot_map_read(reply, host, map);
    if (reply && !good) redis_error_set(error, OUTCOME_REFUSED, "unexpected reply to CLUSTER SLOTS");
    if (good) map->epoch = epoch;
    conn_reply_free(reply);
    return good;
}

// An error reply names neither the node nor what to do.
static void cluster_explain(redis_error_t *error, const char *node) {
    const char *advice =
        error->kind == ERROR_NO_CLUSTER ? "; this server is no Cluster: correct redis.nodes, or remove it and redis.mode" : "";
    if (error->outcome != OUTCOME_REFUSED) return;
    redis_error_reword(error, "%.240s%s", error->text, advice);
    redis_error_add_address(error, node);
}

static bool refresh_is_better(const refresh_t *refresh, const slot_map_t *map, bool sound) {
    if (!refresh->answered) return true;
    return sound == refresh->sound ? map->epoch > refresh->best.epoch : sound;
}

// True: the node knows enough, so no other needs to be asked.
static bool refresh_ask(refresh_t *refresh, const char *host, int port) {
    conn_t *conn = conn_new_at(topology_config(refresh->topology), host, port, "queue-sidecar-topology", refresh->stop);
    slot_map_t map;
    conn_limit_timeout(conn, ASK_MS);
    bool sound = true, answered = cluster_ask(conn, host, &map, &sound, refresh->error);
    if (!answered) cluster_explain(refresh->error, conn_target(conn));
    // A node without any slot to name has just been added, or has been removed.
    bool names = answered && map.node_count;
    bool better = names && refresh_is_better(refresh, &map, sound);
    if (better) {
        slot_map_free(&refresh->best);
        refresh->best = map;
        refresh->sound = sound;
    } else if (answered) {
        slot_map_free(&map);
    }
    refresh->answered += names;
    conn_free(conn);
    bool knows = refresh->sound || refresh->answered >= ENOUGH;
    return names && knows && refresh->best.epoch >= topology_map_epoch(refresh->topology);
}

static bool refresh_stops(const refresh_t *refresh) { return refresh->stop && atomic_load(refresh->stop); }

static bool refresh_ask_shards(refresh_t *refresh) {
    for (size_t i = 0; i < topology_shard_count(refresh->topology) && !refresh_stops(refresh); i++) {
        endpoint_t at;
        shard_address(topology_shard(refresh->topology, i), &at);
        if (*at.host && refresh_ask(refresh, at.host, at.port)) return true;
    }
    return false;
}

static bool refresh_ask_seeds(refresh_t *refresh) {
    const redis_config_t *redis = topology_config(refresh->topology);
    for (size_t i = 0; i < redis->nodes.count && !refresh_stops(refresh); i++) {
        address_t seed;
        if (address_parse(slice_text(redis->nodes.items[i]), &seed) && refresh_ask(refresh, seed.host, seed.port)) return true;
    }
    return !redis->nodes.count && refresh_ask(refresh, redis->host, (int)redis->port);
}

outcome_t cluster_refresh(topology_t *topology, const atomic_bool *stop, redis_error_t *error) {
    refresh_t refresh = {.topology = topology, .stop = stop, .error = error};
    *error = (redis_error_t){0};
    if (!refresh_ask_shards(&refresh)) (void)refresh_ask_seeds(&refresh);
    if (refresh.answered) topology_set_slots(topology, &refresh.best);
    if (refresh.answered) *error = (redis_error_t){0};
    slot_map_free(&refresh.best);
    if (!refresh.answered && error->outcome == OUTCOME_OK)
        redis_error_set(error, OUTCOME_RETRY, "no node of the Cluster names a node that serves slots");
    return error->outcome;
}

redis_mode_t cluster_find_mode(const redis_config_t *redis) {
    conn_t *conn = conn_new_at(redis, redis->host, (int)redis->port, "queue-sidecar-topology", NULL);
    redis_mode_t mode = REDIS_MODE_AUTO;
    redisReply *reply = NULL;
    redis_error_t error;
    conn_limit_timeout(conn, FIND_MODE_MS);
    // A refused connect tells nothing: a password or a certificate may come later.
    bool connected = conn_connect(conn, &error) == OUTCOME_OK;
    if (connected) {
        request_append(conn, "INFO", "cluster");
        reply = conn_read_next(conn, NULL, &error);
    }
    if (connected && error.outcome == OUTCOME_REFUSED) mode = REDIS_MODE_SINGLE;
    if (reply) mode = slice_is(reply_info(reply, "cluster_enabled:"), "1") ? REDIS_MODE_CLUSTER : REDIS_MODE_SINGLE;
    conn_reply_free(reply);
    conn_free(conn);
    return mode;
}
