// The stalled check: a part of bull's watch, of one queue in one term. Functions as those of side_task_ops.
#ifndef QS_DIALECTS_BULL_STALLED_H
#define QS_DIALECTS_BULL_STALLED_H

#include "dialects/dialect.h"

typedef struct bull_stalled bull_stalled_t;
bull_stalled_t *bull_stalled_open(const queue_keys_t *at); // owned
void bull_stalled_close(bull_stalled_t *state);            // takes
void bull_stalled_forget(bull_stalled_t *state);
// One step, if one is due. Brings call->next forward as it needs it.
outcome_t bull_stalled_step(bull_stalled_t *state, side_task_call_t *call, redis_error_t *error);
outcome_t bull_stalled_leave(bull_stalled_t *state, side_task_call_t *call, redis_error_t *error);

#endif
