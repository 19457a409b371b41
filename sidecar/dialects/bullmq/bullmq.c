// BullMQ 5 and 6 (taskforcesh/bullmq). An entry of its lists and zsets is the id of a job. A hash holds the job itself.
#include "dialects/bull_tasks/bull_tasks.h"
#include "dialects/bullmq/internal.h"
#include "dialects/bullmq/scripts.h"
#include "dialects/failed/failed.h"
#include "queue/scripts.h"

static void bullmq_used_append(conn_t *conn, const queue_keys_t *at) {
    request_begin(conn, "EXISTS");
    bull_keys(conn, at, "meta", "id", "events", "wait", "paused", "active", "delayed", "prioritized", "failed");
    request_end(conn);
}

// ---- Promotion, for queues without a worker, or beside workers.

enum {
    PROMOTE_MAX = 1000, // the same limit as in BullMQ's own script
    LATER_MS = 10000,   // by which promotion postpones an id that names no job
};

static void bullmq_promote_append(const call_t *call, const promote_request_t *ask) {
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    call_script(call, &script_bullmq_promote, 12);
    bull_keys(conn, at, "delayed", "wait", "paused", "meta", "prioritized", "pc", "marker", "events", "active");
    request_text(conn, at->meta, at->quarantine, call->token, call_group(call));
    request_int(conn, ask->batch < PROMOTE_MAX ? ask->batch : PROMOTE_MAX);
    bull_keys(conn, at, "");
    request_int(conn, LATER_MS);
    request_end(conn);
}

static const promote_ops_t bullmq_promote = {.append = bullmq_promote_append, .due_us = bull_due_us, .max_batch = PROMOTE_MAX};

// ---- Jobs for people.

static void bullmq_jobs_details(const queue_config_t *queue, jobs_state_t state, jobs_range_t *range) {
    static const char *const fields[BULL_JOBS_FIELDS] = {"data", "name", "timestamp", "processedOn", "atm"};
    (void)state;
    bull_jobs_range(queue, fields, range);
}

static const jobs_ops_t bullmq_jobs = {.details = bullmq_jobs_details,
                                       .read = bull_jobs_read,
                                       .advice = "its jobs belong to BullMQ: use job.promote() or job.remove()"};

static const right_t bullmq_rights[] = {
    {RIGHT_SCRIPT(bullmq_promote)},
    STALLED_RIGHTS,
    {RIGHT_SCRIPT(bullmq_settle)},
    FAILED_RIGHTS,
    {RIGHT_SCRIPT(failed_events)},
    {RIGHT_SCRIPT(bullmq_requeue)},
    {0},
};

const dialect_ops_t dialect_bullmq = {.settings = &bullmq_settings,
                                      .promote = &bullmq_promote,
                                      .side_tasks = {&bullmq_stalled_task, &bull_quarantine_task, &bullmq_failed_task},
                                      .requeue = &bullmq_requeue,
                                      .jobs = &bullmq_jobs,
                                      .adopt = bullmq_adopt,
                                      .used_append = bullmq_used_append,
                                      .survey = bullmq_survey,
                                      .rights = bullmq_rights};
