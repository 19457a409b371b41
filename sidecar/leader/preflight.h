// The leader's preflight: its results go to the log and the metrics, and disable queues that must not be served.
#pragma once

#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/conn.h"
#include "role/lease.h"

typedef struct preflight_results preflight_results_t; // of the latest checks

preflight_results_t *preflight_results_new(const keyspace_t *keys, leases_t *leases,
                                           metrics_t *metrics); // owned; all is borrowed
void preflight_results_free(preflight_results_t *preflight);    // NULL is fine

// Runs the whole preflight and returns its outcome. The results change only with OUTCOME_OK.
outcome_t preflight_results_check(preflight_results_t *preflight, conn_t *conn, redis_error_t *error);
// Whether the last whole preflight allows to lead.
bool preflight_results_allow(const preflight_results_t *preflight);
// Whether the last preflight forbids to lead and a new preflight is due.
bool preflight_results_check_due(const preflight_results_t *preflight, mono_t now);

// When to recheck queues that are disabled, have wrong keys, or had a command refused lately; mono_never() while all is well.
mono_t preflight_results_recheck_at(const preflight_results_t *preflight);
// Rechecks these queues and enables the repaired ones. Returns outcomes like preflight_results_check.
outcome_t preflight_results_recheck(preflight_results_t *preflight, conn_t *conn, redis_error_t *error);
