// The state of a load, and its steps.
#pragma once

#include "config/config.h"
#include "config/file/diagnostic.h"
#include "config/file/source.h"
#include "config/table.h"

typedef struct queue_location {
    location_t self; // where the queue's group begins
    location_t keys[CONFIG_KEYS_MAX];
    bool has_errors; // a value is wrong: do not compare this queue
    bool duplicate;  // an earlier queue has this name; report no other conflict of the two
} queue_location_t;

typedef struct load {
    config_t *config;
    config_dialects_fn *dialects;
    diagnostics_t *errors;
    diagnostics_t *warnings;
    location_t keys[CONFIG_KEYS_MAX]; // of all keys outside queues, and of `defaults`
    queue_location_t *queues;         // one for each queue of the config
    bool defaults_have_errors;
} load_t;

// Reads the list `queues`. Call it after `defaults` are set: queues fall back to them.
void config_load_queues(load_t *load, const node_t *root);

// Sets keys outside queues from QUEUE_SIDECAR_<SECTION>_<KEY>.
void config_load_environment(load_t *load);

// Splits a redis.url of this origin into host, port, socket, db, username and password, which replace values of weaker origins.
// Call it right after setting the keys of that origin.
void config_load_url(load_t *load, origin_t origin);

// Checks values that depend on each other: names, windows, delays, Redis keys.
void config_load_check(load_t *load);

// Reports an unknown key, with the nearest known one, its right place, or the keys that are known here: in a queue the keys
// of its dialect, which is NULL elsewhere. The prefix begins the message: "`redis`: ".
void config_load_unknown(load_t *load, const node_t *node, const char *section, const char *prefix,
                         const config_dialect_t *dialect);

// Derives key names and defaults by the dialect of a queue, after its own keys are set, and reports settings that cannot work.
// The prefix begins the messages: "queue `email`: ".
void config_load_dialect(load_t *load, size_t queue, const char *prefix);

// Asks the dialect of both queues whether they would harm each other.
void config_load_compare(load_t *load, size_t queue, size_t earlier);

// The place of a queue's value; the place of the queue if the value is inherited.
const location_t *config_load_location(const load_t *load, size_t queue, const char *name);

// Returns (owned) the name of a key outside queues for messages: "`redis.port`", or the environment variable that set it.
char *config_load_shown(const config_key_t *key, origin_t origin);
