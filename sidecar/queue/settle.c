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

// Names and values that record_append appends.
static size_t record_arguments(const event_t *event) {
    size_t count = 0;
#define X(name, help)                                                                                                            \
    if (strcmp(#name, "error") != 0 && event->name.len) count += 2;
    EVENT_TEXTS(X)
#undef X
#define X(name, help)                                                                                                            \
    if (strcmp(#name, "at") != 0 && event->name) count += 2;
    EVENT_NUMBERS(X)
#undef X
    return count;
}

void record_append_shared(conn_t *conn, const event_t *event) {
    event_t shared = {.dialect = event->dialect, .queue = event->queue, .term = event->term, .group = event->group};
    request_int(conn, (int64_t)record_arguments(&shared));
    record_append(conn, &shared);
}

void record_append_own(conn_t *conn, const event_t *event, bool payload_follows) {
    event_t own = *event;
    own.dialect = own.queue = own.term = own.group = (slice_t){0};
    if (payload_follows) own.payload = (slice_t){0};
    request_int(conn, (int64_t)record_arguments(&own) + payload_follows);
    record_append(conn, &own);
    if (payload_follows) request_text(conn, "payload");
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

static bool settle_ends(const settle_ask_t *ask) { return ask->new.len == 0; }
static bool settle_is_delayed(const settle_ask_t *ask) {
    return !settle_ends(ask) && ask->delay_ms != 0 && settle_key_or(ask->where->delayed, NULL);
}

enum { SETTLE_KEYS = 9, SETTLE_JOB_KEYS = 4 }; // keys of a request, and more keys of each job

// The keys that the jobs of a request name by number, from SETTLE_KEYS + 1 on. Borrowed.
typedef struct settle_keys {
    const char *keys[SETTLE_JOBS * SETTLE_JOB_KEYS];
    size_t count;
} settle_keys_t;

// Jobs share the keys of the config, so equal pointers are equal keys.
static int64_t settle_key_number(settle_keys_t *keys, const char *key) {
    size_t i = 0;
    if (!settle_key_or(key, NULL)) return 0;
    while (i < keys->count && keys->keys[i] != key) i++;
    if (i == keys->count) keys->keys[keys->count++] = key;
    return SETTLE_KEYS + 1 + (int64_t)i;
}

static void settle_append_keys(const call_t *call, const settle_ask_t *const *asks, size_t count, settle_keys_t *keys) {
    const queue_keys_t *at = call_queue(call);
    const char *none = call_lock(call), *done = NULL, *recorded = NULL, *delayed = NULL;
    bool ends = false;
    for (size_t i = 0; i < count; i++) {
        settle_key_number(keys, asks[i]->where->from);
        settle_key_number(keys, asks[i]->where->ready);
        if (settle_ends(asks[i])) settle_key_number(keys, asks[i]->where->mark);
        settle_key_number(keys, asks[i]->heartbeat);
        done = settle_key_or(asks[i]->where->done, done);
        recorded = settle_key_or(asks[i]->where->recorded, recorded);
        if (settle_is_delayed(asks[i])) delayed = asks[i]->where->delayed;
        ends |= settle_ends(asks[i]);
    }
    const char *dlq = settle_key_or(ends ? at->config->dlq : NULL, none);
    call_script(call, &script_settle, SETTLE_KEYS + (int)keys->count);
    request_text(call->conn, at->stamps, settle_key_or(asks[0]->where->errors, at->absent), at->failures, at->meta,
                 settle_key_or(delayed, none), dlq, settle_key_or(done, none),
                 settle_key_or(dlq != none ? recorded : NULL, none));
    request_text_list(call->conn, keys->keys, keys->count);
}

// FROM,READY,MARK,DEPTH,ALONE,FLAGS; see settle.lua.
static void settle_append_kind(const call_t *call, const settle_ask_t *ask, settle_keys_t *keys) {
    char text[128];
    const settle_where_t *where = ask->where;
    bool ends = settle_ends(ask);
    int64_t depth = where->depth ? where->depth : ask->depth;
    int64_t alone = depth > 1 ? ask->alone : 0;
    snprintf(text, sizeof text, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%s%s%s%s",
             settle_key_number(keys, where->from), settle_key_number(keys, where->ready),
             ends ? settle_key_number(keys, where->mark) : 0, ask->from_tail ? -depth : depth, alone,
             ends                     ? "e"
             : settle_is_delayed(ask) ? "d"
                                      : "r",
             !ends && where->forget ? "f" : "", *ask->report ? "x" : "", where->done_id.len ? "o" : "");
    request_text(call->conn, text);
}

static void settle_append_job(const call_t *call, const settle_ask_t *ask, settle_keys_t *keys) {
    const settle_where_t *where = ask->where;
    conn_t *conn = call->conn;
    bool ends = settle_ends(ask);
    settle_append_kind(call, ask, keys);
    request_bytes(conn, ask->job.data, ask->job.len);
    request_bytes(conn, ask->digest->bytes, STAMP_FIELD_BYTES);
    request_bytes(conn, ask->old.bytes, ask->old.len);
    request_bytes(conn, ask->new.bytes, ask->new.len);
    request_text(conn, ask->report);
    request_int(conn, ask->delay_ms);
    request_bytes(conn, where->again.data, ends ? 0 : where->again.len);
    request_int(conn, settle_key_number(keys, ask->heartbeat));
    request_bytes(conn, where->mark_id.data, where->mark_id.len);
    request_bytes(conn, where->done_id.data, where->done_id.len);
    // The payload is the job. The request sends the job once, and the script copies the job into the record.
    record_append_own(conn, ask->event, ask->event->payload.len > 0);
}

void settle_append(const call_t *call, const settle_ask_t *const *asks, size_t count) {
    conn_t *conn = call->conn;
    settle_keys_t keys = {.count = 0};
    settle_append_keys(call, asks, count, &keys);
    request_text(conn, call->token, call_queue(call)->config->policy.score_unit == SCORE_S ? "s" : "ms");
    request_int(conn, call->keys->config->stream.max_bytes);
    request_text(conn, asks[0]->blank_is_dead ? "1" : "0");
    record_append_shared(conn, asks[0]->event);
    for (size_t i = 0; i < count; i++) settle_append_job(call, asks[i], &keys);
    request_end(conn);
}

static bool settle_word(const redisReply *word, settled_t *out) {
    static const struct {
        const char *word;
        settled_t settled;
    } words[] = {
        {"settled", SETTLED},     {"unrecorded", SETTLED_UNRECORDED}, {"dropped", SETTLED_DROPPED},   {"gone", SETTLED_GONE},
        {"alive", SETTLED_ALIVE}, {"changed", SETTLED_CHANGED},       {"copies", SETTLED_DUPLICATES}, {"full", SETTLED_FULL},
        {"type", SETTLED_TYPE}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!reply_is(word, words[i].word)) continue;
        *out = words[i].settled;
        return true;
    }
    return false;
}

// Reads the answer for one job. An error goes to call->error if it is the worst so far.
static settled_t settle_answer(const call_t *call, const redisReply *answer) {
    settled_t settled = SETTLED_REFUSED;
    redis_error_t error = {0};
    const redisReply *word = reply_at(answer, 0);
    bool known = settle_word(word ? word : answer, &settled);
    if (answer && answer->type == REDIS_REPLY_ERROR)
        redis_error_from_reply(&error, answer->str, answer->len);
    else if (script_refusal(answer, &error) == OUTCOME_OK && !known)
        redis_error_set(&error, OUTCOME_REFUSED, "settle: unexpected reply");
    if (error.outcome > call->error->outcome) *call->error = error;
    return settled;
}

bool settle_read_answers(const call_t *call, size_t count, settled_t *out, int64_t *took_us) {
    redisReply *reply = conn_read_next(call->conn, NULL, call->error);
    if (!reply) return false;
    bool each = reply_is(reply_at(reply, 0), "settled");
    settled_t all = each ? SETTLED : settle_answer(call, reply);
    *took_us = each ? reply_int(reply_at(reply, 1)) : 0;
    for (size_t i = 0; i < count; i++) out[i] = each ? settle_answer(call, reply_at(reply, i + 2)) : all;
    freeReplyObject(reply);
    return all != SETTLED_REFUSED;
}

bool settle_read(const call_t *call, settled_t *out) {
    redisReply *reply = conn_read_next(call->conn, NULL, call->error);
    if (!reply) return false;
    *out = settle_answer(call, reply);
    if (*out == SETTLED && reply_int(reply_at(reply, 1)) != 1) *out = SETTLED_UNRECORDED;
    freeReplyObject(reply);
    return *out != SETTLED_TYPE && *out != SETTLED_REFUSED;
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
