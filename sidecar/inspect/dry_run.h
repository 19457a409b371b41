// Runs every script on scratch keys, through each branch that has a command of its own. The run uses the same functions and the
// same user as the roles. It also opens a pair of connections for wake-ups. So it finds the commands that the user may not run.
#pragma once

#include <stdbool.h>

#include "inspect/scratch.h"
#include "redis/conn.h"

// The first queue that needs the same rights as `queue`. Only that first queue is tried.
size_t dry_run_like(const keyspace_t *keys, size_t queue);

// Scratch keys begin with "sidecar:preflight", are in the slot of the first lock, expire after a minute, and are deleted at the
// end.
outcome_t dry_run_shared(conn_t *conn, const keyspace_t *keys, dry_run_fn *refused, void *self, redis_error_t *error);

// Tries only the dialects' own scripts. `wanted` is by queue. Of queues with equal needs only the first is tried.
// OUTCOME_REFUSED: Redis refused the scratch lock.
outcome_t dry_run_dialects(conn_t *conn, const keyspace_t *keys, const bool *wanted, dry_run_fn *refused, void *self,
                           redis_error_t *error);
