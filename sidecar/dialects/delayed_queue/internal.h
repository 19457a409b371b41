// The interfaces between the files of dialect delayed_queue.
#pragma once

#include "dialects/dialect.h"

extern const promote_ops_t delayed_promote;
extern const side_task_ops_t delayed_task;
extern const requeue_ops_t delayed_requeue;

bool delayed_dry_run(const dry_run_t *room);
