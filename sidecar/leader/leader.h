// The leader role: acquires the lock of each lock, renews it, gives it back, and stands by while another holds it.
//
// Only this role writes the leases. Timing (redis-contract, R4): renewal at a third of the TTL on a connection of its own; the
// lease counts from the moment the renewal was sent, less a margin; a standby looks when the lock it saw should have run out, and
// at once when the vacant channel says so.
#ifndef QS_LEADER_LEADER_H
#define QS_LEADER_LEADER_H

#include <stdatomic.h>

#include "model/metrics.h"
#include "queue/keys.h"
#include "role/lease.h"
#include "role/role.h"

typedef struct leader leader_t;

// Everything is borrowed. `stop` is the role's. Returns owned.
leader_t *leader_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop);
void leader_free(leader_t *leader); // takes; NULL is fine

void leader_tick(void *leader, role_wait_t *wait);

// Gives every lock back that is held or may be, and tells the standbys; not while an heir is expected.
void leader_finish(void *leader);

// An heir takes over within this process, under a new configuration of the same group and the same kind of lock: leader_finish
// keeps the locks. From any thread.
void leader_expect_hand_over(leader_t *leader, bool expected);

// Passes the locks of `old`, whose thread has ended, to `leader`, whose thread has not begun: its first tick acquires them again
// by the same tokens, so that nobody else ever holds them. Locks of queues that are gone are given back.
void leader_hand_over(leader_t *leader, leader_t *old);

#endif
