#include "app/role_set.h"

#include "auditor/auditor.h"
#include "base/buffer.h"
#include "base/log.h"
#include "dispatcher/dispatcher.h"
#include "leader/leader.h"
#include "monitor/monitor.h"
#include "queue/keys.h"
#include "role/lease.h"

// Longer than STOP_GRACE_MS, for which a stopped role still waits for a reply.
enum { STOP_MS = 1500 };
enum { LEADER, DISPATCHER, MONITOR, AUDITOR };

struct role_set {
    config_t *config;
    keyspace_t *keys;
    topology_t *topology;
    leases_t *leases;
    leader_t *leader;
    dispatcher_t *dispatcher;
    monitor_t *monitor;
    auditor_t *auditor;
    role_t roles[ROLE_SET_ROLES];
    bool handing_over; // the leader keeps its locks for the next set
};

role_set_t *role_set_new(config_t *config, metrics_t *metrics) {
    role_set_t *set = mem_alloc(sizeof *set);
    role_t *roles = set->roles;
    set->config = config;
    bool ok = role_init(&roles[LEADER], "leader", leader_tick, leader_finish, NULL);
    ok = role_init(&roles[DISPATCHER], "dispatcher", dispatcher_tick, NULL, NULL) && ok;
    ok = role_init(&roles[MONITOR], "monitor", monitor_tick, monitor_finish, NULL) && ok;
    ok = role_init(&roles[AUDITOR], "auditor", auditor_tick, auditor_finish, NULL) && ok;
    set->keys = keyspace_new(config);
    set->topology = topology_new(&config->redis);
    topology_set_metrics(set->topology, metrics);
    shard_t *shard = topology_shard(set->topology, 0);
    set->leases = leases_new(set->keys->lock_count, set->keys->queue_count);
    for (size_t i = 0; i < set->keys->lock_count; i++) {
        const lock_keys_t *lock = &set->keys->locks[i];
        leases_set_queues(set->leases, i, (lease_queues_t){lock->name, lock->queues, lock->queue_count});
    }
    roles[LEADER].self = set->leader = leader_new(set->keys, shard, set->leases, metrics, &roles[LEADER].stop);
    roles[DISPATCHER].self = set->dispatcher = dispatcher_new(set->keys, shard, set->leases, metrics, &roles[DISPATCHER].stop);
    roles[MONITOR].self = set->monitor = monitor_new(set->keys, shard, set->leases, metrics, &roles[MONITOR].stop);
    roles[AUDITOR].self = set->auditor = auditor_new(set->keys, shard, set->leases, metrics, &roles[AUDITOR].stop);
    leases_wake_on_change(set->leases, roles[DISPATCHER].wake_fd);
    leases_wake_on_change(set->leases, roles[MONITOR].wake_fd);
    leases_wake_on_suspicion(set->leases, roles[LEADER].wake_fd);
    for (int i = 0; i < ROLE_SET_ROLES; i++) topology_wake_on_change(set->topology, roles[i].wake_fd);
    if (ok) return set;
    int why = errno;
    role_set_free(set);
    errno = why;
    return NULL;
}

void role_set_free(role_set_t *set) {
    if (!set) return;
    monitor_free(set->monitor);
    auditor_free(set->auditor);
    dispatcher_free(set->dispatcher);
    leader_free(set->leader);
    leases_free(set->leases);
    keyspace_free(set->keys);
    topology_free(set->topology);
    for (int i = 0; i < ROLE_SET_ROLES; i++) role_destroy(&set->roles[i]);
    config_free(set->config);
    free(set);
}

bool role_set_auditor_is_behind(const role_set_t *set) { return auditor_is_behind(set->auditor); }

const config_t *role_set_config(const role_set_t *set) { return set->config; }

role_t *role_set_role(role_set_t *set, int number) { return &set->roles[number]; }

bool role_set_start_role(role_set_t *set, int number) {
    if (role_start(&set->roles[number])) return true;
    log_error("main", NULL, "cannot start a thread", F_STR("thread", set->roles[number].name), F_STR("reason", strerror(errno)));
    return false;
}

void role_set_stop_for_reload(role_set_t *set) {
    set->handing_over = true;
    leader_expect_hand_over(set->leader, true);
    set->roles[MONITOR].finish = NULL; // keep Redis keys for the next monitor; no race: the thread reads `finish` after role_stop
    for (int i = ROLE_SET_ROLES - 1; i >= 0; i--) role_stop(&set->roles[i]);
}

bool role_set_hand_over(role_set_t *old, role_set_t *next, int number, bool *failed) {
    if (!role_join(&old->roles[number], 0)) return false;
    if (number == LEADER) {
        leader_hand_over(next->leader, old->leader);
        old->handing_over = false; // nothing is left to release
    }
    if (number == AUDITOR) auditor_hand_over(next->auditor, old->auditor);
    *failed = !role_set_start_role(next, number);
    return true;
}

bool role_set_end(role_set_t *set) {
    leader_expect_hand_over(set->leader, false);
    for (int i = ROLE_SET_ROLES - 1; i >= 0; i--) {
        role_stop(&set->roles[i]);
        if (role_join(&set->roles[i], STOP_MS)) continue;
        log_warn("main", NULL, "role did not stop in time", F_STR("thread", set->roles[i].name));
        return false;
    }
    if (set->handing_over) leader_finish(set->leader); // the next leader never took over
    return true;
}
