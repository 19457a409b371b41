#include "queue/requeue.h"

#include <stdio.h>
#include <stdlib.h>

#include "queue/record.h"
#include "queue/reply.h"
#include "queue/stamps.h"

enum { PRUNE_COUNT = 500, PRUNE_MOST = 2000 }; // unpack in sweep.lua must not meet more

// The monitor begins a new life by itself where it meets a job without a stamp. Only where the job's own date would end it at
// once must a stamp tell that the date no longer counts; elsewhere a million of them would take 100 MB for nothing.
static bool needs_stamp(const queue_policy_t *policy) {
    return policy->roles & ROLE_MONITOR && policy->alive_timeout_ms && *policy->created_path;
}

void requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_ask_t *ask) {
    const queue_keys_t *home = &keys->queues[ask->queue];
    const queue_keys_t *to = &keys->queues[ask->to];
    digest_t event = {.bytes = {0}};
    digest_parse(ask->record->answers, &event);
    request_script(conn, SCRIPT_requeue, 6);
    request_text(conn, home->requeued);
    request_text(conn, home->failures);
    request_text(conn, home->meta);
    request_text(conn, to->config->ready);
    request_text(conn, to->stamps);
    request_text(conn, to->meta);
    request_bytes(conn, event.bytes, REQUEUE_MARK_BYTES);
    request_text(conn, ask->discards ? "discarded" : "requeued");
    request_text(conn, ask->by);
    request_text(conn, ask->again ? "1" : "0");
    request_bytes(conn, ask->job.data, ask->discards ? 0 : ask->job.len);
    request_bytes(conn, ask->digest->bytes, needs_stamp(&to->config->policy) ? STAMP_FIELD_BYTES : 0);
    request_int(conn, (int64_t)record_bytes(ask->record));
    record_append(conn, ask->record);
    request_end(conn);
}

// '<state> <ms> <by>'; what is no mark of ours reads as nothing.
static bool read_mark(const char *mark, requeue_reply_t *out) {
    long long at;
    int used = 0;
    if (sscanf(mark, "%15s %lld %n", out->state, &at, &used) < 2 || !used) return false;
    out->at_ms = at;
    snprintf(out->by, sizeof out->by, "%s", mark + used);
    return true;
}

outcome_t requeue_read(conn_t *conn, requeue_reply_t *out, fault_t *fault) {
    redisReply *reply;
    *out = (requeue_reply_t){.kind = REQUEUE_DONE};
    if (conn_read(conn, 0, &reply, fault) != OUTCOME_OK) return fault->outcome;
    const redisReply *word = reply_at(reply, 0);
    const char *detail = reply_text(reply_at(reply, 1));
    snprintf(out->why, sizeof out->why, "%s", detail);
    if (reply_is(word, "known")) {
        out->kind = REQUEUE_KNOWN;
        read_mark(detail, out);
    } else if (reply_is(word, "unrecorded")) {
        out->kind = REQUEUE_UNRECORDED;
    } else if (reply_is(word, "failed")) {
        out->kind = REQUEUE_FAILED;
    } else if (reply_is(word, "type")) {
        fault_set(fault, OUTCOME_FAULT, "its key `%s` holds a %s", detail, reply_text(reply_at(reply, 2)));
    } else if (!reply_is(word, "done")) {
        fault_set(fault, OUTCOME_FAULT, "requeue: unexpected reply");
    }
    freeReplyObject(reply);
    return fault->outcome;
}

// Appends old marks for sweep.lua; returns how many.
static size_t append_old(conn_t *conn, const redisReply *pairs, int64_t before_ms) {
    size_t count = 0;
    for (size_t i = 0; pairs && i + 1 < pairs->elements && count < PRUNE_MOST; i += 2) {
        const redisReply *field = reply_at(pairs, i);
        const redisReply *mark = reply_at(pairs, i + 1);
        requeue_reply_t read = {0};
        if (!read_mark(reply_text(mark), &read) || read.at_ms >= before_ms) continue;
        request_bytes(conn, reply_text(field), reply_len(field));
        request_bytes(conn, reply_text(mark), reply_len(mark));
        count++;
    }
    return count;
}

outcome_t requeue_prune(conn_t *conn, const keyspace_t *keys, size_t queue, const char *token, int64_t before_ms,
                        uint64_t *cursor, int64_t *removed, bool *fenced, fault_t *fault) {
    const queue_keys_t *at = &keys->queues[queue];
    redisReply *scanned;
    redisReply *reply;
    char from[24];
    *fenced = false;
    snprintf(from, sizeof from, "%llu", (unsigned long long)*cursor);
    request_begin(conn, "HSCAN");
    request_text(conn, at->requeued);
    request_text(conn, from);
    request_text(conn, "COUNT");
    request_int(conn, PRUNE_COUNT);
    if (request_ask(conn, &scanned, fault) != OUTCOME_OK) return fault->outcome;
    *cursor = strtoull(reply_text(reply_at(scanned, 0)), NULL, 10);
    request_script(conn, SCRIPT_sweep, 2);
    request_text(conn, keys->seats[at->seat].lock);
    request_text(conn, at->requeued);
    request_text(conn, token);
    request_text(conn, "value");
    size_t old = append_old(conn, reply_at(scanned, 1), before_ms);
    freeReplyObject(scanned);
    if (!old || request_ask(conn, &reply, fault) != OUTCOME_OK) return fault->outcome; // a request that is not ended is not sent
    *fenced = reply_is(reply_at(reply, 0), "fenced");
    *removed += reply_int(reply_at(reply, 1));
    if (reply_is(reply_at(reply, 0), "type"))
        fault_set(fault, OUTCOME_FAULT, "%s holds a %s", at->requeued, reply_text(reply_at(reply, 2)));
    freeReplyObject(reply);
    return fault->outcome;
}
