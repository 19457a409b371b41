// Runs every script on scratch keys, through each branch with a command of its own, by the same verbs and as the same user; and
// opens a pair of connections for wake-ups. Finds commands that the user may not run.
#ifndef QS_INSPECT_DRY_RUN_H
#define QS_INSPECT_DRY_RUN_H

#include <stdbool.h>

#include "inspect/scratch.h"
#include "redis/conn.h"

// The first queue whose dialect needs the same rights. Only that one is tried.
size_t dry_run_like(const keyspace_t *keys, size_t queue);

// Scratch keys begin with "sidecar:preflight", live in the slot of the first lock, expire after a minute, and are deleted here.
outcome_t dry_run_shared(conn_t *conn, const keyspace_t *keys, dry_run_fn *refused, void *self, redis_error_t *error);

// Tries only the dialects' own scripts. `wanted` is by queue; of queues that are alike only the first counts. OUTCOME_REFUSED:
// Redis refused the scratch lock.
outcome_t dry_run_dialects(conn_t *conn, const keyspace_t *keys, const bool *wanted, dry_run_fn *refused, void *self,
                           redis_error_t *error);

#endif
