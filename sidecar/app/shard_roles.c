#include "app/shard_roles.h"

#include "auditor/auditor.h"
#include "base/buffer.h"
#include "base/log.h"
#include "dispatcher/dispatcher.h"
#include "leader/leader.h"
#include "monitor/monitor.h"
#include "queue/keys.h"
#include "role/lease.h"

struct shard_roles {
    keyspace_t *keys;
    topology_t *topology; // borrowed
    leases_t *leases;
    leader_t *leader;
    dispatcher_t *dispatcher;
    monitor_t *monitor;
    auditor_t *auditor;
    role_t roles[SHARD_ROLES];
    bool handing_over; // the leader keeps its locks for others
};

static void shard_roles_make(shard_roles_t *of, const shard_roles_spec_t *spec) {
    role_t *roles = of->roles;
    shard_t *shard = topology_shard(spec->topology, spec->shard);
    const atomic_bool *stop = &roles[AUDITOR].stop;
    roles[LEADER].self = of->leader = leader_new(of->keys, shard, of->leases, spec->metrics, &roles[LEADER].stop);
    roles[DISPATCHER].self = of->dispatcher = dispatcher_new(of->keys, shard, of->leases, spec->metrics, &roles[DISPATCHER].stop);
    roles[MONITOR].self = of->monitor = monitor_new(of->keys, shard, of->leases, spec->metrics, &roles[MONITOR].stop);
    of->auditor = spec->log ? auditor_new_shared(spec->log, of->keys, shard, of->leases, stop)
                            : auditor_new(of->keys, shard, of->leases, spec->metrics, stop);
    roles[AUDITOR].self = of->auditor;
}

shard_roles_t *shard_roles_new(const shard_roles_spec_t *spec) {
    shard_roles_t *of = mem_alloc(sizeof *of);
    role_t *roles = of->roles;
    bool ok = role_init(&roles[LEADER], "leader", leader_tick, leader_finish, NULL);
    ok = role_init(&roles[DISPATCHER], "dispatcher", dispatcher_tick, NULL, NULL) && ok;
    ok = role_init(&roles[MONITOR], "monitor", monitor_tick, monitor_finish, NULL) && ok;
    ok = role_init(&roles[AUDITOR], "auditor", auditor_tick, auditor_finish, NULL) && ok;
    of->topology = spec->topology;
    of->keys = keyspace_new_part(spec->config, spec->queues);
    of->leases = leases_new(of->keys->lock_count, of->keys->queue_count);
    for (size_t i = 0; i < of->keys->lock_count; i++) {
        const lock_keys_t *lock = &of->keys->locks[i];
        leases_set_queues(of->leases, i, (lease_queues_t){lock->name, lock->queues, lock->queue_count});
    }
    shard_roles_make(of, spec);
    leases_wake_on_change(of->leases, roles[DISPATCHER].wake_fd);
    leases_wake_on_change(of->leases, roles[MONITOR].wake_fd);
    leases_wake_on_suspicion(of->leases, roles[LEADER].wake_fd);
    for (int i = 0; i < SHARD_ROLES; i++) {
        roles[i].told_fd = spec->told_fd;
        topology_wake_on_change(of->topology, roles[i].wake_fd);
    }
    if (ok) return of;
    int why = errno;
    shard_roles_free(of);
    errno = why;
    return NULL;
}

void shard_roles_free(shard_roles_t *of) {
    if (!of) return;
    for (int i = 0; i < SHARD_ROLES; i++) topology_stop_waking(of->topology, of->roles[i].wake_fd);
    monitor_free(of->monitor);
    auditor_free(of->auditor);
    dispatcher_free(of->dispatcher);
    leader_free(of->leader);
    leases_free(of->leases);
    keyspace_free(of->keys);
    for (int i = 0; i < SHARD_ROLES; i++) role_destroy(&of->roles[i]);
    free(of);
}

role_t *shard_roles_role(shard_roles_t *of, int number) { return &of->roles[number]; }

bool shard_roles_auditor_is_behind(const shard_roles_t *of) { return auditor_is_behind(of->auditor); }

bool shard_roles_have(const shard_roles_t *of, const bool *queues) {
    size_t next = 0;
    for (size_t i = 0; i < of->keys->config->queue_count; i++) {
        bool has = next < of->keys->queue_count && of->keys->queues[next].number == i;
        if (has != queues[i]) return false;
        next += has;
    }
    return true;
}

bool shard_roles_start_role(shard_roles_t *of, int number) {
    if (role_start(&of->roles[number])) return true;
    log_error("main", NULL, "cannot start a thread", F_STR("thread", of->roles[number].name), F_STR("reason", strerror(errno)));
    return false;
}

bool shard_roles_start(shard_roles_t *of) {
    for (int i = 0; i < SHARD_ROLES; i++)
        if (!shard_roles_start_role(of, i)) return false;
    return true;
}

void shard_roles_stop_for_others(shard_roles_t *of) {
    of->handing_over = true;
    leader_expect_hand_over(of->leader, true);
    of->roles[MONITOR].finish = NULL; // keep Redis keys for the next monitor; no race: the thread reads `finish` after role_stop
    for (int i = SHARD_ROLES - 1; i >= 0; i--) role_stop(&of->roles[i]);
}

bool shard_roles_stopping(const shard_roles_t *of) { return of->handing_over; }

bool shard_roles_ended(shard_roles_t *of) {
    bool ended = true;
    for (int i = 0; i < SHARD_ROLES; i++) ended = role_join(&of->roles[i], 0) && ended;
    return ended;
}

bool shard_roles_hand_over(shard_roles_t *old, shard_roles_t *next, int number, bool *failed) {
    if (!role_join(&old->roles[number], 0)) return false;
    if (number == LEADER) {
        leader_hand_over(next->leader, old->leader);
        old->handing_over = false; // nothing is left to release
    }
    if (number == AUDITOR) auditor_hand_over(next->auditor, old->auditor);
    *failed = !shard_roles_start_role(next, number);
    return true;
}

// Roles that are replaced before their first term pass on what they have adopted.
static void shard_roles_adopt_lock(shard_roles_t *next, size_t lock, shard_roles_t *old, size_t of_old) {
    lease_t lease;
    const char *adopted = leader_adopted(old->leader, of_old);
    if (lease_get(old->leases, of_old, &lease))
        leader_adopt(next->leader, lock, lease.token);
    else if (lease.term == 0 && *adopted)
        leader_adopt(next->leader, lock, adopted);
}

void shard_roles_adopt(shard_roles_t *next, shard_roles_t *old) {
    for (size_t i = 0; i < next->keys->lock_count; i++)
        for (size_t k = 0; k < old->keys->lock_count; k++)
            if (strcmp(next->keys->locks[i].key, old->keys->locks[k].key) == 0) shard_roles_adopt_lock(next, i, old, k);
}

void shard_roles_retire(shard_roles_t *old, const keyspace_t *next) { leader_retire(old->leader, next); }

// The leader ends last, because the lock fences what dispatcher and monitor write. It does not wait for the auditor: a slow disk
// would keep the lock.
bool shard_roles_end(shard_roles_t *of) {
    role_t *auditor = &of->roles[AUDITOR];
    leader_expect_hand_over(of->leader, false);
    role_stop(auditor);
    for (int i = MONITOR; i >= LEADER; i--) {
        assert(i != LEADER || (!of->roles[DISPATCHER].started && !of->roles[MONITOR].started));
        role_stop(&of->roles[i]);
        if (!role_join(&of->roles[i], 0)) return false;
    }
    if (of->handing_over) leader_finish(of->leader); // the next leader never took over
    of->handing_over = false;
    return role_join(auditor, 0);
}

void shard_roles_withdraw(shard_roles_t *of) { auditor_withdraw(of->auditor); }

void shard_roles_log_running(const shard_roles_t *of) {
    for (int i = 0; i < SHARD_ROLES; i++)
        if (of->roles[i].started) log_warn("main", NULL, "role did not stop in time", F_STR("thread", of->roles[i].name));
}

void shard_roles_abandon(shard_roles_t *of) {
    for (int i = 0; i < SHARD_ROLES; i++) role_abandon(&of->roles[i]);
}
