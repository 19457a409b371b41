// The monitor role: scans the backup lists of the queues whose lock this instance holds, retries stalled and reported jobs, and
// ends those without retries left.
#pragma once

#include <stdatomic.h>

#include "dialects/dialect.h"
#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/topology.h"
#include "role/lease.h"
#include "role/role.h"

typedef struct monitor monitor_t;

// Every argument is borrowed. `stop` is the flag of the role. Returns owned.
monitor_t *monitor_new(const keyspace_t *keys, shard_t *shard, leases_t *leases, metrics_t *metrics, const atomic_bool *stop);
void monitor_free(monitor_t *monitor); // NULL is fine

// Adds a side task. Call it only before the first tick. monitor_new adds the side tasks of the dialects.
void monitor_add_task(monitor_t *monitor, size_t queue, const side_task_ops_t *ops);

void monitor_tick(void *monitor, role_wait_t *wait);
// Call it after the last tick, while the instance still holds the lock. Each side task then releases its keys in Redis.
void monitor_finish(void *monitor);
