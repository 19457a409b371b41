// A look at the server before leading: is this a Redis that the promises hold on, do the keys fit, does every script run?
#ifndef QS_INSPECT_PREFLIGHT_H
#define QS_INSPECT_PREFLIGHT_H

#include "queue/keys.h"
#include "redis/conn.h"

typedef enum preflight_level {
    PREFLIGHT_FACT,           // worth printing by `check`
    PREFLIGHT_WARNING,        // it works, but a promise is weakened
    PREFLIGHT_QUEUE_REFUSED,  // one queue cannot be served; the others can
    PREFLIGHT_REFUSED,        // must not lead
    PREFLIGHT_QUEUE_DISABLED, // one queue must not be served: its keys are of another layout, or what its dialect needs is
                              // refused
} preflight_level_t;

// `queue` is NULL for the server as a whole. `text` is one line: what is wrong and what to do.
typedef void preflight_report_fn(void *self, preflight_level_t finding, const char *queue, const char *text);

// Runs all looks on an open connection and reports each finding. OUTCOME_OK: every look was made, whatever it found. Scripts are
// tried on scratch keys below "sidecar:", which are removed again.
outcome_t preflight(conn_t *conn, const keyspace_t *keys, preflight_report_fn *report, void *self, redis_error_t *error);

// The part of it that only reads: no script is tried.
outcome_t preflight_read_only(conn_t *conn, const keyspace_t *keys, preflight_report_fn *report, void *self,
                              redis_error_t *error);

// Looks again at some queues, and at nothing else: at the keys of those that are doubted, and at what has barred others. Both are
// by queue. Outcomes and findings as above, but OUTCOME_REFUSED: the look could not be made.
outcome_t preflight_again(conn_t *conn, const keyspace_t *keys, const bool *suspected, const bool *disabled,
                          preflight_report_fn *report, void *self, redis_error_t *error);

#endif
