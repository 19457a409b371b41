#include "dialects/bull/job.h"

const char *const bull_field_names[BULL_FIELDS] = {
#define X(id, name, content) name,
    BULL_FIELD_LIST(X)
#undef X
};

static const hash_field_t fields[BULL_FIELDS] = {
#define X(id, name, content) HASH_FIELD(name, content),
    BULL_FIELD_LIST(X)
#undef X
};

_Static_assert((int)BULL_FIELDS <= (int)HASH_FIELDS_MAX, "a hash_job_t has room for all fields");

const hash_fields_t bull_fields = {
    .names = bull_field_names, .all = fields, .count = BULL_FIELDS, .kept = BULL_KEPT_FIELDS, .name = BULL_NAME};

int64_t bull_attempts(const bull_job_t *job) {
    return bull_number(job, BULL_ATTEMPTS_MADE) + bull_number(job, BULL_STALLED_COUNTER);
}

void bull_error(const bull_job_t *job, buffer_t *out) {
    slice_t reason = job->fields[BULL_FAILED_REASON], stacks = job->fields[BULL_STACKTRACE];
    // A stall leaves no stack. The last stack belongs to an earlier failure.
    if (slice_is(reason, BULL_STALLED_REASON)) stacks.len = 0;
    hash_job_error(reason, stacks, out);
}

void bull_record_make(job_record_t *record, const call_t *call, const bull_job_t *job, const char *reason) {
    job_record_begin(record, call, job->id, job->fields[BULL_NAME], reason);
    bull_error(job, &record->error);
    record->event.error = (slice_t){record->error.data, record->error.len};
    record->event.attempts = bull_attempts(job);
    record->event.created = bull_number(job, BULL_TIMESTAMP);
    record->event.started = bull_number(job, BULL_PROCESSED_ON);
    record->event.size = hash_job_large_bytes(job);
    if (*job->state == '\0') {
        bull_payload(job, &record->payload);
        job_record_add_payload(record, call, (slice_t){record->payload.data, record->payload.len});
    }
}
