// Leadership: the queues that a role may serve now. The lease names the term; a fenced script ends the term earlier.
#pragma once

#include "role/lease.h"

typedef struct leadership {
    const char *role; // static; the role in log lines
    leases_t *leases;
    uint64_t *seen;   // of each lock: the last term for which `began` was called; owned
    uint64_t *fenced; // of each lock: the last term of which a script was fenced; owned
} leadership_t;

// Borrows everything. End with leadership_free.
void leadership_init(leadership_t *leadership, const char *role, leases_t *leases);
void leadership_free(leadership_t *leadership);

// Calls `began` for each queue whose term is new. Returns whether any queue may be served.
bool leadership_refresh(leadership_t *leadership, void (*began)(void *self, size_t queue), void *self);

// Copies the lease under which the queue may be served now; false when there is none.
bool leadership_may_serve(leadership_t *leadership, size_t queue, lease_t *lease);

// A script was fenced: ends this term of the queue's lock for this role, and asks the leader to check the lock.
void leadership_fence(leadership_t *leadership, size_t queue, uint64_t term);
// Asks the leader to check every lock, for example after FLUSHALL.
void leadership_suspect(leadership_t *leadership);
