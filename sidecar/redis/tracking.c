#include "redis/tracking.h"

#include "redis/reply.h"

static outcome_t tracking_subscribe_first(conn_t *subscriber, int64_t *id, redis_error_t *error) {
    redisReply *reply;
    request_begin(subscriber, "CLIENT", "ID");
    if (request_ask(subscriber, &reply, error) != OUTCOME_OK) return error->outcome;
    *id = reply_int(reply);
    freeReplyObject(reply);
    request_begin(subscriber, "SUBSCRIBE", INVALIDATE_CHANNEL);
    return request_ask(subscriber, NULL, error);
}

outcome_t tracking_try_caching(conn_t *data, redis_error_t *error) {
    redis_error_t of_ping = {0};
    *error = (redis_error_t){0};
    request_caching(data);
    request_append(data, "PING"); // CLIENT CACHING acts on this request, and not on a later read
    conn_reply_free(conn_read_next(data, "CLIENT CACHING", error));
    conn_reply_free(conn_read_next(data, NULL, &of_ping));
    if (of_ping.outcome == OUTCOME_DISCONNECTED) *error = of_ping;
    return error->outcome;
}

outcome_t tracking_start(conn_t *data, conn_t *subscriber, redis_error_t *error) {
    int64_t id = 0;
    if (conn_open(data, error) != OUTCOME_OK || conn_open(subscriber, error) != OUTCOME_OK) return error->outcome;
    if (tracking_subscribe_first(subscriber, &id, error) != OUTCOME_OK) {
        conn_close(subscriber);
        return error->outcome;
    }
    request_begin(data, "CLIENT", "TRACKING", "ON", "REDIRECT");
    request_int(data, id);
    request_text(data, "OPTIN", "NOLOOP");
    if (request_ask(data, NULL, error) == OUTCOME_OK && tracking_try_caching(data, error) == OUTCOME_OK) return OUTCOME_OK;
    conn_close(subscriber);
    return error->outcome;
}

static void tracking_report_keys(const redisReply *named, tracking_change_fn *on_change, void *self) {
    if (!named || named->type != REDIS_REPLY_ARRAY) {
        on_change(self, NULL, 0);
        return;
    }
    for (size_t i = 0; i < named->elements; i++) on_change(self, reply_text(reply_at(named, i)), reply_len(reply_at(named, i)));
}

static void tracking_dispatch(const redisReply *reply, tracking_change_fn *on_change, tracking_message_fn *on_message,
                              void *self) {
    const redisReply *payload = reply_at(reply, 2);
    if (!reply_is(reply_at(reply, 0), "message")) return;
    if (!reply_is(reply_at(reply, 1), INVALIDATE_CHANNEL)) {
        if (on_message) on_message(self, reply_text(reply_at(reply, 1)), reply_slice(payload));
    } else if (on_change) {
        tracking_report_keys(payload, on_change, self);
    }
}

outcome_t tracking_read(conn_t *subscriber, tracking_change_fn *on_change, tracking_message_fn *on_message, void *self,
                        redis_error_t *error) {
    for (;;) {
        redisReply *reply;
        outcome_t outcome = conn_try_read(subscriber, &reply, error);
        if (outcome == OUTCOME_REFUSED) continue; // of PING, which is a sign of life, too
        if (outcome != OUTCOME_OK || !reply) return outcome;
        tracking_dispatch(reply, on_change, on_message, self);
        freeReplyObject(reply);
    }
}

outcome_t tracking_subscribe(conn_t *subscriber, const char *channel, tracking_message_fn *on_message, void *self,
                             redis_error_t *error) {
    bool done = false;
    request_append(subscriber, "SUBSCRIBE", channel);
    while (!done) {
        redisReply *reply;
        if (conn_read(subscriber, 0, &reply, error) != OUTCOME_OK) return error->outcome;
        done = reply_is(reply_at(reply, 0), "subscribe") && reply_is(reply_at(reply, 1), channel);
        if (!done) tracking_dispatch(reply, NULL, on_message, self);
        freeReplyObject(reply);
    }
    return OUTCOME_OK;
}

void request_caching(conn_t *conn) { request_append(conn, "CLIENT", "CACHING", "YES"); }
