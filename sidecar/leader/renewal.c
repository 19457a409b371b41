// Renews the locks that this instance leads, all of a node by one write.

#include "leader/internal.h"

static int64_t renewal_period_ns(const leader_t *leader) { return leader->ttl_ms * NS_PER_MS / RENEWALS_PER_TTL; }

// Whether the lock is to be renewed within `ns` from now on.
static bool renewal_is_due_within(const leader_t *leader, size_t lock, mono_t now, int64_t ns) {
    const election_t *election = &leader->elections[lock];
    return election->state == ELECTION_LEADING && mono_diff(election->next, now) <= ns;
}

bool renewal_is_due(const leader_t *leader) {
    mono_t now = mono_now();
    for (size_t i = 0; i < leader->keys->lock_count; i++)
        if (renewal_is_due_within(leader, i, now, 0)) return true;
    return false;
}

// Locks that were acquired at different times join here: they are renewed together from then on.
static bool renewal_joins(const leader_t *leader, size_t lock, mono_t sent) {
    return renewal_is_due_within(leader, lock, sent, renewal_period_ns(leader) - 1);
}

static mono_t renewals_send(leader_t *leader) {
    redis_error_t unused;
    mono_t sent = mono_now();
    for (size_t i = 0; i < leader->keys->lock_count; i++) {
        const lock_call_t call = leader_lock_call(leader, i, &unused);
        if (renewal_joins(leader, i, sent)) lock_send_renewal(&call);
    }
    return sent;
}

static void renewal_apply(leader_t *leader, size_t lock, mono_t sent, const redis_error_t *error) {
    assert(leader->elections[lock].state == ELECTION_LEADING); // the reply is to the lock that was renewed
    if (error->outcome == OUTCOME_FENCED) {
        leader->elections[lock].next = sent;
        leader_change_state(leader, lock, ELECTION_STANDBY, error->text);
    } else {
        backoff_reset(&leader->backoff);
        leader_set_gauge(&leader->metrics->writes_refused, &leader->gauges.writes_refused, 0);
        leader_set_deadline(leader, lock, sent);
        lease_extend(leader->leases, lock, leader->elections[lock].deadline);
    }
}

// Sets *failure to the first error that concerns all locks.
static outcome_t renewals_read(leader_t *leader, mono_t sent, redis_error_t *failure) {
    *failure = (redis_error_t){0};
    for (size_t i = 0; i < leader->keys->lock_count; i++) {
        redis_error_t error;
        if (!renewal_joins(leader, i, sent)) continue;
        const lock_call_t call = leader_lock_call(leader, i, &error);
        outcome_t outcome = lock_read_renewal(&call);
        if (outcome == OUTCOME_OK || outcome == OUTCOME_FENCED)
            renewal_apply(leader, i, sent, &error);
        else if (outcome == OUTCOME_REFUSED)
            leader_lock_failed(leader, i, &error);
        else if (failure->outcome == OUTCOME_OK)
            *failure = error;
        if (outcome == OUTCOME_DISCONNECTED) break;
    }
    return failure->outcome;
}

static void renewals_claim_queues(leader_t *leader, mono_t now) {
    for (size_t i = 0; i < leader->keys->lock_count && conn_is_open(leader->conn); i++) {
        const election_t *election = &leader->elections[i];
        bool leads_others = election->state == ELECTION_LEADING && election->other_owner_count;
        if (leads_others && mono_reached(election->claim_at, now)) leader_claim_queues(leader, i, now);
    }
}

void leader_renew(leader_t *leader) {
    redis_error_t failure;
    mono_t sent = renewals_send(leader);
    if (renewals_read(leader, sent, &failure) != OUTCOME_OK)
        leader_back_off(leader, &failure);
    else
        renewals_claim_queues(leader, sent);
}
