// Renews the locks that this instance leads, all of a node by one write.

#include "leader/internal.h"

// A renewal that Redis refused.
typedef struct refusal {
    size_t lock;
    redis_error_t error;
    address_t ask; // the node that Redis names instead; port 0 = none
} refusal_t;

// The renewals that were sent together.
typedef struct renewals {
    leader_t *leader;
    mono_t sent;
    redis_error_t failure; // the first that concerns all locks
    refusal_t *refusals;   // owned
    size_t refusal_count;
} renewals_t;

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
static bool renewals_have(const renewals_t *renewals, size_t lock) {
    return renewal_is_due_within(renewals->leader, lock, renewals->sent, renewal_period_ns(renewals->leader) - 1);
}

static void renewals_send(renewals_t *renewals) {
    redis_error_t unused;
    renewals->sent = mono_now();
    for (size_t i = 0; i < renewals->leader->keys->lock_count; i++) {
        const lock_call_t call = leader_lock_call(renewals->leader, i, &unused);
        if (renewals_have(renewals, i)) lock_send_renewal(&call);
    }
}

static void renewals_apply(const renewals_t *renewals, size_t lock, const redis_error_t *error) {
    leader_t *leader = renewals->leader;
    assert(leader->elections[lock].state == ELECTION_LEADING); // the reply is to the lock that was renewed
    if (error->outcome == OUTCOME_FENCED) {
        leader->elections[lock].next = renewals->sent;
        leader_change_state(leader, lock, ELECTION_STANDBY, error->text);
    } else {
        backoff_reset(&leader->backoff);
        leader_set_deadline(leader, lock, renewals->sent);
        lease_extend(leader->leases, lock, leader->elections[lock].deadline);
    }
}

static void renewals_add_refusal(renewals_t *renewals, size_t lock, const redis_error_t *error) {
    renewals->refusals = mem_grown(renewals->refusals, renewals->refusal_count, sizeof *renewals->refusals);
    const address_t *ask = error->kind == ERROR_SLOT_IS_MOVING ? conn_ask_target(renewals->leader->conn) : NULL;
    refusal_t *refusal = &renewals->refusals[renewals->refusal_count++];
    *refusal = (refusal_t){.lock = lock, .error = *error};
    if (ask) refusal->ask = *ask;
}

static void renewals_read(renewals_t *renewals) {
    bool lost = false;
    for (size_t i = 0; i < renewals->leader->keys->lock_count && !lost; i++) {
        redis_error_t error;
        if (!renewals_have(renewals, i)) continue;
        const lock_call_t call = leader_lock_call(renewals->leader, i, &error);
        outcome_t outcome = lock_read_renewal(&call);
        if (outcome == OUTCOME_OK || outcome == OUTCOME_FENCED)
            renewals_apply(renewals, i, &error);
        else if (outcome == OUTCOME_REFUSED)
            renewals_add_refusal(renewals, i, &error);
        else if (renewals->failure.outcome == OUTCOME_OK)
            renewals->failure = error;
        lost = outcome == OUTCOME_DISCONNECTED;
    }
}

// ---- The node that a slot is being moved to.

static void renewal_drop_target(leader_t *leader) {
    conn_free(leader->target.conn);
    topology_free(leader->target.topology);
    leader->target = (election_target_t){0};
}

// Connects to the node that an ASK names. Returns NULL if that is not possible now.
static conn_t *renewal_find_target(leader_t *leader, const address_t *to, redis_error_t *error) {
    endpoint_t at = {0};
    election_target_t *target = &leader->target;
    if (target->topology) shard_address(topology_shard(target->topology, 0), &at);
    if (at.port != to->port || strcmp(at.host, to->host) != 0) {
        renewal_drop_target(leader);
        target->topology = topology_new_at(shard_config(leader->shard), to->host, to->port);
        target->conn = conn_like_at(leader->conn, topology_shard(target->topology, 0), "queue-sidecar-leader");
    }
    return conn_open(target->conn, error) == OUTCOME_OK ? target->conn : NULL;
}

// The lock may be at the new node of its slot already. Follows ASK once. False: the new node did not tell.
static bool renewals_follow_ask(const renewals_t *renewals, const refusal_t *refusal) {
    leader_t *leader = renewals->leader;
    redis_error_t error;
    lock_call_t call = leader_lock_call(leader, refusal->lock, &error);
    const address_t to = endpoint_reachable(shard_config(leader->shard), &refusal->ask);
    call.conn = renewal_find_target(leader, &to, &error);
    if (!call.conn) return false;
    outcome_t outcome = lock_renew_asking(&call);
    if (outcome == OUTCOME_OK || outcome == OUTCOME_FENCED) renewals_apply(renewals, refusal->lock, &error);
    return outcome == OUTCOME_OK || outcome == OUTCOME_FENCED;
}

// A node that does not answer must not keep other locks from their next renewal.
static bool renewals_have_time(const renewals_t *renewals) {
    return mono_diff(mono_now(), renewals->sent) < renewal_period_ns(renewals->leader);
}

static void renewals_settle_refusals(renewals_t *renewals) {
    leader_t *leader = renewals->leader;
    bool asked = false;
    for (size_t i = 0; i < renewals->refusal_count; i++) {
        const refusal_t *refusal = &renewals->refusals[i];
        bool asks = refusal->ask.port != 0;
        bool settled = asks && renewals_have_time(renewals) && renewals_follow_ask(renewals, refusal);
        if (!settled) leader_lock_failed(leader, refusal->lock, &refusal->error);
        asked = asked || asks;
    }
    if (!asked) renewal_drop_target(leader);
    free(renewals->refusals);
}

static void renewals_claim_queues(const renewals_t *renewals) {
    leader_t *leader = renewals->leader;
    for (size_t i = 0; i < leader->keys->lock_count && conn_is_open(leader->conn); i++) {
        const election_t *election = &leader->elections[i];
        bool leads_others = election->state == ELECTION_LEADING && election->other_owner_count;
        if (leads_others && mono_reached(election->claim_at, renewals->sent)) leader_claim_queues(leader, i, renewals->sent);
    }
}

void leader_renew(leader_t *leader) {
    renewals_t renewals = {.leader = leader};
    renewals_send(&renewals);
    renewals_read(&renewals);
    renewals_settle_refusals(&renewals);
    if (renewals.failure.outcome != OUTCOME_OK)
        leader_back_off(leader, &renewals.failure);
    else
        renewals_claim_queues(&renewals);
}
