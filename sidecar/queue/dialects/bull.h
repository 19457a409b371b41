// What the files of dialect bull share: its keys, and the parts of its watch.
#ifndef QS_QUEUE_DIALECTS_BULL_H
#define QS_QUEUE_DIALECTS_BULL_H

#include "queue/dialects/dialect.h"

// Keys of one request: `bull:video:WORD`, `bull:video:<id>SUFFIX`, and of the sidecar's own `sidecar:<queue>:WORD`.
void bull_own_key(conn_t *conn, const queue_keys_t *at, const char *word);
void bull_key(conn_t *conn, const queue_keys_t *at, const char *word);
void bull_job_key(conn_t *conn, const queue_keys_t *at, slice_t id, const char *suffix);

// Keys that only BullMQ has. A hash there is a job of Bull 4 that is called so.
enum { BULLMQ_KEYS = 4 };
void bull_foreign_keys(conn_t *conn, const queue_keys_t *at);

// What a script answered that found `found` in the key `what` (or in what the script calls so). Returns the outcome.
outcome_t bull_wrong_type(fault_t *fault, const char *script, const char *what, const char *found);

// ---- The stalled check: a part of bull's watch, of one queue in one term. Functions as those of watch_ops.
typedef struct bull_stalled bull_stalled_t;
bull_stalled_t *bull_stalled_open(const queue_keys_t *at); // owned
void bull_stalled_close(bull_stalled_t *state);            // takes
void bull_stalled_forget(bull_stalled_t *state);
// One step, if one is due. Brings call->next forward as it needs it.
outcome_t bull_stalled_step(bull_stalled_t *state, watch_call_t *call, fault_t *fault);
outcome_t bull_stalled_leave(bull_stalled_t *state, watch_call_t *call, fault_t *fault);

// ---- What promotion has put aside: a part of bull's watch, in the same way.
typedef struct bull_aside bull_aside_t;
bull_aside_t *bull_aside_open(const queue_keys_t *at); // owned
void bull_aside_close(bull_aside_t *state);            // takes
void bull_aside_forget(bull_aside_t *state);
outcome_t bull_aside_step(bull_aside_t *state, watch_call_t *call, fault_t *fault);

bool bull_dry_run(const dryrun_room_t *room);

#endif
