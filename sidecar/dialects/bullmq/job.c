#include "dialects/bullmq/job.h"

static const char *const names[BULLMQ_FIELDS] = {
#define X(id, name, content) name,
    BULLMQ_FIELD_LIST(X)
#undef X
};

static const hash_field_t fields[BULLMQ_FIELDS] = {
#define X(id, name, content) HASH_FIELD(name, content),
    BULLMQ_FIELD_LIST(X)
#undef X
};

_Static_assert((int)BULLMQ_FIELDS <= (int)HASH_FIELDS_MAX, "a hash_job_t has room for all fields");

const hash_fields_t bullmq_fields = {
    .names = names, .all = fields, .count = BULLMQ_FIELDS, .kept = BULLMQ_KEPT_FIELDS, .name = BULLMQ_NAME};

static int64_t bullmq_number(const bullmq_job_t *job, bullmq_field_t field) { return hash_job_number(job->fields[field]); }

void bullmq_record_make(job_record_t *record, const call_t *call, const bullmq_job_t *job, const char *reason) {
    slice_t said = job->fields[BULLMQ_FAILED_REASON], stacks = job->fields[BULLMQ_STACKTRACE];
    // A stall leaves no stack. The last stack belongs to an earlier failure.
    if (slice_is(said, BULL_STALLED_REASON)) stacks.len = 0;
    job_record_begin(record, call, job->id, job->fields[BULLMQ_NAME], reason);
    hash_job_error(said, stacks, &record->error);
    record->event.error = (slice_t){record->error.data, record->error.len};
    record->event.attempts = bullmq_number(job, BULLMQ_ATTEMPTS_STARTED);
    if (!record->event.attempts) record->event.attempts = bullmq_number(job, BULLMQ_ATTEMPTS_MADE);
    record->event.created = bullmq_number(job, BULLMQ_TIMESTAMP);
    record->event.started = bullmq_number(job, BULLMQ_PROCESSED_ON);
    record->event.worker = job->fields[BULLMQ_PROCESSED_BY];
    record->event.size = hash_job_large_bytes(job);
    if (*job->state == '\0') {
        hash_job_payload(&bullmq_fields, job, &record->payload);
        job_record_add_payload(record, call, (slice_t){record->payload.data, record->payload.len});
    }
}
