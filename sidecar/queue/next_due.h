// The next due score of many queues in one request.
#pragma once

#include "queue/keys.h"
#include "redis/conn.h"

typedef struct next_due {
    bool exists;     // false: delayed has no entry behind `skip`, or `error` has the reason
    double score;    // as stored; may be infinite
    int64_t bytes;   // size of the entry
    char error[128]; // Redis's error for this key; "" = none
} next_due_t;

// A queue and the number of its first entries to skip.
typedef struct next_due_request {
    size_t queue;
    int64_t skip;
} next_due_request_t;

// Appends the request. `arm`: Redis also registers the keys for wake-ups (redis/tracking.h); next_due_read needs the same value.
void next_due_append(conn_t *conn, const keyspace_t *keys, const next_due_request_t *asks, size_t count, bool arm);

// `dues` has room for `count` elements. *now_us is Redis's time. Reads all replies, unless the connection is lost.
outcome_t next_due_read(conn_t *conn, size_t count, bool armed, next_due_t *dues, int64_t *now_us, redis_error_t *error);
