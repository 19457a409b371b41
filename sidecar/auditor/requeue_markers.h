// Inside of the auditor: forgets, where it leads, the marks of failures that were put back or discarded longer ago than
// audit.retain: the rows that they answer are gone from the logs by then.
#ifndef QS_AUDITOR_REQUEUE_MARKERS_H
#define QS_AUDITOR_REQUEUE_MARKERS_H

#include "base/clock.h"
#include "dialects/requeue.h"
#include "role/lease.h"

// One queue after the other, some marks in each step.
typedef struct marks {
    size_t queue;
    uint64_t cursor;
    mono_t at; // the next step is not before this
} marks_t;

// One step, if it is time. `redis_ms` is Redis's time. OUTCOME_FAULT is about one queue, which is passed over.
outcome_t marks_step(marks_t *marks, conn_t *conn, const keyspace_t *keys, leases_t *leases, int64_t redis_ms, fault_t *fault);

#endif
