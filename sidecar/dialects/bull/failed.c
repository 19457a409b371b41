// Reads the failures that Bull's own workers decide out of `failed` into the failure stream, each once.
//
// The zset is read by score. The score is the time of the failure by the clock of its worker. A read after a change begins a
// little before the last read. Once a minute at most, a full-range read covers the last 10 minutes, because the clock of a
// worker may be behind. A zset of the sidecar holds the recorded failures. The channel `failed` names each job too. Its messages
// lead to failures of clocks that are further behind. They also lead to jobs that Bull removed at once (removeOnFail). Such a
// job is recorded with the error of its message alone.
#include "dialects/bull/internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "dialects/bull/failed_channel.h"
#include "dialects/bull/failed_record.h"
#include "dialects/bull/job.h"
#include "dialects/bull/scripts.h"
#include "queue/record.h"
#include "redis/reply.h"
#include "redis/tracking.h"

enum {
    OVERLAP_MS = 600000,  // workers' clocks may be this far behind
    NEAR_MS = 500,        // a read after a change begins this long before the last read
    PAUSE_FACTOR = 10,    // after a read, pause for this many times its duration
    PAUSE_MAX_MS = 250,   // the longest pause after a read
    FULL_RANGE_S = 60,    // between two reads over the whole overlap
    KNOWN_MOST = 20000,   // failures that count as recorded when a queue is adopted
    PAGE = 500,           // entries of `failed` that one request reads
    PAGE_JOBS = 64,       // unrecorded failures that one request returns
    PAGE_BYTES = 1 << 20, // one request returns no further job after this many bytes
    FULL_WAIT_MS = 1000,  // until the next try while the stream is full
    MESSAGE_PAGE = 32,    // messages of one step
    NUMBER_SIZE = 32,
};

static const char ROLE[] = "monitor";

struct bull_failed {
    const queue_keys_t *at;
    char *failed; // key, and channel
    char *prefix; // of the keys of jobs
    bool seen_known;
    bool reading;         // a read of several pages is in progress
    bool full_range;      // the read in progress covers the whole overlap
    bool changed;         // something changed since the read in progress began
    bool full_range_due;  // something may have changed since the last full-range read began
    bool messages_turn;   // messages are next
    bool full;            // the stream was full; wait for pause_until
    mono_t read_began;    // when the current read began
    mono_t pause_until;   // when the next read may begin
    mono_t full_range_at; // when the next full-range read begins
    int64_t seen;         // ms by Redis's clock: when the last full-range read began
    int64_t near;         // when the last read of any kind began
    int64_t began;        // when the current read began; 0 = its first page has not come
    char from[NUMBER_SIZE];
    int64_t skip;
    bull_messages_t messages;
    failed_record_t record; // the latest
};

void bull_failed_forget(bull_failed_t *s) {
    bull_messages_clear(&s->messages);
    s->seen_known = s->reading = s->full = false;
    s->changed = s->full_range_due = true;
    s->full_range_at = s->pause_until = (mono_t){0};
}

bull_failed_t *bull_failed_open(const queue_keys_t *at) {
    bull_failed_t *s = mem_alloc(sizeof *s);
    s->at = at;
    s->failed = mem_printf("%s:failed", bull_config(at->config)->base);
    s->record = (failed_record_t){.at = at, .failed = s->failed};
    s->prefix = mem_printf("%s:", bull_config(at->config)->base);
    bull_messages_init(&s->messages);
    bull_failed_forget(s);
    return s;
}

void bull_failed_close(bull_failed_t *s) {
    bull_failed_forget(s);
    bull_record_free(&s->record.event);
    free(s->failed);
    free(s->prefix);
    free(s);
}

const char *bull_failed_key(const bull_failed_t *s) { return s->failed; }

void bull_failed_on_message(bull_failed_t *s, slice_t message) {
    if (bull_messages_add(&s->messages, message)) return;
    log_warn(ROLE, s->at->config->name,
             "too many messages on Bull's channel failed; failures of jobs that Bull removed at once are not recorded");
}

// ---- Where reads begin.

static outcome_t failed_wrong_type(redis_error_t *error, const redisReply *reply) {
    return redis_error_set(error, OUTCOME_REFUSED, "its key `%s` holds a %s", reply_text(reply_at(reply, 1)),
                           reply_text(reply_at(reply, 2)));
}

// Requests the mark where a read begins. `mark`: everything before it is read; "" = keep the mark; "off" = delete the mark,
// because failures are no longer recorded.
static outcome_t failed_ask_mark(const queue_keys_t *at, const side_task_call_t *call, const char *mark, redisReply **reply,
                                 redis_error_t *error) {
    char *failed = mem_printf("%s:failed", bull_config(at->config)->base);
    request_script(call->conn, &script_bull_seen, 3);
    request_text(call->conn, call->keys->locks[at->lock].key, failed, at->recorded, call->token);
    request_int(call->conn, OVERLAP_MS, KNOWN_MOST);
    request_text(call->conn, mark);
    free(failed);
    return request_ask(call->conn, reply, error);
}

static void failed_take_refusal(const redisReply *reply, redis_error_t *error) {
    if (reply_is(reply_at(reply, 0), "type"))
        failed_wrong_type(error, reply);
    else if (script_refusal(reply, error) == OUTCOME_OK)
        redis_error_set(error, OUTCOME_REFUSED, "bull_seen: unexpected reply");
}

// With `seen`, also stores the mark `seen`: everything before `seen` is read.
static outcome_t failed_ask_seen(bull_failed_t *s, side_task_call_t *call, int64_t seen, redis_error_t *error) {
    redisReply *reply;
    char mark[NUMBER_SIZE] = "";
    if (seen) snprintf(mark, sizeof mark, "%lld", (long long)seen);
    if (!call->dry) failpoint("bull_seen_before");
    if (failed_ask_mark(s->at, call, mark, &reply, error) != OUTCOME_OK) return error->outcome;
    if (!call->dry) failpoint("bull_seen_answered");
    if (reply_is(reply_at(reply, 0), "seen")) {
        int64_t now = reply_number(reply_at(reply, 1)), at = reply_number(reply_at(reply, 2));
        // A mark in the future comes from a clock that was ahead.
        s->seen = at > now + OVERLAP_MS ? now : at;
        if (!s->seen_known) s->near = s->seen;
        s->seen_known = true;
    } else {
        failed_take_refusal(reply, error);
    }
    freeReplyObject(reply);
    return error->outcome;
}

outcome_t bull_failed_pause(const queue_keys_t *at, side_task_call_t *call, redis_error_t *error) {
    redisReply *reply;
    if (failed_ask_mark(at, call, "off", &reply, error) != OUTCOME_OK) return error->outcome;
    if (!reply_is(reply_at(reply, 0), "off")) failed_take_refusal(reply, error);
    freeReplyObject(reply);
    return error->outcome;
}

// False: no read is due now.
static bool failed_begin_read(bull_failed_t *s, mono_t now) {
    bool full_range = s->full_range_due && mono_reached(s->full_range_at, now);
    if (!mono_reached(s->pause_until, now) || (!full_range && !s->changed)) return false;
    snprintf(s->from, sizeof s->from, "%lld", (long long)(full_range ? s->seen - OVERLAP_MS : s->near - NEAR_MS));
    s->full_range = full_range;
    s->skip = s->began = 0;
    s->read_began = now;
    s->changed = s->messages_turn = false;
    if (full_range) s->full_range_due = false;
    return true;
}

// ---- Pages.

static void failed_append_page(const bull_failed_t *s, const side_task_call_t *call, const bull_message_t *first, size_t ids) {
    conn_t *conn = call->conn;
    request_script(conn, &script_bull_failed, 2);
    request_text(conn, s->failed, s->at->recorded, s->prefix, ids ? "" : s->from);
    request_int(conn, s->skip, PAGE, PAGE_JOBS, PAGE_BYTES, s->at->config->policy.max_payload, BULL_FIELDS);
    for (size_t i = 0; i < BULL_FIELDS; i++) request_text(conn, bull_field_names[i]);
    for (; ids; ids--, first = first->next) request_bytes(conn, first->id.data, first->id.len);
    request_end(conn);
}

enum { ENTRIES_FROM = 4, ENTRY_WIDTH = 3 + BULL_FIELDS };

static bool failed_entry_at(const redisReply *page, size_t index, failed_entry_t *out) {
    size_t at = ENTRIES_FROM + index * ENTRY_WIDTH;
    if (!page || page->type != REDIS_REPLY_ARRAY || at + ENTRY_WIDTH > page->elements) return false;
    out->job.id = reply_slice(page->element[at]);
    out->score = page->element[at + 1];
    out->state = page->element[at + 2];
    for (size_t i = 0; i < BULL_FIELDS; i++) out->job.fields[i] = reply_slice(page->element[at + 3 + i]);
    return true;
}

// A record that was sent, in the order of the requests.
typedef struct sent {
    slice_t id;
    const char *reason;
    const bull_message_t *message; // the message that led to the record; NULL = the failure was found in `failed`
    bool kept;                     // the job was in `failed`
    bool gone;                     // the job has left `failed` since; its message is handled again
} failed_sent_t;

static outcome_t failed_read_record(bull_failed_t *s, side_task_call_t *call, failed_sent_t *sent, redis_error_t *error) {
    redisReply *reply;
    if (conn_read(call->conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    const redisReply *word = reply_at(reply, 0);
    if (reply_is(word, "settled")) {
        failpoint("bull_record_answered");
        metric_add(&call->metrics->failed_recorded, 1);
        metrics_end(call->metrics, sent->reason, 1);
        if (sent->kept) bull_messages_expect(&s->messages, sent->id, call->now);
        if (!call->dry) failed_record_log(&s->record, sent->id, sent->reason);
    } else if (reply_is(word, "full")) {
        metric_add(&call->metrics->ends_held, 1);
        s->full = true;
    } else if (reply_is(word, "type")) {
        failed_wrong_type(error, reply);
    } else if (reply_is(word, "gone")) {
        sent->gone = true;
    } else if (script_refusal(reply, error) == OUTCOME_OK && !reply_is(word, "changed")) {
        redis_error_set(error, OUTCOME_REFUSED, "bull_record: unexpected reply");
    }
    freeReplyObject(reply);
    return error->outcome;
}

static outcome_t failed_read_records(bull_failed_t *s, side_task_call_t *call, failed_sent_t *sent, size_t count,
                                     redis_error_t *error) {
    redis_error_t worst = {0};
    for (size_t i = 0; i < count; i++) {
        if (failed_read_record(s, call, &sent[i], error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        if (error->outcome > worst.outcome) worst = *error;
    }
    *error = worst;
    return error->outcome;
}

static outcome_t failed_record_page(bull_failed_t *s, side_task_call_t *call, const redisReply *page, redis_error_t *error) {
    failed_sent_t sent[PAGE_JOBS];
    size_t count = 0;
    failed_entry_t entry;
    for (; count < PAGE_JOBS && failed_entry_at(page, count, &entry); count++) {
        failed_record_send_entry(&s->record, call, &entry);
        sent[count] = (failed_sent_t){.id = entry.job.id, .reason = s->record.reason, .kept = true};
    }
    if (count) failpoint("bull_record_before");
    if (failed_read_records(s, call, sent, count, error) != OUTCOME_OK || s->full) return error->outcome;
    for (size_t i = 0; i < count; i++)
        if (!sent[i].gone && bull_messages_drop(&s->messages, sent[i].id)) bull_messages_take_expected(&s->messages, sent[i].id);
    return OUTCOME_OK;
}

static outcome_t failed_end_read(bull_failed_t *s, side_task_call_t *call, redis_error_t *error) {
    mono_t now = mono_now();
    int64_t rest = mono_diff(now, s->read_began) * PAUSE_FACTOR;
    s->pause_until = mono_add(now, rest < PAUSE_MAX_MS * NS_PER_MS ? rest : PAUSE_MAX_MS * NS_PER_MS);
    s->reading = false;
    s->messages_turn = true;
    s->near = s->began;
    if (!s->full_range) return OUTCOME_OK;
    s->full_range_at = mono_add(now, FULL_RANGE_S * NS_PER_S);
    return failed_ask_seen(s, call, s->began, error);
}

// Continues after the page, or ends the read. Counts entries of the last score, so that none of equal score is skipped.
static outcome_t failed_next_page(bull_failed_t *s, side_task_call_t *call, const redisReply *page, redis_error_t *error) {
    int64_t looked = reply_int(reply_at(page, 1)), same = reply_int(reply_at(page, 3));
    const char *score = reply_text(reply_at(page, 2));
    if (looked > 0) {
        bool goes_on = same == looked && strcmp(score, s->from) == 0;
        s->skip = goes_on ? s->skip + looked : same;
        snprintf(s->from, sizeof s->from, "%s", score);
    }
    bool more = looked == PAGE || page->elements > ENTRIES_FROM;
    return more ? OUTCOME_OK : failed_end_read(s, call, error);
}

static outcome_t failed_read_page(const side_task_call_t *call, redisReply **page, redis_error_t *error) {
    if (conn_read(call->conn, 0, page, error) != OUTCOME_OK) return error->outcome;
    if ((*page)->type == REDIS_REPLY_ARRAY && (*page)->elements >= ENTRIES_FROM) return OUTCOME_OK;
    freeReplyObject(*page);
    return redis_error_set(error, OUTCOME_REFUSED, "bull_failed: unexpected reply");
}

// Reads one page. The first page arms tracking, so a change during the read triggers another one.
static outcome_t failed_step_read(bull_failed_t *s, side_task_call_t *call, redis_error_t *error) {
    redisReply *page;
    redis_error_t caching = {0};
    bool arms = call->arm && !s->began;
    if (arms) {
        request_caching(call->conn);
    }
    failed_append_page(s, call, NULL, 0);
    // The monitor reports refused tracking; then its safety poll triggers the reads.
    if (arms && conn_read(call->conn, 0, &page, &caching) == OUTCOME_OK) freeReplyObject(page);
    if (caching.outcome == OUTCOME_DISCONNECTED) *error = caching;
    if (caching.outcome == OUTCOME_DISCONNECTED || failed_read_page(call, &page, error) != OUTCOME_OK) return error->outcome;
    if (!s->began) s->began = reply_number(reply_at(page, 0));
    s->reading = true;
    failed_record_page(s, call, page, error);
    if (error->outcome == OUTCOME_OK && !s->full) failed_next_page(s, call, page, error);
    freeReplyObject(page);
    return error->outcome;
}

// Drops the handled messages. Keeps the message of a job that left `failed` meanwhile, to handle it again.
static void failed_drop_message(bull_failed_t *s, const failed_sent_t *sent, size_t count, int64_t looked) {
    for (; looked > 0 && s->messages.first; looked--) {
        const failed_sent_t *of = NULL;
        for (size_t i = 0; i < count && !of; i++)
            if (sent[i].message == s->messages.first) of = &sent[i];
        if (of && of->gone) {
            bull_messages_rotate(&s->messages);
            continue;
        }
        if (!of || of->kept) bull_messages_take_expected(&s->messages, s->messages.first->id);
        bull_messages_pop(&s->messages);
    }
}

// Whether the failure of this message is recorded already. Recorded failures match messages in order.
static bool failed_is_expected(const bull_failed_t *s, const bull_message_t *message, mono_t now) {
    size_t before = 0;
    for (const bull_message_t *at = s->messages.first; at != message; at = at->next) before += slice_equal(at->id, message->id);
    return bull_messages_expected(&s->messages, message->id, now) > before;
}

// Reads the jobs that messages name. The reply has the jobs in the same order.
static outcome_t failed_step_messages(bull_failed_t *s, side_task_call_t *call, redis_error_t *error) {
    redisReply *page;
    failed_sent_t sent[MESSAGE_PAGE];
    size_t asked = s->messages.count < MESSAGE_PAGE ? s->messages.count : MESSAGE_PAGE, count = 0;
    const bull_message_t *message = s->messages.first;
    failed_entry_t entry;
    failed_append_page(s, call, s->messages.first, asked);
    if (failed_read_page(call, &page, error) != OUTCOME_OK) return error->outcome;
    for (size_t i = 0; message && i < MESSAGE_PAGE && failed_entry_at(page, i, &entry); i++, message = message->next) {
        while (message->next && !slice_equal(entry.job.id, message->id)) message = message->next;
        bool kept = reply_len(entry.score) > 0;
        // A job with a hash that is not in `failed` was retried meanwhile.
        if (!kept && (!reply_is(entry.state, "none") || failed_is_expected(s, message, call->now))) continue;
        if (kept)
            failed_record_send_entry(&s->record, call, &entry);
        else
            failed_record_send_message(&s->record, call, message, reply_number(reply_at(page, 0)));
        sent[count++] = (failed_sent_t){.id = entry.job.id, .reason = s->record.reason, .message = message, .kept = kept};
    }
    int64_t looked = reply_int(reply_at(page, 1));
    if (failed_read_records(s, call, sent, count, error) == OUTCOME_OK && !s->full) failed_drop_message(s, sent, count, looked);
    freeReplyObject(page);
    return error->outcome;
}

outcome_t bull_failed_step(bull_failed_t *s, side_task_call_t *call, bool changed, redis_error_t *error) {
    *error = (redis_error_t){0};
    if (changed || !call->arm) s->changed = s->full_range_due = true; // without tracking every step assumes a change
    if (s->full && !mono_reached(s->pause_until, call->now)) {
        call->next = mono_min(call->next, s->pause_until);
        return OUTCOME_OK;
    }
    s->full = false;
    if (!s->seen_known) failed_ask_seen(s, call, 0, error);
    if (error->outcome != OUTCOME_OK) return error->outcome;
    if (s->reading || !s->messages.first || (s->changed && !s->messages_turn)) {
        if (s->reading || failed_begin_read(s, call->now)) failed_step_read(s, call, error);
    } else {
        failed_step_messages(s, call, error);
    }
    if (s->full) {
        s->pause_until = mono_add(call->now, FULL_WAIT_MS * NS_PER_MS);
        log_error(ROLE, s->at->config->name, "the failure stream is full; no failure is recorded until it shrinks",
                  F_INT("max_bytes", call->keys->config->stream.max_bytes));
    }
    mono_t next = s->full_range_due ? s->full_range_at : mono_never();
    if (s->full || s->changed) next = mono_min(next, s->pause_until);
    next = mono_max(next, s->pause_until);
    if (!s->full && (s->reading || (s->messages.first && (s->messages_turn || !s->changed)))) next = call->now;
    call->next = mono_min(call->next, next);
    return error->outcome;
}
