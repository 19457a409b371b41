// Failures that Sidekiq's processes decided: its zset `dead`, whose members are jobs.
#include "dialects/failed/failed.h"
#include "dialects/sidekiq/internal.h"

enum { DEAD_MAX_JOBS = 10000 }; // Sidekiq's dead_max_jobs: it drops older ones with each failure

static void dead_record(job_record_t *record, const call_t *call, const hash_job_t *job) {
    enum { ERROR_MAX = 64 * 1024 };
    sidekiq_record_begin(record, call, job->fields[0], job->id, "worker_failed");
    if (record->error.len > ERROR_MAX) record->error.len = ERROR_MAX;
    record->event.error = (slice_t){record->error.data, record->error.len};
}

static const failed_layout_t layout = {.unit_ms = 1000, .record = dead_record, .keeps = DEAD_MAX_JOBS};

static void *dead_open(const queue_keys_t *at) {
    const sidekiq_config_t *own = sidekiq_config(at->config);
    return failed_open(at, (failed_source_t){.layout = &layout, .key = mem_str(own->dead), .records = own->record_failed});
}

const side_task_ops_t sidekiq_dead_task = {FAILED_TASK, .open = dead_open};
