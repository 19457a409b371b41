// Every script run on scratch keys, through each branch that takes a command of its own, by the same verbs and as the same user;
// and a pair of connections for wake-ups. Finds commands that the user may not run.
#ifndef QS_INSPECT_DRY_RUN_H
#define QS_INSPECT_DRY_RUN_H

#include <stdbool.h>

#include "queue/keys.h"
#include "redis/conn.h"

typedef enum refusal {
    REFUSAL_ALL,     // nothing can be led without it
    REFUSAL_AID,     // something is slower without it
    REFUSAL_DIALECT, // some queues of one dialect cannot be served without it
} refusal_t;

// Called for each refusal with what Redis said. `queue` counts with REFUSAL_DIALECT only: it and all like it are concerned.
typedef void dry_run_fn(void *self, refusal_t refusal, size_t queue, const char *what, const char *text);

// The first queue whose dialect needs the same of Redis: that is tried for all of them.
size_t dry_run_like(const keyspace_t *keys, size_t queue);

// Scratch keys begin with "sidecar:preflight", live in the slot of the first lock, expire after a minute, and are deleted here.
outcome_t dry_run_shared(conn_t *conn, const keyspace_t *keys, dry_run_fn *refused, void *self, redis_error_t *error);

// Only what the dialects of some queues have of their own; `wanted` is by queue, the first of those alike. OUTCOME_REFUSED: not
// even a lock could be made for it.
outcome_t dry_run_dialects(conn_t *conn, const keyspace_t *keys, const bool *wanted, dry_run_fn *refused, void *self,
                           redis_error_t *error);

#endif
