// The preflight as the leader runs it: what it finds goes to the log and the metrics, and bars queues that are of another layout.
#ifndef QS_LEADER_PREFLIGHT_H
#define QS_LEADER_PREFLIGHT_H

#include <stdbool.h>

#include "lease.h"
#include "metrics.h"
#include "queue/conn.h"
#include "queue/keys.h"

// *allowed: nothing found forbids to lead. The outcome and *fault are those of preflight().
outcome_t leader_preflight(conn_t *conn, const keyspace_t *keys, leases_t *leases, metrics_t *metrics, bool *allowed,
                           fault_t *fault);

#endif
