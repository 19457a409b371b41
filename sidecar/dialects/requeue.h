// An operator requeues a failed job or discards it, at most once for each failure. The requeue marker in
// sidecar:<queue>:requeued names the operator.
#pragma once

#include "dialects/dialect.h"
#include "model/event.h"
#include "queue/keys.h"
#include "redis/conn.h"

enum { MAX_REQUEUE_BY = 128 };

typedef enum requeued {
    REQUEUE_DONE,
    REQUEUE_KNOWN,   // requeued, discarded or erased before: see state, at_ms and by
    REQUEUE_ERASED,  // nothing was done: its payload was erased; see at_ms and by
    REQUEUE_WAITING, // nothing was done: the job is in the queue; see `why`
    REQUEUE_UNFIT,   // nothing was done: the queue cannot take the job yet; see `why`
} requeued_t;

typedef struct requeue_reply {
    requeued_t kind;
    char state[16]; // requeued, discarded or erased
    int64_t at_ms;  // by Redis's clock
    char by[MAX_REQUEUE_BY + 1];
    char why[256];
} requeue_reply_t;

// Milliseconds since 1970 by Redis's clock.
outcome_t requeue_now(conn_t *conn, int64_t *now_ms, redis_error_t *error);

// Lets the dialect of `queue`, which gets the job, fill *out for this row of the audit log. *out borrows from the row, the queue
// and `bytes`. `bytes` and `why` come empty. False, with *why: the row cannot be requeued.
bool requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out, buffer_t *bytes,
                     buffer_t *why);

// Appends one request, to be sent with others. The event must have an id.
void requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask);
// Reads the reply of one request, also of erase_append. After OUTCOME_REFUSED or OUTCOME_RETRY the queue is unchanged.
// OUTCOME_REFUSED holds for every request of this queue.
outcome_t requeue_read(conn_t *conn, requeue_reply_t *reply, redis_error_t *error);

// Removes requeue markers older than `before_ms` (Redis's clock); fenced. Each call reads a part of the hash. *cursor is 0 at the
// beginning and at the end.
outcome_t requeue_prune(const call_t *call, int64_t before_ms, uint64_t *cursor);
