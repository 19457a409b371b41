#pragma once

#include "config/config.h"

typedef struct private_config {
    char *main;     // the list that workers move jobs from
    char *private;  // pattern in which * is the worker; "" = registry alone
    char *registry; // key that names the private lists; "" = SCAN finds the lists
    char *dedup;    // set of ids of finished jobs; "" = none
} private_config_t;

static inline private_config_t *private_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t private_settings;
