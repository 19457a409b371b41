#include "base/failpoint.h"
#include "base/log.h"
#include "dialects/failed/internal.h"
#include "queue/record.h"
#include "queue/settle.h"
#include "redis/reply.h"

static const char ROLE[] = "monitor";

// Appends what failed_record.lua compares and marks.
static void failed_append_mark(const failed_t *s, conn_t *conn, const hash_job_t *job, int64_t told_ms, double ms) {
    char time[FAILED_NUMBER_SIZE] = "";
    request_bytes(conn, job->id.data, job->id.len);
    if (!job->score.len && told_ms)
        request_int(conn, told_ms);
    else
        request_bytes(conn, job->score.data, job->score.len);
    if (s->source.layout->unit_ms != 1) snprintf(time, sizeof time, "%.17g", ms);
    request_text(conn, time, job->score.len && !failed_is_job(s) ? "1" : "");
}

void failed_send_record(const failed_t *s, const side_task_call_t *step, const hash_job_t *job, const failed_message_t *message,
                        int64_t now, failed_sent_t *sent) {
    const call_t *call = &step->redis;
    event_t *event = &sent->record.event;
    int64_t told_ms = message ? message->ms : 0;
    bool kept = job->score.len > 0;
    double ms = kept ? strtod(job->score.data, NULL) * (double)s->source.layout->unit_ms : (double)(told_ms ? told_ms : now);
    *sent = (failed_sent_t){.id = job->id, .message = message, .kept = kept};
    s->source.layout->record(&sent->record, call, job);
    job_record_date(&sent->record, ms);
    int64_t large = hash_job_large_bytes(job);
    if (large) {
        event->size = large;
        log_warn(ROLE, s->at->config->name, "a failed job is larger than max_payload: its record has no payload",
                 F_INT("bytes", large), F_INT("max_payload", s->at->config->policy.max_payload));
    }
    call_script(call, &script_failed_record, 5);
    request_text(call->conn, s->source.key, s->at->recorded, s->at->failures, s->at->meta, call->token);
    failed_append_mark(s, call->conn, job, told_ms, ms);
    request_int(call->conn, call->keys->config->stream.max_bytes);
    request_text(call->conn, s->at->config->policy.on_failure);
    record_append(call->conn, event);
    if (event->error.len) {
        request_text(call->conn, "error");
        request_bytes(call->conn, event->error.data, event->error.len);
    }
    request_end(call->conn);
}

int64_t failed_read_records(failed_t *s, side_task_call_t *call, failed_sent_t *sent, size_t count) {
    int64_t recorded = 0;
    for (size_t i = 0; i < count; i++) {
        settled_t settled = SETTLED_REFUSED;
        settle_read(&call->redis, &settled);
        if (settled == SETTLED) {
            failpoint("failed_record_answered");
            recorded++;
            metric_add(&call->metrics->failed_recorded, 1);
            metrics_end(call->metrics, sent[i].record.event.reason.data, 1);
            if (sent[i].kept) failed_messages_expect(&s->messages, sent[i].id, call->now);
            record_log_failure(ROLE, s->at->config->name, &sent[i].record.event);
        } else if (settled == SETTLED_FULL) {
            metric_add(&call->metrics->ends_held, 1);
            s->full = true;
        }
        sent[i].gone = settled == SETTLED_GONE;
        job_record_free(&sent[i].record);
    }
    return recorded;
}
