// Shares the locks out among the instances.

#include "base/log.h"
#include "leader/internal.h"

static const char ROLE[] = "leader";

bool spread_has_enough(const leader_t *leader) {
    const lock_spread_t *spread = leader->spread;
    return spread && atomic_load(&spread->leading) >= atomic_load(&spread->part);
}

// Of several leaders of a process one looks per TTL.
static bool spread_is_due(leader_t *leader) {
    int64_t now = mono_now().ns, next = atomic_load(&leader->spread->next_ns);
    if (now < next) return false;
    return atomic_compare_exchange_strong(&leader->spread->next_ns, &next, now + leader->ttl_ms * NS_PER_MS);
}

// The next lock in turn that this leader leads; the number of locks = none.
static size_t spread_choose(leader_t *leader) {
    size_t count = leader->keys->lock_count;
    for (size_t n = 0; n < count; n++) {
        size_t lock = leader->spread_from++ % count;
        if (leader->elections[lock].state == ELECTION_LEADING) return lock;
    }
    return count;
}

static void spread_give_away(leader_t *leader, size_t lock) {
    election_t *election = &leader->elections[lock];
    redis_error_t error;
    const lock_call_t call = leader_lock_call(leader, lock, &error);
    lease_end(leader->leases, lock);
    election->ceded_until = election->next = mono_add(mono_now(), leader->ttl_ms * NS_PER_MS);
    log_info(ROLE, NULL, "giving a lock to another instance", F_STR("lock", leader_lock_name(leader, lock)),
             F_INT("leading", atomic_load(&leader->spread->leading)), F_INT("part", atomic_load(&leader->spread->part)));
    lock_release(&call); // after a failure the lock expires by itself
    leader_change_state(leader, lock, ELECTION_STANDBY, NULL);
}

void spread_step(leader_t *leader) {
    redis_error_t error;
    int64_t standbys = 0;
    if (!leader->spread || !conn_is_open(leader->conn) || !spread_is_due(leader)) return;
    size_t lock = spread_choose(leader);
    if (lock == leader->keys->lock_count) return;
    const lock_call_t call = leader_lock_call(leader, lock, &error);
    if (lock_count_standbys(&call, &standbys) != OUTCOME_OK) return; // a later step counts
    size_t instances = (size_t)standbys + 1;
    atomic_store(&leader->spread->part, (leader->spread->locks + instances - 1) / instances);
    if (atomic_load(&leader->spread->leading) > atomic_load(&leader->spread->part)) spread_give_away(leader, lock);
}
