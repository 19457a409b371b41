// Which locks a role may serve: the lease says which term is on, and a script that was fenced says that it is over before the
// lease knows.
#ifndef QS_ROLE_LEADERSHIP_H
#define QS_ROLE_LEADERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/keys.h"
#include "role/lease.h"

typedef struct leadership {
    const char *role; // static; whose log lines these are
    const keyspace_t *keys;
    leases_t *leases;
    uint64_t *seen;   // of each lock: the last term that was seen; owned
    uint64_t *fenced; // of each lock: the term that Redis does not know any more; owned
} leadership_t;

// Everything but what is marked is borrowed. Ended by leadership_free.
void leadership_init(leadership_t *leadership, const char *role, const keyspace_t *keys, leases_t *leases);
void leadership_free(leadership_t *leadership);

// Calls `began` for every queue of a lock whose term is new. Returns whether any lock may be served.
bool leadership_refresh(leadership_t *leadership, void (*began)(void *self, size_t queue), void *self);

// The lease under which a queue may be served now; false when there is none.
bool leadership_may_serve(leadership_t *leadership, size_t queue, lease_t *lease);

// A script said that the lock is not ours: this term of the queue's lock is over, and the leader should look.
void leadership_fence(leadership_t *leadership, size_t queue, uint64_t term);
// Every lock may be gone.
void leadership_suspect(leadership_t *leadership);

#endif
