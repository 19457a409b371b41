// The leader's part that counts how much there is in the queues it leads, for /metrics: some queues in each step, every few
// seconds, and only while somebody scrapes.
#ifndef QS_LEADER_SIZES_H
#define QS_LEADER_SIZES_H

#include "base/clock.h"
#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/conn.h"
#include "role/lease.h"

typedef struct counting counting_t;

counting_t *counting_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics); // borrows; owned
void counting_free(counting_t *counting);                                               // takes; NULL is fine

// When the next step is wanted; mono_never() while nobody scrapes (who scrapes then wakes us), or nothing is led.
mono_t counting_next(const counting_t *counting);

// One step, if it is time: one round trip of a ms or two; without a connection it is put off. OUTCOME_RETRY and
// OUTCOME_DISCONNECTED: nothing more can be asked now. What is refused of one queue is said, once until it changes.
outcome_t counting_step(counting_t *counting, conn_t *conn, redis_error_t *error);

// What was counted is not told any more: this instance does not lead these queues.
void counting_forget(counting_t *counting, size_t first, size_t count);

// A queue that another group owns is counted by the leader of that group, until this one takes it over.
void counting_cede(counting_t *counting, size_t queue, bool ceded);

#endif
