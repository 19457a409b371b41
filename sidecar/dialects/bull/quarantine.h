// What promotion has put aside: a part of bull's watch, of one queue in one term. Functions as those of watch_ops.
#ifndef QS_DIALECTS_BULL_QUARANTINE_H
#define QS_DIALECTS_BULL_QUARANTINE_H

#include "dialects/dialect.h"

typedef struct bull_aside bull_aside_t;
bull_aside_t *bull_aside_open(const queue_keys_t *at); // owned
void bull_aside_close(bull_aside_t *state);            // takes
void bull_aside_forget(bull_aside_t *state);
outcome_t bull_aside_step(bull_aside_t *state, watch_call_t *call, redis_error_t *error);

#endif
