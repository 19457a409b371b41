// Bull 4 (OptimalBits/bull 4.10 to the newest 4.x). An entry of delayed is the id of a job. A hash holds the job itself.
#include "dialects/bull/internal.h"
#include "dialects/bull/job.h"
#include "dialects/bull/scripts.h"
#include "dialects/bull_tasks/bull_tasks.h"
#include "dialects/failed/failed.h"
#include "queue/record.h"
#include "queue/scripts.h"
#include "queue/settle.h"
#include "redis/reply.h"

enum {
    PROMOTE_MAX = 1000, // the same limit as in Bull's own script
    LATER_MS = 10000,   // by which promotion postpones an id that names no job
    WALK_MAX = 200000,  // entries that the inserts by priority of one batch may walk over: some ms of Redis
};

// Bull 4 and BullMQ share most key names. BullMQ writes its version into `meta` and its events into a stream. Workers that wait
// on `marker` (BullMQ 5, and Bull's unreleased layout of pull request 2818) would miss jobs that the sidecar promotes.
static outcome_t bull_adopt(const call_t *call, buffer_t *refusal) {
    static const char *const words[BULLMQ_KEYS] = {BULLMQ_WORDS};
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    for (size_t i = 0; i < BULLMQ_KEYS; i++) {
        request_begin(conn, "TYPE");
        bull_keys(conn, at, words[i]);
        request_end(conn);
    }
    request_begin(conn, "HMGET");
    bull_keys(conn, at, "meta");
    request_text(conn, "version", "opts.maxLenEvents");
    request_end(conn);
    *call->error = (redis_error_t){0};
    for (size_t i = 0; i <= BULLMQ_KEYS; i++) {
        redisReply *reply = conn_read_next(conn, NULL, call->error);
        bool exists = i < BULLMQ_KEYS && reply_is_text(reply) && !reply_is(reply, "none") && !reply_is(reply, "hash");
        bool names_version = reply_len(reply_at(reply, 0)) || reply_len(reply_at(reply, 1));
        if (refusal->len == 0 && (exists || names_version))
            buffer_printf(refusal, "the queue belongs to BullMQ (%s:%s %s): dialect bull serves Bull 4; see dialect bullmq",
                          bull_config(at->config)->base, exists ? words[i] : "meta", exists ? "exists" : "names its version");
        conn_reply_free(reply);
    }
    return call->error->outcome;
}

// Bull counts jobs in `id` and never deletes it.
static void bull_used_append(conn_t *conn, const queue_keys_t *at) {
    request_begin(conn, "EXISTS");
    bull_keys(conn, at, "id", "wait", "paused", "active", "delayed", "failed");
    request_end(conn);
}

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
    request_int(conn, LATER_MS, WALK_MAX);
    request_end(conn);
}

static const promote_ops_t bull_promote = {.append = bull_promote_append, .due_us = bull_due_us, .max_batch = PROMOTE_MAX};

// ---- Requeue, as Bull's own Job.retry() does. If the hash of the job is gone, the script makes the hash again.

static bool bull_requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out,
                                 buffer_t *bytes, buffer_t *why) {
    bull_job_t job;
    (void)queue, (void)now_ms, (void)out;
    if (bull_rebuild(row->payload, &job, bytes)) return true;
    buffer_str(why, "its payload in the audit log is not a job of Bull");
    return false;
}

static void bull_requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask) {
    const queue_keys_t *home = &keys->queues[ask->queue];
    const queue_keys_t *to = &keys->queues[ask->to];
    digest_t event = {.bytes = {0}};
    buffer_t room = {0};
    bull_job_t job;
    bull_rebuild(ask->where->job, &job, &room);
    digest_parse(ask->record->answers, &event);
    request_script(conn, &script_bull_requeue, 12);
    request_text(conn, ask->marker, home->failures, home->meta);
    bull_job_key(conn, to, "", job.id, "");
    bull_job_key(conn, to, "", job.id, ":lock");
    bull_keys(conn, to, "failed", "wait", "paused", "meta-paused", "active", "delayed", "id");
    request_bytes(conn, event.bytes, REQUEUE_MARK_BYTES);
    request_text(conn, ask->by, ask->again ? "1" : "0");
    request_bytes(conn, job.id.data, job.id.len);
    request_bytes(conn, job.fields[BULL_TIMESTAMP].data, job.fields[BULL_TIMESTAMP].len);
    request_text(conn, bull_is_lifo(&job) ? "1" : "0");
    request_int(conn, bull_config(to->config)->max_stalled, (int64_t)record_bytes(ask->record));
    hash_job_append(conn, &bull_fields, &job); // used if the hash is gone
    record_append(conn, ask->record);
    request_end(conn);
    buffer_free(&room);
}

static const requeue_ops_t bull_requeue = {.prepare = bull_requeue_prepare, .append = bull_requeue_append};

// ---- Jobs for people.

static void bull_jobs_details(const queue_config_t *queue, jobs_state_t state, jobs_range_t *range) {
    static const char *const fields[BULL_JOBS_FIELDS] = {"data", "name", "timestamp", "processedOn", "attemptsMade"};
    (void)state;
    bull_jobs_range(queue, fields, range);
}

static const jobs_ops_t bull_jobs = {
    .details = bull_jobs_details, .read = bull_jobs_read, .advice = "its jobs belong to Bull: use job.promote() or job.remove()"};

static const right_t bull_rights[] = {
    {RIGHT_SCRIPT(bull_promote)},
    STALLED_RIGHTS,
    {RIGHT_SCRIPT(bull_settle)},
    FAILED_RIGHTS,
    {RIGHT_SCRIPT(bull_requeue)},
    {"recording failures of jobs that Bull removes at once", .script = &script_elsewhere, .optional = true},
    {0},
};

const dialect_ops_t dialect_bull = {.settings = &bull_settings,
                                    .promote = &bull_promote,
                                    .side_tasks = {&bull_stalled_task, &bull_quarantine_task, &bull_failed_task},
                                    .requeue = &bull_requeue,
                                    .jobs = &bull_jobs,
                                    .adopt = bull_adopt,
                                    .used_append = bull_used_append,
                                    .rights = bull_rights,
                                    .shared_harm = "failures of jobs that Bull removes at once are not recorded"};
