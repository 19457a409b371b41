// The preflight as the leader runs it: what it finds goes to the log and the metrics, and bars queues that must not be served.
#ifndef QS_LEADER_PREFLIGHT_H
#define QS_LEADER_PREFLIGHT_H

#include <stdbool.h>

#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/conn.h"
#include "role/lease.h"

typedef struct findings findings_t; // of the latest looks

findings_t *findings_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics); // owned; all is borrowed
void findings_free(findings_t *findings);                                               // takes; NULL is fine

// The whole preflight. The outcome and *error are those of preflight(). Nothing is known anew unless it is OUTCOME_OK.
outcome_t findings_look(findings_t *findings, conn_t *conn, redis_error_t *error);
// Nothing that the last whole one found forbids to lead.
bool findings_allow(const findings_t *findings);
// Something did, and it is time to see whether it still does.
bool findings_whole_due(const findings_t *findings, mono_t now);

// When to look again at some queues: at what bars queues, at keys that something was wrong with, and at those of queues that
// Redis has refused something lately; mono_never() while all is well.
mono_t findings_again_at(const findings_t *findings, mono_t now);
// That look: what was mended meanwhile is served from then on. Likewise.
outcome_t findings_look_again(findings_t *findings, conn_t *conn, redis_error_t *error);

#endif
