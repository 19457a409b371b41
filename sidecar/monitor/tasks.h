// Side tasks of dialects (side_task_ops_t): when each task makes its next step, and how the task goes on after each outcome. The
// monitor provides connection and lease. The tasks of a queue make their steps together.
#pragma once

#include "base/condition.h"
#include "dialects/dialect.h"
#include "role/lease.h"

enum { TASK_REFUSED_MS = 5000 };

typedef struct task_part {
    const side_task_ops_t *ops;
    void *state; // owned
} task_part_t;

// The tasks of one queue.
typedef struct task {
    task_part_t parts[SIDE_TASKS_MAX];
    size_t count;
    metrics_queue_t *metrics;
    int64_t poll_ms;
    mono_t next;          // when the next step is due
    mono_t blocked_until; // no step before this: Redis refused one
    bool changed;         // a key may have changed since the last step
    bool begun;           // a step was made, so tasks_leave may have keys to release
    condition_t refused;
} task_t;

// Keys or channels that wake a task. Tasks may share a key.
typedef struct task_names {
    const char **names; // owned; the names are borrowed from the states
    size_t *queues;     // owned
    size_t count;
} task_names_t;

typedef struct tasks {
    const keyspace_t *keys; // borrowed
    task_t *of_queue;       // one element for each queue; owned
    size_t count;           // tasks of all queues
    task_names_t watched_keys;
    task_names_t channels;
} tasks_t;

void tasks_init(tasks_t *tasks, const keyspace_t *keys);
void tasks_free(tasks_t *tasks);

// Adds a task to a queue. Call it before the first turn. Borrows the metrics. Without tracking the task makes a step every
// `poll_ms`.
void tasks_add(tasks_t *tasks, size_t queue, const side_task_ops_t *ops, metrics_queue_t *metrics, int64_t poll_ms);

// Drops cached state after a new term or a new connection.
void tasks_reset(tasks_t *tasks, size_t queue);

// Call it when a key has changed; NULL = any key may have changed.
void tasks_changed(tasks_t *tasks, const char *key, size_t len);
void tasks_on_message(tasks_t *tasks, const char *channel, slice_t message);

mono_t task_due(const task_t *task); // when the tasks make their next step; mono_never() = no task

// Makes one step of each task of call->queue, up to an error. `arm`: tracking works. A refusal is reported once and pauses the
// tasks for TASK_REFUSED_MS. The function then returns OUTCOME_OK.
outcome_t tasks_step(tasks_t *tasks, const call_t *call, bool arm);

// Lets the tasks of call->queue release their keys in Redis, because the role ends and still holds the lock. Outcomes are those
// of tasks_step.
outcome_t tasks_leave(tasks_t *tasks, const call_t *call);
