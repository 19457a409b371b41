#include "queue/settle.h"

#include "queue/record.h"
#include "queue/scripts.h"
#include "redis/reply.h"

enum {
    REPORTS_COUNT = 16,      // reports of one request
    REPORTS_BYTES = 1 << 20, // a request returns jobs of at most this many bytes, and one more job
};

static const char *settle_key_or(const char *key, const char *other) { return key && *key ? key : other; }

static bool settle_ends(const settle_ask_t *ask) { return ask->new.len == 0; }
static bool settle_is_delayed(const settle_ask_t *ask) {
    return !settle_ends(ask) && ask->delay_ms != 0 && settle_key_or(ask->where->delayed, NULL);
}

enum {
    SETTLE_KEYS = 9,     // keys of a request
    SETTLE_JOB_KEYS = 4, // and more keys of each job
    NEAR_MORE = 16,
    // Costs of Redis, in entries that LPOS compares.
    LPOS_COST = 25,
    LRANGE_ENTRY_COST = 20, // the script puts each entry into a table
};

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

// The optional values of a job in a request. settle.lua knows their names.
enum { COLUMN_REPORT, COLUMN_DELAY, COLUMN_AGAIN, COLUMN_BEAT, COLUMN_MARK, COLUMN_DONE, COLUMN_COUNT };

static uint32_t settle_columns(const settle_ask_t *ask) {
    const settle_where_t *where = ask->where;
    bool ends = settle_ends(ask);
    return (uint32_t)(*ask->report != '\0') << COLUMN_REPORT | (uint32_t)settle_is_delayed(ask) << COLUMN_DELAY |
           (uint32_t)(!ends && where->again.len) << COLUMN_AGAIN | (uint32_t)(ask->heartbeat != NULL) << COLUMN_BEAT |
           (uint32_t)(ends && where->mark_id.len) << COLUMN_MARK | (uint32_t)(where->done_id.len > 0) << COLUMN_DONE;
}

static int64_t settle_max(int64_t a, int64_t b) { return a > b ? a : b; }

// Entries that an LPOS for the job compares. Only for an ended job it goes on behind the first match.
static int64_t settle_searched(const settle_ask_t *ask, size_t before) {
    return settle_max(settle_max(ask->near, (int64_t)before + 1), settle_ends(ask) ? ask->alone : 0);
}

// Entries of the list for the script to read at once: those among which the jobs are, and behind `skip` others.
typedef struct settle_window {
    int64_t near; // 0 = a search for each job is cheaper
    int64_t skip;
} settle_window_t;

static settle_window_t settle_window_in_place(const settle_ask_t *const *asks, size_t count) {
    settle_window_t window = {.near = asks[0]->near, .skip = asks[0]->skip};
    for (size_t i = 1; i < count; i++) {
        window.near = settle_max(window.near, asks[i]->near);
        if (asks[i]->skip < window.skip) window.skip = asks[i]->skip;
    }
    window.near -= window.skip;
    return window;
}

// At an end of the list these are also the entries among which ended jobs are searched for duplicates, and some more for jobs
// that workers took meanwhile. A request for one job never reads them: it may follow a refusal of LRANGE.
static settle_window_t settle_window(const settle_ask_t *const *asks, size_t count) {
    int64_t near = 0, searches = 0;
    if (asks[0]->in_place) return settle_window_in_place(asks, count);
    for (size_t i = 0; i < count; i++) {
        near = settle_max(near, settle_searched(asks[i], i));
        searches += LPOS_COST + settle_searched(asks[i], i);
    }
    near += NEAR_MORE;
    bool reads = count > 1 && near <= asks[0]->small && near * LRANGE_ENTRY_COST <= searches;
    return (settle_window_t){.near = reads ? near : 0};
}

// FROM,READY,MARK,DEPTH,ALONE,FLAGS; see settle.lua.
static void settle_append_kind(const call_t *call, const settle_ask_t *ask, settle_keys_t *keys) {
    char text[128];
    const settle_where_t *where = ask->where;
    bool ends = settle_ends(ask);
    int64_t depth = where->depth ? where->depth : ask->depth;
    int64_t alone = depth > 1 ? ask->alone : 0;
    snprintf(text, sizeof text, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%s%s%s%s%s%s%s",
             settle_key_number(keys, where->from), settle_key_number(keys, where->ready),
             ends ? settle_key_number(keys, where->mark) : 0, ask->from_tail ? -depth : depth, alone,
             ends                     ? "e"
             : settle_is_delayed(ask) ? "d"
                                      : "r",
             !ends && where->forget ? "f" : "", *ask->report ? "x" : "", where->done_id.len ? "o" : "",
             ask->event->payload.len ? "p" : "", ask->in_place ? "i" : "", !ends && where->takes_left ? "l" : "");
    request_text(call->conn, text);
}

static void settle_append_job(const call_t *call, const settle_ask_t *ask, uint32_t columns, settle_keys_t *keys) {
    const settle_where_t *where = ask->where;
    conn_t *conn = call->conn;
    bool ends = settle_ends(ask);
    settle_append_kind(call, ask, keys);
    request_bytes(conn, ask->job.data, ask->job.len);
    request_bytes(conn, ask->digest->bytes, STAMP_FIELD_BYTES);
    request_bytes(conn, ask->old.bytes, ask->old.len);
    request_bytes(conn, ask->new.bytes, ask->new.len);
    if (columns & 1U << COLUMN_REPORT) request_text(conn, ask->report);
    if (columns & 1U << COLUMN_DELAY) request_int(conn, ask->delay_ms);
    if (columns & 1U << COLUMN_AGAIN) request_bytes(conn, where->again.data, ends ? 0 : where->again.len);
    if (columns & 1U << COLUMN_BEAT) request_int(conn, settle_key_number(keys, ask->heartbeat));
    if (columns & 1U << COLUMN_MARK) request_bytes(conn, where->mark_id.data, where->mark_id.len);
    if (columns & 1U << COLUMN_DONE) request_bytes(conn, where->done_id.data, where->done_id.len);
}

// The settings of a request, and what its jobs have in common.
static void settle_append_head(const call_t *call, const settle_ask_t *const *asks, size_t count, uint32_t columns) {
    static const char *const NAMES[COLUMN_COUNT] = {"report ", "delay ", "again ", "beat ", "mark ", "done "};
    char names[64] = "";
    size_t len = 0;
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (columns & 1U << i) len += (size_t)snprintf(&names[len], sizeof names - len, "%s", NAMES[i]);
    request_text(call->conn, call->token, call_queue(call)->config->policy.score_unit == SCORE_S ? "s" : "ms");
    request_int(call->conn, call->keys->config->stream.max_bytes);
    request_text(call->conn, call_queue(call)->config->policy.on_failure, asks[0]->blank_is_dead ? "1" : "0");
    const settle_window_t window = settle_window(asks, count);
    request_int(call->conn, window.near, window.skip);
    request_text(call->conn, names);
}

void settle_append(const call_t *call, const settle_ask_t *const *asks, size_t count) {
    settle_keys_t keys = {.count = 0};
    record_form_t form = {.no_payload = true};
    uint32_t columns = 0;
    for (size_t i = 0; i < count; i++) {
        columns |= settle_columns(asks[i]);
        record_form_add(&form, asks[0]->event, asks[i]->event);
    }
    settle_append_keys(call, asks, count, &keys);
    settle_append_head(call, asks, count, columns);
    record_append_form(call->conn, &form, asks[0]->event);
    for (size_t i = 0; i < count; i++) {
        settle_append_job(call, asks[i], columns, &keys);
        record_append_values(call->conn, &form, asks[i]->event);
    }
    request_end(call->conn);
}

static bool settle_word(const redisReply *word, settled_t *out) {
    static const struct {
        const char *word;
        settled_t settled;
    } words[] = {
        {"settled", SETTLED},     {"unrecorded", SETTLED_UNRECORDED}, {"dropped", SETTLED_DROPPED},       {"gone", SETTLED_GONE},
        {"alive", SETTLED_ALIVE}, {"changed", SETTLED_CHANGED},       {"duplicates", SETTLED_DUPLICATES}, {"full", SETTLED_FULL},
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
    redis_error_keep_worse(call->error, &error);
    return settled;
}

bool settle_read_answers(const call_t *call, size_t count, settled_t *out, settle_reply_t *of_all) {
    *of_all = (settle_reply_t){0};
    redisReply *reply = conn_read_next(call->conn, NULL, call->error);
    if (!reply) return false;
    bool each = reply_is(reply_at(reply, 0), "settled");
    settled_t all = each ? SETTLED : settle_answer(call, reply);
    of_all->took_us = each ? reply_int(reply_at(reply, 1)) : 0;
    of_all->replaced = each ? (size_t)reply_int(reply_at(reply, 2)) : 0;
    for (size_t i = 0; i < count; i++) out[i] = each ? settle_answer(call, reply_at(reply, i + 3)) : all;
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

report_ref_t report_ref_of(struct redisReply *const *elements) {
    const char *id = reply_text(elements[1]), *length = strchr(id, ':');
    return (report_ref_t){.job = reply_slice(elements[0]),
                          .id = id,
                          .ends = reply_int(elements[2]) == 1,
                          .large = length ? strtoll(length + 1, NULL, 10) : 0};
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
        report_ref_t report = report_ref_of(&reply->element[i]);
        found(self, &report);
    }
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t report_remove(const call_t *call, slice_t job, const char *id, report_removed_t *out) {
    redisReply *reply;
    *out = (report_removed_t){0};
    call_script(call, &script_prune, 2);
    request_text(call->conn, call_queue(call)->config->errors, call->token, "report");
    request_bytes(call->conn, job.data, job.len);
    request_text(call->conn, id);
    if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
    out->removed = reply_int(reply_at(reply, 1)) == 1;
    out->bytes = reply_int(reply_at(reply, 2));
    slice_t head = reply_slice(reply_at(reply, 3));
    out->len = head.len < REPORT_HEAD ? head.len : REPORT_HEAD;
    if (out->len) memcpy(out->head, head.data, out->len);
    freeReplyObject(reply);
    return OUTCOME_OK;
}
