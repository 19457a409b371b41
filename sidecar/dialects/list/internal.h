// Settings of dialect list.
#pragma once

#include "config/config.h"
#include "dialects/dialect.h"

typedef enum list_take { TAKE_RIGHT, TAKE_LEFT } list_take_t;

typedef struct list_config {
    list_take_t take; // the end of ready from which workers take jobs
    char *watch;      // list to which workers push jobs that failed; "" = none
} list_config_t;

static inline list_config_t *list_config(const queue_config_t *queue) { return queue->own; }
static inline bool list_watches(const queue_config_t *queue) { return *list_config(queue)->watch; }
static inline bool list_takes_left(const queue_config_t *queue) { return list_config(queue)->take == TAKE_LEFT; }

extern const config_dialect_t list_settings;
