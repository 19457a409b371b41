// The interfaces between the files of dialect bull.
#pragma once

#include "dialects/bull_queue.h"

extern const config_dialect_t bull_settings;

// Keys that only BullMQ has. A hash with such a key is a job of Bull 4 with that id.
#define BULLMQ_WORDS "events", "marker", "prioritized", "pc"
enum { BULLMQ_KEYS = 4 };

extern const side_task_ops_t bull_stalled_task; // stalled.c
extern const side_task_ops_t bull_failed_task;  // failed.c
