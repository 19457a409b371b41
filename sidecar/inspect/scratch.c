#include "inspect/scratch.h"

#include "dialects/registry.h"
#include "queue/lock.h"
#include "redis/reply.h"
#include <stdio.h>
#include <stdlib.h>

// A name whose keys fall into the slot of `lock`: its own hash tag, or else all of it as a tag.
static char *scratch_name(const char *lock) {
    char random[TOKEN_SIZE];
    token_new(random, 0);
    random[16] = '\0';
    const char *open = strchr(lock, '{');
    const char *close = open ? strchr(open + 1, '}') : NULL;
    if (close && close > open + 1) return mem_printf("preflight-%s%.*s", random, (int)(close - open + 1), open);
    return mem_printf("preflight-%s{%s}", random, lock);
}

void scratch_init(scratch_t *scratch, const keyspace_t *keys) {
    queue_config_t *queue = &scratch->queue;
    queue->dialect = dialect_settings(0); // list, whose scripts all dialects share
    queue->name = scratch_name(keys->locks[0].key);
    queue->ready = mem_printf("sidecar:%s:ready", queue->name);
    queue->delayed = mem_printf("sidecar:%s:delayed", queue->name);
    queue->backup = mem_printf("sidecar:%s:backup", queue->name);
    queue->errors = mem_printf("sidecar:%s:errors", queue->name);
    queue->dlq = mem_printf("sidecar:%s:dlq", queue->name);
    queue->policy = keys->config->queues[0].policy;
    scratch->config = (config_t){.group = queue->name, .queues = queue, .queue_count = 1};
    scratch->config.stream.max_bytes = SCRATCH_BYTES;
    scratch->config.stream.min_records = scratch->config.stream.min_copies = 1;
    scratch->keys = keyspace_new(&scratch->config);
    const lock_keys_t *lock = &scratch->keys->locks[0];
    const queue_keys_t *of = &scratch->keys->queues[0];
    const char *all[SCRATCH_KEYS] = {queue->ready,  queue->delayed, lock->key,    lock->served,  of->meta,
                                     queue->backup, queue->errors,  queue->dlq,   of->stamps,    of->sentinel,
                                     of->failures,  of->auditors,   of->requeued, lock->standbys};
    memcpy(scratch->all, all, sizeof all);
    token_new(scratch->token, SCRATCH_TTL_MS);
}

void scratch_free(scratch_t *scratch) {
    keyspace_free(scratch->keys);
    free(scratch->queue.name);
    free(scratch->queue.ready);
    free(scratch->queue.delayed);
    free(scratch->queue.backup);
    free(scratch->queue.errors);
    free(scratch->queue.dlq);
}

call_t scratch_call(const scratch_t *scratch) {
    return (call_t){scratch->conn, scratch->keys, 0, scratch->token, scratch->error};
}

lock_call_t scratch_lock(const scratch_t *scratch, const char *token) {
    return (lock_call_t){scratch->conn, scratch->keys, 0, token, SCRATCH_TTL_MS, scratch->error};
}

bool scratch_out_of_memory(const redis_error_t *error) {
    return error->outcome == OUTCOME_RETRY && strncmp(error->text, "OOM", 3) == 0;
}

outcome_t scratch_for_all_keys(scratch_t *scratch, const char *command, int64_t ttl_ms) {
    for (int i = 0; i < SCRATCH_KEYS; i++) {
        request_begin(scratch->conn, command, scratch->all[i]);
        if (ttl_ms) request_int(scratch->conn, ttl_ms);
        request_end(scratch->conn);
    }
    for (int i = 0; i < SCRATCH_KEYS; i++) {
        redisReply *reply;
        outcome_t outcome = conn_read(scratch->conn, 0, &reply, scratch->error);
        conn_reply_free(reply);
        if (outcome == OUTCOME_DISCONNECTED) return outcome;
    }
    return OUTCOME_OK;
}

outcome_t scratch_lay_out(scratch_t *scratch) {
    const queue_keys_t *of = &scratch->keys->queues[0];
    const char *const requests[][5] = {
        {"LPUSH", scratch->queue.ready, "scratch", NULL},
        {"ZADD", scratch->queue.delayed, "+inf", "never due"},
        {"HSET", scratch->keys->locks[0].served, "scratch", ""},
        {"HSET", of->meta, "scratch", ""},
        {"LPUSH", scratch->queue.backup, "stays", "ends"},
        {"HSET", scratch->queue.errors, "scratch", ""},
        {"HSET", of->stamps, "scratch", ""},
        {"HSET", of->sentinel, "scratch", ""},
        {"XADD", of->failures, "1-1", "event", "scratch"},
        {"HSET", of->auditors, "scratch", "0-1 0"}, // heard of so long ago that it is forgotten
        {"HSET", of->requeued, "scratch", ""},
        {"LPUSH", scratch->queue.dlq, "scratch", NULL},
    };
    enum { COUNT = sizeof requests / sizeof *requests };
    for (int i = 0; i < COUNT; i++) {
        request_begin(scratch->conn, requests[i][0]);
        for (int j = 1; j < 5 && requests[i][j]; j++) request_text(scratch->conn, requests[i][j]);
        request_end(scratch->conn);
        request_begin(scratch->conn, "PEXPIRE", requests[i][1]);
        request_int(scratch->conn, SCRATCH_TTL_MS);
        request_end(scratch->conn);
    }
    redis_error_t worst = {0};
    for (int i = 0; i < 2 * COUNT; i++) {
        redisReply *reply;
        outcome_t outcome = conn_read(scratch->conn, 0, &reply, scratch->error);
        conn_reply_free(reply);
        if (outcome == OUTCOME_DISCONNECTED) return outcome;
        if (outcome == OUTCOME_RETRY && !scratch_out_of_memory(scratch->error)) worst = *scratch->error;
    }
    *scratch->error = worst;
    return worst.outcome;
}

outcome_t scratch_write(scratch_t *scratch, const char *command, const char *key, const char *one, const char *two, bool *full) {
    request_begin(scratch->conn, command, key, one, two);
    outcome_t outcome = request_ask(scratch->conn, NULL, scratch->error);
    *full = scratch_out_of_memory(scratch->error);
    return *full ? OUTCOME_OK : outcome;
}
