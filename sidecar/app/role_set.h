// A crew: the roles that serve one configuration, with all that they share. A new configuration gets a new crew, which takes the
// places of the old one role by role, so that no role ever sees a value change under its hands.
#ifndef QS_APP_ROLE_SET_H
#define QS_APP_ROLE_SET_H

#include <stdbool.h>

#include "config/config.h"
#include "model/metrics.h"
#include "role/role.h"

enum { ROLE_SET_ROLES = 4 };

typedef struct role_set role_set_t;

// Takes `config`, even when it returns NULL (errno is then set). `metrics` is borrowed and outlives the crew. Returns owned;
// nothing runs yet.
role_set_t *role_set_new(config_t *config, metrics_t *metrics);
void role_set_free(role_set_t *set); // takes; NULL is fine. None of its roles may run

const config_t *role_set_config(const role_set_t *set);

// The roles, in the order of their start. The leader comes first and so is stopped last: it gives the lock back when nobody uses
// it any more.
role_t *role_set_role(role_set_t *set, int number);

// Starts one role. False: no thread is to be had, which the log says.
bool role_set_start_role(role_set_t *set, int number);

// Asks all roles to end, and the leader to keep the locks for the next crew.
void role_set_stop_for_reload(role_set_t *set);

// Puts role `number` of `next` in the place of the same role of `old`, if that has ended. False: it has not. *failed: the role of
// the next crew cannot be started.
bool role_set_hand_over(role_set_t *old, role_set_t *next, int number, bool *failed);

// Ends all roles that run, giving the locks back. False: one has not ended in time, so nothing may be freed.
bool role_set_end(role_set_t *set);

#endif
