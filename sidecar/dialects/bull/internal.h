// The interfaces between the files of dialect bull.
#pragma once

#include "dialects/bull/config.h"
#include "dialects/bull/job.h"
#include "dialects/dialect.h"

// Keys that only BullMQ has. A hash with such a key is a job of Bull 4 with that id.
#define BULLMQ_WORDS "events", "marker", "prioritized", "pc"
enum { BULLMQ_KEYS = 4 };

extern const promote_ops_t bull_promote; // enqueue.c
extern const requeue_ops_t bull_requeue; // enqueue.c

// The parts of the side task.
extern const side_task_ops_t bull_stalled_task;    // stalled.c
extern const side_task_ops_t bull_quarantine_task; // quarantine.c
extern const side_task_ops_t bull_failed_task;     // failed.c

bool bull_dry_run(const dry_run_t *run); // dry_run.c
