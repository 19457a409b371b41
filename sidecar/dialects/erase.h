// Erases the texts of a failure: its payload, its error, and the errors of earlier retries of its job. Entries of the failure
// stream that have them are replaced. The record of the erasure lets each audit log erase them too.
#pragma once

#include "model/event.h"
#include "queue/stream.h"

// An entry of a failure stream with a payload or an error.
typedef struct stream_text {
    digest_t of;    // event of a failure; digest of queue and job of a retry
    digest_t event; // of the entry
    stream_id_t id;
} stream_text_t;

typedef struct stream_texts {
    stream_text_t *all; // owned; sorted by `of`
    size_t count;
} stream_texts_t;

// Finds these entries in the stream of call->queue, in requests of a few hundred microseconds each. *out is empty before.
outcome_t stream_texts_find(const call_t *call, stream_texts_t *out);
void stream_texts_free(stream_texts_t *texts);

// Every member is borrowed.
typedef struct erase_request {
    size_t queue;                // whose stream gets the record
    const stream_texts_t *texts; // of that stream
    const char *marker;          // key of the requeue markers of the failure's queue
    const char *by;
    bool again;            // even if the failure was erased before
    const event_t *record; // of kind erased, with an id
} erase_request_t;

// Appends one request, to be sent with others. requeue_read reads its reply.
void erase_append(conn_t *conn, const keyspace_t *keys, const erase_request_t *ask);
