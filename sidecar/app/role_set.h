// The roles of one configuration: those of its shards, and a watcher that knows where the shards are. A reload builds a second
// set, which takes over. In a Cluster the set follows the slots: the roles of a shard are replaced when its queues change.
#pragma once

#include "config/config.h"
#include "model/metrics.h"
#include "role/role.h"

typedef struct role_set role_set_t;

// Takes `config`, even when it returns NULL with errno set. Borrows `metrics`, which must outlive the set, and `told_fd`, an
// eventfd that is raised when a role has ended or slots have moved. Returns owned; starts nothing.
role_set_t *role_set_new(config_t *config, metrics_t *metrics, int told_fd);
void role_set_free(role_set_t *set); // NULL is fine; no role may be running

config_t *role_set_config(const role_set_t *set);
bool role_set_auditor_is_behind(const role_set_t *set); // the audit log may lack records
// Fills `roles` with all roles of the set, which are at most `most`, and returns their number.
size_t role_set_roles(const role_set_t *set, const role_t **roles, size_t most);

// Starts the roles. False: no thread is available (logged).
bool role_set_start(role_set_t *set);

// Replaces the roles of shards whose queues have changed. Call it after told_fd was raised. *changed: role_set_roles has changed;
// then call role_set_free_ended once nobody uses the former roles. False: no thread is available (logged).
bool role_set_follow_slots(role_set_t *set, bool *changed);
void role_set_free_ended(role_set_t *set);

// Reads the password file again. If its content has changed, the roles authenticate again on their open connections. Returns
// when to call it next.
mono_t role_set_check_password(role_set_t *set);

// Asks all roles to stop, and the leaders to keep their locks for the next set.
void role_set_stop_for_reload(role_set_t *set);
// Starts roles of `next` whose predecessors have ended. True: all have, so `old` can be freed. *failed: a start failed.
bool role_set_take_over(role_set_t *next, role_set_t *old, bool *failed);

// Stops all roles and releases the locks. False: a role did not stop in time, so free nothing.
bool role_set_end(role_set_t *set);
// After that, before the process ends. NULL is fine.
void role_set_abandon(role_set_t *set);
