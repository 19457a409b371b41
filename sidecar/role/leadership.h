// Which locks a role may serve: the lease says which term is on, and a script that was fenced says that it is over before the
// lease knows.
#ifndef QS_ROLE_LEADERSHIP_H
#define QS_ROLE_LEADERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/keys.h"
#include "role/lease.h"

typedef struct terms {
    const char *role; // static; whose log lines these are
    const keyspace_t *keys;
    leases_t *leases;
    uint64_t *seen;   // of each lock: the last term that was seen; owned
    uint64_t *fenced; // of each lock: the term that Redis does not know any more; owned
} terms_t;

// Everything but what is marked is borrowed. Ended by terms_free.
void terms_init(terms_t *terms, const char *role, const keyspace_t *keys, leases_t *leases);
void terms_free(terms_t *terms);

// Calls `began` for every queue of a lock whose term is new. Returns whether any lock may be served.
bool terms_look(terms_t *terms, void (*began)(void *self, size_t queue), void *self);

// The lease under which a queue may be served now; false when there is none.
bool terms_serve(terms_t *terms, size_t queue, lease_t *lease);

// A script said that the lock is not ours: this term of the queue's lock is over, and the leader should look.
void terms_fence(terms_t *terms, size_t queue, uint64_t term);
// Every lock may be gone.
void terms_doubt(terms_t *terms);

#endif
