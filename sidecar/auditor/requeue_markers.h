// Prunes the requeue markers of the queues that this instance leads. A marker prevents a second requeue. Once a marker is older
// than audit.retain, no log still holds the row of the failure, so the marker can go.
#pragma once

#include "base/clock.h"
#include "dialects/requeue.h"
#include "role/lease.h"

// One queue after the other, some markers in each step.
typedef struct requeue_markers {
    size_t queue;
    uint64_t cursor;
    mono_t at; // when the next step is due
} requeue_markers_t;

// Makes one step if it is due. `redis_ms` is Redis's time. OUTCOME_REFUSED concerns one queue; that queue is skipped.
outcome_t requeue_markers_step(requeue_markers_t *markers, conn_t *conn, const keyspace_t *keys, leases_t *leases,
                               int64_t redis_ms, redis_error_t *error);
