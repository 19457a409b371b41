#include "redis/tracking.h"

#include <string.h>

#include "redis/reply.h"

static outcome_t subscribe(conn_t *ear, int64_t *id, redis_error_t *error) {
    redisReply *reply;
    request_begin(ear, "CLIENT");
    request_text(ear, "ID");
    if (request_ask(ear, &reply, error) != OUTCOME_OK) return error->outcome;
    *id = reply_int(reply);
    freeReplyObject(reply);
    request_begin(ear, "SUBSCRIBE");
    request_text(ear, INVALIDATE_CHANNEL);
    if (request_ask(ear, &reply, error) == OUTCOME_OK) freeReplyObject(reply);
    return error->outcome;
}

outcome_t tracking_start(conn_t *data, conn_t *ear, redis_error_t *error) {
    int64_t id = 0;
    redisReply *reply;
    conn_close(ear);
    if (conn_open(data, error) != OUTCOME_OK || conn_open(ear, error) != OUTCOME_OK) return error->outcome;
    if (subscribe(ear, &id, error) != OUTCOME_OK) {
        conn_close(ear);
        return error->outcome;
    }
    request_begin(data, "CLIENT");
    request_text(data, "TRACKING");
    request_text(data, "ON");
    request_text(data, "REDIRECT");
    request_int(data, id);
    request_text(data, "OPTIN");
    request_text(data, "NOLOOP");
    if (request_ask(data, &reply, error) == OUTCOME_OK) {
        freeReplyObject(reply);
        return OUTCOME_OK;
    }
    conn_close(ear);
    // The ear died in between: no fault of rights, and over as soon as there is a new one. (redis src/networking.c,
    // clientCommand)
    if (error->outcome == OUTCOME_REFUSED && strstr(error->text, "redirect to does not exist")) error->outcome = OUTCOME_RETRY;
    return error->outcome;
}

static void tell_keys(const redisReply *named, tracking_change_fn *changed, void *self) {
    if (!named || named->type != REDIS_REPLY_ARRAY) {
        changed(self, NULL, 0);
        return;
    }
    for (size_t i = 0; i < named->elements; i++) changed(self, reply_text(reply_at(named, i)), reply_len(reply_at(named, i)));
}

// `changed` and `heard` may be NULL.
static void tell(const redisReply *reply, tracking_change_fn *changed, void *self, tracking_message_fn *heard, void *hearer) {
    const redisReply *said = reply_at(reply, 2);
    if (!reply_is(reply_at(reply, 0), "message")) return;
    if (!reply_is(reply_at(reply, 1), INVALIDATE_CHANNEL)) {
        if (heard) heard(hearer, reply_text(reply_at(reply, 1)), (slice_t){reply_text(said), reply_len(said)});
    } else if (changed) {
        tell_keys(said, changed, self);
    }
}

outcome_t tracking_read(conn_t *ear, tracking_change_fn *changed, void *self, tracking_message_fn *heard, void *hearer,
                        redis_error_t *error) {
    for (;;) {
        redisReply *reply;
        if (conn_take(ear, &reply, error) != OUTCOME_OK || !reply) return error->outcome;
        tell(reply, changed, self, heard, hearer);
        freeReplyObject(reply);
    }
}

outcome_t tracking_subscribe(conn_t *ear, const char *channel, tracking_message_fn *heard, void *hearer, redis_error_t *error) {
    bool done = false;
    request_begin(ear, "SUBSCRIBE");
    request_text(ear, channel);
    request_end(ear);
    while (!done) {
        redisReply *reply;
        if (conn_read(ear, 0, &reply, error) != OUTCOME_OK) return error->outcome;
        done = reply_is(reply_at(reply, 0), "subscribe") && reply_is(reply_at(reply, 1), channel);
        if (!done) tell(reply, NULL, NULL, heard, hearer);
        freeReplyObject(reply);
    }
    return OUTCOME_OK;
}
