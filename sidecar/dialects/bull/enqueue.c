// How jobs get into `wait`: promotion, and requeue.
#include <math.h>

#include "dialects/bull/bull.h"
#include "dialects/bull/job.h"
#include "dialects/bull/scripts.h"
#include "dialects/requeue.h"
#include "queue/record.h"

enum {
    PROMOTE_MAX = 1000,  // the same limit as in Bull's own script
    LATER_MS = 10000,    // the delay of an id that names no job
    WORK = 200000,       // inserts by priority may walk over this many entries in one batch: some ms of Redis
    SCORE_PER_MS = 4096, // Bull keeps 12 bits of a counter in a score
};

// ---- Promotion. An entry of delayed is the id of a job.

static void bull_promote_append(const call_t *call, const promote_request_t *ask) {
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    call_script(call, &script_bull_promote, 9 + BULLMQ_KEYS);
    request_text(conn, at->config->delayed, at->config->ready);
    bull_keys(conn, at, "paused", "meta-paused", "priority", "active");
    request_text(conn, at->meta, at->quarantine);
    bull_keys(conn, at, BULLMQ_WORDS);
    request_text(conn, call->token, call_group(call));
    request_int(conn, ask->batch < PROMOTE_MAX ? ask->batch : PROMOTE_MAX, at->config->policy.ready_limit);
    bull_keys(conn, at, "");
    request_int(conn, LATER_MS, WORK);
    request_end(conn);
}

static int64_t bull_due_us(const queue_config_t *queue, double score) {
    (void)queue;
    double ms = floor(score / SCORE_PER_MS);
    if (ms >= 9e15) return INT64_MAX;
    if (ms <= -9e15) return INT64_MIN;
    return (int64_t)ms * 1000;
}

const promote_ops_t bull_promote = {.append = bull_promote_append, .due_us = bull_due_us, .most = PROMOTE_MAX};

// ---- Requeue, as Bull's own Job.retry() does. If the hash of the job is gone, the script makes the hash again.

static bool bull_requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out,
                                 buffer_t *bytes, buffer_t *why) {
    bull_job_t job;
    (void)queue, (void)now_ms, (void)out;
    if (bull_rebuild(row->payload, &job, bytes)) return true;
    buffer_str(why, "its payload in the log is not a job of Bull");
    return false;
}

// Names and values of the hash, for a job whose hash is gone.
static void bull_requeue_append_fields(conn_t *conn, const bull_job_t *job) {
    int64_t words = 0;
    for (size_t i = 0; i < BULL_KEPT_FIELDS; i++) words += job->fields[i].len ? 2 : 0;
    request_int(conn, words);
    for (size_t i = 0; i < BULL_KEPT_FIELDS; i++) {
        if (!job->fields[i].len) continue;
        request_text(conn, bull_field_names[i]);
        request_bytes(conn, job->fields[i].data, job->fields[i].len);
    }
}

static void bull_requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask, const requeue_push_t *where) {
    const queue_keys_t *home = &keys->queues[ask->queue];
    const queue_keys_t *to = &keys->queues[ask->to];
    digest_t event = {.bytes = {0}};
    buffer_t room = {0};
    bull_job_t job;
    bull_rebuild(where->job, &job, &room);
    digest_parse(ask->record->answers, &event);
    request_script(conn, &script_bull_requeue, 12);
    request_text(conn, home->requeued, home->failures, home->meta);
    bull_job_key(conn, to, "", job.id, "");
    bull_job_key(conn, to, "", job.id, ":lock");
    bull_keys(conn, to, "failed", "wait", "paused", "meta-paused", "active", "delayed", "id");
    request_bytes(conn, event.bytes, REQUEUE_MARK_BYTES);
    request_text(conn, ask->by, ask->again ? "1" : "0");
    request_bytes(conn, job.id.data, job.id.len);
    request_bytes(conn, job.fields[BULL_TIMESTAMP].data, job.fields[BULL_TIMESTAMP].len);
    request_text(conn, bull_is_lifo(&job) ? "1" : "0");
    request_int(conn, bull_config(to->config)->max_stalled, (int64_t)record_bytes(ask->record));
    bull_requeue_append_fields(conn, &job);
    record_append(conn, ask->record);
    request_end(conn);
    buffer_free(&room);
}

const requeue_ops_t bull_requeue = {.prepare = bull_requeue_prepare, .append = bull_requeue_append};
