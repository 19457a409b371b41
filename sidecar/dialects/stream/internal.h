// Settings of dialect stream, and the interfaces between its files.
#pragma once

#include "dialects/dialect.h"

typedef struct stream_config {
    char *stream;                // key of the stream
    char *group;                 // the only consumer group of the stream
    char *field;                 // field that promoted and requeued jobs get, and whose value is the job
    int64_t consumer_timeout_ms; // with heartbeat = "consumer": a consumer that reads as often as this is alive
} stream_config_t;

static inline stream_config_t *stream_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t stream_settings;

// Whether the server's idle time of a consumer is the heartbeat of its worker.
static inline bool stream_beats_by_consumer(const queue_config_t *queue) {
    return strcmp(queue->policy.heartbeat, HEARTBEAT_OF_CONSUMER) == 0;
}

// ---- entry.c

// Names and values of an entry, in turns.
typedef struct stream_fields {
    buffer_t bytes; // all texts, one behind the other; owned
    size_t *ends;   // where each text ends; owned
    size_t count;
} stream_fields_t;

slice_t stream_field(const stream_fields_t *fields, size_t index); // borrowed
void stream_fields_free(stream_fields_t *fields);

// Whether the value can be the payload as it is, because nothing takes it for a list of fields.
bool stream_is_plain(slice_t value);
// These three append the payload of an entry of other fields than one `field`.
void stream_payload_begin(buffer_t *out);
void stream_payload_add(buffer_t *out, size_t index, slice_t text); // index: of the text among names and values
void stream_payload_end(buffer_t *out);
// Appends the payload of an entry that was deleted while it was pending.
void stream_payload_deleted(buffer_t *out, const char *id);

// Reads a payload. False: it begins as a list of fields but is none. *out comes empty; free it in any case.
bool stream_read_payload(slice_t payload, const char *field, stream_fields_t *out);
void stream_read_job(const queue_config_t *queue, slice_t bytes, job_t *out); // scan_ops.read

// ---- pending.c

extern const scan_ops_t stream_scan;
extern const scan_ops_t stream_pending; // all pending entries, for people
extern const scan_ops_t stream_unread;  // entries that no consumer has read, for people

// ---- settle.c and requeue.c

void stream_settle_append(const call_t *call, const settle_ask_t *const *asks, size_t count); // scan_ops.settle_append
extern const requeue_ops_t stream_requeue;

// ---- survey.c

outcome_t stream_survey(const call_t *call, survey_report_fn *report, void *self);
