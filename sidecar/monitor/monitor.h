// The monitor role: passes over backup lists, for the queues whose lock this instance holds. It begins lives and executions of
// jobs in progress, gives stalled and reported ones back to the workers, and ends those that have had their retries.
#ifndef QS_MONITOR_MONITOR_H
#define QS_MONITOR_MONITOR_H

#include <stdatomic.h>

#include "dialects/dialect.h"
#include "model/metrics.h"
#include "queue/keys.h"
#include "role/lease.h"
#include "role/role.h"

typedef struct monitor monitor_t;

// Everything is borrowed. `stop` is the role's. Returns owned.
monitor_t *monitor_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop);
void monitor_free(monitor_t *monitor); // takes; NULL is fine

// Gives a queue a watch. monitor_new does so for each queue of a dialect that has one; later only before the first tick.
void monitor_add_task(monitor_t *monitor, size_t queue, const side_task_ops_t *ops);

void monitor_tick(void *monitor, role_wait_t *wait);
// The end of the role, when no tick comes any more: what watches hold in Redis is given back, while the lock is still ours.
void monitor_finish(void *monitor);

#endif
