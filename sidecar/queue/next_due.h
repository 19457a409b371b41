// The next due score of many queues in one request.
#ifndef QS_QUEUE_NEXT_DUE_H
#define QS_QUEUE_NEXT_DUE_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/keys.h"
#include "redis/conn.h"

typedef struct next_due {
    bool exists;     // false: nothing is delayed, or `error` says why nobody knows
    double score;    // as stored; may be infinite
    int64_t bytes;   // of the entry, which Redis had to read
    char error[128]; // "" = none; what Redis said of this key
} next_due_t;

// One queue to look at, and how many entries at its head to look past.
typedef struct next_due_request {
    size_t queue;
    int64_t skip;
} next_due_request_t;

// Appends the request. With `arm` the keys are also registered for wake-ups (CLIENT CACHING YES, queue/wake.h); then
// next_due_read consumes that reply too.
void next_due_append(conn_t *conn, const keyspace_t *keys, const next_due_request_t *asks, size_t count, bool arm);

// heads: room for `count`. *now_us is Redis's time at the look. Unless the connection is lost, all replies are consumed whatever
// they say.
outcome_t next_due_read(conn_t *conn, size_t count, bool armed, next_due_t *heads, int64_t *now_us, redis_error_t *error);

#endif
