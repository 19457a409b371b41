#include "dialects/bull/failed_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "dialects/bull/scripts.h"
#include "queue/record.h"
#include "redis/reply.h"

static const char ROLE[] = "monitor";

static void failed_record_append(failed_record_t *record, const side_task_call_t *call, slice_t id, slice_t score) {
    conn_t *conn = call->conn;
    request_script(conn, &script_bull_record, 5);
    request_text(conn, call->keys->locks[record->at->lock].key, record->failed, record->at->recorded, record->at->failures,
                 record->at->meta, call->token);
    request_bytes(conn, id.data, id.len);
    request_bytes(conn, score.data, score.len);
    request_int(conn, call->keys->config->stream.max_bytes);
    record_append(conn, &record->event.event);
    if (record->event.event.error.len) {
        request_text(conn, "error");
        request_bytes(conn, record->event.event.error.data, record->event.event.error.len);
    }
    request_end(conn);
}

static const char *failed_record_reason(const bull_job_t *job) {
    slice_t said = job->fields[BULL_FAILED_REASON];
    bool stalled = slice_is(said, BULL_STALLED_REASON) || slice_is(said, BULL_STALLED_MESSAGE);
    return stalled ? "retries_exhausted" : "worker_failed";
}

void failed_record_send_entry(failed_record_t *record, const side_task_call_t *call, const failed_entry_t *entry) {
    const char *state = reply_text(entry->state);
    int64_t size = strncmp(state, "large ", 6) == 0 ? strtoll(state + 6, NULL, 10) : 0;
    double finished = strtod(reply_text(entry->score), NULL);
    record->reason = failed_record_reason(&entry->job);
    bull_record_make(&record->event, record->at->config, &entry->job, record->reason, call->token, finished, *state == '\0',
                     size);
    if (size && !call->dry)
        log_warn(ROLE, record->at->config->name, "a failed job is larger than max_payload: its record has no payload",
                 F_INT("bytes", size), F_INT("max_payload", record->at->config->policy.max_payload));
    failed_record_append(record, call, entry->job.id, reply_slice(entry->score));
    buffer_shrink(&record->event.payload);
}

// Bull has removed the job: record what its message says.
void failed_record_send_message(failed_record_t *record, const side_task_call_t *call, const bull_message_t *message,
                                int64_t now_ms) {
    bull_job_t job = {.id = message->id};
    job.fields[BULL_FAILED_REASON] = message->error;
    record->reason = failed_record_reason(&job);
    bull_record_make(&record->event, record->at->config, &job, record->reason, call->token, (double)now_ms, false, 0);
    failed_record_append(record, call, job.id, (slice_t){"", 0});
}

void failed_record_log(const failed_record_t *record, slice_t id, const char *reason) {
    char text[JOB_ID_MOST + 1];
    snprintf(text, sizeof text, "%.*s", (int)(id.len < JOB_ID_MOST ? id.len : JOB_ID_MOST), id.len ? id.data : "");
    log_warn(ROLE, record->at->config->name, "a job has failed for good", F_STR("reason", reason), F_STR("job", text));
}
