// Every script run once on scratch keys, by the same verbs and as the same user: finds commands that the user may not run.
#ifndef QS_QUEUE_DRYRUN_H
#define QS_QUEUE_DRYRUN_H

#include "queue/conn.h"
#include "queue/keys.h"

// Called for each script that was refused, with what Redis said.
typedef void dryrun_fn(void *self, const char *script, const char *text);

// Scratch keys begin with "sidecar:preflight", live in the slot of the first lock, expire after a minute, and are deleted here.
outcome_t dryrun(conn_t *conn, const keyspace_t *keys, dryrun_fn *refused, void *self, fault_t *fault);

#endif
