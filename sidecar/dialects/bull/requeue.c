// An operator requeues a failed job of Bull, as Bull's own Job.retry() does. If the hash of the job is gone, the script makes
// the hash again.
#include "dialects/requeue.h"
#include "dialects/bull/scripts.h"

#include "base/buffer.h"
#include "dialects/bull/internal.h"
#include "dialects/bull/job.h"
#include "queue/record.h"

bool bull_requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out, buffer_t *bytes,
                          buffer_t *why) {
    bull_job_t job;
    (void)queue, (void)now_ms, (void)out;
    if (bull_rebuild(row->payload, &job, bytes)) return true;
    buffer_str(why, "its payload in the log is not a job of Bull");
    return false;
}

static void bull_requeue_append_keys(conn_t *conn, const queue_keys_t *to, slice_t id) {
    static const char *const words[] = {"failed", "wait", "paused", "meta-paused", "active", "delayed", "id"};
    bull_job_key(conn, to, id, "");
    bull_job_key(conn, to, id, ":lock");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) bull_key(conn, to, words[i]);
}

// Names and values of the hash, for a job whose hash is gone.
static void bull_requeue_append_fields(conn_t *conn, const bull_job_t *job) {
    int64_t words = 0;
    for (size_t i = 0; i < BULL_KEPT_FIELDS; i++) words += job->fields[i].len ? 2 : 0;
    request_int(conn, words);
    for (size_t i = 0; i < BULL_KEPT_FIELDS; i++) {
        if (!job->fields[i].len) continue;
        request_text(conn, bull_field_names[i]);
        request_bytes(conn, job->fields[i].data, job->fields[i].len);
    }
}

void bull_requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask, const requeue_push_t *where) {
    const queue_keys_t *home = &keys->queues[ask->queue];
    const queue_keys_t *to = &keys->queues[ask->to];
    digest_t event = {.bytes = {0}};
    buffer_t room = {0};
    bull_job_t job;
    bull_rebuild(where->job, &job, &room);
    digest_parse(ask->record->answers, &event);
    request_script(conn, &script_bull_requeue, 12);
    request_text(conn, home->requeued, home->failures, home->meta);
    bull_requeue_append_keys(conn, to, job.id);
    request_bytes(conn, event.bytes, REQUEUE_MARK_BYTES);
    request_text(conn, ask->by, ask->again ? "1" : "0");
    request_bytes(conn, job.id.data, job.id.len);
    request_bytes(conn, job.fields[BULL_TIMESTAMP].data, job.fields[BULL_TIMESTAMP].len);
    request_text(conn, bull_is_lifo(&job) ? "1" : "0");
    request_int(conn, bull_config(to->config)->max_stalled, (int64_t)record_bytes(ask->record));
    bull_requeue_append_fields(conn, &job);
    record_append(conn, ask->record);
    request_end(conn);
    buffer_free(&room);
}
