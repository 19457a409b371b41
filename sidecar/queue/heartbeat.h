// Heartbeat keys: whether they are there, and whom they name.
#ifndef QS_QUEUE_HEARTBEAT_H
#define QS_QUEUE_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/conn.h"

enum { WORKER_NAME_MAX = 256 }; // bytes of a name that are read

typedef struct heartbeat_check {
    const char *key;    // borrowed; NULL = skip
    bool blank_is_dead; // a text of nothing but white space and control bytes counts as not there
    bool there;         // whatever it holds; what cannot be known counts as there
    bool answered;      // nobody need ask whether the key exists
    char worker[WORKER_NAME_MAX];
    size_t worker_len; // 0 = it names nobody: no string, or nothing but white space
} heartbeat_check_t;

// Looks at each, in one request, and in a second one at those that say nothing.
outcome_t heartbeats_read(conn_t *conn, heartbeat_check_t *looks, size_t count, redis_error_t *error);

#endif
