#include "auditor/requeue_markers.h"

enum {
    ROUND_PAUSE_S = 3600, // time between two rounds over all queues
    STEP_PAUSE_MS = 1000, // time between two steps in one hash; a million markers take half an hour
};

// Finds the next queue that this instance leads. False: no queue is left in this round.
static bool requeue_markers_find_queue(requeue_markers_t *markers, const keyspace_t *keys, leases_t *leases, lease_t *lease) {
    for (; markers->queue < keys->queue_count; markers->queue++) {
        if (lease_get(leases, keys->queues[markers->queue].lock, lease)) return true;
        markers->cursor = 0;
    }
    return false;
}

outcome_t requeue_markers_step(requeue_markers_t *markers, conn_t *conn, const keyspace_t *keys, leases_t *leases,
                               int64_t redis_ms, redis_error_t *error) {
    lease_t lease;
    mono_t now = mono_now();
    *error = (redis_error_t){0};
    if (!mono_reached(markers->at, now)) return OUTCOME_OK;
    if (!requeue_markers_find_queue(markers, keys, leases, &lease)) {
        *markers = (requeue_markers_t){.at = mono_add(now, ROUND_PAUSE_S * NS_PER_S)};
        return OUTCOME_OK;
    }
    const call_t call = {conn, keys, markers->queue, lease.token, error};
    outcome_t outcome = requeue_prune(&call, redis_ms - keys->config->audit.retain_ms, &markers->cursor);
    if (outcome == OUTCOME_RETRY || outcome == OUTCOME_DISCONNECTED) return outcome;
    if (outcome == OUTCOME_FENCED) lease_suspect(leases, keys->queues[markers->queue].lock, lease.term);
    if (outcome != OUTCOME_OK) markers->cursor = 0;
    if (markers->cursor == 0) markers->queue++;
    markers->at = markers->cursor ? mono_add(now, STEP_PAUSE_MS * NS_PER_MS) : now;
    return outcome == OUTCOME_FENCED ? OUTCOME_OK : outcome;
}
