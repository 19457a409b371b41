// The leader's part that counts how much there is in the queues it leads, for /metrics: some queues in each step, every few
// seconds, and only while somebody scrapes.
#ifndef QS_LEADER_SIZES_H
#define QS_LEADER_SIZES_H

#include "base/clock.h"
#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/conn.h"
#include "role/lease.h"

typedef struct queue_sizes queue_sizes_t;

queue_sizes_t *queue_sizes_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics); // borrows; owned
void queue_sizes_free(queue_sizes_t *sizes);                                                  // takes; NULL is fine

// When the next step is wanted; mono_never() while nobody scrapes (who scrapes then wakes us), or nothing is led.
mono_t queue_sizes_next(const queue_sizes_t *sizes);

// One step, if it is time: one round trip of a ms or two; without a connection it is put off. OUTCOME_RETRY and
// OUTCOME_DISCONNECTED: nothing more can be asked now. What is refused of one queue is said, once until it changes.
outcome_t queue_sizes_step(queue_sizes_t *sizes, conn_t *conn, redis_error_t *error);

// What was counted is not told any more: this instance does not lead these queues.
void queue_sizes_forget(queue_sizes_t *sizes, size_t first, size_t count);

// A queue that another group owns is counted by the leader of that group, until this one takes it over.
void queue_sizes_cede(queue_sizes_t *sizes, size_t queue, bool ceded);

#endif
