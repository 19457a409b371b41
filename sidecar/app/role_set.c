#include "app/role_set.h"

#include <poll.h>

#include "app/shard_roles.h"
#include "base/buffer.h"
#include "base/log.h"
#include "base/wakeup.h"
#include "queue/keys.h"
#include "redis/sentinel/locator.h"
#include "redis/socket/socket.h"
#include "redis/topology.h"
#include "role/watcher.h"

// STOP_MS: a stopped role waits for a reply for STOP_GRACE_MS, and the leader follows the others and releases its locks.
enum { ENDED_MAX = 2 * TOPOLOGY_SHARDS_MAX, STOP_MS = 3000, WATCHER_STOP_MS = 1500 };
enum { PASSWORD_CHECK_MS = 1000 };

struct role_set {
    config_t *config;
    metrics_t *metrics;
    topology_t *topology;
    int told_fd;
    unsigned *slots; // slot of each queue's lock; owned
    bool *queues;    // of the shard in question; owned
    role_t watcher_role;
    watcher_t *watcher;                         // NULL = one server, which nobody needs to look for
    shard_roles_t *shards[TOPOLOGY_SHARDS_MAX]; // NULL = the shard has no queues of ours
    shard_roles_t *ended[ENDED_MAX];            // locks of theirs may still be adopted
    size_t ended_count;
    audit_share_t *log; // in a Cluster
    atomic_bool log_stop;
    bool handed_over[SHARD_ROLES]; // without a Cluster: roles that have taken over
    bool inherited;                // without a Cluster: what the former set knew
    bool started;                  // the watcher
};

static shard_roles_t *role_set_new_shard(role_set_t *set, size_t shard, const bool *queues) {
    return shard_roles_new(&(shard_roles_spec_t){.config = set->config,
                                                 .topology = set->topology,
                                                 .shard = shard,
                                                 .queues = queues,
                                                 .metrics = set->metrics,
                                                 .log = set->log,
                                                 .told_fd = set->told_fd});
}

static void role_set_find_slots(role_set_t *set) {
    keyspace_t *keys = keyspace_new(set->config);
    for (size_t i = 0; i < keys->queue_count; i++) set->slots[i] = keyspace_slot(keys->locks[keys->queues[i].lock].key);
    keyspace_free(keys);
}

role_set_t *role_set_new(config_t *config, metrics_t *metrics, int told_fd) {
    role_set_t *set = mem_alloc(sizeof *set);
    *set = (role_set_t){.config = config, .metrics = metrics, .told_fd = told_fd};
    set->topology = topology_new(&config->redis);
    topology_set_metrics(set->topology, metrics);
    locator_attach(set->topology);
    set->slots = mem_array(config->queue_count, sizeof *set->slots);
    set->queues = mem_array(config->queue_count, sizeof *set->queues);
    bool ok = role_init(&set->watcher_role, "watcher", watcher_tick, NULL, NULL);
    set->watcher_role.told_fd = told_fd;
    if (ok && (topology_locator(set->topology) || topology_is_cluster(set->topology))) {
        set->watcher_role.self = set->watcher = watcher_new(set->topology, metrics, &set->watcher_role);
        ok = set->watcher;
    }
    role_set_find_slots(set);
    topology_need_slots(set->topology, set->slots, config->queue_count);
    if (topology_is_cluster(set->topology)) {
        set->log = audit_share_new(config, metrics, &set->log_stop);
        topology_wake_on_slots(set->topology, told_fd);
    } else {
        set->shards[0] = role_set_new_shard(set, 0, NULL);
        ok = set->shards[0] && ok;
    }
    if (ok) return set;
    int why = errno;
    role_set_free(set);
    errno = why;
    return NULL;
}

void role_set_free(role_set_t *set) {
    if (!set) return;
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX; i++) shard_roles_free(set->shards[i]);
    for (size_t i = 0; i < set->ended_count; i++) shard_roles_free(set->ended[i]);
    audit_share_free(set->log);
    watcher_free(set->watcher);
    topology_free(set->topology);
    role_destroy(&set->watcher_role);
    free(set->slots);
    free(set->queues);
    config_free(set->config);
    free(set);
}

bool role_set_auditor_is_behind(const role_set_t *set) {
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX; i++)
        if (set->shards[i] && shard_roles_auditor_is_behind(set->shards[i])) return true;
    return false;
}

mono_t role_set_check_password(role_set_t *set) {
    redis_error_t error;
    const redis_config_t *redis = &set->config->redis;
    if (!*redis->password_file) return mono_never();
    char *password = redis_password(redis, &error); // NULL: the file is being replaced, or the next connect reports it
    if (password && topology_note_password(set->topology, password)) {
        log_info("main", NULL, "password file has changed; authenticating again");
        topology_wake(set->topology);
    }
    if (password) explicit_bzero(password, strlen(password));
    free(password);
    return mono_add(mono_now(), PASSWORD_CHECK_MS * NS_PER_MS);
}

config_t *role_set_config(const role_set_t *set) { return set->config; }

size_t role_set_roles(const role_set_t *set, const role_t **roles, size_t most) {
    size_t count = 0;
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX; i++)
        for (int n = 0; set->shards[i] && n < SHARD_ROLES && count < most; n++)
            roles[count++] = shard_roles_role(set->shards[i], n);
    if (set->started && count < most) roles[count++] = &set->watcher_role;
    return count;
}

static bool role_set_start_watcher(role_set_t *set) {
    if (set->started || !set->watcher) return true;
    set->started = role_start(&set->watcher_role);
    if (!set->started)
        log_error("main", NULL, "cannot start a thread", F_STR("thread", "watcher"), F_STR("reason", strerror(errno)));
    return set->started;
}

bool role_set_start(role_set_t *set) {
    return role_set_start_watcher(set) && (!set->shards[0] || shard_roles_start(set->shards[0]));
}

// ---- Shards of a Cluster.

// Finds the queues of the shard: set->queues. Returns whether there are any.
static bool role_set_find_queues(role_set_t *set, size_t shard) {
    bool any = false;
    for (size_t i = 0; i < set->config->queue_count; i++) {
        set->queues[i] = topology_shard_of(set->topology, set->slots[i]) == shard;
        any = any || set->queues[i];
    }
    return any;
}

static void role_set_stop_changed(role_set_t *set) {
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX; i++) {
        if (!set->shards[i] || shard_roles_stopping(set->shards[i])) continue;
        (void)role_set_find_queues(set, i);
        if (!shard_roles_have(set->shards[i], set->queues)) shard_roles_stop_for_others(set->shards[i]);
    }
}

// Moves the roles of shards that have ended to set->ended. Returns whether others are still stopping.
static bool role_set_collect_ended(role_set_t *set, bool *changed) {
    bool stopping = false;
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX; i++) {
        if (!set->shards[i] || !shard_roles_stopping(set->shards[i])) continue;
        if (shard_roles_ended(set->shards[i]) && set->ended_count < ENDED_MAX) {
            set->ended[set->ended_count++] = set->shards[i];
            set->shards[i] = NULL;
            *changed = true;
        } else {
            stopping = true;
        }
    }
    return stopping;
}

static bool role_set_begin_shard(role_set_t *set, size_t shard) {
    assert(!set->shards[shard]); // two leaders of one process would take the lock from each other
    shard_roles_t *roles = role_set_new_shard(set, shard, set->queues);
    if (!roles) {
        log_error("main", NULL, "cannot serve a shard", F_STR("reason", strerror(errno)));
        return false;
    }
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX; i++)
        if (set->shards[i] && shard_roles_stopping(set->shards[i])) shard_roles_adopt(roles, set->shards[i]);
    for (size_t i = 0; i < set->ended_count; i++) shard_roles_adopt(roles, set->ended[i]);
    set->shards[shard] = roles;
    return shard_roles_start(roles);
}

bool role_set_follow_slots(role_set_t *set, bool *changed) {
    bool ok = true;
    *changed = false;
    if (!topology_is_cluster(set->topology)) return true;
    role_set_stop_changed(set);
    role_set_collect_ended(set, changed);
    for (size_t i = 0; ok && i < topology_shard_count(set->topology); i++) {
        if (set->shards[i] || !role_set_find_queues(set, i)) continue;
        ok = role_set_begin_shard(set, i);
        *changed = true;
    }
    for (size_t i = 0; i < topology_shard_count(set->topology); i++)
        if (!set->shards[i]) shard_set_reach(topology_shard(set->topology, i), SHARD_UNUSED, &set->metrics->redis_up);
    return ok;
}

void role_set_free_ended(role_set_t *set) {
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX; i++)
        if (set->shards[i] && shard_roles_stopping(set->shards[i])) return; // its successor may adopt a lock of those that ended
    for (size_t i = 0; i < set->ended_count; i++) {
        shard_roles_retire(set->ended[i], NULL);
        shard_roles_free(set->ended[i]);
    }
    set->ended_count = 0;
}

// ---- Reload and end.

void role_set_stop_for_reload(role_set_t *set) {
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX; i++)
        if (set->shards[i] && !shard_roles_stopping(set->shards[i])) shard_roles_stop_for_others(set->shards[i]);
    role_stop(&set->watcher_role);
}

static bool role_set_take_over_roles(role_set_t *next, role_set_t *old, bool *failed) {
    bool done = true;
    if (!next->inherited) topology_inherit(next->topology, old->topology);
    next->inherited = true;
    for (int i = 0; i < SHARD_ROLES && !*failed; i++) {
        if (!next->handed_over[i]) next->handed_over[i] = shard_roles_hand_over(old->shards[0], next->shards[0], i, failed);
        done = done && next->handed_over[i];
    }
    if (!done || !role_join(&old->watcher_role, 0)) return false;
    *failed = *failed || !role_set_start_watcher(next);
    return true;
}

// All roles of the old set must end first, because they share the log.
static bool role_set_take_over_shards(role_set_t *next, role_set_t *old, bool *failed) {
    bool changed, ended = role_join(&old->watcher_role, 0);
    if (role_set_collect_ended(old, &changed) || !ended) return false;
    atomic_store(&old->log_stop, true);
    audit_share_finish(old->log);
    topology_inherit(next->topology, old->topology);
    assert(next->ended_count == 0);
    for (size_t i = 0; i < old->ended_count; i++) next->ended[next->ended_count++] = old->ended[i];
    *failed = !role_set_follow_slots(next, &changed) || !role_set_start_watcher(next);
    next->ended_count = 0;
    keyspace_t *keys = keyspace_new(next->config);
    for (size_t i = 0; i < old->ended_count; i++) shard_roles_retire(old->ended[i], keys);
    keyspace_free(keys);
    return true;
}

static bool role_set_end_shards(role_set_t *set) {
    bool ended = true;
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX; i++)
        if (set->shards[i]) ended = shard_roles_end(set->shards[i]) && ended;
    return ended;
}

// A node that does not answer must not delay the release of other shards' locks.
static bool role_set_await_end(role_set_t *set) {
    struct pollfd told = {.fd = set->told_fd, .events = POLLIN};
    mono_t deadline = mono_add(mono_now(), STOP_MS * NS_PER_MS);
    while (!role_set_end_shards(set)) {
        int64_t left_ms = mono_diff(deadline, mono_now()) / NS_PER_MS;
        if (left_ms <= 0) return false;
        if (poll(&told, 1, (int)left_ms) > 0) wakeup_clear(set->told_fd);
    }
    return true;
}

bool role_set_end(role_set_t *set) {
    atomic_store(&set->log_stop, true);
    role_stop(&set->watcher_role);
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX; i++)
        for (int n = SHARD_ROLES - 1; set->shards[i] && n > LEADER; n--) role_stop(shard_roles_role(set->shards[i], n));
    bool ended = role_set_await_end(set);
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX && !ended; i++)
        if (set->shards[i]) shard_roles_log_running(set->shards[i]);
    ended = role_join(&set->watcher_role, WATCHER_STOP_MS) && ended;
    for (size_t i = 0; i < TOPOLOGY_SHARDS_MAX && ended && set->config->audit.ephemeral; i++)
        if (set->shards[i]) shard_roles_withdraw(set->shards[i]);
    if (ended && set->log) audit_share_finish(set->log);
    return ended;
}

void role_set_abandon(role_set_t *set) {
    for (size_t i = 0; set && i < TOPOLOGY_SHARDS_MAX; i++)
        if (set->shards[i]) shard_roles_abandon(set->shards[i]);
    if (set) role_abandon(&set->watcher_role);
}

// Redis was away at the start and turned out to be a Cluster.
static bool role_set_replace(role_set_t *next, role_set_t *old, bool *failed) {
    bool changed;
    if (!role_set_end(old)) return false;
    *failed = !role_set_start(next) || !role_set_follow_slots(next, &changed);
    return true;
}

bool role_set_take_over(role_set_t *next, role_set_t *old, bool *failed) {
    if (!next->log != !old->log) return role_set_replace(next, old, failed);
    return next->log ? role_set_take_over_shards(next, old, failed) : role_set_take_over_roles(next, old, failed);
}
