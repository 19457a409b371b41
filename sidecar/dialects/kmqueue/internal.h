#pragma once

#include "dialects/dialect.h"

// unique_ids.c: reports members of <queue>_unique that belong to no task.
extern const side_task_ops_t kmqueue_task_ops;

bool kmqueue_dry_run(const dry_run_t *run); // the rights on the sets of unique ids
