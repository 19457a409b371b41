// Requeue, as Sidekiq's Web UI retries a dead job (lib/sidekiq/api.rb, SortedEntry#retry).
#include "dialects/sidekiq/internal.h"
#include "dialects/sidekiq/scripts.h"
#include "queue/record.h"
#include "queue/scripts.h"

static bool sidekiq_requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out,
                                    buffer_t *bytes, buffer_t *why) {
    const sidekiq_config_t *own = sidekiq_config(queue);
    sidekiq_job_t job;
    size_t list;
    if (!sidekiq_job_read(row->payload, &job)) {
        buffer_str(why, "its payload in the audit log is not a job of Sidekiq");
    } else if (!sidekiq_job_list(own, &job, &list)) {
        buffer_printf(why, "its queue `%.*s` is not in `queues` of the config: add it there, if processes serve it",
                      (int)job.queue.len, job.queue.len ? job.queue.data : "");
    } else {
        sidekiq_job_push(row->payload, &job, now_ms, true, bytes);
        out->ready = own->lists.items[list];
        out->mark = own->queues.items[list];
        out->mark_id = row->payload; // of `dead`
        out->job = (slice_t){bytes->data, bytes->len};
    }
    return why->len == 0;
}

static void sidekiq_requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask) {
    const queue_keys_t *home = &keys->queues[ask->queue];
    const sidekiq_config_t *own = sidekiq_config(keys->queues[ask->to].config);
    digest_t event = {.bytes = {0}};
    digest_parse(ask->record->answers, &event);
    request_script(conn, &script_sidekiq_requeue, 6);
    request_text(conn, ask->marker, home->failures, home->meta, ask->where->ready, own->names, own->dead);
    request_bytes(conn, event.bytes, REQUEUE_MARK_BYTES);
    request_text(conn, ask->by, ask->again ? "1" : "0");
    request_bytes(conn, ask->where->job.data, ask->where->job.len);
    request_text(conn, ask->where->mark);
    request_bytes(conn, ask->where->mark_id.data, ask->where->mark_id.len);
    request_int(conn, (int64_t)record_bytes(ask->record));
    record_append(conn, ask->record);
    request_end(conn);
}

const requeue_ops_t sidekiq_requeue = {.prepare = sidekiq_requeue_prepare, .append = sidekiq_requeue_append};
