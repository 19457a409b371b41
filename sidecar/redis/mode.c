#include "redis/mode.h"

#include "redis/conn.h"
#include "redis/reply.h"

enum { ASK_MS = 1000 };

redis_mode_t redis_find_mode(const redis_config_t *redis) {
    conn_t *conn = conn_new_at(redis, redis->host, (int)redis->port, "queue-sidecar-topology", NULL);
    redis_mode_t mode = REDIS_MODE_AUTO;
    redisReply *reply = NULL;
    redis_error_t error;
    conn_limit_timeout(conn, ASK_MS);
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
