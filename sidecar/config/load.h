// What lives only while a config is loaded, and the steps that fill it.
#ifndef QS_CONFIG_LOAD_H
#define QS_CONFIG_LOAD_H

#include "config/config.h"
#include "config/file/diagnostic.h"
#include "config/file/source.h"
#include "config/table.h"

// Where a value stands, for messages. File is borrowed from the source tree.
typedef struct location {
    const char *file;
    int line; // 0 = not in a file
    origin_t origin;
} location_t;

typedef struct queue_location {
    location_t self; // where the queue's group begins
    location_t keys[CONFIG_KEYS_MAX];
    bool has_errors; // a value of its own is wrong: its values are not worth comparing
    bool duplicate;  // an earlier queue has its name: its keys all collide, which is not said again
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

// Fills every key outside queues, and `defaults`, with the table's defaults.
void config_load_defaults(load_t *load);

// Takes every key outside queues from the tree; what is unknown or wrong becomes a fault.
void config_load_file(load_t *load, const node_t *root);

// Takes the list `queues`; its queues fall back to `defaults`, which must have been taken already.
void config_load_queues(load_t *load, const node_t *root);

// Takes keys outside queues from QUEUE_SIDECAR_<SECTION>_<KEY>.
void config_load_environment(load_t *load);

// Takes redis.url apart into host, port, socket, db, username and password, if it came from this origin; they replace what
// weaker origins said. Taken right after the keys of that origin.
void config_load_url(load_t *load, origin_t origin);

// Compares values with each other: names, windows that are too short.
void config_load_check(load_t *load);

// Compares the keys that queues use with each other.
void config_load_conflicts(load_t *load);

// Adds the fault of an unknown key: the nearest known one, or where it belongs, or what is known here. Prefix
// begins the message: "`redis`: ". In a queue only the keys that its dialect knows are named; otherwise dialect is NULL.
void config_load_unknown(load_t *load, const node_t *node, const char *section, const char *prefix,
                         const config_dialect_t *dialect);

// Derives what depends on the dialect, once a queue's own keys are taken: key names, defaults, and the faults of its settings.
// Prefix begins the messages: "queue `email`: ".
void config_load_dialect(load_t *load, size_t queue, const char *prefix);

// Asks the dialect of both queues whether they would harm each other.
void config_load_compare(load_t *load, size_t queue, size_t earlier);

// Where a queue's value stands; the queue itself where it is inherited.
const location_t *config_load_location(const load_t *load, size_t queue, const char *name);

// Returns (owned) what messages call a key outside queues: "`redis.port`", or the variable where the environment gave it.
char *config_load_shown(const config_key_t *key, origin_t origin);

#endif
