// Copies failures that Bull's workers decided, each once, from the zset `failed` to the failure stream.
//
// The score of an entry is the time of the failure by the clock of its worker, which may be behind. So a read after a change
// begins a little before the last read, and once a minute at most a full-range read covers the last 10 minutes. The sidecar's
// zset `recorded` has the failures that are in the stream already. Bull also publishes each failure on the channel `failed`.
// Messages show failures of workers whose clocks are further behind, and of jobs that Bull removed at once (removeOnFail). The
// record of a removed job has only the id and the error of its message. A message names no database. So such a record is made
// only while no other database holds a Bull queue of this name.
#include "dialects/bull/failed_channel.h"

#include "base/buffer.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "dialects/bull/internal.h"
#include "dialects/bull/job.h"
#include "dialects/bull/scripts.h"
#include "queue/record.h"
#include "queue/settle.h"
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
    NUMBER_SIZE = 32,     // of the text of a number
};

static const char ROLE[] = "monitor";

// A read of `failed`: one page, or several.
typedef struct failed_read {
    bool started;           // a page has come, the last one has not
    bool full_range;        // covers OVERLAP_MS
    mono_t began;           // when it began
    int64_t began_ms;       // the same by Redis's clock; 0 = its first page has not come
    char from[NUMBER_SIZE]; // score at which the next page begins
    int64_t skip;           // entries of that score that were read
} failed_read_t;

typedef struct failed {
    const queue_keys_t *at;
    bool records; // record_failed
    char *key;    // key of the zset, and channel
    failed_read_t read;
    bool changed;          // `failed` may have changed since the last read began
    bool full_range_due;   // `failed` may have changed since the last full-range read began
    bool mark_known;       // the mark (failed_ask_mark) was read, or deleted, in this term
    int64_t full_range_ms; // by Redis's clock: when the last full-range read began
    int64_t near_ms;       // by Redis's clock: when the last read of any kind began
    mono_t pause_until;    // when the next read may begin
    mono_t full_range_at;  // when the next full-range read begins
    bool full;             // the stream was full; wait for pause_until
    bool messages_turn;    // the next step handles messages, even if a read is due
    bull_messages_t messages;
    bull_sharing_t sharing; // failed_forget keeps it
} failed_t;

static void failed_forget(void *state) {
    failed_t *s = state;
    bull_messages_clear(&s->messages);
    s->mark_known = s->read.started = s->full = false;
    s->changed = s->full_range_due = true;
    s->full_range_at = s->pause_until = (mono_t){0};
}

static void *failed_open(const queue_keys_t *at) {
    failed_t *s = mem_alloc(sizeof *s);
    s->at = at;
    s->records = bull_config(at->config)->record_failed;
    s->key = mem_printf("%s:failed", bull_config(at->config)->base);
    failed_forget(s);
    return s;
}

static void failed_close(void *state) {
    failed_t *s = state;
    bull_messages_clear(&s->messages);
    condition_free(&s->sharing.why);
    free(s->key);
    free(s);
}

// The channel has the name of the key.
static size_t failed_names(const void *state, const char **out) {
    const failed_t *s = state;
    out[0] = s->key;
    return s->records ? 1 : 0;
}

static void failed_on_message(void *state, const char *channel, slice_t message) {
    failed_t *s = state;
    (void)channel;
    if (bull_messages_add(&s->messages, message)) return;
    log_warn(ROLE, s->at->config->name,
             "too many messages on Bull's channel failed; failures of jobs that Bull removed at once are not recorded");
}

// ---- Where reads begin.

// Reads the mark: the entry `:seen` of `recorded`, when the last full-range read began. `mark` is its new value in ms; "" = keep
// the value; "off" = delete the mark, because record_failed is false: failures until it is true again count as recorded.
static outcome_t failed_ask_mark(failed_t *s, side_task_call_t *step, const char *mark) {
    const call_t *call = &step->redis;
    redisReply *reply;
    call_script(call, &script_bull_seen, 3);
    request_text(call->conn, s->key, s->at->recorded, call->token);
    request_int(call->conn, OVERLAP_MS, KNOWN_MAX);
    request_text(call->conn, mark);
    failpoint("bull_seen_before");
    if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
    failpoint("bull_seen_answered");
    if (bull_reply_begins(reply, "seen", "off", call->error)) {
        int64_t now = reply_number(reply_at(reply, 1)), at = reply_number(reply_at(reply, 2));
        // A mark in the future comes from a Redis clock that was ahead.
        s->full_range_ms = at > now + OVERLAP_MS ? now : at;
        if (!s->mark_known) s->near_ms = s->full_range_ms;
        s->mark_known = true;
    }
    freeReplyObject(reply);
    if (call->error->outcome == OUTCOME_OK && s->records) bull_sharing_look(&s->sharing, step);
    return call->error->outcome;
}

// Begins a read if one is due. False: none is due.
static bool failed_begin_read(failed_t *s, mono_t now) {
    bool full_range = s->full_range_due && mono_reached(s->full_range_at, now);
    if (!mono_reached(s->pause_until, now) || (!full_range && !s->changed)) return false;
    snprintf(s->read.from, sizeof s->read.from, "%lld",
             (long long)(full_range ? s->full_range_ms - OVERLAP_MS : s->near_ms - NEAR_MS));
    s->read.full_range = full_range;
    s->read.skip = s->read.began_ms = 0;
    s->read.began = now;
    s->changed = s->messages_turn = false;
    if (full_range) s->full_range_due = false;
    return true;
}

// ---- Pages.

// Asks for the jobs that the first `messages` messages name; 0 = asks for the next page of `failed`.
static void failed_append_page(const failed_t *s, conn_t *conn, size_t messages) {
    request_script(conn, &script_bull_failed, 2);
    request_text(conn, s->key, s->at->recorded);
    bull_keys(conn, s->at, "");
    request_text(conn, messages ? "" : s->read.from);
    request_int(conn, s->read.skip, PAGE, PAGE_JOBS, PAGE_BYTES, s->at->config->policy.max_payload, BULL_FIELDS);
    request_text_list(conn, bull_field_names, BULL_FIELDS);
    for (size_t i = 0; i < messages; i++) request_bytes(conn, s->messages.all[i]->id.data, s->messages.all[i]->id.len);
    request_end(conn);
}

// A record that was sent to Redis.
typedef struct failed_sent {
    bull_record_t record; // until the reply is read
    slice_t id;
    const bull_message_t *message; // the message that led to the record; NULL = the failure was found in `failed`
    bool kept;                     // the job was in `failed`
    bool gone;                     // the job has left `failed` since; its message is handled again
} failed_sent_t;

// Sends the record of a failure. A job without a score was removed by Bull; `now` is then the time of the failure.
static void failed_send_record(const failed_t *s, const side_task_call_t *step, const bull_job_t *job, int64_t now,
                               failed_sent_t *sent) {
    const call_t *call = &step->redis;
    slice_t score = job->score, said = job->fields[BULL_FAILED_REASON];
    bool stalled = slice_is(said, BULL_STALLED_REASON) || slice_is(said, BULL_STALLED_MESSAGE);
    const event_t *event = &sent->record.event;
    *sent = (failed_sent_t){.id = job->id, .kept = score.len > 0};
    bull_record_make(&sent->record, call, job, stalled ? "retries_exhausted" : "worker_failed");
    bull_record_date(&sent->record, score.len ? strtod(score.data, NULL) : (double)now);
    if (bull_large_bytes(job))
        log_warn(ROLE, s->at->config->name, "a failed job is larger than max_payload: its record has no payload",
                 F_INT("bytes", event->size), F_INT("max_payload", s->at->config->policy.max_payload));
    call_script(call, &script_bull_record, 5);
    request_text(call->conn, s->key, s->at->recorded, s->at->failures, s->at->meta, call->token);
    request_bytes(call->conn, job->id.data, job->id.len);
    request_bytes(call->conn, score.data, score.len);
    request_int(call->conn, call->keys->config->stream.max_bytes);
    record_append(call->conn, event);
    if (event->error.len) {
        request_text(call->conn, "error");
        request_bytes(call->conn, event->error.data, event->error.len);
    }
    request_end(call->conn);
}

static void failed_read_records(failed_t *s, side_task_call_t *call, failed_sent_t *sent, size_t count) {
    for (size_t i = 0; i < count; i++) {
        settled_t settled = SETTLED_REFUSED;
        settle_read(&call->redis, &settled);
        if (settled == SETTLED) {
            failpoint("bull_record_answered");
            metric_add(&call->metrics->failed_recorded, 1);
            metrics_end(call->metrics, sent[i].record.event.reason.data, 1);
            if (sent[i].kept) bull_messages_expect(&s->messages, sent[i].id, call->now);
            record_log_failure(ROLE, s->at->config->name, &sent[i].record.event);
        } else if (settled == SETTLED_FULL) {
            metric_add(&call->metrics->ends_held, 1);
            s->full = true;
        }
        sent[i].gone = settled == SETTLED_GONE;
        bull_record_free(&sent[i].record);
    }
}

static outcome_t failed_record_page(failed_t *s, side_task_call_t *call, const redisReply *page) {
    failed_sent_t sent[PAGE_JOBS];
    size_t count = 0;
    for (bull_job_t job; count < PAGE_JOBS && bull_job_at(page, count, BULL_SCORED, &job); count++)
        failed_send_record(s, call, &job, 0, &sent[count]);
    if (count) failpoint("bull_record_before");
    failed_read_records(s, call, sent, count);
    if (call->redis.error->outcome != OUTCOME_OK || s->full) return call->redis.error->outcome;
    for (size_t i = 0; i < count; i++)
        if (!sent[i].gone && bull_messages_drop(&s->messages, sent[i].id)) bull_messages_take_expected(&s->messages, sent[i].id);
    return OUTCOME_OK;
}

static outcome_t failed_end_read(failed_t *s, side_task_call_t *call) {
    char mark[NUMBER_SIZE];
    mono_t now = mono_now();
    int64_t pause = mono_diff(now, s->read.began) * PAUSE_FACTOR;
    s->pause_until = mono_add(now, pause < PAUSE_MAX_MS * NS_PER_MS ? pause : PAUSE_MAX_MS * NS_PER_MS);
    s->read.started = false;
    s->messages_turn = true;
    s->near_ms = s->read.began_ms;
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
    bool more = looked == PAGE || page->elements > BULL_PAGE_HEAD;
    return more ? OUTCOME_OK : failed_end_read(s, call);
}

// Owned; NULL = an error, in *call->error.
static redisReply *failed_read_page(const call_t *call) {
    redisReply *page;
    conn_expect_job(call->conn);
    if (conn_read(call->conn, 0, &page, call->error) != OUTCOME_OK) return NULL;
    if (page->type == REDIS_REPLY_ARRAY && page->elements >= BULL_PAGE_HEAD) return page;
    freeReplyObject(page);
    redis_error_set(call->error, OUTCOME_REFUSED, "bull_failed: unexpected reply");
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
        const bull_message_t *first = s->messages.all[0];
        const failed_sent_t *of = i < count && sent[i].message == first ? &sent[i++] : NULL;
        if (of && of->gone) {
            bull_messages_rotate(&s->messages);
            continue;
        }
        if (!of || of->kept) bull_messages_take_expected(&s->messages, first->id);
        bull_messages_pop(&s->messages);
    }
}

// Whether the failure of this message is recorded already. Recorded failures match messages in order.
static bool failed_is_expected(const failed_t *s, size_t index, mono_t now) {
    slice_t id = s->messages.all[index]->id;
    size_t before = 0;
    for (size_t i = 0; i < index; i++) before += slice_equal(s->messages.all[i]->id, id);
    return bull_messages_expected(&s->messages, id, now) > before;
}

// Reads the jobs that messages name. The reply has the jobs in the same order.
static void failed_step_messages(failed_t *s, side_task_call_t *call) {
    failed_sent_t sent[MESSAGE_PAGE];
    bull_job_t job;
    size_t asked = s->messages.count < MESSAGE_PAGE ? s->messages.count : MESSAGE_PAGE, count = 0, at = 0;
    if (bull_sharing_look(&s->sharing, call) != OUTCOME_OK) return;
    failed_append_page(s, call->redis.conn, asked);
    redisReply *page = failed_read_page(&call->redis);
    if (!page) return;
    for (size_t i = 0; at < asked && bull_job_at(page, i, BULL_SCORED, &job); i++, at++) {
        while (at + 1 < asked && !slice_equal(job.id, s->messages.all[at]->id)) at++;
        if (!job.score.len) {
            // A job with a hash, but not in `failed`, was retried meanwhile. An expected failure is recorded already.
            if (strcmp(job.state, "none") != 0 || s->sharing.why.holds || failed_is_expected(s, at, call->now)) continue;
            job.fields[BULL_FAILED_REASON] = s->messages.all[at]->error;
        }
        failed_send_record(s, call, &job, reply_number(reply_at(page, 0)), &sent[count]);
        sent[count++].message = s->messages.all[at];
    }
    failed_read_records(s, call, sent, count);
    if (call->redis.error->outcome == OUTCOME_OK && !s->full) failed_drop_messages(s, sent, count, reply_int(reply_at(page, 1)));
    freeReplyObject(page);
}

// ---- The step.

static mono_t failed_next(const failed_t *s, mono_t now) {
    if (!s->full && (s->read.started || (s->messages.count && (s->messages_turn || !s->changed)))) return now;
    if (s->full || s->changed) return s->pause_until;
    return mono_max(s->full_range_due ? s->full_range_at : mono_never(), s->pause_until);
}

static outcome_t failed_step(void *state, side_task_call_t *call) {
    failed_t *s = state;
    if (!s->mark_known && failed_ask_mark(s, call, s->records ? "" : "off") != OUTCOME_OK) return call->redis.error->outcome;
    if (!s->records) return OUTCOME_OK;
    if (call->changed || !call->arm) s->changed = s->full_range_due = true; // without tracking every step assumes a change
    if (s->full && !mono_reached(s->pause_until, call->now)) {
        call->next = s->pause_until;
        return OUTCOME_OK;
    }
    s->full = false;
    if (s->read.started || !s->messages.count || (s->changed && !s->messages_turn)) {
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

const side_task_ops_t bull_failed_task = {.open = failed_open,
                                          .close = failed_close,
                                          .forget = failed_forget,
                                          .watched_keys = failed_names,
                                          .channels = failed_names,
                                          .on_message = failed_on_message,
                                          .step = failed_step};
