// The roles of one configuration with all that they share. A reload builds a second set, which takes over role by role. So the
// settings of a running role never change.
#pragma once

#include "config/config.h"
#include "model/metrics.h"
#include "role/role.h"

enum { ROLE_SET_ROLES = 4 };

typedef struct role_set role_set_t;

// Takes `config`, even when it returns NULL with errno set. Borrows `metrics`, which must outlive the set. Returns owned; starts
// nothing.
role_set_t *role_set_new(config_t *config, metrics_t *metrics);
void role_set_free(role_set_t *set); // NULL is fine; no role may be running

const config_t *role_set_config(const role_set_t *set);
bool role_set_auditor_is_behind(const role_set_t *set); // the audit log may lack records

// The roles in start order. They stop in reverse, so the leader releases the lock after the other roles have ended.
role_t *role_set_role(role_set_t *set, int number);

// Starts one role. False: no thread is available (logged).
bool role_set_start_role(role_set_t *set, int number);

// Asks all roles to stop, and the leader to keep its locks for the next set.
void role_set_stop_for_reload(role_set_t *set);

// Starts role `number` of `next`, if the same role of `old` has ended; else returns false. *failed: the start failed.
bool role_set_hand_over(role_set_t *old, role_set_t *next, int number, bool *failed);

// Stops all roles and releases the locks. False: a role did not stop in time, so free nothing.
bool role_set_end(role_set_t *set);
