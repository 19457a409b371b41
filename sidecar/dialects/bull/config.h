#pragma once

#include "config/config.h"

typedef struct bull_config {
    char *bull_queue;            // the queue's name in Bull
    int64_t stalled_interval_ms; // an active job without a lock has stalled after this time
    int64_t max_stalled;         // how often a job may stall
    bool record_failed;          // record the failures that workers decide
    char *base;                  // derived: the prefix of the queue's keys, without the colon
} bull_config_t;

static inline bull_config_t *bull_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t bull_settings;
