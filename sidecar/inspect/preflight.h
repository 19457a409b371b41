// Checks the server before leading: do the promises hold on this Redis, do the key types fit, may the user run every script?
#ifndef QS_INSPECT_PREFLIGHT_H
#define QS_INSPECT_PREFLIGHT_H

#include "queue/keys.h"
#include "redis/conn.h"

typedef enum preflight_level {
    PREFLIGHT_FACT,           // worth printing by `check`
    PREFLIGHT_WARNING,        // a promise is weakened
    PREFLIGHT_QUEUE_REFUSED,  // one queue cannot be served; the others can
    PREFLIGHT_REFUSED,        // must not lead
    PREFLIGHT_QUEUE_DISABLED, // one queue must not be served: its keys are of another layout, or what its dialect needs is
                              // refused
} preflight_level_t;

// `queue` is NULL for the server as a whole. `text` is one line: what is wrong and what to do.
typedef void preflight_report_fn(void *self, preflight_level_t finding, const char *queue, const char *text);

// Runs all checks on an open connection and reports each result. OUTCOME_OK: every check was made, whatever it found. Scripts run
// on scratch keys that begin with "sidecar:" and are deleted again.
outcome_t preflight(conn_t *conn, const keyspace_t *keys, preflight_report_fn *report, void *self, redis_error_t *error);

// Only the checks that read; runs no script.
outcome_t preflight_read_only(conn_t *conn, const keyspace_t *keys, preflight_report_fn *report, void *self,
                              redis_error_t *error);

// Checks only some queues again: the keys of those that are suspected, and the layout and rights of those that are disabled. Both
// arrays are by queue. Outcomes and results as above, but OUTCOME_REFUSED: the check could not be made.
outcome_t preflight_again(conn_t *conn, const keyspace_t *keys, const bool *suspected, const bool *disabled,
                          preflight_report_fn *report, void *self, redis_error_t *error);

#endif
