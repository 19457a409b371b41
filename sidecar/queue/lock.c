#include "queue/lock.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/instance.h"
#include "queue/scripts.h"
#include "redis/reply.h"

void lock_state_clear(lock_state_t *state) {
    buffer_free(&state->unserved);
    free(state->foreign);
    *state = (lock_state_t){0};
}

static void read_unserved(const redisReply *reply, lock_state_t *state) {
    for (size_t i = 3; i < reply->elements; i++) {
        if (state->unserved.len) buffer_str(&state->unserved, ", ");
        buffer_str(&state->unserved, reply_text(reply_at(reply, i)));
        state->unserved_count++;
    }
}

static void read_foreign(const redisReply *reply, const lock_keys_t *lock, lock_state_t *state) {
    state->foreign = mem_array(reply->elements, sizeof *state->foreign);
    for (size_t i = 3; i + 1 < reply->elements; i += 2) {
        int64_t index = reply_int(reply_at(reply, i));
        if (index < 0 || (size_t)index >= lock->queue_count) continue;
        foreign_t *foreign = &state->foreign[state->foreign_count++];
        foreign->queue = lock->first_queue + (size_t)index;
        snprintf(foreign->owner, sizeof foreign->owner, "%s", reply_text(reply_at(reply, i + 1)));
    }
}

outcome_t lock_acquire(conn_t *conn, const keyspace_t *keys, size_t index, const char *token, int64_t ttl_ms, lock_state_t *state,
                       redis_error_t *error) {
    const lock_keys_t *lock = &keys->locks[index];
    request_script(conn, &script_acquire, (int)(3 + lock->queue_count));
    request_text(conn, lock->key);
    request_text(conn, lock->served);
    request_text(conn, lock->standbys);
    for (size_t i = 0; i < lock->queue_count; i++) request_text(conn, keys->queues[lock->first_queue + i].meta);
    request_text(conn, token);
    request_int(conn, ttl_ms);
    request_text(conn, lock->name);
    request_text(conn, instance_name());
    for (size_t i = 0; i < lock->queue_count; i++) request_text(conn, keys->queues[lock->first_queue + i].config->name);
    redisReply *reply;
    lock_state_clear(state);
    if (request_ask(conn, &reply, error) != OUTCOME_OK) return error->outcome;
    state->acquired = reply_int(reply_at(reply, 0)) == 1;
    snprintf(state->holder, sizeof state->holder, "%s", reply_text(reply_at(reply, 1)));
    state->pttl_ms = reply_int(reply_at(reply, 2));
    if (reply->type == REDIS_REPLY_ARRAY) {
        if (state->acquired)
            read_foreign(reply, lock, state);
        else
            read_unserved(reply, state);
    }
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t lock_renew(conn_t *conn, const lock_keys_t *lock, const char *token, int64_t ttl_ms, bool *held, redis_error_t *error) {
    redisReply *reply;
    request_script(conn, &script_renew, 1);
    request_text(conn, lock->key);
    request_text(conn, token);
    request_int(conn, ttl_ms);
    request_end(conn);
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    *held = reply_int(reply) == 1;
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t lock_release(conn_t *conn, const keyspace_t *keys, size_t index, const char *token, redis_error_t *error) {
    const lock_keys_t *lock = &keys->locks[index];
    redisReply *reply;
    request_script(conn, &script_release, 1);
    request_text(conn, lock->key);
    request_text(conn, token);
    request_text(conn, keys->vacant);
    request_text(conn, lock->name);
    if (request_ask(conn, &reply, error) == OUTCOME_OK) freeReplyObject(reply);
    return error->outcome;
}

outcome_t lock_heal(conn_t *conn, const lock_keys_t *lock, const char *token, bool *removed, redis_error_t *error) {
    redisReply *reply;
    request_script(conn, &script_heal, 1);
    request_text(conn, lock->key);
    request_text(conn, token);
    request_int(conn, token_ttl_ms(token));
    if (request_ask(conn, &reply, error) != OUTCOME_OK) return error->outcome;
    *removed = reply_int(reply) == 1;
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t lock_claim(conn_t *conn, const keyspace_t *keys, size_t index, const char *token, foreign_t *foreign, bool *ours,
                     redis_error_t *error) {
    const lock_keys_t *lock = &keys->locks[index];
    const queue_keys_t *queue = &keys->queues[foreign->queue];
    char *other = keyspace_lock_of(foreign->owner);
    redisReply *reply;
    request_script(conn, &script_claim, 4);
    request_text(conn, lock->key);
    request_text(conn, queue->meta);
    request_text(conn, other);
    request_text(conn, lock->served);
    request_text(conn, token);
    request_text(conn, lock->name);
    request_text(conn, foreign->owner);
    request_text(conn, queue->config->name);
    free(other);
    if (request_ask(conn, &reply, error) != OUTCOME_OK) return error->outcome;
    *ours = reply_int(reply_at(reply, 0)) == 1;
    if (reply_int(reply_at(reply, 0)) == 0) snprintf(foreign->owner, sizeof foreign->owner, "%s", reply_text(reply_at(reply, 1)));
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t lock_listen(conn_t *ear, const keyspace_t *keys, redis_error_t *error) {
    redisReply *reply;
    if (conn_open(ear, error) != OUTCOME_OK) return error->outcome;
    request_begin(ear, "SUBSCRIBE");
    request_text(ear, keys->vacant);
    if (request_ask(ear, &reply, error) == OUTCOME_OK)
        freeReplyObject(reply);
    else
        conn_close(ear);
    return error->outcome;
}

outcome_t lock_heard(conn_t *ear, buffer_t *name, const char **lock, redis_error_t *error) {
    redisReply *reply;
    *lock = NULL;
    if (conn_take(ear, &reply, error) != OUTCOME_OK || !reply) return error->outcome;
    const redisReply *text = reply_at(reply, 2);
    buffer_clear(name);
    buffer_add(name, reply_text(text), reply_len(text));
    *lock = buffer_text(name);
    freeReplyObject(reply);
    return OUTCOME_OK;
}
