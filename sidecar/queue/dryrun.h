// Every script run on scratch keys, through each branch that takes a command of its own, by the same verbs and as the same user;
// and a pair of connections for wake-ups. Finds commands that the user may not run.
#ifndef QS_QUEUE_DRYRUN_H
#define QS_QUEUE_DRYRUN_H

#include <stdbool.h>

#include "queue/conn.h"
#include "queue/keys.h"

// Called for each refusal with what Redis said. `needed`: nothing can be led without it; otherwise something is slower.
typedef void dryrun_fn(void *self, bool needed, const char *what, const char *text);

// Scratch keys begin with "sidecar:preflight", live in the slot of the first lock, expire after a minute, and are deleted here.
outcome_t dryrun(conn_t *conn, const keyspace_t *keys, dryrun_fn *refused, void *self, fault_t *fault);

#endif
