// Every script run on scratch keys, through each branch that takes a command of its own, by the same verbs and as the same user;
// and a pair of connections for wake-ups. Finds commands that the user may not run.
#ifndef QS_QUEUE_DRYRUN_H
#define QS_QUEUE_DRYRUN_H

#include <stdbool.h>

#include "config.h"
#include "queue/conn.h"
#include "queue/keys.h"

typedef enum refusal {
    REFUSAL_ALL,     // nothing can be led without it
    REFUSAL_AID,     // something is slower without it
    REFUSAL_DIALECT, // the queues of one dialect cannot be served without it
} refusal_t;

// Called for each refusal with what Redis said. `dialect` counts with REFUSAL_DIALECT only.
typedef void dryrun_fn(void *self, refusal_t refusal, dialect_t dialect, const char *what, const char *text);

// Scratch keys begin with "sidecar:preflight", live in the slot of the first lock, expire after a minute, and are deleted here.
outcome_t dryrun(conn_t *conn, const keyspace_t *keys, dryrun_fn *refused, void *self, fault_t *fault);

// Only what those dialects have of their own; `wanted` is by dialect_t. OUTCOME_FAULT: not even a lock could be made for it.
outcome_t dryrun_dialects(conn_t *conn, const keyspace_t *keys, const bool wanted[DIALECT_COUNT], dryrun_fn *refused, void *self,
                          fault_t *fault);

#endif
