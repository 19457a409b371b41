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

#define KMQUEUE_BACKUP "back_up_queue_" // how the names of backup lists begin (KMQueueAdapter.java, BACK_UP_QUEUE_PREFIX)

// Index of the list that a task names, raw as in its JSON, among `lists`. False: it is not there; *at is 0 then.
bool kmqueue_find_list(const strings_t *lists, slice_t queue, size_t *at);

// survey.c: tells whether the managers of the workers have other names than `queues`.
outcome_t kmqueue_survey(const call_t *call, survey_report_fn *report, void *self);

// unique_ids.c: reports members of <queue>_unique that belong to no task.
extern const side_task_ops_t kmqueue_unique_ids;
