#include "dialects/job_record.h"

#include <math.h>

#include "model/job.h"

void job_record_begin(job_record_t *record, const call_t *call, slice_t job, slice_t type, const char *reason) {
    const queue_config_t *queue = call_queue(call)->config;
    record->event = (event_t){
        .kind = slice_text("failed"),
        .dialect = slice_text(config_dialect_word(queue->dialect)),
        .queue = slice_text(queue->name),
        .job = slice_cut(job, MAX_JOB_ID),
        .type = slice_cut(type, MAX_JOB_TYPE),
        .reason = slice_text(reason),
        .term = slice_text(call->token),
        .group = slice_text(call->keys->config->group),
    };
}

void job_record_add_payload(job_record_t *record, const call_t *call, slice_t payload) {
    digest_t digest = digest_of(payload.data, payload.len);
    digest_hex(&digest, record->sha256);
    record->event.payload = payload;
    record->event.sha256 = slice_text(record->sha256);
    record->event.size = (int64_t)payload.len;
    record->event.traceparent = job_traceparent(&call_queue(call)->config->policy, payload);
}

// The event id has the time as `life`, in microseconds.
void job_record_date(job_record_t *record, double ms) {
    int64_t life = isfinite(ms) && fabs(ms) < 9e15 ? (int64_t)(ms * 1000) : 0;
    event_id(&record->event, life, 0, record->id);
}

void job_record_free(job_record_t *record) {
    buffer_free(&record->payload);
    buffer_free(&record->error);
    buffer_free(&record->texts);
}
