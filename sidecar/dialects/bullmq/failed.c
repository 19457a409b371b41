// Failures that BullMQ's workers decided: its zset `failed`, and its stream of events for jobs that workers removed at once.
#include "dialects/failed/failed.h"

#include "dialects/bullmq/internal.h"
#include "dialects/bullmq/job.h"

// A final failure leaves `active` (src/commands/moveToFinished-14.lua). An attempt that is followed by another one writes other
// events (src/commands/retryJob-11.lua, moveToDelayed-8.lua).
static const failed_stream_t stream = {
    .job = "jobId", .error = "failedReason", .tells = {{"event", "failed"}, {"prev", "active"}}};

static void bullmq_failed_record(job_record_t *record, const call_t *call, const hash_job_t *job) {
    bool stalled = slice_is(job->fields[BULLMQ_FAILED_REASON], BULL_STALLED_REASON);
    bullmq_record_make(record, call, job, stalled ? "retries_exhausted" : "worker_failed");
}

static const failed_layout_t layout = {
    .unit_ms = 1, .fields = &bullmq_fields, .error = BULLMQ_FAILED_REASON, .record = bullmq_failed_record, .stream = &stream};

static void *bullmq_failed_open(const queue_keys_t *at) {
    const bull_config_t *own = bull_config(at->config);
    return failed_open(at, (failed_source_t){.layout = &layout,
                                             .key = mem_printf("%s:failed", own->base),
                                             .prefix = mem_printf("%s:", own->base),
                                             .events = mem_printf("%s:events", own->base),
                                             .records = own->record_failed});
}

const side_task_ops_t bullmq_failed_task = {FAILED_TASK, .open = bullmq_failed_open};
