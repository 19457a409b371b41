// Settings of dialect kmqueue, and the interfaces between its files.
#pragma once

#include "config/config.h"
#include "dialects/dialect.h"

typedef struct kmqueue_config {
    strings_t queues;      // as given to KMQueueManager, in its order
    strings_t lists;       // derived: key of each ready list, each one once
    strings_t unique_sets; // derived: set of unique task ids, of each of `lists`
} kmqueue_config_t;

static inline kmqueue_config_t *kmqueue_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t kmqueue_settings;

// unique_ids.c: reports members of <queue>_unique that belong to no task.
extern const side_task_ops_t kmqueue_task_ops;
