#include "auditor/requeue_markers.h"

enum {
    ROUND_S = 3600, // from the end of one round over all queues to the next
    STEP_MS = 1000, // between two steps in one hash: a million marks take half an hour
};

// The next queue from here on that we lead; false: there is none in this round.
static bool find_queue(marks_t *marks, const keyspace_t *keys, leases_t *leases, lease_t *lease) {
    for (; marks->queue < keys->queue_count; marks->queue++) {
        if (lease_get(leases, keys->queues[marks->queue].seat, lease)) return true;
        marks->cursor = 0;
    }
    return false;
}

outcome_t marks_step(marks_t *marks, conn_t *conn, const keyspace_t *keys, leases_t *leases, int64_t redis_ms, fault_t *fault) {
    lease_t lease;
    int64_t removed = 0;
    bool fenced = false;
    mono_t now = mono_now();
    *fault = (fault_t){0};
    if (!mono_reached(marks->at, now)) return OUTCOME_OK;
    if (!find_queue(marks, keys, leases, &lease)) {
        *marks = (marks_t){.at = mono_add(now, ROUND_S * NS_PER_S)};
        return OUTCOME_OK;
    }
    outcome_t outcome = requeue_prune(conn, keys, marks->queue, lease.token, redis_ms - keys->config->audit.retain_ms,
                                      &marks->cursor, &removed, &fenced, fault);
    if (outcome == OUTCOME_LATER || outcome == OUTCOME_LOST) return outcome;
    if (fenced) lease_doubt(leases, keys->queues[marks->queue].seat, lease.term);
    if (outcome == OUTCOME_FAULT || fenced) marks->cursor = 0;
    if (marks->cursor == 0) marks->queue++;
    marks->at = marks->cursor ? mono_add(now, STEP_MS * NS_PER_MS) : now;
    return outcome;
}
