#include "queue/stamps.h"

#include "queue/scripts.h"
#include "redis/reply.h"

enum {
    PRUNE_COUNT = 1000,
    PRUNE_MAX = 2000,      // unpack in prune.lua fails with more arguments
    PRUNE_CHANGES = 256,   // stamps that one call changes; the next scan changes the others
    REQUEUED_BIT = 0x8000, // a bit of the retries; requeue.lua sets this bit
};

static uint8_t *stamp_put(uint8_t *at, uint64_t number, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, number >>= 8) at[i] = (uint8_t)number;
    return at + bytes;
}

static const uint8_t *stamp_take(const uint8_t *at, int64_t *number, int bytes) {
    uint64_t sum = 0;
    for (int i = 0; i < bytes; i++) sum = sum << 8 | at[i];
    *number = (int64_t)sum;
    return at + bytes;
}

stamp_raw_t stamp_pack(const stamp_t *stamp) {
    stamp_raw_t raw = {.len = STAMP_BYTES};
    uint8_t *at = stamp_put(raw.bytes, (uint64_t)stamp->born_us, 8);
    at = stamp_put(at, (uint64_t)stamp->seen, 6);
    at = stamp_put(at, (uint64_t)stamp->missing, 6);
    int64_t retries = stamp->retries < REQUEUED_BIT ? stamp->retries : REQUEUED_BIT - 1;
    at = stamp_put(at, (uint64_t)retries | (stamp->requeued ? REQUEUED_BIT : 0), 2);
    stamp_put(at, (uint64_t)stamp->retried_at, 6);
    return raw;
}

stamp_t stamp_unpack(const void *bytes, size_t len) {
    stamp_t stamp = {0};
    if (len != STAMP_BYTES) return stamp;
    const uint8_t *at = stamp_take(bytes, &stamp.born_us, 8);
    at = stamp_take(at, &stamp.seen, 6);
    at = stamp_take(at, &stamp.missing, 6);
    at = stamp_take(at, &stamp.retries, 2);
    stamp.requeued = stamp.retries & REQUEUED_BIT;
    stamp.retries &= REQUEUED_BIT - 1;
    stamp_take(at, &stamp.retried_at, 6);
    return stamp;
}

void stamps_append(const call_t *call, const backup_page_t *page) {
    conn_t *conn = call->conn;
    if (page->jobs == 0) return;
    request_begin(conn, "HMGET", call_queue(call)->stamps);
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].kind == ENTRY_JOB) request_bytes(conn, page->entries[i].digest.bytes, STAMP_FIELD_BYTES);
    request_end(conn);
    request_append(conn, "TIME");
}

static void stamps_unpack_page(const redisReply *reply, const backup_page_t *page, stamp_t *stamps, stamp_raw_t *raws) {
    size_t next = 0;
    for (size_t i = 0; i < page->count; i++) {
        stamps[i] = (stamp_t){0};
        raws[i].len = 0;
        if (page->entries[i].kind != ENTRY_JOB) continue;
        const redisReply *raw = reply_at(reply, next++);
        size_t len = reply_len(raw);
        stamps[i] = stamp_unpack(reply_text(raw), len);
        if (len != STAMP_BYTES) continue;
        memcpy(raws[i].bytes, raw->str, STAMP_BYTES);
        raws[i].len = STAMP_BYTES;
    }
}

outcome_t stamps_read(const call_t *call, const backup_page_t *page, stamp_t *stamps, stamp_raw_t *raws, int64_t *now_us) {
    *call->error = (redis_error_t){0};
    if (page->jobs == 0) return OUTCOME_OK;
    redisReply *reply = conn_read_next(call->conn, NULL, call->error);
    redisReply *time = conn_read_next(call->conn, NULL, call->error);
    if (time) *now_us = reply_time_us(time);
    if (reply && time) stamps_unpack_page(reply, page, stamps, raws);
    freeReplyObject(reply);
    freeReplyObject(time);
    return call->error->outcome;
}

outcome_t stamps_change(const call_t *call, const stamp_change_t *changes, size_t count) {
    conn_t *conn = call->conn;
    call_script(call, &script_stamp, 3);
    request_text(conn, call_queue(call)->stamps, call_queue(call)->meta, call->token);
    for (size_t i = 0; i < count; i++) {
        request_bytes(conn, changes[i].digest->bytes, STAMP_FIELD_BYTES);
        request_bytes(conn, changes[i].old.bytes, changes[i].old.len);
        request_bytes(conn, changes[i].new.bytes, changes[i].new.len);
    }
    return call_ask(call, NULL);
}

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
    // Do not end a request without entries: an open request is not sent.
    if (unwanted) call_ask(call, NULL);
    freeReplyObject(scanned);
    return call->error->outcome;
}

typedef struct stamps_prune {
    stamp_keep_fn *keep;
    void *self;
    stamp_change_t changes[PRUNE_CHANGES];
    digest_t digests[PRUNE_CHANGES]; // the fields of the changes
    size_t count;
} stamps_prune_t;

static bool stamps_keep(void *self, slice_t field, slice_t value) {
    stamps_prune_t *prune = self;
    stamp_t stamp = stamp_unpack(value.data, value.len);
    if (field.len != STAMP_FIELD_BYTES || !stamp.born_us) return false; // not a stamp of the sidecar
    if (!prune->keep(prune->self, (const uint8_t *)field.data, &stamp)) return false;
    stamp_change_t change = {.new = stamp_pack(&stamp), .old.len = STAMP_BYTES, .digest = &prune->digests[prune->count]};
    if (memcmp(change.new.bytes, value.data, STAMP_BYTES) == 0 || prune->count == PRUNE_CHANGES) return true;
    memcpy(change.old.bytes, value.data, STAMP_BYTES);
    memcpy(prune->digests[prune->count].bytes, field.data, STAMP_FIELD_BYTES);
    prune->changes[prune->count++] = change;
    return true;
}

outcome_t stamps_prune(const call_t *call, uint64_t *cursor, stamp_keep_fn *keep, void *self) {
    stamps_prune_t prune = {.keep = keep, .self = self};
    prune_hash(call, call_queue(call)->stamps, PRUNE_COUNT, cursor, stamps_keep, &prune);
    if (call->error->outcome == OUTCOME_OK && prune.count) stamps_change(call, prune.changes, prune.count);
    return call->error->outcome;
}
