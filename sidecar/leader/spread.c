// Shares the locks out among the instances.

#include "base/log.h"
#include "leader/internal.h"

static const char ROLE[] = "leader";

enum {
    CEDE_TTLS_MAX = 1024,
    CEDE_DIVISOR = 8, // an instance that hears of the vacancy takes the lock within some ms
};

bool spread_has_enough(const leader_t *leader) {
    const lock_spread_t *spread = leader->spread;
    return spread && atomic_load(&spread->leading) >= atomic_load(&spread->part);
}

// Of several leaders of a process one looks per TTL.
static bool spread_take_turn(leader_t *leader) {
    int64_t now = mono_now().ns, next = atomic_load(&leader->spread->next_ns);
    if (now < next) return false;
    return atomic_compare_exchange_strong(&leader->spread->next_ns, &next, now + leader->ttl_ms * NS_PER_MS);
}

// The next lock in turn that this leader may give away; the number of locks = none.
static size_t spread_choose(leader_t *leader, mono_t now) {
    size_t count = leader->keys->lock_count;
    for (size_t n = 0; n < count; n++) {
        size_t lock = leader->spread_from++ % count;
        const election_t *election = &leader->elections[lock];
        if (election->state == ELECTION_LEADING && mono_reached(election->cede_at, now)) return lock;
    }
    return count;
}

// Instances with different queues count different numbers of instances, and could pass a lock to and fro for ever. So a lock that
// comes back stays twice as long as before.
static void spread_lengthen_stay(const leader_t *leader, election_t *election, mono_t now) {
    int64_t ttl_ns = leader->ttl_ms * NS_PER_MS;
    int64_t calm_ttls = election->cede_ttls + 4 * (int64_t)leader->spread->locks; // each lock had several turns
    bool calm = mono_diff(now, election->cede_at) > calm_ttls * ttl_ns;
    election->cede_ttls = calm || !election->cede_ttls ? 4 : 2 * election->cede_ttls;
    if (election->cede_ttls > CEDE_TTLS_MAX) election->cede_ttls = CEDE_TTLS_MAX;
    election->cede_at = mono_add(now, election->cede_ttls * ttl_ns);
}

static void spread_give_away(leader_t *leader, size_t lock) {
    election_t *election = &leader->elections[lock];
    redis_error_t error;
    int64_t told = -1;
    mono_t now = mono_now();
    const lock_call_t call = leader_lock_call(leader, lock, &error);
    lease_end(leader->leases, lock);
    spread_lengthen_stay(leader, election, now);
    log_info(ROLE, NULL, "giving a lock to another instance", F_STR("lock", leader_lock_name(leader, lock)),
             F_INT("leading", atomic_load(&leader->spread->leading)), F_INT("part", atomic_load(&leader->spread->part)));
    lock_release(&call, &told); // after a failure the lock expires by itself
    // If nobody takes the lock, the others have died since Redis heard them last. Without a message they try once a TTL.
    int64_t pause_ms = told < 0 ? leader->ttl_ms : leader->ttl_ms / CEDE_DIVISOR;
    election->ceded_until = election->next = mono_add(now, pause_ms * NS_PER_MS);
    leader_change_state(leader, lock, ELECTION_STANDBY, NULL);
}

void spread_step(leader_t *leader) {
    redis_error_t error;
    int64_t standbys = 0;
    mono_t now = mono_now();
    if (!leader->spread || !conn_is_open(leader->conn) || now.ns < atomic_load(&leader->spread->next_ns)) return;
    size_t lock = spread_choose(leader, now);
    if (lock == leader->keys->lock_count || !spread_take_turn(leader)) return;
    const lock_call_t call = leader_lock_call(leader, lock, &error);
    if (lock_count_standbys(&call, &standbys) != OUTCOME_OK) return; // a later step counts
    size_t instances = (size_t)standbys + 1;
    atomic_store(&leader->spread->part, (leader->spread->locks + instances - 1) / instances);
    if (atomic_load(&leader->spread->leading) > atomic_load(&leader->spread->part)) spread_give_away(leader, lock);
}
