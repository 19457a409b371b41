// The stalled check of Bull and BullMQ, in place of the workers. Every stalled_interval it marks all active jobs in the set
// `stalled`. A worker with the lock of a job unmarks it. A job marked for a whole interval and without a lock is retried, or
// fails.

#include "base/failpoint.h"
#include "base/log.h"
#include "base/pace.h"
#include "dialects/bull_tasks/bull_tasks.h"
#include "dialects/bull_tasks/scripts.h"
#include "queue/record.h"
#include "queue/settle.h"
#include "redis/reply.h"

enum {
    PAGE_JOBS = 128,      // most jobs that one step settles
    FIRST_JOBS = 16,      // jobs of the first step, while the time of Redis for one is unknown
    PAGE_IDS = 256,       // entries of active, or marked ids, that one step reads, about: 0.2 ms of Redis
    SHIFT = 64,           // entries by which jobs that finished since the read may have shifted those behind them
    FIRST_MARKS = 500,    // entries of active that the first step marks, while the time of Redis for one is unknown
    PAGE_MARKS = 4000,    // most entries that one step marks; Lua limits the arguments of a call
    PAGE_BYTES = 1 << 20, // one step reads no further job after this many bytes
    RENEW_MIN_MS = 1000,  // shortest time between two renewals of stalled-check; this key keeps workers from their own check
    RENEW_SHARE = 3,      // renewals in a stalled_interval
};

static const char ROLE[] = "monitor";

typedef struct stalled {
    const queue_keys_t *at;
    const stalled_layout_t *layout;
    bool marked;     // jobs are marked, or may be, and check_at is set
    mono_t check_at; // when the marks are a whole interval old
    mono_t renew_at; // when stalled-check is renewed
    int64_t marking; // entries of active that are marked so far; 0 = no mark is in progress
    char cursor[24]; // part of active or of the marks under check; see bull_stalled.lua
    int64_t skip;    // entries of active that stay; or stalled jobs of this part of the marks that could not be settled
    int64_t left;    // stalled jobs of this check that could not be settled
    bool full;       // the stream is full, and that was logged
    pace_t pace, mark_pace;
} stalled_t;

static void stalled_rewind(stalled_t *s) {
    snprintf(s->cursor, sizeof s->cursor, "begin");
    s->skip = s->left = 0;
}

// The marks of the last connection, or of another leader, may be a whole interval old. So the next step checks before it marks.
void stalled_forget(void *state) {
    stalled_t *s = state;
    s->marked = true;
    s->check_at = s->renew_at = (mono_t){0};
    s->marking = 0;
    stalled_rewind(s);
}

void *stalled_open(const queue_keys_t *at, const stalled_layout_t *layout) {
    stalled_t *s = mem_alloc(sizeof *s);
    s->at = at;
    s->layout = layout;
    stalled_forget(s);
    return s;
}

static int64_t stalled_renew_ms(const queue_config_t *queue) {
    int64_t share = bull_config(queue)->stalled_interval_ms / RENEW_SHARE;
    return share > RENEW_MIN_MS ? share : RENEW_MIN_MS;
}

// ---- The mark.

// The next check is due a whole interval after the jobs were marked.
static void stalled_read_mark(stalled_t *s, side_task_call_t *call, const redisReply *reply) {
    int64_t before = s->marking;
    s->marking = reply_is(reply_at(reply, 0), "marking") ? reply_int(reply_at(reply, 2)) : 0;
    if (s->marking) {
        pace_note_whole(&s->mark_pace, s->marking - before, reply_int(reply_at(reply, 1)));
        return;
    }
    bool anew = reply_is(reply_at(reply, 0), "marked");
    int64_t age = anew ? 0 : reply_number(reply_at(reply, 1)) - reply_number(reply_at(reply, 2));
    mono_t now = mono_now();
    if (anew) {
        metric_set(&call->metrics->in_progress, reply_int(reply_at(reply, 2)));
        stalled_rewind(s);
    }
    s->marked = true;
    s->check_at = mono_add(now, (bull_config(s->at->config)->stalled_interval_ms - age) * NS_PER_MS);
    s->renew_at = mono_add(now, stalled_renew_ms(s->at->config) * NS_PER_MS);
}

static bool mark_reply_is_good(const redisReply *reply, bool leaves, redis_error_t *error) {
    return reply_is(reply_at(reply, 0), "marking") || script_reply_begins(reply, leaves ? "left" : "marked", "held", error);
}

static outcome_t stalled_mark(stalled_t *s, side_task_call_t *call, bool leaves) {
    const queue_keys_t *at = s->at;
    conn_t *conn = call->redis.conn;
    redisReply *reply;
    s->marked = false;
    call_script(&call->redis, &script_bull_mark, 5 + (int)s->layout->foreign_count);
    bull_keys(conn, at, "stalled", "active", "stalled-check");
    request_text(conn, at->meta);
    bull_key_list(conn, at, s->layout->foreign, s->layout->foreign_count);
    request_text(conn, call->redis.token);
    request_int(conn, bull_config(at->config)->stalled_interval_ms);
    if (leaves)
        request_text(conn, "");
    else
        request_int(conn, 2 * stalled_renew_ms(at->config) + call->redis.keys->config->lock.ttl_ms);
    request_int(conn, s->marking,
                pace_jobs_least(&s->mark_pace, call->redis.keys->config->redis.slice_us, FIRST_MARKS, PAGE_MARKS));
    failpoint("bull_mark_before");
    if (call_ask(&call->redis, &reply) != OUTCOME_OK) return call->redis.error->outcome;
    failpoint("bull_mark_answered");
    bool good = mark_reply_is_good(reply, leaves, call->redis.error);
    if (good && !leaves) stalled_read_mark(s, call, reply);
    freeReplyObject(reply);
    return call->redis.error->outcome;
}

// ---- The verdict.

static bool job_is_retry(const stalled_job_t *c) { return stalled_job_has(c, 'r'); }

static void job_judge(const stalled_t *s, stalled_job_t *c, int64_t now) {
    const char *state = c->job.state;
    bool none = strcmp(state, "none") == 0;
    c->keys = 0;
    if (*state == '\0' || hash_job_large_bytes(&c->job)) {
        s->layout->judge(s->at->config, c, now);
        return;
    }
    snprintf(c->flags, sizeof c->flags, "b");
    c->reason = none ? "unreadable" : "invalid_target";
    snprintf(c->error, sizeof c->error, "the key of this id holds %s%s", none ? "no job" : "a ", none ? "" : state);
}

// The time of the check makes the event ids of two stalls differ.
static void job_make_record(const stalled_t *s, const call_t *call, stalled_job_t *c, int64_t now, job_record_t *record) {
    event_t *event = &record->event;
    s->layout->record(record, call, c);
    if (job_is_retry(c)) {
        event->kind = slice_text("retried");
        event->payload = (slice_t){0};
    }
    job_record_date(record, (double)now);
    memcpy(c->event, record->id, sizeof c->event);
    c->attempts = event->attempts;
}

// ---- The settle.

static void job_append_settle(const stalled_t *s, conn_t *conn, const stalled_job_t *c) {
    slice_t counter = c->job.fields[s->layout->counter];
    request_bytes(conn, c->job.id.data, c->job.id.len);
    request_bytes(conn, counter.data, counter.len);
    request_text(conn, c->flags, c->error);
    s->layout->append_extra(conn, c);
}

static void jobs_append_records(const stalled_t *s, const call_t *call, stalled_job_t *jobs, size_t count, int64_t now) {
    job_record_t *records = mem_array(count, sizeof *records);
    record_form_t form = {0};
    for (size_t i = 0; i < count; i++) {
        job_make_record(s, call, &jobs[i], now, &records[i]);
        record_form_add(&form, &records[0].event, &records[i].event);
    }
    record_append_form(call->conn, &form, &records[0].event);
    for (size_t i = 0; i < count; i++) {
        job_append_settle(s, call->conn, &jobs[i]);
        record_append_values(call->conn, &form, &records[i].event);
        job_record_free(&records[i]);
    }
    free(records);
}

// `from` and `to`: entries of active where the jobs are, counted from its tail; 0 = unknown.
static void jobs_append_settle(const stalled_t *s, const call_t *call, stalled_job_t *jobs, size_t count, const int64_t range[2],
                               int64_t now) {
    const queue_keys_t *at = s->at;
    conn_t *conn = call->conn;
    size_t keys = s->layout->settle_keys;
    for (size_t i = 0; i < count; i++) keys += 2 + jobs[i].keys;
    call_script(call, s->layout->settle, (int)keys);
    s->layout->append_keys(call);
    for (size_t i = 0; i < count; i++) {
        bull_job_key(conn, at, "", jobs[i].job.id, "");
        bull_job_key(conn, at, "", jobs[i].job.id, ":lock");
        s->layout->append_job_keys(conn, at, &jobs[i]);
    }
    request_text(conn, call->token);
    request_int(conn, call->keys->config->stream.max_bytes);
    request_text(conn, at->config->policy.on_failure);
    request_int(conn, range[0], range[1]);
    jobs_append_records(s, call, jobs, count, now);
    request_end(conn);
}

static void stalled_note_done(const stalled_t *s, const side_task_call_t *call, const stalled_job_t *c) {
    const char *queue = s->at->config->name;
    slice_t id = slice_cut(c->job.id, MAX_JOB_ID);
    metrics_stall(call->metrics, CAUSE_lock_lost);
    if (job_is_retry(c)) {
        metric_add(&call->metrics->retried, 1);
        log_info(ROLE, queue, "retried a job", F_STR("reason", c->reason), F_SLICE("job", id),
                 F_INT("retry", hash_job_number(c->job.fields[s->layout->counter]) + 1));
    } else {
        metrics_end(call->metrics, c->reason, 1);
        record_log_failure(ROLE, queue,
                           &(event_t){.event = slice_text(c->event),
                                      .reason = slice_text(c->reason),
                                      .job = id,
                                      .type = c->job.fields[s->layout->fields->name],
                                      .attempts = c->attempts});
    }
}

// Any reply not named below: the job is finished, or its worker is alive.
static void stalled_note_settled(stalled_t *s, side_task_call_t *call, const stalled_job_t *c, settled_t settled) {
    if (settled == SETTLED || settled == SETTLED_UNRECORDED) stalled_note_done(s, call, c);
    if (settled == SETTLED_UNRECORDED) metric_add(&call->metrics->retried_unrecorded, 1);
    if (settled == SETTLED_CHANGED || settled == SETTLED_FULL) { // the next check decides again
        s->skip++;
        s->left++;
    }
    if (settled != SETTLED_FULL) return;
    metric_add(&call->metrics->ends_held, 1);
    if (!s->full)
        log_error(ROLE, s->at->config->name, "the failure stream is full or out of ids; no job is ended until it has room",
                  F_INT("max_bytes", call->redis.keys->config->stream.max_bytes));
    s->full = true;
}

// ---- The check.

static bool stalled_walks(const redisReply *reply) {
    return reply_is(reply_at(reply, 3), "tail") || reply_is(reply_at(reply, 3), "end");
}

static void stalled_settle_jobs(stalled_t *s, side_task_call_t *call, stalled_job_t *jobs, size_t count,
                                const redisReply *reply) {
    settled_t settled[PAGE_JOBS];
    int64_t range[2] = {0, 0};
    settle_reply_t answers;
    if (stalled_walks(reply)) {
        range[0] = s->skip > SHIFT ? s->skip - SHIFT : 0;
        range[1] = s->skip + reply_int(reply_at(reply, 2)) + (int64_t)count;
    }
    jobs_append_settle(s, &call->redis, jobs, count, range, reply_number(reply_at(reply, 1)));
    failpoint("settle_before");
    conn_flush(call->redis.conn, call->redis.error);
    failpoint("settle_sent");
    if (!settle_read_answers(&call->redis, count, settled, &answers)) return;
    pace_note_whole(&s->pace, (int64_t)count, answers.took_us);
    for (size_t i = 0; i < count; i++) {
        failpoint("settle_answered");
        stalled_note_settled(s, call, &jobs[i], settled[i]);
    }
}

static void stalled_go_to(stalled_t *s, const char *cursor) {
    s->skip = 0;
    snprintf(s->cursor, sizeof s->cursor, "%s", cursor);
}

// Returns whether the check goes on. The marks are read after a walk along active, except if jobs were left: their turn comes
// again with the next check.
static bool stalled_next_part(stalled_t *s, const redisReply *reply, int64_t passed) {
    const char *next = reply_text(reply_at(reply, 3));
    if (strcmp(next, "tail") == 0) {
        if (strcmp(s->cursor, "tail") != 0) snprintf(s->cursor, sizeof s->cursor, "tail");
        s->skip += reply_int(reply_at(reply, 2));
        return true;
    }
    if (strcmp(next, "end") == 0) {
        stalled_go_to(s, "0");
        return s->left == 0;
    }
    if (passed < reply_int(reply_at(reply, 2))) { // more jobs of the same part
        if (strcmp(s->cursor, "begin") == 0) snprintf(s->cursor, sizeof s->cursor, "0");
        return true;
    }
    stalled_go_to(s, next);
    return strcmp(next, "0") != 0;
}

// Settles the jobs of a reply. Returns whether further stalled jobs may be left.
static bool stalled_settle_page(stalled_t *s, side_task_call_t *call, const redisReply *reply) {
    stalled_job_t jobs[PAGE_JOBS];
    int64_t before = s->skip;
    size_t count = 0;
    for (; count < PAGE_JOBS && hash_job_at(s->layout->fields, reply, count, HASH_PLAIN, &jobs[count].job); count++)
        job_judge(s, &jobs[count], reply_number(reply_at(reply, 1)));
    if (count) stalled_settle_jobs(s, call, jobs, count, reply);
    if (call->redis.error->outcome != OUTCOME_OK) return true;
    bool more = stalled_next_part(s, reply, count ? before + (int64_t)count : INT64_MAX);
    if (!more) s->full = s->full && s->left > 0;
    return more;
}

static int64_t stalled_page_jobs(const stalled_t *s, const side_task_call_t *call) {
    return pace_jobs_least(&s->pace, call_settle_us(&call->redis), FIRST_JOBS, PAGE_JOBS);
}

static outcome_t stalled_check(stalled_t *s, side_task_call_t *call) {
    const queue_keys_t *at = s->at;
    conn_t *conn = call->redis.conn;
    redisReply *reply;
    request_script(conn, &script_bull_stalled, 4);
    bull_keys(conn, at, "stalled", "stalled-check");
    request_text(conn, at->meta);
    bull_keys(conn, at, "active", "");
    request_int(conn, bull_config(at->config)->stalled_interval_ms);
    request_text(conn, s->cursor);
    request_int(conn, PAGE_IDS, s->skip, stalled_page_jobs(s, call), PAGE_BYTES, at->config->policy.max_payload);
    request_text_list(conn, s->layout->fields->names, s->layout->fields->count);
    conn_expect_job(conn);
    if (call_ask(&call->redis, &reply) != OUTCOME_OK) return call->redis.error->outcome;
    bool good = script_reply_begins(reply, "stalled", "early", call->redis.error);
    bool more = good && reply_is(reply_at(reply, 0), "stalled") && stalled_settle_page(s, call, reply);
    if (call->redis.error->outcome == OUTCOME_OK) s->marked = more;
    freeReplyObject(reply);
    return call->redis.error->outcome;
}

outcome_t stalled_step(void *state, side_task_call_t *call) {
    stalled_t *s = state;
    bool check = s->marked && mono_reached(s->check_at, call->now);
    if (check && stalled_check(s, call) != OUTCOME_OK) return call->redis.error->outcome;
    if (check && s->marked) {
        call->next = call->now;
        return OUTCOME_OK;
    }
    bool fits = true, marks = !s->marked || mono_reached(s->renew_at, call->now);
    if (marks && s->layout->fit && s->layout->fit(&call->redis, &fits) != OUTCOME_OK) return call->redis.error->outcome;
    if (!fits) {
        stalled_forget(s);
        call->next = mono_add(call->now, bull_config(s->at->config)->stalled_interval_ms * NS_PER_MS);
        return OUTCOME_OK;
    }
    if (marks) stalled_mark(s, call, false);
    call->next = s->marked ? mono_min(s->check_at, s->renew_at) : call->now;
    return call->redis.error->outcome;
}

outcome_t stalled_leave(void *state, side_task_call_t *call) { return stalled_mark(state, call, true); }
