// The context of the checks of a preflight, and how they report.
#pragma once

#include "queue/keys.h"
#include "redis/conn.h"

typedef enum preflight_level {
    PREFLIGHT_FACT,          // worth printing by `check`
    PREFLIGHT_NOTE,          // worth printing by `check` and `status`
    PREFLIGHT_WARNING,       // a promise is weakened
    PREFLIGHT_QUEUE_REFUSED, // one queue cannot be served; the others can
    PREFLIGHT_REFUSED,       // must not lead
    // One queue must not be served: its keys have another layout, or Redis refuses a command that its dialect needs.
    PREFLIGHT_QUEUE_DISABLED,
    PREFLIGHT_QUEUE_MOVING, // the same, until its slot of the Cluster has been moved; `check` and `status` tell of the slot
} preflight_level_t;

// `queue` is NULL for the server as a whole. `text` is one line with the fault and the remedy.
typedef void preflight_report_fn(void *self, preflight_level_t level, const char *queue, const char *text);

// Every member is borrowed. The connection is open.
typedef struct preflight_call {
    conn_t *conn;
    const keyspace_t *keys;
    preflight_report_fn *report; // gets each result
    void *self;
    redis_error_t *error;
} preflight_call_t;

// Reports one result.
void preflight_report(const preflight_call_t *call, preflight_level_t level, const char *queue, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
