// The score of an entry is the time of the failure by the clock of its worker, which may be behind. So a read after a change
// begins a little before the last read, and once a minute at most a full-range read covers the last 10 minutes. The sidecar's
// zset `recorded` has the failures that are in the stream already. Workers may also tell of each failure, in a message. Messages
// show failures of workers whose clocks are further behind, and of jobs that the workers removed at once. The record of a removed
// job has only the id and the error of its message. It is made only while nothing makes messages doubtful.
#include "dialects/failed/internal.h"

#include "base/failpoint.h"
#include "base/log.h"
#include "redis/reply.h"
#include "redis/tracking.h"

enum {
    OVERLAP_MS = 600000,  // workers' clocks may be this far behind
    NEAR_MS = 500,        // a read after a change begins this long before the last read
    PAUSE_FACTOR = 10,    // after a read, pause for this many times its duration
    PAUSE_MAX_MS = 250,   // the longest pause after a read
    FULL_RANGE_S = 60,    // least time between two full-range reads
    KNOWN_MAX = 20000,    // at the first read of a queue, at most this many earlier failures count as recorded
    PAGE = 500,           // entries of `failed` that one request reads
    PAGE_JOBS = 64,       // unrecorded failures that one request returns
    PAGE_BYTES = 1 << 20, // one request returns no further job after this many bytes
    FULL_WAIT_MS = 1000,  // until the next try while the stream is full
    MESSAGE_PAGE = 32,    // messages that one step handles
};

static const char ROLE[] = "monitor";

void failed_forget(void *state) {
    failed_t *s = state;
    failed_messages_clear(&s->messages);
    failed_events_forget(&s->events);
    s->mark_known = s->read.started = s->full = false;
    s->changed = s->full_range_due = true;
    s->full_range_at = s->pause_until = (mono_t){0};
}

failed_t *failed_open(const queue_keys_t *at, failed_source_t source) {
    failed_t *s = mem_alloc(sizeof *s);
    s->at = at;
    s->source = source;
    failed_forget(s);
    return s;
}

void failed_close(void *state) {
    failed_t *s = state;
    failed_messages_clear(&s->messages);
    condition_free(&s->doubt.why);
    condition_free(&s->events.trimmed);
    free(s->source.key);
    free(s->source.prefix);
    free(s->source.events);
    free(s);
}

size_t failed_names(const void *state, const char **out) {
    const failed_t *s = state;
    out[0] = s->source.key;
    return s->source.records ? 1 : 0;
}

failed_messages_t *failed_messages(failed_t *s) { return &s->messages; }

const char *failed_queue(const failed_t *s) { return s->at->config->name; }

static outcome_t failed_look(failed_t *s, const side_task_call_t *call) {
    return s->source.layout->look ? s->source.layout->look(&s->doubt, call) : OUTCOME_OK;
}

// The table of the jobs of a page. A member that is a job comes as the only field.
static const hash_fields_t *failed_fields(const failed_t *s) {
    static const hash_fields_t member = {.count = 1};
    return failed_is_job(s) ? &member : s->source.layout->fields;
}

// ---- Where reads begin.

// Reads the mark: the entry `:seen` of `recorded`, when the last full-range read began. `mark` is its new value in ms; "" = keep
// the value; "off" = delete the mark, because record_failed is false: failures until it is true again count as recorded.
static outcome_t failed_ask_mark(failed_t *s, side_task_call_t *step, const char *mark) {
    const call_t *call = &step->redis;
    redisReply *reply;
    call_script(call, &script_failed_seen, 3);
    request_text(call->conn, s->source.key, s->at->recorded, call->token);
    request_int(call->conn, OVERLAP_MS, KNOWN_MAX);
    request_text(call->conn, mark);
    request_int(call->conn, s->source.layout->unit_ms, failed_is_job(s));
    failpoint("failed_seen_before");
    if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
    failpoint("failed_seen_answered");
    if (script_reply_begins(reply, "seen", "off", call->error)) {
        int64_t now = reply_number(reply_at(reply, 1)), at = reply_number(reply_at(reply, 2));
        // A mark in the future comes from a Redis clock that was ahead.
        s->full_range_ms = at > now + OVERLAP_MS ? now : at;
        if (!s->mark_known) s->near_ms = s->full_range_ms;
        s->mark_known = true;
    }
    freeReplyObject(reply);
    if (call->error->outcome != OUTCOME_OK) return call->error->outcome;
    if (s->source.records) return failed_look(s, step);
    return s->source.events ? failed_events_read(&s->events, &s->source, step, &s->messages, true) : OUTCOME_OK;
}

// Begins a read if one is due. False: none is due.
static bool failed_begin_read(failed_t *s, mono_t now) {
    bool full_range = s->full_range_due && mono_reached(s->full_range_at, now);
    if (!mono_reached(s->pause_until, now) || (!full_range && !s->changed)) return false;
    snprintf(s->read.from, sizeof s->read.from, "%.17g",
             (double)(full_range ? s->full_range_ms - OVERLAP_MS : s->near_ms - NEAR_MS) / (double)s->source.layout->unit_ms);
    s->read.full_range = full_range;
    s->read.skip = s->read.began_ms = s->read.recorded = 0;
    s->read.began = now;
    s->changed = s->messages_turn = false;
    if (full_range) s->full_range_due = false;
    return true;
}

// ---- Pages.

// Asks for the jobs that the first `messages` messages name; 0 = asks for the next page of `failed`.
static void failed_append_page(const failed_t *s, conn_t *conn, size_t messages) {
    const hash_fields_t *fields = s->source.layout->fields;
    request_script(conn, &script_failed_page, 2);
    request_text(conn, s->source.key, s->at->recorded);
    request_text(conn, fields ? s->source.prefix : "", messages ? "" : s->read.from);
    request_int(conn, s->read.skip, PAGE, PAGE_JOBS, PAGE_BYTES, s->at->config->policy.max_payload);
    request_int(conn, fields ? (int64_t)fields->count : 0);
    if (fields) request_text_list(conn, fields->names, fields->count);
    for (size_t i = 0; i < messages; i++) request_bytes(conn, s->messages.all[i]->id.data, s->messages.all[i]->id.len);
    request_end(conn);
}

static outcome_t failed_record_page(failed_t *s, side_task_call_t *call, const redisReply *page) {
    failed_sent_t sent[PAGE_JOBS];
    size_t count = 0;
    for (hash_job_t job; count < PAGE_JOBS && hash_job_at(failed_fields(s), page, count, HASH_SCORED, &job); count++)
        failed_send_record(s, call, &job, NULL, 0, &sent[count]);
    if (count) failpoint("failed_record_before");
    s->read.recorded += failed_read_records(s, call, sent, count);
    if (call->redis.error->outcome != OUTCOME_OK || s->full) return call->redis.error->outcome;
    for (size_t i = 0; i < count; i++)
        if (!sent[i].gone && failed_messages_drop(&s->messages, sent[i].id))
            failed_messages_take_expected(&s->messages, sent[i].id);
    return OUTCOME_OK;
}

// If nearly all failures that the workers keep are new, earlier ones may have been dropped unread.
static void failed_note_dropped(const failed_t *s) {
    int64_t keeps = s->source.layout->keeps;
    if (keeps && s->read.recorded >= keeps - keeps / 10)
        log_warn(ROLE, s->at->config->name,
                 "workers may have dropped failed jobs before they were read; some failures have no record then",
                 F_INT("recorded", s->read.recorded), F_INT("kept", keeps));
}

static outcome_t failed_end_read(failed_t *s, side_task_call_t *call) {
    char mark[FAILED_NUMBER_SIZE];
    mono_t now = mono_now();
    int64_t pause = mono_diff(now, s->read.began) * PAUSE_FACTOR;
    s->pause_until = mono_add(now, pause < PAUSE_MAX_MS * NS_PER_MS ? pause : PAUSE_MAX_MS * NS_PER_MS);
    s->read.started = false;
    s->messages_turn = true;
    s->near_ms = s->read.began_ms;
    failed_note_dropped(s);
    if (!s->read.full_range) return OUTCOME_OK;
    s->full_range_at = mono_add(now, FULL_RANGE_S * NS_PER_S);
    snprintf(mark, sizeof mark, "%lld", (long long)s->read.began_ms);
    return failed_ask_mark(s, call, mark);
}

// Continues after the page, or ends the read. Counts the entries of the last score that were read, to skip only these.
static outcome_t failed_next_page(failed_t *s, side_task_call_t *call, const redisReply *page) {
    int64_t looked = reply_int(reply_at(page, 1)), same = reply_int(reply_at(page, 3));
    const char *score = reply_text(reply_at(page, 2));
    if (looked > 0) {
        bool goes_on = same == looked && strcmp(score, s->read.from) == 0;
        s->read.skip = goes_on ? s->read.skip + looked : same;
        snprintf(s->read.from, sizeof s->read.from, "%s", score);
    }
    // Large members end a page early.
    bool more = looked == PAGE || page->elements > HASH_PAGE_HEAD || (failed_is_job(s) && looked > 0);
    return more ? OUTCOME_OK : failed_end_read(s, call);
}

// Owned; NULL = an error, in *call->error.
static redisReply *failed_read_page(const call_t *call) {
    redisReply *page;
    conn_expect_job(call->conn);
    if (conn_read(call->conn, 0, &page, call->error) != OUTCOME_OK) return NULL;
    if (page->type == REDIS_REPLY_ARRAY && page->elements >= HASH_PAGE_HEAD) return page;
    freeReplyObject(page);
    redis_error_set(call->error, OUTCOME_REFUSED, "failed_page: unexpected reply");
    return NULL;
}

// Reads one page. The first page arms tracking, so that a change during the read triggers another read.
static outcome_t failed_step_read(failed_t *s, side_task_call_t *call) {
    conn_t *conn = call->redis.conn;
    redis_error_t *error = call->redis.error;
    bool arms = call->arm && !s->read.began_ms;
    if (arms) request_caching(conn);
    failed_append_page(s, conn, 0);
    // The monitor reports refused tracking; then its safety poll triggers the reads.
    if (arms) conn_reply_free(conn_read_next(conn, NULL, error));
    redisReply *page = error->outcome == OUTCOME_DISCONNECTED ? NULL : failed_read_page(&call->redis);
    if (!page) return error->outcome;
    if (!s->read.began_ms) s->read.began_ms = reply_number(reply_at(page, 0));
    s->read.started = true;
    if (failed_record_page(s, call, page) == OUTCOME_OK && !s->full) failed_next_page(s, call, page);
    freeReplyObject(page);
    return error->outcome;
}

// ---- Messages.

// Drops the first `looked` messages, which are handled. Keeps that of a job that left `failed` meanwhile, for a second try.
static void failed_drop_messages(failed_t *s, const failed_sent_t *sent, size_t count, int64_t looked) {
    for (size_t i = 0; looked > 0 && s->messages.count; looked--) {
        const failed_message_t *first = s->messages.all[0];
        const failed_sent_t *of = i < count && sent[i].message == first ? &sent[i++] : NULL;
        if (of && of->gone) {
            failed_messages_rotate(&s->messages);
            continue;
        }
        if (!of || of->kept) failed_messages_take_expected(&s->messages, first->id);
        failed_messages_pop(&s->messages);
    }
}

// Whether the failure of this message is recorded already. Recorded failures match messages in order.
static bool failed_is_expected(const failed_t *s, size_t index, mono_t now) {
    slice_t id = s->messages.all[index]->id;
    size_t before = 0;
    for (size_t i = 0; i < index; i++) before += slice_equal(s->messages.all[i]->id, id);
    return failed_messages_expected(&s->messages, id, now) > before;
}

// Reads the jobs that messages name. The reply has the jobs in the same order.
static void failed_step_messages(failed_t *s, side_task_call_t *call) {
    failed_sent_t sent[MESSAGE_PAGE];
    hash_job_t job;
    size_t asked = s->messages.count < MESSAGE_PAGE ? s->messages.count : MESSAGE_PAGE, count = 0, at = 0;
    if (failed_look(s, call) != OUTCOME_OK) return;
    failed_append_page(s, call->redis.conn, asked);
    redisReply *page = failed_read_page(&call->redis);
    if (!page) return;
    for (size_t i = 0; at < asked && hash_job_at(failed_fields(s), page, i, HASH_SCORED, &job); i++, at++) {
        while (at + 1 < asked && !slice_equal(job.id, s->messages.all[at]->id)) at++;
        if (!job.score.len) {
            // A job with a hash, but not in `failed`, was retried meanwhile. An expected failure is recorded already.
            if (strcmp(job.state, "none") != 0 || s->doubt.why.holds || failed_is_expected(s, at, call->now)) continue;
            job.fields[s->source.layout->error] = s->messages.all[at]->error;
        }
        failed_send_record(s, call, &job, s->messages.all[at], reply_number(reply_at(page, 0)), &sent[count++]);
    }
    failed_read_records(s, call, sent, count);
    if (call->redis.error->outcome == OUTCOME_OK && !s->full) failed_drop_messages(s, sent, count, reply_int(reply_at(page, 1)));
    freeReplyObject(page);
}

// ---- The step.

static mono_t failed_next(const failed_t *s, mono_t now) {
    if (!s->full && (s->read.started || (s->messages.count && (s->messages_turn || !s->changed)))) return now;
    if (s->full) return s->pause_until;
    mono_t read = s->changed ? s->pause_until : mono_max(s->full_range_due ? s->full_range_at : mono_never(), s->pause_until);
    return s->source.events && !s->messages.count ? mono_min(read, s->events.at) : read;
}

outcome_t failed_step(void *state, side_task_call_t *call) {
    failed_t *s = state;
    if (!s->mark_known && failed_ask_mark(s, call, s->source.records ? "" : "off") != OUTCOME_OK)
        return call->redis.error->outcome;
    if (!s->source.records) return OUTCOME_OK;
    if (call->changed || !call->arm) s->changed = s->full_range_due = true; // without tracking every step assumes a change
    if (s->full && !mono_reached(s->pause_until, call->now)) {
        call->next = s->pause_until;
        return OUTCOME_OK;
    }
    s->full = false;
    if (s->source.events && !s->messages.count && mono_reached(s->events.at, call->now)) {
        failed_events_read(&s->events, &s->source, call, &s->messages, false);
    } else if (s->read.started || !s->messages.count || (s->changed && !s->messages_turn)) {
        if (s->read.started || failed_begin_read(s, call->now)) failed_step_read(s, call);
    } else {
        failed_step_messages(s, call);
    }
    if (s->full) {
        s->pause_until = mono_add(call->now, FULL_WAIT_MS * NS_PER_MS);
        log_error(ROLE, s->at->config->name, "the failure stream is full or out of ids; no failure is recorded until it has room",
                  F_INT("max_bytes", call->redis.keys->config->stream.max_bytes));
    }
    call->next = failed_next(s, call->now);
    return call->redis.error->outcome;
}
