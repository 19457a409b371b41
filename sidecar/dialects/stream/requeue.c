// An operator requeues a failure: an entry of the same fields, at the end of the stream.
#include "dialects/stream/internal.h"

#include "dialects/stream/scripts.h"
#include "queue/record.h"
#include "queue/scripts.h"
#include "queue/settle.h"

enum { FIELDS_MAX = 7000 }; // names and values that a script can unpack

// The date in the bytes of a job would end it at once, unless a stamp begins a new life; see dialects/requeue.c.
static bool stream_needs_stamp(const queue_policy_t *policy) {
    return (policy->roles & ROLE_MONITOR) && policy->alive_timeout_ms && *policy->created_path;
}

static bool stream_requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out,
                                   buffer_t *bytes, buffer_t *why) {
    stream_fields_t fields = {0};
    (void)now_ms, (void)out, (void)bytes;
    if (!stream_read_payload(row->payload, stream_config(queue)->field, &fields) || fields.count > FIELDS_MAX)
        buffer_str(why, "its payload in the audit log is no entry of a stream");
    stream_fields_free(&fields);
    return why->len == 0;
}

static void stream_requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask) {
    const queue_keys_t *home = &keys->queues[ask->queue], *to = &keys->queues[ask->to];
    const stream_config_t *own = stream_config(to->config);
    stream_fields_t fields = {0};
    digest_t event = {.bytes = {0}};
    stream_read_payload(ask->where->job, own->field, &fields);
    digest_parse(ask->record->answers, &event);
    request_script(conn, &script_stream_requeue, 6);
    request_text(conn, ask->marker, home->failures, home->meta, own->stream, to->stamps, to->meta);
    request_bytes(conn, event.bytes, REQUEUE_MARK_BYTES);
    request_text(conn, ask->by, ask->again ? "1" : "0");
    request_bytes(conn, ask->digest->bytes, stream_needs_stamp(&to->config->policy) ? STAMP_FIELD_BYTES : 0);
    request_text(conn, own->group);
    request_int(conn, (int64_t)record_bytes(ask->record), (int64_t)fields.count);
    for (size_t i = 0; i < fields.count; i++) request_bytes(conn, stream_field(&fields, i).data, stream_field(&fields, i).len);
    record_append(conn, ask->record);
    request_end(conn);
    stream_fields_free(&fields);
}

const requeue_ops_t stream_requeue = {.prepare = stream_requeue_prepare, .append = stream_requeue_append};
