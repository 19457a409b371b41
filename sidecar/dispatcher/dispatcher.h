// The dispatcher role: due jobs of delayed zsets to ready lists, for the queues whose lock this instance holds.
//
// It knows the next due time of every queue and waits until then; a change of a zset wakes it (queue/wake.h); one slow look at
// all heads bounds whatever wake-up may be lost. It holds two connections while it leads, and none while it stands by.
#ifndef QS_DISPATCHER_DISPATCHER_H
#define QS_DISPATCHER_DISPATCHER_H

#include <stdatomic.h>

#include "model/metrics.h"
#include "queue/keys.h"
#include "role/lease.h"
#include "role/role.h"

typedef struct dispatcher dispatcher_t;

// Everything is borrowed. `stop` is the role's. Returns owned.
dispatcher_t *dispatcher_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop);
void dispatcher_free(dispatcher_t *dispatcher); // takes; NULL is fine

void dispatcher_tick(void *dispatcher, role_wait_t *wait);

#endif
