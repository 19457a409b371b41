// Side tasks of dialects (side_task_ops_t): when each task makes its next step, and how the task goes on after each outcome. The
// monitor provides connection and lease.
#pragma once

#include "dialects/dialect.h"
#include "role/lease.h"

enum { TASK_REFUSED_MS = 5000 };

typedef struct tasks tasks_t;

// `keys` is borrowed. Returns owned, and empty.
tasks_t *tasks_new(const keyspace_t *keys);
void tasks_free(tasks_t *tasks); // takes; NULL is fine

// Adds a task for a queue. Call it before the first turn. Borrows the metrics. Without tracking the task makes a step every
// `poll_ms`.
void tasks_add(tasks_t *tasks, size_t queue, const side_task_ops_t *ops, metrics_queue_t *metrics, int64_t poll_ms);
size_t tasks_count(const tasks_t *tasks);
// Channels to subscribe to; borrowed until the next tasks_add.
const char *const *tasks_channels(const tasks_t *tasks, size_t *count);

// Drops cached state after a new term of this queue, or after a new connection for all queues.
void tasks_reset(tasks_t *tasks, size_t queue);
void tasks_reset_all(tasks_t *tasks);

// A key has changed; NULL: any key may have.
void tasks_changed(tasks_t *tasks, const char *key, size_t len);
void tasks_on_message(tasks_t *tasks, const char *channel, slice_t message);

// Whether a queue may be served now; copies its lease.
typedef bool task_may_serve_fn(void *self, size_t queue, lease_t *lease);

// Returns the task whose turn it is. NULL: no task needs a step now.
typedef struct task task_t;
task_t *tasks_turn(tasks_t *tasks, task_may_serve_fn *served, void *self, mono_t now, lease_t *lease);
size_t task_queue(const task_t *task);
// Returns when the next step is due, among the tasks that may be served.
mono_t tasks_next(const tasks_t *tasks, task_may_serve_fn *served, void *self);

// Every argument is borrowed. `arm`: tracking works.
typedef struct watch_with {
    conn_t *conn;
    const char *token;
    bool arm;
} task_context_t;

// Makes one step. A refusal is reported once and pauses the task for TASK_REFUSED_MS. The function then returns OUTCOME_OK.
outcome_t task_step(tasks_t *tasks, task_t *task, const task_context_t *with, redis_error_t *error);

// Lets the task release its keys in Redis, because the role ends and still holds the lock. Outcomes are those of a step.
outcome_t task_leave(tasks_t *tasks, task_t *task, const task_context_t *with, redis_error_t *error);
// Returns the next task after `last` that holds keys in Redis. `last` = NULL: the first such task.
task_t *tasks_leaving(tasks_t *tasks, const task_t *last);
