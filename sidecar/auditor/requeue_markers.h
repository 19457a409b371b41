// Prunes, where this instance leads, the markers that keep a requeue from happening twice. A marker goes once it is older than
// audit.retain: no log holds the row then that an operator could requeue again.
#ifndef QS_AUDITOR_REQUEUE_MARKERS_H
#define QS_AUDITOR_REQUEUE_MARKERS_H

#include "base/clock.h"
#include "dialects/requeue.h"
#include "role/lease.h"

// One queue after the other, some markers in each step.
typedef struct requeue_markers {
    size_t queue;
    uint64_t cursor;
    mono_t at; // when the next step is due
} requeue_markers_t;

// Does one step, if it is due. `redis_ms` is Redis's time. OUTCOME_REFUSED is about one queue, which is skipped.
outcome_t requeue_markers_step(requeue_markers_t *markers, conn_t *conn, const keyspace_t *keys, leases_t *leases,
                               int64_t redis_ms, redis_error_t *error);

#endif
