#include "queue/lock.h"

#include "base/host.h"
#include "queue/scripts.h"
#include "redis/reply.h"

void lock_state_clear(lock_state_t *state) {
    buffer_free(&state->unserved);
    free(state->other_owner);
    *state = (lock_state_t){0};
}

static void lock_read_unserved(const redisReply *reply, lock_state_t *state) {
    for (size_t i = 3; i < reply->elements; i++) {
        if (state->unserved.len) buffer_str(&state->unserved, ", ");
        buffer_str(&state->unserved, reply_text(reply_at(reply, i)));
        state->unserved_count++;
    }
}

static void lock_read_other_owners(const redisReply *reply, const lock_keys_t *lock, lock_state_t *state) {
    state->other_owner = mem_array(reply->elements, sizeof *state->other_owner);
    for (size_t i = 3; i + 1 < reply->elements; i += 2) {
        int64_t index = reply_int(reply_at(reply, i));
        if (index < 0 || (size_t)index >= lock->queue_count) continue;
        other_owner_t *other_owner = &state->other_owner[state->other_owner_count++];
        other_owner->queue = lock->queues[index];
        snprintf(other_owner->owner, sizeof other_owner->owner, "%s", reply_text(reply_at(reply, i + 1)));
    }
}

// Begins a request whose KEYS[1] is the lock.
static const lock_keys_t *lock_begin(const lock_call_t *call, const script_t *script, int keys) {
    const lock_keys_t *lock = &call->keys->locks[call->lock];
    request_script(call->conn, script, keys);
    request_text(call->conn, lock->key);
    return lock;
}

outcome_t lock_acquire(const lock_call_t *call, lock_state_t *state) {
    const lock_keys_t *lock = &call->keys->locks[call->lock];
    const queue_keys_t *queues = call->keys->queues;
    conn_t *conn = call->conn;
    redisReply *reply;
    lock_state_clear(state);
    lock_begin(call, &script_acquire, (int)(3 + lock->queue_count));
    request_text(conn, lock->served, lock->standbys);
    for (size_t i = 0; i < lock->queue_count; i++) request_text(conn, queues[lock->queues[i]].meta);
    request_text(conn, call->token);
    request_int(conn, call->ttl_ms);
    request_text(conn, lock->name, instance_name());
    for (size_t i = 0; i < lock->queue_count; i++) request_text(conn, queues[lock->queues[i]].config->name);
    if (request_ask(conn, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    state->acquired = reply_int(reply_at(reply, 0)) == 1;
    snprintf(state->holder, sizeof state->holder, "%s", reply_text(reply_at(reply, 1)));
    state->pttl_ms = reply_int(reply_at(reply, 2));
    if (reply->type == REDIS_REPLY_ARRAY) {
        if (state->acquired)
            lock_read_other_owners(reply, lock, state);
        else
            lock_read_unserved(reply, state);
    }
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t lock_look(const lock_call_t *call, lock_state_t *state) {
    const lock_keys_t *lock = &call->keys->locks[call->lock];
    redis_error_t refusals[2];
    lock_state_clear(state);
    *call->error = (redis_error_t){0};
    request_append(call->conn, "GET", lock->key);
    request_begin(call->conn, "HMGET", lock->served);
    for (size_t i = 0; i < lock->queue_count; i++) request_text(call->conn, call->keys->queues[lock->queues[i]].config->name);
    request_end(call->conn);
    redisReply *holder = conn_read_or_refusal(call->conn, &refusals[0], call->error);
    redisReply *served = conn_read_or_refusal(call->conn, &refusals[1], call->error);
    for (size_t i = 0; i < 2 && call->error->outcome == OUTCOME_OK; i++) *call->error = refusals[i];
    snprintf(state->holder, sizeof state->holder, "%s", reply_text(holder));
    for (size_t i = 0; *state->holder && i < lock->queue_count; i++) {
        if (reply_is(reply_at(served, i), state->holder)) continue;
        buffer_printf(&state->unserved, "%s%s", state->unserved_count++ ? ", " : "",
                      call->keys->queues[lock->queues[i]].config->name);
    }
    conn_reply_free(holder);
    conn_reply_free(served);
    return call->error->outcome;
}

// Sends a request whose reply is a number.
static outcome_t lock_ask_number(const lock_call_t *call, int64_t *number) {
    redisReply *reply;
    if (request_ask(call->conn, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    *number = reply_int(reply);
    freeReplyObject(reply);
    return OUTCOME_OK;
}

void lock_send_renewal(const lock_call_t *call) {
    lock_begin(call, &script_renew, 1);
    request_text(call->conn, call->token);
    request_int(call->conn, call->ttl_ms);
    request_end(call->conn);
}

outcome_t lock_read_renewal(const lock_call_t *call) {
    redisReply *reply;
    if (conn_read(call->conn, 0, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    bool held = reply_int(reply) == 1;
    freeReplyObject(reply);
    if (held) return OUTCOME_OK;
    return redis_error_set(call->error, OUTCOME_FENCED, "the lock is gone or another instance has it");
}

outcome_t lock_release(const lock_call_t *call) {
    redisReply *reply;
    const lock_keys_t *lock = lock_begin(call, &script_release, 1);
    request_text(call->conn, call->token, call->keys->vacant, lock->name);
    if (request_ask(call->conn, &reply, call->error) == OUTCOME_OK) conn_reply_free(reply);
    return call->error->outcome;
}

outcome_t lock_break_stale(const lock_call_t *call, const char *holder, bool *removed) {
    int64_t count = 0;
    lock_begin(call, &script_break_stale_lock, 1);
    request_text(call->conn, holder);
    request_int(call->conn, token_ttl_ms(holder));
    lock_ask_number(call, &count);
    *removed = count == 1;
    return call->error->outcome;
}

// In a Cluster a script names keys of one slot. A group whose lock is in another slot cannot own a queue there: the name is left
// from before the move into the Cluster, so its lock counts as free.
static char *lock_of_owner(const lock_call_t *call, const queue_keys_t *queue, const char *owner) {
    char *other = keyspace_lock_of(owner);
    bool cluster = config_redis_mode(&call->keys->config->redis) == REDIS_MODE_CLUSTER;
    if (!cluster || keyspace_slot(other) == keyspace_slot(queue->meta)) return other;
    free(other);
    return mem_str(queue->absent);
}

outcome_t lock_claim(const lock_call_t *call, other_owner_t *other_owner, bool *ours) {
    const queue_keys_t *queue = &call->keys->queues[other_owner->queue];
    char *other = lock_of_owner(call, queue, other_owner->owner);
    redisReply *reply;
    *ours = false;
    const lock_keys_t *lock = lock_begin(call, &script_claim, 4);
    request_text(call->conn, queue->meta, other, lock->served, call->token, lock->name, other_owner->owner, queue->config->name);
    free(other);
    if (request_ask(call->conn, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    *ours = reply_int(reply_at(reply, 0)) == 1;
    if (reply_int(reply_at(reply, 0)) == 0)
        snprintf(other_owner->owner, sizeof other_owner->owner, "%s", reply_text(reply_at(reply, 1)));
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t lock_listen(conn_t *subscriber, const char *channel, redis_error_t *error) {
    if (conn_open(subscriber, error) != OUTCOME_OK) return error->outcome;
    request_begin(subscriber, "SUBSCRIBE", channel);
    if (request_ask(subscriber, NULL, error) != OUTCOME_OK) conn_close(subscriber);
    return error->outcome;
}
