#include "app/role_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "auditor/auditor.h"
#include "base/buffer.h"
#include "base/log.h"
#include "dispatcher/dispatcher.h"
#include "leader/leader.h"
#include "monitor/monitor.h"
#include "queue/keys.h"
#include "role/lease.h"

// A role has this long to end what is in flight: longer than one reply may be awaited after the stop (CONN_STOP_GRACE_MS).
enum { STOP_MS = 1500 };
enum { LEADER, DISPATCHER, MONITOR, AUDITOR };

struct crew {
    config_t *config;
    keyspace_t *keys;
    leases_t *leases;
    leader_t *leader;
    dispatcher_t *dispatcher;
    monitor_t *monitor;
    auditor_t *auditor;
    role_t roles[CREW_ROLES];
    bool dismissed; // the leader keeps its locks for the next crew
};

crew_t *crew_new(config_t *config, metrics_t *metrics) {
    crew_t *crew = mem_alloc(sizeof *crew);
    role_t *roles = crew->roles;
    crew->config = config;
    bool ok = role_init(&roles[LEADER], "leader", leader_tick, leader_finish, NULL);
    ok = role_init(&roles[DISPATCHER], "dispatcher", dispatcher_tick, NULL, NULL) && ok;
    ok = role_init(&roles[MONITOR], "monitor", monitor_tick, monitor_finish, NULL) && ok;
    ok = role_init(&roles[AUDITOR], "auditor", auditor_tick, auditor_finish, NULL) && ok;
    crew->keys = keyspace_new(config);
    crew->leases = leases_new(crew->keys->lock_count);
    roles[LEADER].self = crew->leader = leader_new(crew->keys, crew->leases, metrics, &roles[LEADER].stop);
    roles[DISPATCHER].self = crew->dispatcher = dispatcher_new(crew->keys, crew->leases, metrics, &roles[DISPATCHER].stop);
    roles[MONITOR].self = crew->monitor = monitor_new(crew->keys, crew->leases, metrics, &roles[MONITOR].stop);
    roles[AUDITOR].self = crew->auditor = auditor_new(crew->keys, crew->leases, metrics, &roles[AUDITOR].stop);
    leases_listen(crew->leases, roles[DISPATCHER].wake_fd);
    leases_listen(crew->leases, roles[MONITOR].wake_fd);
    leases_doubts_to(crew->leases, roles[LEADER].wake_fd);
    if (ok) return crew;
    int why = errno;
    crew_free(crew);
    errno = why;
    return NULL;
}

void crew_free(crew_t *crew) {
    if (!crew) return;
    monitor_free(crew->monitor);
    auditor_free(crew->auditor);
    dispatcher_free(crew->dispatcher);
    leader_free(crew->leader);
    leases_free(crew->leases);
    keyspace_free(crew->keys);
    for (int i = 0; i < CREW_ROLES; i++) role_destroy(&crew->roles[i]);
    config_free(crew->config);
    free(crew);
}

const config_t *crew_config(const crew_t *crew) { return crew->config; }

role_t *crew_role(crew_t *crew, int number) { return &crew->roles[number]; }

bool crew_start_role(crew_t *crew, int number) {
    if (role_start(&crew->roles[number])) return true;
    log_error("main", NULL, "cannot start a thread", F_STR("thread", crew->roles[number].name), F_STR("reason", strerror(errno)));
    return false;
}

void crew_dismiss(crew_t *crew) {
    crew->dismissed = true;
    leader_expect_heir(crew->leader, true);
    crew->roles[MONITOR].finish = NULL; // what it holds for the workers is held on; read only after the stop below
    for (int i = CREW_ROLES - 1; i >= 0; i--) role_stop(&crew->roles[i]);
}

bool crew_relieve(crew_t *old, crew_t *next, int number, bool *failed) {
    if (!role_join(&old->roles[number], 0)) return false;
    if (number == LEADER) {
        leader_inherit(next->leader, old->leader);
        old->dismissed = false; // it has nothing left to give back
    }
    *failed = !crew_start_role(next, number);
    return true;
}

bool crew_end(crew_t *crew) {
    leader_expect_heir(crew->leader, false);
    for (int i = CREW_ROLES - 1; i >= 0; i--) {
        role_stop(&crew->roles[i]);
        if (role_join(&crew->roles[i], STOP_MS)) continue;
        log_warn("main", NULL, "a role did not end in time", F_STR("thread", crew->roles[i].name));
        return false;
    }
    if (crew->dismissed) leader_finish(crew->leader); // no heir has come
    return true;
}
