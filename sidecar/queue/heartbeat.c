#include "queue/heartbeat.h"

#include "redis/reply.h"

// As in Java's String.trim(), every byte up to the space counts as white space.
static bool heartbeat_is_blank(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] > ' ') return false;
    return true;
}

static void heartbeat_read_name(conn_t *conn, heartbeat_check_t *check, redis_error_t *worst) {
    redisReply *reply = conn_read_next(conn, NULL, worst);
    if (!reply) return;
    size_t len = reply_len(reply) < WORKER_NAME_MAX ? reply_len(reply) : WORKER_NAME_MAX;
    check->there = len > 0 && !(check->blank_is_dead && heartbeat_is_blank(reply_text(reply), len));
    check->answered = check->blank_is_dead;
    if (!heartbeat_is_blank(reply_text(reply), len)) {
        memcpy(check->worker, reply_text(reply), len);
        check->worker_len = len;
    }
    freeReplyObject(reply);
}

static void heartbeat_read_exists(conn_t *conn, heartbeat_check_t *check, redis_error_t *worst) {
    redisReply *reply = conn_read_next(conn, NULL, worst);
    check->there = !reply || reply_int(reply) == 1;
    freeReplyObject(reply);
}

// True: EXISTS must decide. The key may hold another type, or the user may lack the right to read it.
static bool heartbeat_is_unread(const heartbeat_check_t *check) { return check->key && !check->there && !check->answered; }

outcome_t heartbeats_read(conn_t *conn, heartbeat_check_t *checks, size_t count, redis_error_t *error) {
    redis_error_t refusal = {0};
    for (size_t i = 0; i < count; i++) {
        checks[i].there = checks[i].answered = false;
        checks[i].worker_len = 0;
        if (!checks[i].key) continue;
        request_begin(conn, "GETRANGE", checks[i].key);
        request_int(conn, 0, WORKER_NAME_MAX - 1);
        request_end(conn);
    }
    for (size_t i = 0; i < count; i++)
        if (checks[i].key) heartbeat_read_name(conn, &checks[i], &refusal);
    *error = refusal.outcome == OUTCOME_DISCONNECTED ? refusal : (redis_error_t){0};
    for (size_t i = 0; i < count; i++)
        if (heartbeat_is_unread(&checks[i])) request_append(conn, "EXISTS", checks[i].key);
    for (size_t i = 0; i < count; i++)
        if (heartbeat_is_unread(&checks[i])) heartbeat_read_exists(conn, &checks[i], error);
    return error->outcome;
}
