#include "redis/tracking.h"

#include <string.h>

#include "queue/keys.h"
#include "redis/reply.h"

static outcome_t subscribe(conn_t *ear, int64_t *id, fault_t *fault) {
    redisReply *reply;
    request_begin(ear, "CLIENT");
    request_text(ear, "ID");
    if (request_ask(ear, &reply, fault) != OUTCOME_OK) return fault->outcome;
    *id = reply_int(reply);
    freeReplyObject(reply);
    request_begin(ear, "SUBSCRIBE");
    request_text(ear, KEYS_INVALIDATE_CHANNEL);
    if (request_ask(ear, &reply, fault) == OUTCOME_OK) freeReplyObject(reply);
    return fault->outcome;
}

outcome_t wake_start(conn_t *data, conn_t *ear, fault_t *fault) {
    int64_t id = 0;
    redisReply *reply;
    conn_close(ear);
    if (conn_open(data, fault) != OUTCOME_OK || conn_open(ear, fault) != OUTCOME_OK) return fault->outcome;
    if (subscribe(ear, &id, fault) != OUTCOME_OK) {
        conn_close(ear);
        return fault->outcome;
    }
    request_begin(data, "CLIENT");
    request_text(data, "TRACKING");
    request_text(data, "ON");
    request_text(data, "REDIRECT");
    request_int(data, id);
    request_text(data, "OPTIN");
    request_text(data, "NOLOOP");
    if (request_ask(data, &reply, fault) == OUTCOME_OK) {
        freeReplyObject(reply);
        return OUTCOME_OK;
    }
    conn_close(ear);
    // The ear died in between: no fault of rights, and over as soon as there is a new one. (redis src/networking.c,
    // clientCommand)
    if (fault->outcome == OUTCOME_FAULT && strstr(fault->text, "redirect to does not exist")) fault->outcome = OUTCOME_LATER;
    return fault->outcome;
}

static void tell_keys(const redisReply *named, wake_fn *changed, void *self) {
    if (!named || named->type != REDIS_REPLY_ARRAY) {
        changed(self, NULL, 0);
        return;
    }
    for (size_t i = 0; i < named->elements; i++) changed(self, reply_text(reply_at(named, i)), reply_len(reply_at(named, i)));
}

// `changed` and `heard` may be NULL.
static void tell(const redisReply *reply, wake_fn *changed, void *self, wake_heard_fn *heard, void *hearer) {
    const redisReply *said = reply_at(reply, 2);
    if (!reply_is(reply_at(reply, 0), "message")) return;
    if (!reply_is(reply_at(reply, 1), KEYS_INVALIDATE_CHANNEL)) {
        if (heard) heard(hearer, reply_text(reply_at(reply, 1)), (slice_t){reply_text(said), reply_len(said)});
    } else if (changed) {
        tell_keys(said, changed, self);
    }
}

outcome_t wake_take(conn_t *ear, wake_fn *changed, void *self, wake_heard_fn *heard, void *hearer, fault_t *fault) {
    for (;;) {
        redisReply *reply;
        if (conn_take(ear, &reply, fault) != OUTCOME_OK || !reply) return fault->outcome;
        tell(reply, changed, self, heard, hearer);
        freeReplyObject(reply);
    }
}

outcome_t wake_also(conn_t *ear, const char *channel, wake_heard_fn *heard, void *hearer, fault_t *fault) {
    bool done = false;
    request_begin(ear, "SUBSCRIBE");
    request_text(ear, channel);
    request_end(ear);
    while (!done) {
        redisReply *reply;
        if (conn_read(ear, 0, &reply, fault) != OUTCOME_OK) return fault->outcome;
        done = reply_is(reply_at(reply, 0), "subscribe") && reply_is(reply_at(reply, 1), channel);
        if (!done) tell(reply, NULL, NULL, heard, hearer);
        freeReplyObject(reply);
    }
    return OUTCOME_OK;
}
