#include <stdio.h>
#include <string.h>

#include "queue/stream.h"
#include "redis/reply.h"

// Whether the field of `instance` holds a position above `position`. A key of another type holds no position.
static outcome_t stream_acked_beyond(conn_t *conn, const char *key, const char *instance, const char *position, bool *more,
                                     redis_error_t *error) {
    redisReply *reply;
    *more = false;
    request_begin(conn, "HGET", key, instance);
    outcome_t outcome = request_ask(conn, &reply, error);
    if (outcome != OUTCOME_OK) return outcome;
    stream_id_t id;
    snprintf(id, sizeof id, "%.*s", (int)strcspn(reply_text(reply), " "), reply_text(reply));
    *more = stream_id_compare(id, position) > 0;
    conn_reply_free(reply);
    return OUTCOME_OK;
}

outcome_t stream_revoke_acks(conn_t *conn, const keyspace_t *keys, const char *instance, const stream_id_t *above,
                             int64_t *removed, redis_error_t *error) {
    *removed = 0;
    for (size_t i = 0; i < keys->queue_count; i++) {
        redisReply *reply;
        bool more = true;
        outcome_t outcome = OUTCOME_OK;
        if (above) outcome = stream_acked_beyond(conn, keys->queues[i].auditors, instance, above[i], &more, error);
        if (outcome == OUTCOME_OK && more) {
            request_begin(conn, "HDEL", keys->queues[i].auditors, instance);
            outcome = request_ask(conn, &reply, error);
            if (outcome == OUTCOME_OK) {
                *removed += reply_int(reply);
                conn_reply_free(reply);
            }
        }
        if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) return outcome;
    }
    *error = (redis_error_t){0};
    return OUTCOME_OK;
}
