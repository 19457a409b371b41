// The interfaces between the files of dialect bullmq. Its settings are those of bull_queue.h.
#pragma once

#include "dialects/bull_queue.h"

extern const config_dialect_t bullmq_settings;

// What BullMQ writes into `version` of its `meta`, such as "bullmq:5.81.5". Ports in other languages write their own name behind
// "bullmq".
typedef struct bullmq_version {
    int64_t major, minor, patch;
} bullmq_version_t;
bool bullmq_version_read(slice_t text, bullmq_version_t *out); // false: not such a text
bool bullmq_version_moves(const bullmq_version_t *version);    // whether the sidecar may move jobs of this version

outcome_t bullmq_adopt(const call_t *call, buffer_t *refusal);                     // adopt.c
outcome_t bullmq_survey(const call_t *call, survey_report_fn *report, void *self); // adopt.c
extern const side_task_ops_t bullmq_stalled_task;                                  // stalled.c
extern const side_task_ops_t bullmq_failed_task;                                   // failed.c
extern const requeue_ops_t bullmq_requeue;                                         // requeue.c
