// Checks the server before leading: whether the promises hold on this Redis, whether the keys have the right types, and whether
// the user may run every script.
#pragma once

#include "queue/keys.h"
#include "redis/conn.h"

typedef enum preflight_level {
    PREFLIGHT_FACT,          // worth printing by `check`
    PREFLIGHT_WARNING,       // a promise is weakened
    PREFLIGHT_QUEUE_REFUSED, // one queue cannot be served; the others can
    PREFLIGHT_REFUSED,       // must not lead
    // One queue must not be served: its keys have another layout, or Redis refuses a command that its dialect needs.
    PREFLIGHT_QUEUE_DISABLED,
} preflight_level_t;

// `queue` is NULL for the server as a whole. `text` is one line with the fault and the remedy.
typedef void preflight_report_fn(void *self, preflight_level_t finding, const char *queue, const char *text);

// Runs all checks on an open connection and reports each result. OUTCOME_OK: every check was made, with good or bad results.
// Scripts run on scratch keys that begin with "sidecar:". The scratch keys are deleted at the end.
outcome_t preflight(conn_t *conn, const keyspace_t *keys, preflight_report_fn *report, void *self, redis_error_t *error);

// Runs only the checks that read. Runs no script.
outcome_t preflight_read_only(conn_t *conn, const keyspace_t *keys, preflight_report_fn *report, void *self,
                              redis_error_t *error);

// Checks some queues again: the keys of suspected queues, and the layout and rights of disabled queues. Both arrays are by
// queue. Outcomes and results are those of the full check, except OUTCOME_REFUSED: the check could not be made.
outcome_t preflight_again(conn_t *conn, const keyspace_t *keys, const bool *suspected, const bool *disabled,
                          preflight_report_fn *report, void *self, redis_error_t *error);
