// What operators do about final failures: a job is put back among the ready ones, or discarded, at most once for each failure;
// and the marks in sidecar:<queue>:requeued that hold who did it.
#ifndef QS_DIALECTS_REQUEUE_H
#define QS_DIALECTS_REQUEUE_H

#include "dialects/dialect.h"
#include "model/event.h"
#include "queue/keys.h"
#include "redis/conn.h"

enum { REQUEUE_BY_MOST = 128, REQUEUE_MARK_BYTES = 16 };

typedef struct requeue_request {
    size_t queue; // whose stream takes the record, and whose hash the mark
    size_t to;    // which one takes the job
    bool discards;
    bool again;                  // although it was answered before
    slice_t job;                 // its bytes, as they were recorded
    const requeue_push_t *where; // as requeue_prepare says; NULL: these bytes to the ready list, as a list has it
    const digest_t *digest;      // of them
    const char *by;              // who wants it, 1 to REQUEUE_BY_MOST bytes
    const event_t *record;       // `answers` is the id of the failure, 64 hex digits; `at` is added in Redis
} requeue_request_t;

typedef enum requeued {
    REQUEUE_DONE,
    REQUEUE_UNRECORDED, // it is in the list, but the stream did not take the record: see why
    REQUEUE_KNOWN,      // it was answered before: see state, at_ms and by
    REQUEUE_WAITING,    // nothing was done: it is in the queue already
    REQUEUE_FAILED,     // nothing was done: see why
} requeued_t;

typedef struct requeue_reply {
    requeued_t kind;
    char state[16]; // requeued or discarded
    int64_t at_ms;  // by Redis's clock
    char by[REQUEUE_BY_MOST + 1];
    char why[256];
} requeue_reply_t;

// Milliseconds since 1970 by Redis's clock.
outcome_t requeue_now(conn_t *conn, int64_t *now_ms, redis_error_t *error);

// How the dialect of queue `to` puts this row of the audit log back: what is pushed where. *out borrows from the row, the keys
// and `bytes` (comes empty). False, with *why: it cannot be put back.
bool requeue_prepare(const keyspace_t *keys, size_t to, const event_t *row, int64_t now_ms, requeue_push_t *out, buffer_t *bytes,
                     buffer_t *why);

// Appends one request, to be sent with others. An event without an id is no ask: see event_ref.
void requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask);
// Reads its reply. OUTCOME_REFUSED: nothing was done, and all asks of this queue would end like that. OUTCOME_RETRY: nothing was
// done.
outcome_t requeue_read(conn_t *conn, requeue_reply_t *reply, redis_error_t *error);

// Reads a mark of sidecar:<queue>:requeued, `<state> <ms> <by>`. False: it is not ours.
bool requeue_read_mark(const char *mark, requeue_reply_t *out);

// Goes through the marks of a queue, some in each call (*cursor is 0 at the beginning and again at the end), and removes, fenced,
// those made before `before_ms` by Redis's clock.
outcome_t requeue_prune(const call_t *call, int64_t before_ms, uint64_t *cursor);

#endif
