// A crew: the roles that serve one configuration, with all that they share. A new configuration gets a new crew, which takes the
// places of the old one role by role, so that no role ever sees a value change under its hands.
#ifndef QS_APP_ROLE_SET_H
#define QS_APP_ROLE_SET_H

#include <stdbool.h>

#include "config/config.h"
#include "model/metrics.h"
#include "role/role.h"

enum { CREW_ROLES = 4 };

typedef struct crew crew_t;

// Takes `config`, even when it returns NULL (errno is then set). `metrics` is borrowed and outlives the crew. Returns owned;
// nothing runs yet.
crew_t *crew_new(config_t *config, metrics_t *metrics);
void crew_free(crew_t *crew); // takes; NULL is fine. None of its roles may run

const config_t *crew_config(const crew_t *crew);

// The roles, in the order of their start. The leader comes first and so is stopped last: it gives the lock back when nobody uses
// it any more.
role_t *crew_role(crew_t *crew, int number);

// Starts one role. False: no thread is to be had, which the log says.
bool crew_start_role(crew_t *crew, int number);

// Asks all roles to end, and the leader to keep the locks for the next crew.
void crew_dismiss(crew_t *crew);

// Puts role `number` of `next` in the place of the same role of `old`, if that has ended. False: it has not. *failed: the role of
// the next crew cannot be started.
bool crew_relieve(crew_t *old, crew_t *next, int number, bool *failed);

// Ends all roles that run, giving the locks back. False: one has not ended in time, so nothing may be freed.
bool crew_end(crew_t *crew);

#endif
