// The failures that Bull's own workers decide, read out of `failed` into the failure stream, each once. A part of bull's watch.
//
// A look goes through `failed` by score, which is the time of the failure by the clock of the worker that decided it. Most looks,
// those after a change, begin a little before the last one; at most once a minute one begins 10 minutes before the last of its
// kind, so that clocks may be that wrong. What has its record is in a zset of ours. Beside that the channel `failed` names each
// job: so a failure of a clock that is further behind is found, and one whose job Bull removed at once (removeOnFail) is recorded
// with what the message says, which is the error alone.
#ifndef QS_DIALECTS_BULL_FAILED_H
#define QS_DIALECTS_BULL_FAILED_H

#include "dialects/dialect.h"

// Of one queue, in one term. Functions as those of side_task_ops.
typedef struct bull_failed bull_failed_t;

bull_failed_t *bull_failed_open(const queue_keys_t *at); // owned
void bull_failed_close(bull_failed_t *state);            // takes
void bull_failed_forget(bull_failed_t *state);

// The key that is to be watched, and the channel that is to be heard, of the same name; borrowed from the state.
const char *bull_failed_key(const bull_failed_t *state);
void bull_failed_on_message(bull_failed_t *state, slice_t message);

// One step. `changed`: the key may have changed since the last one. Brings call->next forward as it needs it.
outcome_t bull_failed_step(bull_failed_t *state, side_task_call_t *call, bool changed, redis_error_t *error);

// Failures are not wanted (record_failed = false): what fails until they are wanted again will count as known, unlike what fails
// while nobody leads. Once in a term.
outcome_t bull_failed_pause(const queue_keys_t *at, side_task_call_t *call, redis_error_t *error);

#endif
