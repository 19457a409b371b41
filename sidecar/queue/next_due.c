#include "queue/next_due.h"

#include "queue/scripts.h"
#include "redis/reply.h"
#include "redis/tracking.h"

// Up to this many keys the script registers by itself; more keys are registered by an EXISTS before the script. Redis 7.0
// registers all keys of a script at each of its reads: for 500 queues 250,000 registrations, 10 ms (redis src/server.c, call()).
// EXISTS costs more for few keys. And a full tracking table drops keys at the next command: if that is ours, no message comes
// (src/tracking.c, NOLOOP), and only the safety poll finds a change.
enum { SCRIPT_ARMS = 8 };

static void next_due_append_exists(conn_t *conn, const keyspace_t *keys, const next_due_request_t *asks, size_t count) {
    request_begin(conn, "EXISTS");
    for (size_t i = 0; i < count; i++) request_text(conn, keys->queues[asks[i].queue].config->delayed);
    request_end(conn);
}

void next_due_append(conn_t *conn, const keyspace_t *keys, const next_due_request_t *asks, size_t count, bool arm) {
    if (arm) request_caching(conn);
    if (arm && count > SCRIPT_ARMS) next_due_append_exists(conn, keys, asks, count);
    request_script(conn, &script_next_due, (int)count);
    for (size_t i = 0; i < count; i++) request_text(conn, keys->queues[asks[i].queue].config->delayed);
    for (size_t i = 0; i < count; i++) request_int(conn, asks[i].skip);
    request_end(conn);
}

static void next_due_read_one(const redisReply *reply, next_due_t *next) {
    const char *text = reply_text(reply);
    *next = (next_due_t){0};
    if (*text == '!') {
        snprintf(next->error, sizeof next->error, "%s", text + 1);
    } else if (*text) {
        next->exists = true;
        char *rest;
        next->score = strtod(text, &rest);
        next->bytes = strtoll(rest, NULL, 10);
    }
}

outcome_t next_due_read(conn_t *conn, size_t count, bool armed, next_due_t *dues, int64_t *now_us, redis_error_t *error) {
    redisReply *reply;
    redis_error_t arming = {0};
    if (armed) freeReplyObject(conn_read_next(conn, NULL, &arming));
    if (armed && count > SCRIPT_ARMS) freeReplyObject(conn_read_next(conn, NULL, &arming));
    *error = arming;
    // Some errors close the connection.
    if (arming.outcome != OUTCOME_OK && !conn_is_open(conn)) return error->outcome;
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    *now_us = reply_number(reply_at(reply, 0));
    for (size_t i = 0; i < count; i++) next_due_read_one(reply_at(reply, i + 1), &dues[i]);
    freeReplyObject(reply);
    if (*now_us <= 0) return redis_error_set(error, OUTCOME_REFUSED, "next_due: unexpected reply");
    // The scores are valid, but no wake-up will come. Report the refusal.
    if (arming.outcome != OUTCOME_OK) *error = arming;
    return error->outcome;
}
