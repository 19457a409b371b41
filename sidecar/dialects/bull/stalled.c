// The stalled check of Bull 4, in place of the workers. Every stalled_interval it marks all active jobs in the set `stalled`. A
// worker with the lock of a job unmarks it. A job marked for a whole interval and without a lock is retried, or fails.

#include "base/failpoint.h"
#include "base/json/json.h"
#include "base/log.h"
#include "dialects/bull/bull.h"
#include "dialects/bull/failed_channel.h"
#include "dialects/bull/job.h"
#include "dialects/bull/scripts.h"
#include "queue/settle.h"
#include "redis/reply.h"

enum {
    PAGE_JOBS = 32,       // jobs that one step settles
    PAGE_MARKS = 500,     // marked ids that one step reads, about: 1 to 2 ms of Redis
    PAGE_BYTES = 1 << 20, // one step reads no further job after this many bytes
    RENEW_MIN_MS = 1000,  // shortest time between two renewals of stalled-check; this key keeps workers from their own check
    RENEW_SHARE = 3,      // renewals in a stalled_interval
};

static const char ROLE[] = "monitor";

// One stalled job and its verdict.
typedef struct stalled_job {
    bull_job_t job;      // borrows from the reply
    const char *verdict; // retry, end or broken; see bull_settle.lua
    const char *reason;
    char error[160]; // for the record; a retry ignores it
    char event[EVENT_ID_SIZE];
} stalled_job_t;

typedef struct stalled {
    const queue_keys_t *at;
    bool marked;     // jobs are marked, and check_at is set
    mono_t check_at; // when the marks are a whole interval old
    mono_t renew_at; // when stalled-check is renewed
    char cursor[24]; // of SSCAN: the part of the marks under check; "0" = the first
    int64_t skip;    // stalled jobs of this part that could not be settled
    int64_t left;    // stalled jobs of the earlier parts that could not be settled
    bool full;       // the stream is full, and that was logged
} stalled_t;

static void stalled_rewind(stalled_t *s) {
    snprintf(s->cursor, sizeof s->cursor, "0");
    s->skip = s->left = 0;
}

static void stalled_forget(void *state) {
    stalled_t *s = state;
    s->marked = false;
    stalled_rewind(s);
}

static void *stalled_open(const queue_keys_t *at) {
    stalled_t *s = mem_alloc(sizeof *s);
    s->at = at;
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

static outcome_t stalled_mark(stalled_t *s, side_task_call_t *call, bool leaves) {
    const queue_keys_t *at = s->at;
    conn_t *conn = call->redis.conn;
    redisReply *reply;
    s->marked = false;
    call_script(&call->redis, &script_bull_mark, 5 + BULLMQ_KEYS);
    bull_keys(conn, at, "stalled", "active", "stalled-check");
    request_text(conn, at->meta);
    bull_keys(conn, at, BULLMQ_WORDS);
    request_text(conn, call->redis.token);
    request_int(conn, bull_config(at->config)->stalled_interval_ms);
    if (leaves)
        request_text(conn, "");
    else
        request_int(conn, 2 * stalled_renew_ms(at->config) + call->redis.keys->config->lock.ttl_ms);
    failpoint("bull_mark_before");
    if (call_ask(&call->redis, &reply) != OUTCOME_OK) return call->redis.error->outcome;
    failpoint("bull_mark_answered");
    bool good = bull_reply_begins(reply, leaves ? "left" : "marked", "held", call->redis.error);
    if (good && !leaves) stalled_read_mark(s, call, reply);
    freeReplyObject(reply);
    return call->redis.error->outcome;
}

// ---- The verdict.

// Whether Bull removes this job at once when it fails: removeOnFail is true or 0. Any other value removes older jobs; the
// next failure of a worker does that. A large job stays in `failed`, because its record has no payload.
static bool job_removes_itself(const bull_job_t *job) {
    json_pick_t pick = {.pointer = "/removeOnFail"};
    int64_t count;
    if (*job->state || !json_pick(job->fields[BULL_OPTS], &pick, 1) || pick.found != JSON_FOUND) return false;
    if (pick.value.type == JSON_BOOL) return slice_is(pick.value.raw, "true");
    return pick.value.type == JSON_NUMBER && json_integer(pick.value.raw, &count) && count == 0;
}

static void job_judge(const stalled_t *s, stalled_job_t *c, int64_t now) {
    const queue_config_t *queue = s->at->config;
    int64_t created = bull_number(&c->job, BULL_TIMESTAMP), alive = queue->policy.alive_timeout_ms;
    const char *state = c->job.state;
    bool none = strcmp(state, "none") == 0;
    c->verdict = "end";
    c->reason = "retries_exhausted";
    snprintf(c->error, sizeof c->error, "%s", BULL_STALLED_REASON);
    if (*state && !bull_large_bytes(&c->job)) {
        c->verdict = "broken";
        c->reason = none ? "unreadable" : "invalid_target";
        snprintf(c->error, sizeof c->error, "the key of this id holds %s%s", none ? "no job" : "a ", none ? "" : state);
    } else if (alive && created > 0 && created <= now && now - created > alive) {
        c->reason = "alive_timeout";
        snprintf(c->error, sizeof c->error, "job is older than its alive_timeout");
    } else if (bull_number(&c->job, BULL_STALLED_COUNTER) < bull_config(queue)->max_stalled) {
        c->verdict = "retry";
        c->reason = "stalled";
    }
}

static bool job_is_retry(const stalled_job_t *c) { return strcmp(c->verdict, "retry") == 0; }

// This stall counts as one more execution. The time of the check makes the event ids of two stalls differ.
static void job_make_record(const call_t *call, const stalled_job_t *c, int64_t now, bull_record_t *record) {
    event_t *event = &record->event;
    bull_record_make(record, call, &c->job, c->reason, (double)now);
    event->attempts += 1;
    if (job_is_retry(c)) {
        event->kind = slice_text("retried");
        event->payload = (slice_t){0};
    }
    event_id(event, now * 1000, 0, record->id);
}

// ---- The settle.

// The message has Bull's own text (moveStalledJobsToWait-7.lua). BULL_OUR_MESSAGE marks it as a message of the sidecar.
static void job_append_message(conn_t *conn, const stalled_job_t *c) {
    buffer_t message = {0};
    buffer_str(&message, "{\"jobId\":");
    json_write_string(&message, c->job.id);
    buffer_printf(&message, ", \"val\": \"%s\", " BULL_OUR_MESSAGE "}",
                  strcmp(c->reason, "retries_exhausted") == 0 ? BULL_STALLED_MESSAGE : c->error);
    request_bytes(conn, message.data, message.len);
    buffer_free(&message);
}

static void job_append_settle(const stalled_t *s, const call_t *call, stalled_job_t *c, int64_t now) {
    const queue_keys_t *at = s->at;
    slice_t counter = c->job.fields[BULL_STALLED_COUNTER], debounce = c->job.fields[BULL_DEID];
    conn_t *conn = call->conn;
    bull_record_t record = {0};
    job_make_record(call, c, now, &record);
    memcpy(c->event, record.id, sizeof c->event);
    call_script(call, &script_bull_settle, 14);
    bull_keys(conn, at, "stalled", "active", "wait", "paused", "meta-paused", "failed");
    request_text(conn, at->recorded, at->failures, at->meta);
    bull_job_key(conn, at, "", c->job.id, "");
    bull_job_key(conn, at, "", c->job.id, ":lock");
    bull_job_key(conn, at, "", c->job.id, ":logs");
    if (debounce.len)
        bull_job_key(conn, at, "de:", debounce, "");
    else
        request_text(conn, call_lock(call));
    request_text(conn, call->token);
    request_bytes(conn, c->job.id.data, c->job.id.len);
    request_bytes(conn, counter.data, counter.len);
    request_text(conn, c->verdict, c->error);
    job_append_message(conn, c);
    request_text(conn, job_removes_itself(&c->job) ? "1" : "0");
    request_int(conn, call->keys->config->stream.max_bytes);
    record_append(conn, &record.event);
    request_end(conn);
    bull_record_free(&record);
}

static void stalled_note_done(const stalled_t *s, const side_task_call_t *call, const stalled_job_t *c) {
    const char *queue = s->at->config->name;
    slice_t id = slice_cut(c->job.id, MAX_JOB_ID);
    metrics_stall(call->metrics, CAUSE_lock_lost);
    if (job_is_retry(c)) {
        metric_add(&call->metrics->retried, 1);
        log_info(ROLE, queue, "retried a job", F_STR("reason", c->reason), F_SLICE("job", id),
                 F_INT("retry", bull_number(&c->job, BULL_STALLED_COUNTER) + 1));
    } else {
        metrics_end(call->metrics, c->reason, 1);
        record_log_failure(ROLE, queue,
                           &(event_t){.event = slice_text(c->event),
                                      .reason = slice_text(c->reason),
                                      .job = id,
                                      .type = c->job.fields[BULL_NAME],
                                      .attempts = bull_attempts(&c->job) + 1});
    }
}

// Any reply not named below: the job is finished, or its worker is alive.
static void stalled_note_settled(stalled_t *s, side_task_call_t *call, const stalled_job_t *c, settled_t settled) {
    if (settled == SETTLED || settled == SETTLED_UNRECORDED) stalled_note_done(s, call, c);
    if (settled == SETTLED_UNRECORDED) metric_add(&call->metrics->retried_unrecorded, 1);
    if (settled == SETTLED_CHANGED || settled == SETTLED_FULL) s->skip++; // the next check decides again
    if (settled != SETTLED_FULL) return;
    metric_add(&call->metrics->ends_held, 1);
    if (!s->full)
        log_error(ROLE, s->at->config->name, "the failure stream is full or out of ids; no job is ended until it has room",
                  F_INT("max_bytes", call->redis.keys->config->stream.max_bytes));
    s->full = true;
}

// ---- The check.

// Settles the jobs of a reply. Returns whether further stalled jobs may be left.
static bool stalled_settle_page(stalled_t *s, side_task_call_t *call, const redisReply *reply) {
    stalled_job_t jobs[PAGE_JOBS];
    int64_t now = reply_number(reply_at(reply, 1)), before = s->skip;
    size_t count = 0;
    for (; count < PAGE_JOBS && bull_job_at(reply, count, BULL_PLAIN, &jobs[count].job); count++) {
        job_judge(s, &jobs[count], now);
        job_append_settle(s, &call->redis, &jobs[count], now);
    }
    if (count) failpoint("settle_before");
    conn_flush(call->redis.conn, call->redis.error);
    if (count) failpoint("settle_sent");
    for (size_t i = 0; i < count; i++) {
        settled_t settled;
        if (!settle_read(&call->redis, &settled)) continue;
        failpoint("settle_answered");
        stalled_note_settled(s, call, &jobs[i], settled);
    }
    bool more = count > 0 && before + (int64_t)count < reply_int(reply_at(reply, 2));
    if (!more && call->redis.error->outcome == OUTCOME_OK) { // the next part
        s->left += s->skip;
        s->skip = 0;
        snprintf(s->cursor, sizeof s->cursor, "%s", reply_text(reply_at(reply, 3)));
        more = strcmp(s->cursor, "0") != 0;
    }
    if (!more) s->full = s->full && s->left + s->skip > 0;
    return more;
}

static outcome_t stalled_check(stalled_t *s, side_task_call_t *call) {
    const queue_keys_t *at = s->at;
    conn_t *conn = call->redis.conn;
    redisReply *reply;
    request_script(conn, &script_bull_stalled, 3);
    bull_keys(conn, at, "stalled", "stalled-check");
    request_text(conn, at->meta);
    bull_keys(conn, at, "");
    request_int(conn, bull_config(at->config)->stalled_interval_ms);
    request_text(conn, s->cursor);
    request_int(conn, PAGE_MARKS, s->skip, PAGE_JOBS, PAGE_BYTES, at->config->policy.max_payload);
    request_text_list(conn, bull_field_names, BULL_FIELDS);
    conn_expect_job(conn);
    if (call_ask(&call->redis, &reply) != OUTCOME_OK) return call->redis.error->outcome;
    bool good = bull_reply_begins(reply, "stalled", "early", call->redis.error);
    bool more = good && reply_is(reply_at(reply, 0), "stalled") && stalled_settle_page(s, call, reply);
    if (call->redis.error->outcome == OUTCOME_OK) s->marked = more;
    freeReplyObject(reply);
    return call->redis.error->outcome;
}

static outcome_t stalled_step(void *state, side_task_call_t *call) {
    stalled_t *s = state;
    bool check = s->marked && mono_reached(s->check_at, call->now);
    if (check && stalled_check(s, call) != OUTCOME_OK) return call->redis.error->outcome;
    if (check && s->marked) {
        call->next = call->now;
        return OUTCOME_OK;
    }
    if (!s->marked || mono_reached(s->renew_at, call->now)) stalled_mark(s, call, false);
    call->next = mono_min(s->check_at, s->renew_at);
    return call->redis.error->outcome;
}

static outcome_t stalled_leave(void *state, side_task_call_t *call) { return stalled_mark(state, call, true); }

const side_task_ops_t bull_stalled_task = {
    .open = stalled_open, .close = free, .forget = stalled_forget, .step = stalled_step, .leave = stalled_leave};
