// Settings of dialect private_queues, and the interfaces between its files.
#pragma once

#include "config/config.h"
#include "dialects/dialect.h"

typedef struct private_config {
    char *main;     // the list that workers move jobs from
    char *private;  // pattern of the keys, * = the worker's name; "" = `registry` alone names the lists
    char *registry; // key that names the private lists; "" = SCAN finds the lists
    char *dedup;    // set of ids of finished jobs; "" = none
} private_config_t;

static inline private_config_t *private_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t private_settings;

extern const scan_ops_t private_scan; // lists.c
