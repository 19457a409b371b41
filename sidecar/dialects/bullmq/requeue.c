// Requeue, as BullMQ's own Job.retry() does. If the hash of the job is gone, the script makes the hash again, without a parent.
#include "dialects/bullmq/internal.h"
#include "dialects/bullmq/job.h"
#include "dialects/bullmq/scripts.h"
#include "queue/record.h"
#include "queue/scripts.h"

static bool bullmq_requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out,
                                   buffer_t *bytes, buffer_t *why) {
    bullmq_job_t job;
    (void)queue, (void)now_ms, (void)out;
    if (hash_job_rebuild(&bullmq_fields, row->payload, &job, bytes)) return true;
    buffer_str(why, "its payload in the audit log is not a job of BullMQ");
    return false;
}

// Whether the key is in a queue of BullMQ that the sidecar serves. A name from a job must not choose where the sidecar writes.
static bool requeue_serves(const keyspace_t *keys, const queue_keys_t *to, slice_t key) {
    for (size_t i = 0; key.len && i < keys->queue_count; i++) {
        const queue_config_t *queue = keys->queues[i].config;
        if (queue->dialect != &bullmq_settings) continue;
        const char *base = bull_config(queue)->base;
        size_t len = strlen(base);
        if (key.len <= len + 1 || memcmp(key.data, base, len) != 0 || key.data[len] != ':') continue;
        return !keys->per_tag || keyspace_slot(base) == keyspace_slot(bull_config(to->config)->base);
    }
    return false;
}

static void requeue_append_parent(conn_t *conn, const queue_keys_t *to, slice_t parent) {
    static const char *const ends[] = {"", ":unsuccessful", ":failed", ":dependencies"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        buffer_t key = {0};
        if (parent.len) {
            buffer_add(&key, parent.data, parent.len);
            buffer_str(&key, ends[i]);
        } else {
            buffer_str(&key, to->absent);
        }
        request_bytes(conn, key.data, key.len);
        buffer_free(&key);
    }
}

static void bullmq_requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask) {
    const queue_keys_t *home = &keys->queues[ask->queue];
    const queue_keys_t *to = &keys->queues[ask->to];
    digest_t event = {.bytes = {0}};
    buffer_t room = {0};
    bullmq_job_t job;
    hash_job_rebuild(&bullmq_fields, ask->where->job, &job, &room);
    digest_parse(ask->record->answers, &event);
    slice_t parent = job.fields[BULLMQ_PARENT_KEY];
    if (!requeue_serves(keys, to, parent)) parent.len = 0;
    request_script(conn, &script_bullmq_requeue, 21);
    request_text(conn, ask->marker, home->failures, home->meta);
    bull_job_key(conn, to, "", job.id, "");
    bull_job_key(conn, to, "", job.id, ":lock");
    bull_keys(conn, to, "failed", "wait", "paused", "meta", "active", "delayed", "id", "prioritized", "pc", "marker", "events",
              "waiting-children");
    requeue_append_parent(conn, to, parent);
    request_bytes(conn, event.bytes, REQUEUE_MARK_BYTES);
    request_text(conn, ask->by, ask->again ? "1" : "0");
    request_bytes(conn, job.id.data, job.id.len);
    request_bytes(conn, job.fields[BULLMQ_TIMESTAMP].data, job.fields[BULLMQ_TIMESTAMP].len);
    request_text(conn, hash_job_option(job.fields[BULLMQ_OPTS], "/lifo") ? "1" : "0");
    request_bytes(conn, parent.data, parent.len);
    request_int(conn, (int64_t)record_bytes(ask->record));
    job.fields[BULLMQ_PARENT_KEY].len = job.fields[BULLMQ_PARENT].len = 0; // its parent no longer waits for a job that is gone
    hash_job_append(conn, &bullmq_fields, &job);                           // used if the hash is gone
    record_append(conn, ask->record);
    request_end(conn);
    buffer_free(&room);
}

const requeue_ops_t bullmq_requeue = {.prepare = bullmq_requeue_prepare, .append = bullmq_requeue_append};
