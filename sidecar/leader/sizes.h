// Measures the queues that this instance leads, some in each step: every few seconds for /metrics while it is scraped, otherwise
// every 30 s, to tell `status` of ready lists that only grow.
#pragma once

#include "base/clock.h"
#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/conn.h"
#include "role/lease.h"

typedef struct queue_sizes queue_sizes_t;

queue_sizes_t *queue_sizes_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics); // borrows; owned
void queue_sizes_free(queue_sizes_t *sizes);                                                  // NULL is fine

// When the next step is due; mono_never() without led queues.
mono_t queue_sizes_next(const queue_sizes_t *sizes);

// Runs one step if it is due: one round trip of a ms or two. Returns RETRY or DISCONNECTED after a failed request. Logs an
// error of one queue once until it changes.
outcome_t queue_sizes_step(queue_sizes_t *sizes, conn_t *conn, redis_error_t *error);

// Tells `status` of some anomalies that this instance has seen, in one round trip. Not fenced: the fields are for people.
outcome_t queue_sizes_tell_anomalies(queue_sizes_t *sizes, conn_t *conn, redis_error_t *error);

// Says that this instance leads the queue from now on, so that it exposes the queue's counters.
void queue_sizes_lead(queue_sizes_t *sizes, size_t queue);
// Discards the sizes of this queue: its leader changes. `counted_elsewhere`: the leader of another group measures it from now
// on.
void queue_sizes_cede(queue_sizes_t *sizes, size_t queue, bool counted_elsewhere);
