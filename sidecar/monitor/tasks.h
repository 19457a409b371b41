// Turns of what a dialect does beside passes (watch_ops of dialect.h): when each queue's next step is due, what wakes it, and
// what follows from its outcome. The connection and the terms are the monitor's.
#ifndef QS_MONITOR_TASKS_H
#define QS_MONITOR_TASKS_H

#include "dialects/dialect.h"
#include "role/lease.h"

enum { WATCH_FAULT_HOLD_MS = 5000 };

typedef struct watches watches_t;

// `keys` is borrowed. Returns owned, and empty.
watches_t *watches_new(const keyspace_t *keys);
void watches_free(watches_t *watches); // takes; NULL is fine

// Adds one for a queue, whose metrics are borrowed, before the first turn. `poll_ms`: how often it steps at the least while Redis
// tells of no changes.
void watches_add(watches_t *watches, size_t queue, const watch_ops_t *ops, metrics_queue_t *metrics, int64_t poll_ms);
size_t watches_count(const watches_t *watches);
// What the ear must hear for them; lasts until the next watches_add.
const char *const *watches_channels(const watches_t *watches, size_t *count);

// A new term of this queue, or it was fenced; a new connection: of all.
void watches_forget(watches_t *watches, size_t queue);
void watches_forget_all(watches_t *watches);

// A key has changed; NULL: every key may have.
void watches_changed(watches_t *watches, const char *key, size_t len);
void watches_heard(watches_t *watches, const char *channel, slice_t message);

// Whether a queue may be served now, and under which lease.
typedef bool watch_served_fn(void *self, size_t queue, lease_t *lease);

// The one whose turn it is; NULL: none wants a step now.
typedef struct watch watch_t;
watch_t *watches_turn(watches_t *watches, watch_served_fn *served, void *self, mono_t now, lease_t *lease);
size_t watch_queue(const watch_t *watch);
// When the next step is wanted, of those that may be served.
mono_t watches_next(const watches_t *watches, watch_served_fn *served, void *self);

// What a step works with; all borrowed. `arm`: Redis tells of changes.
typedef struct watch_with {
    conn_t *conn;
    const char *token;
    json_t *json;
    bool arm;
} watch_with_t;

// One step. OUTCOME_OK also after a fault of this queue, which is said once and leaves it alone for WATCH_FAULT_HOLD_MS; else the
// connection cannot be used now, or OUTCOME_FENCED.
outcome_t watch_step(watches_t *watches, watch_t *watch, const watch_with_t *with, redis_error_t *error);

// The role ends, and this lock is still ours: what it holds in Redis is given back, if it has any. Outcomes as above.
outcome_t watch_leave(watches_t *watches, watch_t *watch, const watch_with_t *with, redis_error_t *error);
// The next after `last` (NULL: the first) that has something to give back.
watch_t *watches_leaving(watches_t *watches, const watch_t *last);

#endif
