#include "queue/settle.h"

#include "base/log.h"
#include "model/job.h"
#include "queue/scripts.h"
#include "redis/reply.h"

enum {
    REPORTS_COUNT = 16,      // reports of one request
    REPORTS_BYTES = 1 << 20, // a request returns jobs of at most this many bytes, and one more job
};

static void record_append_text(conn_t *conn, const char *name, slice_t value) {
    if (value.len == 0) return;
    request_text(conn, name);
    request_bytes(conn, value.data, value.len);
}

static void record_append_number(conn_t *conn, const char *name, int64_t value) {
    if (value == 0) return;
    request_text(conn, name);
    request_int(conn, value);
}

void record_append(conn_t *conn, const event_t *event) {
#define X(name, help)                                                                                                            \
    if (strcmp(#name, "error") != 0) record_append_text(conn, #name, event->name);
    EVENT_TEXTS(X)
#undef X
#define X(name, help)                                                                                                            \
    if (strcmp(#name, "at") != 0) record_append_number(conn, #name, event->name);
    EVENT_NUMBERS(X)
#undef X
}

size_t record_bytes(const event_t *event) {
    size_t bytes = 0;
#define X(name, help)                                                                                                            \
    if (strcmp(#name, "error") != 0) bytes += event->name.len;
    EVENT_TEXTS(X)
#undef X
#define X(name, help)                                                                                                            \
    if (strcmp(#name, "at") != 0 && event->name) bytes += (size_t)snprintf(NULL, 0, "%" PRId64, event->name);
    EVENT_NUMBERS(X)
#undef X
    return bytes;
}

void record_log_failure(const char *role, const char *queue, const event_t *event) {
    char ref[EVENT_REF_SIZE];
    if (!event_ref(event->event, ref)) *ref = '\0';
    log_warn(role, queue, "a job has failed for good", F_STR("ref", ref), F_SLICE("reason", event->reason),
             F_SLICE("job", slice_cut(event->job, MAX_JOB_ID)), F_SLICE("type", slice_cut(event->type, MAX_JOB_TYPE)),
             F_INT("attempts", event->attempts));
}

static const char *settle_key_or(const char *key, const char *other) { return key && *key ? key : other; }

static bool settle_is_delayed(const settle_ask_t *ask) {
    return ask->new.len && ask->delay_ms != 0 && settle_key_or(ask->where->delayed, NULL);
}

// All keys but the lock, which call_script adds.
static void settle_append_keys(const call_t *call, const settle_ask_t *ask, bool ends) {
    const queue_keys_t *at = call_queue(call);
    const settle_where_t *where = ask->where;
    const char *lock = call_lock(call);
    const char *dlq = settle_key_or(ends ? at->config->dlq : NULL, lock);
    conn_t *conn = call->conn;
    request_text(conn, where->from, settle_is_delayed(ask) ? where->delayed : where->ready, where->ready, at->stamps,
                 settle_key_or(where->errors, at->absent), at->failures, at->meta, settle_key_or(ask->heartbeat, lock), dlq,
                 settle_key_or(ends ? where->mark : NULL, lock), settle_key_or(where->done, lock),
                 settle_key_or(dlq != lock ? where->recorded : NULL, lock));
}

// The payload is the job. The request sends the job once, and the script copies the job into the record.
static void settle_append_record(conn_t *conn, const settle_ask_t *ask) {
    event_t record = *ask->event;
    record.payload = (slice_t){0};
    record_append(conn, &record);
    if (ask->event->payload.len) request_text(conn, "payload");
}

void settle_append(const call_t *call, const settle_ask_t *ask) {
    const settle_where_t *where = ask->where;
    conn_t *conn = call->conn;
    bool ends = ask->new.len == 0;
    call_script(call, &script_settle, 13);
    settle_append_keys(call, ask, ends);
    request_text(conn, call->token);
    request_bytes(conn, ask->job.data, ask->job.len);
    request_bytes(conn, ask->digest->bytes, STAMP_FIELD_BYTES);
    request_bytes(conn, ask->old.bytes, ask->old.len);
    if (!ends && where->forget)
        request_text(conn, "-");
    else
        request_bytes(conn, ask->new.bytes, ask->new.len);
    request_int(conn, ask->from_tail ? -1 : 1, where->depth ? where->depth : ask->depth);
    request_text(conn, ask->alone ? "1" : "0", ask->report);
    if (settle_is_delayed(ask))
        request_int(conn, ask->delay_ms);
    else
        request_text(conn, "");
    request_text(conn, call_queue(call)->config->policy.score_unit == SCORE_S ? "s" : "ms");
    request_int(conn, call->keys->config->stream.max_bytes);
    request_bytes(conn, where->again.data, ends ? 0 : where->again.len);
    request_bytes(conn, where->mark_id.data, where->mark_id.len);
    request_bytes(conn, where->done_id.data, where->done_id.len);
    request_text(conn, ask->blank_is_dead ? "1" : "0");
    settle_append_record(conn, ask);
    request_end(conn);
}

bool settle_read(const call_t *call, settled_t *out) {
    static const struct {
        const char *word;
        settled_t settled;
    } words[] = {{"dropped", SETTLED_DROPPED},   {"gone", SETTLED_GONE}, {"changed", SETTLED_CHANGED}, {"alive", SETTLED_ALIVE},
                 {"copies", SETTLED_DUPLICATES}, {"full", SETTLED_FULL}, {"type", SETTLED_TYPE}};
    redis_error_t error = {0};
    redisReply *reply = conn_read_next(call->conn, NULL, call->error);
    if (!reply) return false;
    const redisReply *word = reply_at(reply, 0);
    bool known = reply_is(word, "settled");
    *out = reply_int(reply_at(reply, 1)) == 1 ? SETTLED : SETTLED_UNRECORDED;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!reply_is(word, words[i].word)) continue;
        *out = words[i].settled;
        known = true;
    }
    if (script_refusal(reply, &error) == OUTCOME_OK && !known)
        redis_error_set(&error, OUTCOME_REFUSED, "settle: unexpected reply");
    freeReplyObject(reply);
    if (error.outcome > call->error->outcome) *call->error = error;
    return error.outcome == OUTCOME_OK;
}

outcome_t reports_scan(const call_t *call, reports_walk_t *walk, report_fn *found, void *self) {
    redisReply *reply;
    char from[24];
    snprintf(from, sizeof from, "%llu", (unsigned long long)walk->cursor);
    request_script(call->conn, &script_reports, 1);
    request_text(call->conn, call_queue(call)->config->errors, from);
    request_int(call->conn, walk->skip, walk->count ? walk->count : REPORTS_COUNT, REPORTS_BYTES);
    conn_expect_job(call->conn);
    if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
    walk->cursor = strtoull(reply_text(reply_at(reply, 0)), NULL, 10);
    walk->skip = reply_int(reply_at(reply, 1));
    walk->count = reply_int(reply_at(reply, 2));
    walk->ended = walk->cursor == 0 && walk->skip == 0;
    for (size_t i = 3; reply->type == REDIS_REPLY_ARRAY && i + 2 < reply->elements; i += 3) {
        const char *id = reply_text(reply->element[i + 1]), *length = strchr(id, ':');
        report_ref_t report = {.job = reply_slice(reply->element[i]),
                               .id = id,
                               .ends = reply_int(reply->element[i + 2]) == 1,
                               .large = length ? strtoll(length + 1, NULL, 10) : 0};
        found(self, &report);
    }
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t report_remove(const call_t *call, slice_t job, const char *id, bool *removed) {
    redisReply *reply;
    *removed = false;
    call_script(call, &script_prune, 2);
    request_text(call->conn, call_queue(call)->config->errors, call->token, "report");
    request_bytes(call->conn, job.data, job.len);
    request_text(call->conn, id);
    if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
    *removed = reply_int(reply_at(reply, 1)) == 1;
    freeReplyObject(reply);
    return OUTCOME_OK;
}
