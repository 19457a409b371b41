// The leader role: acquires the lock of each seat, renews it, gives it back, and stands by while another holds it.
//
// Only this role writes the leases. Timing (redis-contract, R4): renewal at a third of the TTL on a connection of its own; the
// lease counts from the moment the renewal was sent, less a margin; a standby looks when the lock it saw should have run out, and
// at once when the vacant channel says so.
#ifndef QS_LEADER_H
#define QS_LEADER_H

#include <stdatomic.h>

#include "lease.h"
#include "metrics.h"
#include "queue/keys.h"
#include "role.h"

typedef struct leader leader_t;

// Everything is borrowed. `stop` is the role's. Returns owned.
leader_t *leader_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop);
void leader_free(leader_t *leader); // takes; NULL is fine

void leader_tick(void *leader, role_wait_t *wait);

// Gives every lock back that is held or may be, and tells the standbys.
void leader_finish(void *leader);

#endif
