// The dispatcher role: moves due jobs from delayed to ready, for the queues whose lock this instance holds.
//
// The dispatcher waits until the next due time of any queue. Tracking wakes it when a zset changes (redis/tracking.h). A slow
// safety poll finds changes whose wake-up was lost. The dispatcher opens its connections when it leads and closes them when it
// stands by.
#pragma once

#include <stdatomic.h>

#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/topology.h"
#include "role/lease.h"
#include "role/role.h"

typedef struct dispatcher dispatcher_t;

// Every argument is borrowed. `stop` is the flag of the role. Returns owned.
dispatcher_t *dispatcher_new(const keyspace_t *keys, shard_t *shard, leases_t *leases, metrics_t *metrics,
                             const atomic_bool *stop);
void dispatcher_free(dispatcher_t *dispatcher); // NULL is fine

void dispatcher_tick(void *dispatcher, role_wait_t *wait);
