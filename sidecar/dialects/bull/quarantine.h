// What promotion has put aside: a part of bull's watch, of one queue in one term. Functions as those of side_task_ops.
#ifndef QS_DIALECTS_BULL_QUARANTINE_H
#define QS_DIALECTS_BULL_QUARANTINE_H

#include "dialects/dialect.h"

typedef struct bull_quarantine bull_quarantine_t;
bull_quarantine_t *bull_quarantine_open(const queue_keys_t *at); // owned
void bull_quarantine_close(bull_quarantine_t *state);            // takes
void bull_quarantine_forget(bull_quarantine_t *state);
outcome_t bull_quarantine_step(bull_quarantine_t *state, side_task_call_t *call, redis_error_t *error);

#endif
