#pragma once

#include "config/config.h"

typedef struct delayed_config {
    strings_t types;        // CLASS or CLASS=LIST, as in the file
    int64_t retry_attempts; // attempts in all
    delay_steps_t delays;   // until the next attempt
    strings_t classes;      // derived: Java class, of each of `types`
    strings_t lists;        // derived: key of the ready list, of each of `classes`; two may be equal
    char *events;           // derived: key of the hash of envelopes
} delayed_config_t;

static inline delayed_config_t *delayed_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t delayed_settings;
