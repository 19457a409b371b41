// Turns of what a dialect does beside passes (side_task_ops of dialect.h): when each queue's next step is due, what wakes it, and
// what follows from its outcome. The connection and the terms are the monitor's.
#ifndef QS_MONITOR_TASKS_H
#define QS_MONITOR_TASKS_H

#include "dialects/dialect.h"
#include "role/lease.h"

enum { TASK_REFUSED_MS = 5000 };

typedef struct tasks tasks_t;

// `keys` is borrowed. Returns owned, and empty.
tasks_t *tasks_new(const keyspace_t *keys);
void tasks_free(tasks_t *tasks); // takes; NULL is fine

// Adds one for a queue, whose metrics are borrowed, before the first turn. `poll_ms`: how often it steps at the least while Redis
// tells of no changes.
void tasks_add(tasks_t *tasks, size_t queue, const side_task_ops_t *ops, metrics_queue_t *metrics, int64_t poll_ms);
size_t tasks_count(const tasks_t *tasks);
// What the ear must hear for them; lasts until the next tasks_add.
const char *const *tasks_channels(const tasks_t *tasks, size_t *count);

// A new term of this queue, or it was fenced; a new connection: of all.
void tasks_reset(tasks_t *tasks, size_t queue);
void tasks_reset_all(tasks_t *tasks);

// A key has changed; NULL: every key may have.
void tasks_changed(tasks_t *tasks, const char *key, size_t len);
void tasks_on_message(tasks_t *tasks, const char *channel, slice_t message);

// Whether a queue may be served now, and under which lease.
typedef bool task_may_serve_fn(void *self, size_t queue, lease_t *lease);

// The one whose turn it is; NULL: none wants a step now.
typedef struct task task_t;
task_t *tasks_turn(tasks_t *tasks, task_may_serve_fn *served, void *self, mono_t now, lease_t *lease);
size_t task_queue(const task_t *task);
// When the next step is wanted, of those that may be served.
mono_t tasks_next(const tasks_t *tasks, task_may_serve_fn *served, void *self);

// What a step works with; all borrowed. `arm`: Redis tells of changes.
typedef struct watch_with {
    conn_t *conn;
    const char *token;
    bool arm;
} task_context_t;

// One step. OUTCOME_OK also after a fault of this queue, which is said once and leaves it alone for TASK_REFUSED_MS; else the
// connection cannot be used now, or OUTCOME_FENCED.
outcome_t task_step(tasks_t *tasks, task_t *task, const task_context_t *with, redis_error_t *error);

// The role ends, and this lock is still ours: what it holds in Redis is given back, if it has any. Outcomes as above.
outcome_t task_leave(tasks_t *tasks, task_t *task, const task_context_t *with, redis_error_t *error);
// The next after `last` (NULL: the first) that has something to give back.
task_t *tasks_leaving(tasks_t *tasks, const task_t *last);

#endif
