#ifndef QS_DIALECTS_BULL_CONFIG_H
#define QS_DIALECTS_BULL_CONFIG_H

#include "config/config.h"

typedef struct bull_config {
    char *bull_queue;            // the queue's name in Bull
    int64_t stalled_interval_ms; // how long an active job without a lock must have been so
    int64_t max_stalled;         // how often a job may stall
    bool record_failed;          // record the failures that workers decide
    char *base;                  // derived: what each of its keys begins with, before a colon
} bull_config_t;

static inline bull_config_t *bull_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t bull_settings;

#endif
