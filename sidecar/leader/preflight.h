// The preflight as the leader runs it: what it finds goes to the log and the metrics, and bars queues that must not be served.
#ifndef QS_LEADER_PREFLIGHT_H
#define QS_LEADER_PREFLIGHT_H

#include <stdbool.h>

#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/conn.h"
#include "role/lease.h"

typedef struct preflight_results preflight_results_t; // of the latest looks

preflight_results_t *preflight_results_new(const keyspace_t *keys, leases_t *leases,
                                           metrics_t *metrics); // owned; all is borrowed
void preflight_results_free(preflight_results_t *preflight);    // takes; NULL is fine

// The whole preflight. The outcome and *error are those of preflight(). Nothing is known anew unless it is OUTCOME_OK.
outcome_t preflight_results_check(preflight_results_t *preflight, conn_t *conn, redis_error_t *error);
// Nothing that the last whole one found forbids to lead.
bool preflight_results_allow(const preflight_results_t *preflight);
// Something did, and it is time to see whether it still does.
bool preflight_results_check_due(const preflight_results_t *preflight, mono_t now);

// When to look again at some queues: at what bars queues, at keys that something was wrong with, and at those of queues that
// Redis has refused something lately; mono_never() while all is well.
mono_t preflight_results_recheck_at(const preflight_results_t *preflight, mono_t now);
// That look: what was mended meanwhile is served from then on. Likewise.
outcome_t preflight_results_recheck(preflight_results_t *preflight, conn_t *conn, redis_error_t *error);

#endif
