#include "queue/prune.h"

#include <stdio.h>
#include <stdlib.h>

#include "queue/scripts.h"
#include "redis/reply.h"

enum { PRUNE_MAX = 2000 }; // unpack in prune.lua fails with more arguments

// Appends the entries to remove; returns how many.
static size_t prune_append_unwanted(conn_t *conn, const redisReply *pairs, prune_keep_fn *keep, void *self) {
    size_t count = 0;
    for (size_t i = 0; pairs && i + 1 < pairs->elements && count < PRUNE_MAX; i += 2) {
        slice_t field = reply_slice(reply_at(pairs, i));
        slice_t value = reply_slice(reply_at(pairs, i + 1));
        if (keep(self, field, value)) continue;
        request_bytes(conn, field.data, field.len);
        request_bytes(conn, value.data, value.len);
        count++;
    }
    return count;
}

outcome_t prune_hash(const call_t *call, const char *hash, int count, uint64_t *cursor, prune_keep_fn *keep, void *self) {
    redisReply *scanned;
    char from[24];
    snprintf(from, sizeof from, "%llu", (unsigned long long)*cursor);
    request_begin(call->conn, "HSCAN", hash, from, "COUNT");
    request_int(call->conn, count);
    if (request_ask(call->conn, &scanned, call->error) != OUTCOME_OK) return call->error->outcome;
    *cursor = strtoull(reply_text(reply_at(scanned, 0)), NULL, 10);
    call_script(call, &script_prune, 2);
    request_text(call->conn, hash, call->token, "value");
    size_t unwanted = prune_append_unwanted(call->conn, reply_at(scanned, 1), keep, self);
    // The request has no entry, so do not end it: an unended request is not sent.
    if (unwanted) call_ask(call, NULL);
    freeReplyObject(scanned);
    return call->error->outcome;
}
