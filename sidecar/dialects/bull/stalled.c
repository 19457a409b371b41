// The stalled check of Bull 4. The sidecar does it in place of the workers. Every stalled_interval it marks all active jobs. A
// job that is still marked a whole interval later and has no lock goes back to the workers, or fails.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/json/json.h"
#include "base/json/write.h"
#include "base/log.h"
#include "base/utf8.h"
#include "dialects/bull/failed_channel.h"
#include "dialects/bull/internal.h"
#include "dialects/bull/job.h"
#include "dialects/bull/scripts.h"
#include "queue/record.h"
#include "queue/settle.h"
#include "redis/reply.h"

enum {
    JOBS = 32,             // jobs that one step settles
    MARKS = 500,           // jobs that one step reads: 1 to 2 ms of Redis
    LOOK_BYTES = 1 << 20,  // no further job is read after this many bytes
    RENEW_LEAST_MS = 1000, // shortest time between two renewals of stalled-check; this key keeps workers from their own check
    RENEW_SHARE = 3,       // renewals in an interval
    CASES_FROM = 4,        // index of the first job in a reply
    CASE_HEAD = 2,         // elements of a job in a reply, before its fields
};

static const char ROLE[] = "monitor";
static const char ALIVE_TIMEOUT[] = "job is older than its alive_timeout";

// One stalled job, its verdict and its record.
typedef struct bull_case {
    bull_job_t job;
    const char *verdict; // the verdict that bull_settle.lua takes
    const char *reason;
    char error[160];       // the error of an end
    bool case_removes_job; // removeOnFail
    bull_record_t record;
} bull_case_t;

struct bull_stalled {
    const queue_keys_t *at;
    bool marked;     // jobs are marked, and check_at is set
    mono_t check_at; // when the marks are a whole interval old
    mono_t renew_at; // when stalled-check is renewed
    char cursor[24]; // part of the marks under check; "0" = the first
    int64_t skip;    // stalled jobs of this part that could not be settled
    int64_t left;    // stalled jobs of the earlier parts that could not be settled
    bool full;       // the full stream was logged
    bull_case_t cases[JOBS];
};

bull_stalled_t *bull_stalled_open(const queue_keys_t *at) {
    bull_stalled_t *s = mem_alloc(sizeof *s);
    s->at = at;
    bull_stalled_forget(s);
    return s;
}

void bull_stalled_close(bull_stalled_t *s) {
    for (size_t i = 0; i < JOBS; i++) bull_record_free(&s->cases[i].record);
    free(s);
}

static void stalled_rewind(bull_stalled_t *s) {
    snprintf(s->cursor, sizeof s->cursor, "0");
    s->skip = s->left = 0;
}

void bull_stalled_forget(bull_stalled_t *s) {
    s->marked = false;
    stalled_rewind(s);
}

static int64_t stalled_renew_ms(const queue_config_t *queue) {
    int64_t share = bull_config(queue)->stalled_interval_ms / RENEW_SHARE;
    return share > RENEW_LEAST_MS ? share : RENEW_LEAST_MS;
}

// ---- The mark.

static void stalled_append_mark(const bull_stalled_t *s, const side_task_call_t *call, bool leaves) {
    const queue_keys_t *at = s->at;
    request_script(call->conn, &script_bull_mark, 5 + BULLMQ_KEYS);
    request_text(call->conn, call->keys->locks[at->lock].key);
    bull_key(call->conn, at, "stalled");
    bull_key(call->conn, at, "active");
    bull_key(call->conn, at, "stalled-check");
    request_text(call->conn, at->meta);
    bullmq_append_keys(call->conn, at);
    request_text(call->conn, call->token);
    request_int(call->conn, bull_config(at->config)->stalled_interval_ms);
    if (leaves)
        request_text(call->conn, "");
    else
        request_int(call->conn, 2 * stalled_renew_ms(at->config) + call->keys->config->lock.ttl_ms);
    request_end(call->conn);
}

// The next check is due a whole interval after the jobs were marked.
static void stalled_read_mark(bull_stalled_t *s, side_task_call_t *call, const redisReply *reply) {
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

static outcome_t stalled_mark(bull_stalled_t *s, side_task_call_t *call, bool leaves, redis_error_t *error) {
    redisReply *reply;
    stalled_append_mark(s, call, leaves);
    if (!call->dry) failpoint("bull_mark_before");
    if (conn_read(call->conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    if (!call->dry) failpoint("bull_mark_answered");
    const redisReply *kind = reply_at(reply, 0);
    s->marked = false;
    if (reply_is(kind, "marked") || reply_is(kind, "held"))
        stalled_read_mark(s, call, reply);
    else if (reply_is(kind, "type"))
        bull_wrong_type(error, "bull_mark", reply_text(reply_at(reply, 1)), reply_text(reply_at(reply, 2)));
    else if (script_refusal(reply, error) == OUTCOME_OK && !reply_is(kind, "left"))
        redis_error_set(error, OUTCOME_REFUSED, "bull_mark: unexpected reply");
    freeReplyObject(reply);
    return error->outcome;
}

// ---- The verdict.

// Whether Bull removes this job at once when it fails: removeOnFail is true or 0. Any other value removes older jobs, which the
// next failure of a worker does.
static bool case_removes_job(const bull_job_t *job) {
    json_pick_t pick = {.pointer = "/removeOnFail"};
    int64_t count;
    if (!json_pick(job->fields[BULL_OPTS], &pick, 1) || pick.found != JSON_FOUND) return false;
    if (pick.value.type == JSON_BOOL) return slice_is(pick.value.raw, "true");
    return pick.value.type == JSON_NUMBER && json_integer(pick.value.raw, &count) && count == 0;
}

static void case_judge(const bull_stalled_t *s, bull_case_t *c, const char *state, int64_t now) {
    const queue_config_t *queue = s->at->config;
    int64_t created = bull_number(&c->job, BULL_TIMESTAMP), alive = queue->policy.alive_timeout_ms;
    bool large = strncmp(state, "large", 5) == 0; // the record has no payload, so keep the job in `failed`
    bool is_job = *state == '\0' || large;
    c->verdict = "end";
    c->reason = "retries_exhausted";
    c->case_removes_job = is_job && !large && case_removes_job(&c->job);
    snprintf(c->error, sizeof c->error, "%s", BULL_STALLED_REASON);
    if (!is_job) {
        c->verdict = "broken";
        c->reason = strcmp(state, "none") == 0 ? "unreadable" : "invalid_target";
        snprintf(c->error, sizeof c->error, "the key of this id holds %s%s", strcmp(state, "none") == 0 ? "no job" : "a ",
                 strcmp(state, "none") == 0 ? "" : state);
    } else if (alive && created > 0 && created <= now && now - created > alive) {
        c->reason = "alive_timeout";
        snprintf(c->error, sizeof c->error, "%s", ALIVE_TIMEOUT);
    } else if (bull_number(&c->job, BULL_STALLED_COUNTER) < bull_config(queue)->max_stalled) {
        c->verdict = "retry";
        c->reason = "stalled";
    }
}

static bool case_is_retry(const bull_case_t *c) { return strcmp(c->verdict, "retry") == 0; }

// Executions are Bull's attempts, earlier stalls, and this stall. The time of the check makes the ids of two stalls differ.
static void case_make_record(const bull_stalled_t *s, bull_case_t *c, const char *token, const char *state, int64_t now) {
    int64_t size = strncmp(state, "large ", 6) == 0 ? strtoll(state + 6, NULL, 10) : 0;
    bull_record_make(&c->record, s->at->config, &c->job, c->reason, token, (double)now,
                     strcmp(c->verdict, "broken") != 0 && !size, size);
    event_t *event = &c->record.event;
    event->attempts += 1;
    if (case_is_retry(c)) {
        event->kind = slice_text("retried");
        event->payload = (slice_t){0};
    }
    event_id(event, now * 1000, 0, c->record.id);
}

// ---- The settle.

// The message has Bull's own text (moveStalledJobsToWait-7.lua) and the signature of the sidecar.
static void case_append_message(conn_t *conn, const bull_case_t *c) {
    buffer_t message = {0};
    buffer_str(&message, "{\"jobId\":");
    json_write_string(&message, c->job.id);
    buffer_printf(&message, ", \"val\": \"%s\", " BULL_OUR_MESSAGE "}",
                  strcmp(c->reason, "retries_exhausted") == 0 ? BULL_STALLED_MESSAGE : c->error);
    request_bytes(conn, message.data, message.len);
    buffer_free(&message);
}

static void case_append_debounce(conn_t *conn, const queue_keys_t *at, const bull_case_t *c, const char *lock) {
    slice_t deid = c->job.fields[BULL_DEID];
    buffer_t word = {0};
    if (deid.len == 0) {
        request_text(conn, lock);
        return;
    }
    buffer_str(&word, "de:");
    buffer_add(&word, deid.data, deid.len);
    bull_job_key(conn, at, (slice_t){word.data, word.len}, "");
    buffer_free(&word);
}

static void case_append_settle(const bull_stalled_t *s, const side_task_call_t *call, const bull_case_t *c) {
    const queue_keys_t *at = s->at;
    const char *lock = call->keys->locks[at->lock].key;
    slice_t counter = c->job.fields[BULL_STALLED_COUNTER];
    conn_t *conn = call->conn;
    request_script(conn, &script_bull_settle, 14);
    request_text(conn, lock);
    bull_key(conn, at, "stalled");
    bull_key(conn, at, "active");
    request_text(conn, at->config->ready);
    bull_key(conn, at, "paused");
    bull_key(conn, at, "meta-paused");
    bull_key(conn, at, "failed");
    request_text(conn, at->recorded, at->failures, at->meta);
    bull_job_key(conn, at, c->job.id, "");
    bull_job_key(conn, at, c->job.id, ":lock");
    bull_job_key(conn, at, c->job.id, ":logs");
    case_append_debounce(conn, at, c, lock);
    request_text(conn, call->token);
    request_bytes(conn, c->job.id.data, c->job.id.len);
    request_bytes(conn, counter.data, counter.len);
    request_text(conn, c->verdict, c->error);
    case_append_message(conn, c);
    request_text(conn, c->case_removes_job ? "1" : "0");
    request_int(conn, call->keys->config->stream.max_bytes);
    record_append(conn, &c->record.event);
    request_end(conn);
}

static void case_log(const bull_stalled_t *s, const bull_case_t *c) {
    char id[JOB_ID_MOST + 1];
    const event_t *event = &c->record.event;
    snprintf(id, sizeof id, "%.*s", (int)event->job.len, event->job.len ? event->job.data : "");
    if (case_is_retry(c))
        log_info(ROLE, s->at->config->name, "gave a job back", F_STR("reason", c->reason), F_STR("job", id),
                 F_INT("retry", bull_number(&c->job, BULL_STALLED_COUNTER) + 1));
    else
        log_warn(ROLE, s->at->config->name, "a job has failed for good", F_STR("reason", c->reason), F_STR("job", id),
                 F_INT("attempts", event->attempts));
}

static void stalled_note_settled(bull_stalled_t *s, side_task_call_t *call, const bull_case_t *c, settled_t settled) {
    switch (settled) {
    case SETTLED:
    case SETTLED_UNRECORDED:
        if (case_is_retry(c))
            metric_add(&call->metrics->retried, 1);
        else
            metrics_end(call->metrics, c->reason, 1);
        metrics_stall(call->metrics, CAUSE_lock_lost);
        if (settled == SETTLED_UNRECORDED) metric_add(&call->metrics->retried_unrecorded, 1);
        if (!call->dry) case_log(s, c);
        break;
    case SETTLED_FULL:
        metric_add(&call->metrics->ends_held, 1);
        s->skip++;
        if (!s->full)
            log_error(ROLE, s->at->config->name, "the failure stream is full; no job is ended until it shrinks",
                      F_INT("max_bytes", call->keys->config->stream.max_bytes));
        s->full = true;
        break;
    case SETTLED_CHANGED: s->skip++; break; // the next check decides again
    default: break;                         // the job is finished, or its worker is alive
    }
}

static outcome_t stalled_settle(bull_stalled_t *s, side_task_call_t *call, size_t count, redis_error_t *error) {
    redis_error_t worst = {0};
    for (size_t i = 0; i < count; i++) case_append_settle(s, call, &s->cases[i]);
    failpoint("settle_before");
    if (conn_flush(call->conn, error) != OUTCOME_OK) return error->outcome;
    failpoint("settle_sent");
    for (size_t i = 0; i < count; i++) {
        settled_t settled;
        if (settle_read(call->conn, &settled, error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        failpoint("settle_answered");
        if (error->outcome == OUTCOME_OK)
            stalled_note_settled(s, call, &s->cases[i], settled);
        else if (error->outcome > worst.outcome)
            worst = *error;
    }
    *error = worst;
    return worst.outcome;
}

// ---- The check.

static void stalled_append_look(const bull_stalled_t *s, const side_task_call_t *call) {
    const queue_keys_t *at = s->at;
    char *prefix = mem_printf("%s:", bull_config(at->config)->base);
    request_script(call->conn, &script_bull_stalled, 3);
    bull_key(call->conn, at, "stalled");
    bull_key(call->conn, at, "stalled-check");
    request_text(call->conn, at->meta, prefix);
    request_int(call->conn, bull_config(at->config)->stalled_interval_ms);
    request_text(call->conn, s->cursor);
    request_int(call->conn, MARKS, s->skip, JOBS, LOOK_BYTES, at->config->policy.max_payload);
    for (size_t i = 0; i < BULL_FIELDS; i++) request_text(call->conn, bull_field_names[i]);
    request_end(call->conn);
    free(prefix);
}

// Judges the jobs of a reply; the cases borrow from it.
static size_t stalled_take_cases(bull_stalled_t *s, const side_task_call_t *call, const redisReply *reply) {
    size_t count = 0;
    for (size_t at = CASES_FROM; at + CASE_HEAD + BULL_FIELDS <= reply->elements && count < JOBS; at += CASE_HEAD + BULL_FIELDS) {
        bull_case_t *c = &s->cases[count++];
        const char *state = reply_text(reply->element[at + 1]);
        int64_t now = reply_number(reply->element[1]);
        c->job.id = reply_slice(reply->element[at]);
        for (size_t i = 0; i < BULL_FIELDS; i++) c->job.fields[i] = reply_slice(reply->element[at + CASE_HEAD + i]);
        case_judge(s, c, state, now);
        case_make_record(s, c, call->token, state, now);
    }
    return count;
}

// False: the last part is done.
static bool stalled_next_part(bull_stalled_t *s, const char *cursor) {
    s->left += s->skip;
    s->skip = 0;
    snprintf(s->cursor, sizeof s->cursor, "%s", cursor);
    return strcmp(s->cursor, "0") != 0;
}

// Settles some stalled jobs. *more: further stalled jobs may be left.
static outcome_t stalled_check(bull_stalled_t *s, side_task_call_t *call, bool *more, redis_error_t *error) {
    redisReply *reply;
    *more = false;
    stalled_append_look(s, call);
    if (conn_read(call->conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    if (reply_is(reply_at(reply, 0), "stalled")) {
        int64_t told = s->skip;
        size_t count = stalled_take_cases(s, call, reply);
        told += (int64_t)count;
        *more = count > 0 && told < reply_int(reply_at(reply, 2));
        if (count) stalled_settle(s, call, count, error);
        for (size_t i = 0; i < count; i++) buffer_shrink(&s->cases[i].record.payload);
        if (!*more && error->outcome == OUTCOME_OK) *more = stalled_next_part(s, reply_text(reply_at(reply, 3)));
        if (!*more) s->full = s->full && s->left + s->skip > 0;
    } else if (!reply_is(reply_at(reply, 0), "early")) {
        redis_error_set(error, OUTCOME_REFUSED, "bull_stalled: unexpected reply");
    }
    freeReplyObject(reply);
    return error->outcome;
}

outcome_t bull_stalled_step(bull_stalled_t *s, side_task_call_t *call, redis_error_t *error) {
    bool more = false;
    if (s->marked && mono_reached(s->check_at, call->now)) {
        if (stalled_check(s, call, &more, error) != OUTCOME_OK) return error->outcome;
        if (more)
            call->next = call->now;
        else
            s->marked = false;
    }
    if (!more && (!s->marked || mono_reached(s->renew_at, call->now))) {
        if (stalled_mark(s, call, false, error) != OUTCOME_OK) return error->outcome;
    }
    call->next = mono_min(call->next, mono_min(s->check_at, s->renew_at));
    return OUTCOME_OK;
}

outcome_t bull_stalled_leave(bull_stalled_t *s, side_task_call_t *call, redis_error_t *error) {
    return stalled_mark(s, call, true, error);
}
