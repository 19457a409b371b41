// The verdict on stalled jobs of BullMQ, and the settle of its jobs. dialects/bull_tasks/ has the check. A job always goes back
// to the workers: of one that stalled too often the hash says so, and the worker that takes it fails it, with all that BullMQ
// does then.
#include "dialects/bull_tasks/bull_tasks.h"
#include "dialects/bullmq/internal.h"
#include "dialects/bullmq/job.h"
#include "dialects/bullmq/scripts.h"
#include "redis/reply.h"

static void bullmq_stalled_judge(const queue_config_t *queue, stalled_job_t *c, int64_t now) {
    (void)now;
    bool fails = hash_job_number(c->job.fields[BULLMQ_STALLED_COUNTER]) >= bull_config(queue)->max_stalled;
    bool repeats = c->job.fields[BULLMQ_REPEAT_KEY].len;
    c->reason = "stalled";
    c->keys = repeats;
    snprintf(c->flags, sizeof c->flags, "r%s%s", fails ? "f" : "", repeats ? "s" : "");
    snprintf(c->error, sizeof c->error, "%s", BULL_STALLED_REASON);
}

static void bullmq_stalled_record(job_record_t *record, const call_t *call, const stalled_job_t *c) {
    bullmq_record_make(record, call, &c->job, c->reason);
}

static void bullmq_stalled_append_keys(const call_t *call) {
    const queue_keys_t *at = call_queue(call);
    bull_keys(call->conn, at, "stalled", "active", "wait", "paused", "meta", "marker", "events", "repeat");
    request_text(call->conn, at->failures, at->meta);
}

static void bullmq_stalled_append_job_keys(conn_t *conn, const queue_keys_t *at, const stalled_job_t *c) {
    if (stalled_job_has(c, 's')) bull_job_key(conn, at, "repeat:", c->job.fields[BULLMQ_REPEAT_KEY], "");
}

static void bullmq_stalled_append_scheduler(conn_t *conn, const stalled_job_t *c) {
    slice_t scheduler = c->job.fields[BULLMQ_REPEAT_KEY];
    request_bytes(conn, scheduler.data, scheduler.len);
}

// Until 5.53.2 the fields of a job have other names: then the check stays with the workers. The settle script looks again.
static outcome_t bullmq_stalled_fit(const call_t *call, bool *fits) {
    redisReply *reply;
    bullmq_version_t version;
    request_begin(call->conn, "HGET");
    bull_keys(call->conn, call_queue(call), "meta");
    request_text(call->conn, "version");
    if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
    *fits = !bullmq_version_read(reply_slice(reply), &version) || bullmq_version_moves(&version);
    freeReplyObject(reply);
    return OUTCOME_OK;
}

static const stalled_layout_t layout = {.fields = &bullmq_fields,
                                        .counter = BULLMQ_STALLED_COUNTER,
                                        .settle = &script_bullmq_settle,
                                        .settle_keys = 11,
                                        .append_keys = bullmq_stalled_append_keys,
                                        .judge = bullmq_stalled_judge,
                                        .append_job_keys = bullmq_stalled_append_job_keys,
                                        .append_extra = bullmq_stalled_append_scheduler,
                                        .record = bullmq_stalled_record,
                                        .fit = bullmq_stalled_fit};

static void *bullmq_stalled_open(const queue_keys_t *at) { return stalled_open(at, &layout); }

const side_task_ops_t bullmq_stalled_task = {STALLED_TASK, .open = bullmq_stalled_open};
