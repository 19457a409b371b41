#include "queue/heartbeat.h"

#include <string.h>

#include "redis/reply.h"

static bool heartbeat_is_blank(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r\n\v\f", text[i]) || !text[i]) return false;
    return true;
}

// Like Java's String.trim(): every character up to the space is white.
static bool heartbeat_trims_away(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] > ' ') return false;
    return true;
}

// After a refusal the key counts as unread. The key may hold another type, or the user may lack the right to read it.
static outcome_t heartbeat_read_name(conn_t *conn, heartbeat_check_t *look, redis_error_t *error) {
    redisReply *reply;
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    size_t len = reply_len(reply) < WORKER_NAME_MAX ? reply_len(reply) : WORKER_NAME_MAX;
    look->there = len > 0 && !(look->blank_is_dead && heartbeat_trims_away(reply_text(reply), len));
    look->answered = look->blank_is_dead;
    if (!heartbeat_is_blank(reply_text(reply), len)) {
        memcpy(look->worker, reply_text(reply), len);
        look->worker_len = len;
    }
    freeReplyObject(reply);
    return OUTCOME_OK;
}

static outcome_t heartbeat_read_exists(conn_t *conn, heartbeat_check_t *look, redis_error_t *error) {
    redisReply *reply;
    look->there = true;
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    look->there = reply_int(reply) == 1;
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t heartbeats_read(conn_t *conn, heartbeat_check_t *looks, size_t count, redis_error_t *error) {
    redis_error_t worst = {0};
    *error = (redis_error_t){0};
    for (size_t i = 0; i < count; i++) {
        looks[i].there = looks[i].answered = false;
        looks[i].worker_len = 0;
        if (!looks[i].key) continue;
        request_begin(conn, "GETRANGE", looks[i].key);
        request_int(conn, 0, WORKER_NAME_MAX - 1);
        request_end(conn);
    }
    for (size_t i = 0; i < count; i++)
        if (looks[i].key && heartbeat_read_name(conn, &looks[i], error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
    for (size_t i = 0; i < count; i++) {
        if (!looks[i].key || looks[i].there || looks[i].answered) continue;
        request_append(conn, "EXISTS", looks[i].key);
    }
    for (size_t i = 0; i < count; i++) {
        if (!looks[i].key || looks[i].there || looks[i].answered) continue;
        if (heartbeat_read_exists(conn, &looks[i], error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        if (error->outcome > worst.outcome) worst = *error;
    }
    *error = worst;
    return worst.outcome;
}
