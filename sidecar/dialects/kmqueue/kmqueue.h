// Settings of dialect kmqueue, and the interfaces between its files.
#pragma once

#include "config/config.h"
#include "dialects/dialect.h"

typedef struct kmqueue_config {
    strings_t queues;      // names as given to KMQueueManager, in the same order
    strings_t lists;       // derived: keys of the ready lists, each once
    strings_t unique_sets; // derived: key of the set of unique task ids of each list
} kmqueue_config_t;

static inline kmqueue_config_t *kmqueue_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t kmqueue_settings;

// unique_ids.c: reports members of <queue>_unique that belong to no task.
extern const side_task_ops_t kmqueue_unique_ids;
