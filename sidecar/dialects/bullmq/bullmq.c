// BullMQ 5 and 6 (taskforcesh/bullmq). The sidecar records failures of its workers, and requeues them. An entry of its lists and
// zsets is the id of a job. A hash holds the job itself.
#include "dialects/bullmq/internal.h"
#include "dialects/bullmq/scripts.h"
#include "dialects/failed/failed.h"
#include "queue/scripts.h"

static void bullmq_used_append(conn_t *conn, const queue_keys_t *at) {
    request_begin(conn, "EXISTS");
    bull_keys(conn, at, "meta", "id", "events", "wait", "paused", "active", "delayed", "prioritized", "failed");
    request_end(conn);
}

// Workers promote delayed jobs. `status` shows when jobs are due.
static const promote_ops_t bullmq_promote = {.due_us = bull_due_us};

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
    FAILED_RIGHTS,
    {RIGHT_SCRIPT(failed_events)},
    {RIGHT_SCRIPT(bullmq_requeue)},
    {0},
};

const dialect_ops_t dialect_bullmq = {.settings = &bullmq_settings,
                                      .promote = &bullmq_promote,
                                      .side_tasks = {&bullmq_failed_task},
                                      .requeue = &bullmq_requeue,
                                      .jobs = &bullmq_jobs,
                                      .adopt = bullmq_adopt,
                                      .used_append = bullmq_used_append,
                                      .survey = bullmq_survey,
                                      .rights = bullmq_rights};
