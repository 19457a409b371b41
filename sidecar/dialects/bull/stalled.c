// The verdict on stalled jobs of Bull 4, and the settle of its jobs. dialects/bull_tasks/ has the check.
#include "base/json/json.h"
#include "dialects/bull/failed.h"
#include "dialects/bull/internal.h"
#include "dialects/bull/job.h"
#include "dialects/bull/scripts.h"
#include "dialects/bull_tasks/bull_tasks.h"

// Whether Bull removes this job at once when it fails: removeOnFail is true or 0. Any other value removes older jobs; the
// next failure of a worker does that. A large job stays in `failed`, because its record has no payload.
static bool job_removes_itself(const bull_job_t *job) {
    json_pick_t pick = {.pointer = "/removeOnFail"};
    int64_t count;
    if (*job->state || !json_pick(job->fields[BULL_OPTS], &pick, 1) || pick.found != JSON_FOUND) return false;
    if (pick.value.type == JSON_BOOL) return slice_is(pick.value.raw, "true");
    return pick.value.type == JSON_NUMBER && json_integer(pick.value.raw, &count) && count == 0;
}

static void bull_stalled_judge(const queue_config_t *queue, stalled_job_t *c, int64_t now) {
    int64_t created = bull_number(&c->job, BULL_TIMESTAMP), alive = queue->policy.alive_timeout_ms;
    c->reason = "retries_exhausted";
    snprintf(c->error, sizeof c->error, "%s", BULL_STALLED_REASON);
    if (alive && created > 0 && created <= now && now - created > alive) {
        c->reason = "alive_timeout";
        snprintf(c->error, sizeof c->error, "job is older than its alive_timeout");
    } else if (bull_number(&c->job, BULL_STALLED_COUNTER) < bull_config(queue)->max_stalled) {
        snprintf(c->flags, sizeof c->flags, "r");
        c->reason = "stalled";
        *c->error = '\0';
        return;
    }
    bool removes = job_removes_itself(&c->job), debounces = c->job.fields[BULL_DEID].len;
    snprintf(c->flags, sizeof c->flags, "e%s%s", removes ? "x" : "", debounces ? "d" : "");
    c->keys = (size_t)removes + (size_t)debounces;
}

// This stall counts as one more execution.
static void bull_stalled_record(job_record_t *record, const call_t *call, const stalled_job_t *c) {
    bull_record_make(record, call, &c->job, c->reason);
    record->event.attempts += 1;
}

static void bull_stalled_append_keys(const call_t *call) {
    const queue_keys_t *at = call_queue(call);
    bull_keys(call->conn, at, "stalled", "active", "wait", "paused", "meta-paused", "failed");
    request_text(call->conn, at->recorded, at->failures, at->meta);
}

static void bull_stalled_append_job_keys(conn_t *conn, const queue_keys_t *at, const stalled_job_t *c) {
    if (stalled_job_has(c, 'x')) bull_job_key(conn, at, "", c->job.id, ":logs");
    if (stalled_job_has(c, 'd')) bull_job_key(conn, at, "de:", c->job.fields[BULL_DEID], "");
}

// The message of an end has Bull's own text (moveStalledJobsToWait-7.lua). BULL_OUR_MESSAGE marks it as a message of the sidecar.
static void bull_stalled_append_message(conn_t *conn, const stalled_job_t *c) {
    buffer_t message = {0};
    if (stalled_job_has(c, 'e')) {
        buffer_str(&message, "{\"jobId\":");
        json_write_string(&message, c->job.id);
        buffer_printf(&message, ", \"val\": \"%s\", " BULL_OUR_MESSAGE "}",
                      strcmp(c->reason, "retries_exhausted") == 0 ? BULL_STALLED_MESSAGE : c->error);
    }
    request_bytes(conn, message.data, message.len);
    buffer_free(&message);
}

static const char *const foreign[BULLMQ_KEYS] = {BULLMQ_WORDS};

static const stalled_layout_t layout = {.fields = &bull_fields,
                                        .counter = BULL_STALLED_COUNTER,
                                        .foreign = foreign,
                                        .foreign_count = BULLMQ_KEYS,
                                        .settle = &script_bull_settle,
                                        .settle_keys = 10,
                                        .append_keys = bull_stalled_append_keys,
                                        .judge = bull_stalled_judge,
                                        .append_job_keys = bull_stalled_append_job_keys,
                                        .append_extra = bull_stalled_append_message,
                                        .record = bull_stalled_record};

static void *bull_stalled_open(const queue_keys_t *at) { return stalled_open(at, &layout); }

const side_task_ops_t bull_stalled_task = {STALLED_TASK, .open = bull_stalled_open};
