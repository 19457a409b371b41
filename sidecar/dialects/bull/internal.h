// The interfaces between the files of dialect bull.
#pragma once

#include "dialects/bull/config.h"
#include "dialects/dialect.h"

// ---- keys.c: keys in requests: `bull:video:WORD`, `bull:video:<id>SUFFIX`, and our own `sidecar:<queue>:WORD`.

void bull_key(conn_t *conn, const queue_keys_t *at, const char *word);
void bull_job_key(conn_t *conn, const queue_keys_t *at, slice_t id, const char *suffix);
void bull_own_key(conn_t *conn, const queue_keys_t *at, const char *word);

// The suffixes after `bull:video:` of keys that only BullMQ has. A hash with such a key is a job of Bull 4 with that id.
enum { BULLMQ_KEYS = 4 };
extern const char *const bullmq_words[BULLMQ_KEYS];
void bullmq_append_keys(conn_t *conn, const queue_keys_t *at);

// Explains that a script found a key `what` of type `found`. Returns the outcome.
outcome_t bull_wrong_type(redis_error_t *error, const char *script, const char *what, const char *found);

// ---- The operations of dialect_bull.

extern const promote_ops_t bull_promote; // promote.c

// requeue.c: False: the row holds no job of Bull.
bool bull_requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out, buffer_t *bytes,
                          buffer_t *why);
void bull_requeue_append(conn_t *conn, const keyspace_t *keys, const struct requeue_request *request, const requeue_push_t *push);

bool bull_dry_run(const dry_run_t *run); // dry_run.c

// ---- The parts of the side task. Each part serves one queue in one term. The functions are those of side_task_ops. A step
// lowers call->next to the time of the next step of its part.

typedef struct bull_stalled bull_stalled_t; // stalled.c
bull_stalled_t *bull_stalled_open(const queue_keys_t *at);
void bull_stalled_close(bull_stalled_t *state);
void bull_stalled_forget(bull_stalled_t *state);
outcome_t bull_stalled_step(bull_stalled_t *state, side_task_call_t *call, redis_error_t *error);
outcome_t bull_stalled_leave(bull_stalled_t *state, side_task_call_t *call, redis_error_t *error);

typedef struct bull_quarantine bull_quarantine_t; // quarantine.c
bull_quarantine_t *bull_quarantine_open(const queue_keys_t *at);
void bull_quarantine_close(bull_quarantine_t *state);
void bull_quarantine_forget(bull_quarantine_t *state);
outcome_t bull_quarantine_step(bull_quarantine_t *state, side_task_call_t *call, redis_error_t *error);

typedef struct bull_failed bull_failed_t; // failed.c
bull_failed_t *bull_failed_open(const queue_keys_t *at);
void bull_failed_close(bull_failed_t *state);
void bull_failed_forget(bull_failed_t *state);
const char *bull_failed_key(const bull_failed_t *state); // watched key and channel of the same name; borrowed from the state
void bull_failed_on_message(bull_failed_t *state, slice_t message);
// `changed`: the key may have changed since the last step of this part.
outcome_t bull_failed_step(bull_failed_t *state, side_task_call_t *call, bool changed, redis_error_t *error);
// For record_failed = false. Failures from now on count as recorded. Failures while no instance leads do not. Call it once a
// term.
outcome_t bull_failed_pause(const queue_keys_t *at, side_task_call_t *call, redis_error_t *error);
