// The state of a load, and its steps.
#pragma once

#include "config/config.h"
#include "config/file/diagnostic.h"
#include "config/file/source.h"
#include "config/table.h"

typedef struct queue_location {
    location_t self;                  // where the queue's group begins
    location_t keys[CONFIG_KEYS_MAX]; // by config_queue_row; line 0 = the queue does not set the key
    bool has_errors;                  // a value is wrong: do not check how values depend on each other
    bool duplicate;                   // an earlier queue has this name; report no other conflict of these two queues
} queue_location_t;

typedef struct load {
    config_t *config;
    config_dialects_fn *dialects;
    diagnostics_t *errors;
    diagnostics_t *warnings;
    location_t keys[CONFIG_KEYS_MAX]; // by row of config_keys: keys outside queues and in `defaults`
    queue_location_t *queues;         // one for each queue of the config
    bool defaults_have_errors;
    bool url_refused; // redis.url is invalid, so its parts are unknown
} load_t;

// Reads the list `queues`. Call it after `defaults` are set: queues fall back to them.
void config_load_queues(load_t *load, const node_t *root);

// Sets keys outside queues from QUEUE_SIDECAR_<SECTION>_<KEY>.
void config_load_environment(load_t *load);

// Splits a redis.url of this origin into host, port, socket, db, username, password and tls, which replace values of weaker
// origins. Call it right after setting the keys of that origin.
void config_load_url(load_t *load, origin_t origin);

// Sets the defaults of `redis` that follow from other settings, and checks settings of `redis` that depend on each other.
void config_load_redis(load_t *load);

// Checks values that depend on each other: names, windows, delays, Redis keys.
void config_load_check(load_t *load);

// Reports an unknown key, with the nearest known key, or the group where the key belongs. The prefix begins the message:
// "`redis`: ". Only keys that `dialect` takes are near; NULL: all are.
void config_load_unknown(load_t *load, const node_t *node, const char *section, const config_dialect_t *dialect,
                         const char *prefix);

// Derives key names and defaults by the dialect of a queue, and reports settings that cannot work. Set the keys of the file
// first. The prefix begins the messages: "queue `email`: ".
void config_load_dialect(load_t *load, size_t queue, const char *prefix);

// Asks the dialect of both queues whether they would harm each other.
void config_load_compare(load_t *load, size_t queue, size_t earlier);

// The location of a queue's value; the location of the queue if the queue does not set the value.
const location_t *config_load_location(const load_t *load, size_t queue, const char *name);

// Returns (owned) the name of a key outside queues for messages: "`redis.port`", or the environment variable that set it.
char *config_load_shown(const config_key_t *key, origin_t origin);
