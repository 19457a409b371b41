// The next due score of many queues in one request.
#ifndef QS_QUEUE_NEXT_DUE_H
#define QS_QUEUE_NEXT_DUE_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/keys.h"
#include "redis/conn.h"

typedef struct next_due {
    bool exists;     // false: nothing is delayed, or see `error`
    double score;    // as stored; may be infinite
    int64_t bytes;   // of the entry, which Redis had to read
    char error[128]; // of Redis, about this key; "" = none
} next_due_t;

// One queue, and how many entries at its head to skip.
typedef struct next_due_request {
    size_t queue;
    int64_t skip;
} next_due_request_t;

// Appends the request. With `arm` the keys are also registered for wake-ups (redis/tracking.h); then
// next_due_read consumes that reply too.
void next_due_append(conn_t *conn, const keyspace_t *keys, const next_due_request_t *asks, size_t count, bool arm);

// `heads` has room for `count`. *now_us is Redis's time. Consumes all replies, unless the connection is lost.
outcome_t next_due_read(conn_t *conn, size_t count, bool armed, next_due_t *heads, int64_t *now_us, redis_error_t *error);

#endif
