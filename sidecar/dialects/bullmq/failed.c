// Failures that BullMQ's workers decided: its zset `failed`, and its stream of events for jobs that workers removed at once.
#include "dialects/failed/failed.h"

#include "dialects/bullmq/internal.h"
#include "dialects/bullmq/job.h"

// A final failure leaves `active` (src/commands/moveToFinished-14.lua). An attempt that is followed by another one writes other
// events (src/commands/retryJob-11.lua, moveToDelayed-8.lua).
static const failed_stream_t stream = {
    .job = "jobId", .error = "failedReason", .tells = {{"event", "failed"}, {"prev", "active"}}};

static const failed_layout_t layout = {
    .unit_ms = 1, .fields = &bullmq_fields, .error = BULLMQ_FAILED_REASON, .record = bullmq_record_make, .stream = &stream};

static void *bullmq_failed_open(const queue_keys_t *at) {
    const bull_config_t *own = bull_config(at->config);
    return failed_open(at, (failed_source_t){.layout = &layout,
                                             .key = mem_printf("%s:failed", own->base),
                                             .prefix = mem_printf("%s:", own->base),
                                             .events = mem_printf("%s:events", own->base),
                                             .records = own->record_failed});
}

const side_task_ops_t bullmq_failed_task = {FAILED_TASK, .open = bullmq_failed_open};
