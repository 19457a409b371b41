// The leader role: acquires, renews and releases the locks, and stands by while another instance holds one.
//
// Only this role writes leases. Renewals come at a third of the TTL on their own connection. A lease begins when the last good
// renewal was sent, and ends a margin before the lock expires. A standby tries again when the lock should have expired, or at
// once after a message on the vacant channel.
#pragma once

#include <stdatomic.h>

#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/topology.h"
#include "role/lease.h"
#include "role/role.h"

typedef struct leader leader_t;

// Borrows everything; `stop` is the role's flag. Returns owned.
leader_t *leader_new(const keyspace_t *keys, shard_t *shard, leases_t *leases, metrics_t *metrics, const atomic_bool *stop);
void leader_free(leader_t *leader); // NULL is fine

void leader_tick(void *leader, role_wait_t *wait);

// Releases every lock that is or may be held and notifies the standbys; does nothing during a hand-over.
void leader_finish(void *leader);

// `expected`: a new configuration takes over in this process, so leader_finish keeps the locks. For any thread.
void leader_expect_hand_over(leader_t *leader, bool expected);

// Passes the locks of `old`, whose thread has ended, to `leader`, whose thread has not begun. Its first tick acquires them with
// the same tokens, so no other instance ever holds them. Locks of removed queues are released.
void leader_hand_over(leader_t *leader, leader_t *old);

// The same for one lock of which another leader of this process has a lease with this token. That leader may still run: it may
// not reach the lock any more, because its slot is at another node now. Call it before the thread of `leader` begins.
void leader_adopt(leader_t *leader, size_t lock, const char *token);
// The token that `leader` has adopted, "" = none; for any thread.
const char *leader_adopted(const leader_t *leader, size_t lock);
// Ends the terms of `leader`, whose thread has ended, after others have adopted its locks. Releases those that `next` lacks;
// NULL: none.
void leader_retire(leader_t *leader, const keyspace_t *next);
