// Reads heartbeat keys: whether a key exists, and which worker its text names.
#pragma once

#include "redis/conn.h"

enum { WORKER_NAME_MAX = 256 }; // bytes of a name that are read

typedef struct heartbeat_check {
    const char *key;    // borrowed; NULL = skip
    bool blank_is_dead; // a text of white space and control bytes counts as absent
    bool there;         // an unreadable key counts as there
    bool answered;      // the first request decides; EXISTS is not needed
    char worker[WORKER_NAME_MAX];
    size_t worker_len; // 0 = the key names no worker: it is not a string, or holds only white space
} heartbeat_check_t;

// One request reads all names. A second request asks whether the keys without a name exist.
outcome_t heartbeats_read(conn_t *conn, heartbeat_check_t *checks, size_t count, redis_error_t *error);
