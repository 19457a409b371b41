#include "queue/prune.h"

#include <stdio.h>
#include <stdlib.h>

#include "queue/scripts.h"
#include "redis/reply.h"

enum { MOST = 2000 }; // unpack in sweep.lua must not meet more

static slice_t bytes_of(const redisReply *reply) { return (slice_t){reply_text(reply), reply_len(reply)}; }

// Appends the entries to remove; returns how many.
static size_t append_unwanted(conn_t *conn, const redisReply *pairs, sweep_keep_fn *keep, void *self) {
    size_t count = 0;
    for (size_t i = 0; pairs && i + 1 < pairs->elements && count < MOST; i += 2) {
        slice_t field = bytes_of(reply_at(pairs, i));
        slice_t value = bytes_of(reply_at(pairs, i + 1));
        if (keep(self, field, value)) continue;
        request_bytes(conn, field.data, field.len);
        request_bytes(conn, value.data, value.len);
        count++;
    }
    return count;
}

outcome_t sweep_hash(conn_t *conn, const keyspace_t *keys, size_t queue, const char *hash, const char *token, int count,
                     uint64_t *cursor, sweep_keep_fn *keep, void *self, int64_t *removed, bool *fenced, redis_error_t *error) {
    redisReply *scanned;
    redisReply *reply;
    char from[24];
    *fenced = false;
    snprintf(from, sizeof from, "%llu", (unsigned long long)*cursor);
    request_begin(conn, "HSCAN");
    request_text(conn, hash);
    request_text(conn, from);
    request_text(conn, "COUNT");
    request_int(conn, count);
    if (request_ask(conn, &scanned, error) != OUTCOME_OK) return error->outcome;
    *cursor = strtoull(reply_text(reply_at(scanned, 0)), NULL, 10);
    request_script(conn, &script_sweep, 2);
    request_text(conn, keys->locks[keys->queues[queue].lock].key);
    request_text(conn, hash);
    request_text(conn, token);
    request_text(conn, "value");
    size_t unwanted = append_unwanted(conn, reply_at(scanned, 1), keep, self);
    outcome_t outcome = unwanted ? request_ask(conn, &reply, error) : OUTCOME_OK; // a request that is not ended is not sent
    freeReplyObject(scanned);
    if (!unwanted || outcome != OUTCOME_OK) return outcome;
    *removed += reply_int(reply_at(reply, 1));
    *fenced = reply_is(reply_at(reply, 0), "fenced");
    if (reply_is(reply_at(reply, 0), "type"))
        redis_error_set(error, OUTCOME_REFUSED, "%s holds a %s", hash, reply_text(reply_at(reply, 2)));
    freeReplyObject(reply);
    return error->outcome;
}
