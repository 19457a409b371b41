#include "queue/call.h"

#include "redis/reply.h"

const queue_keys_t *call_queue(const call_t *call) { return &call->keys->queues[call->queue]; }

const char *call_lock(const call_t *call) { return call->keys->locks[call_queue(call)->lock].key; }

const char *call_group(const call_t *call) { return call->keys->locks[call_queue(call)->lock].name; }

int64_t call_settle_us(const call_t *call) { return call->keys->config->redis.slice_us / 2; }

void call_script(const call_t *call, const script_t *script, int keys) {
    request_script(call->conn, script, keys);
    request_text(call->conn, call_lock(call));
}

outcome_t script_refusal(const redisReply *reply, redis_error_t *error) {
    const redisReply *kind = reply_at(reply, 0);
    if (reply_is(kind, "fenced")) return redis_error_set(error, OUTCOME_FENCED, "the lock is held by another instance");
    if (reply_is(kind, "type"))
        return redis_error_set(error, OUTCOME_REFUSED, "%s holds a %s", reply_text(reply_at(reply, 1)),
                               reply_text(reply_at(reply, 2)));
    return OUTCOME_OK;
}

outcome_t call_ask(const call_t *call, redisReply **reply) {
    redisReply *got;
    if (request_ask(call->conn, &got, call->error) == OUTCOME_OK) script_refusal(got, call->error);
    bool wanted = reply && call->error->outcome == OUTCOME_OK;
    if (reply) *reply = wanted ? got : NULL;
    if (!wanted) conn_reply_free(got);
    return call->error->outcome;
}

bool script_reply_begins(const redisReply *reply, const char *word, const char *other, redis_error_t *error) {
    bool good = reply_is(reply_at(reply, 0), word) || reply_is(reply_at(reply, 0), other);
    if (!good) redis_error_set(error, OUTCOME_REFUSED, "unexpected reply: neither \"%s\" nor \"%s\"", word, other);
    return good;
}
