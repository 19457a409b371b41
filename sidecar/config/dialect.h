// The interface between config and a dialect. Each dialect fills one config_dialect_t in its own folder; config_load gets them
// all as a config_dialects_fn. A queue points to its dialect.
#pragma once

#include "config/config.h"
#include "config/file/source.h"
#include "config/table.h"

// Keys of `defaults` and of queues that a dialect cannot honour, and what to use instead.
typedef struct config_refusal {
    const char *keys; // names, separated by spaces
    const char *instead;
    bool takes_default; // the file may still set the default
} config_refusal_t;

// A queue while its dialect derives settings that the file lacks.
typedef struct derive {
    queue_config_t *queue;
    const config_t *config; // everything except queues is set
    // For the functions below.
    struct load *load;
    size_t index;
    struct queue_location *location;
    const char *prefix; // how each message begins: "queue `email`: "
} derive_t;

struct config_dialect {
    const char *name; // the word in the file
    // Keys of its own, made by DIALECT_KEY, or by CONFIG_KEY with `own`. A key of the same name in another dialect must be the
    // same but for its place.
    const config_key_t *keys;
    size_t key_count;
    size_t own_size; // size of the struct that holds the values of these keys (queue_config_t.own); 0 = no such struct
    const config_refusal_t *refusals;
    size_t refusal_count;
    const char *prefix;         // default of the key `prefix`; NULL = the dialect does not know that key
    const char *shared_option;  // several queues of the dialect may have the keys of this option; NULL = none
    bool delays;                // has delayed jobs; false: only the role monitor serves its queues
    bool many_slots;            // its keys lie in many slots, so that it cannot work in a Cluster
    bool heartbeat_of_consumer; // `heartbeat` may be HEARTBEAT_OF_CONSUMER
    bool heartbeat_of_job;      // * in `heartbeat` is the job's id; false: `heartbeat` is off unless the queue sets it

    // Derives key names, and reports settings that cannot work. NULL: each key name is a setting of its own.
    void (*derive)(derive_t *derive);
    // Reports two queues of this dialect that would harm each other although they share no key. `derive` is of the later queue.
    // NULL: no two queues can.
    void (*compare)(derive_t *derive, const queue_config_t *earlier);
    // Frees memory in `own` that derive allocated. The values of keys are freed already. NULL: derive allocates nothing.
    void (*release)(void *own);
    // The list to which workers push jobs that failed; "" = the queue has none. NULL: no queue has one.
    const char *(*dead_letters)(const queue_config_t *queue);
    // Adds the commands that workers of the queue must use, in one line, for `check`. NULL: the dialect's library knows
    // them, and `check` prints the names of the keys, if there is `derive`.
    void (*commands)(const queue_config_t *queue, buffer_t *out);
    // The name of the group whose consumers read the queue's stream, borrowed. NULL: the dialect has no key of SIZE_GROUP.
    const char *(*consumer_group)(const queue_config_t *queue);
    // Adds the keys that its workers and the sidecar share, in the order of the dump.
    void (*redis_keys)(const queue_config_t *queue, redis_keys_t *out);
};

// Help of keys that several dialects have.
#define KEY_HELP_QUEUES                                                                                                          \
    "Names as given to KMQueueManager, in the same order, with :safe where set; names of queues in Sidekiq, default "            \
    "\"default\"."
#define KEY_HELP_RECORD_FAILED "Whether failures that workers decide are recorded too."

// ---- For derive and compare.

bool derive_is_given(const derive_t *derive, const char *key);       // the queue itself sets the key
bool derive_is_in_defaults(const derive_t *derive, const char *key); // `defaults` of the file sets the key
bool derive_has_failed(const derive_t *derive);                      // the queue has an error
void derive_text(char **field, char *owned);                         // frees the text of the field and takes `owned`
// Reports an error or a warning at the line of the key, or at the line of the queue if the queue does not set the key.
void derive_report(const derive_t *derive, bool is_error, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define derive_error(derive, key, ...)   derive_report(derive, true, key, __VA_ARGS__)
#define derive_warning(derive, key, ...) derive_report(derive, false, key, __VA_ARGS__)
char *derive_quote(const char *text); // the text in the syntax of the file, safe on a terminal; owned

// ---- For redis_keys.

// Adds a key, unless the name is NULL or "", or a key of this role has the name. Copies the name. Patterns stay last.
void redis_keys_add(redis_keys_t *keys, const redis_key_t *key);
// Adds a key that the sidecar writes. The option that sets the key's name is also the role.
void redis_keys_add_option(redis_keys_t *keys, const char *option, char *name, const char *type, redis_key_size_t size);

// ---- For other files of config.

// Whether the dialect has the key. A queue must not set a key that its dialect lacks.
bool config_key_of_dialect(const config_key_t *key, const config_dialect_t *dialect);
// Whether a queue of the dialect may set the key to this value.
bool config_dialect_takes(const config_key_t *key, const config_dialect_t *dialect, const node_t *node);
// Adds why the dialect refuses the key ("is not for dialect bull: ..."), or which dialects have the key.
void config_dialect_refuse(const config_key_t *key, const config_dialect_t *dialect, config_dialects_fn *dialects, buffer_t *out);

// The rows of a queue: all rows of config_keys, also keys outside queues, then rows of the dialect. NULL behind the last.
const config_key_t *config_queue_key(const config_dialect_t *dialect, size_t row);
size_t config_queue_row(const config_dialect_t *dialect, const config_key_t *key);
const config_key_t *config_queue_key_find(const config_dialect_t *dialect,
                                          const char *name); // NULL = no queue of the dialect has such a key
// The struct of the queue that holds the value. Write to the struct only if you own the queue.
void *config_queue_base(const config_key_t *key, const queue_config_t *queue);
// Calls `each` for every key, also those of the dialects. The row is valid during the call.
typedef void config_key_fn(void *self, const config_key_t *key);
void config_key_each(config_dialects_fn *dialects, config_key_fn *each, void *self);
// Turns the row of the key `dialect` into an enum of these dialects, the first as default; copies any other row.
typedef const char *config_words_t[CONFIG_DIALECTS_MAX + 1];
config_key_t config_key_with_dialects(const config_key_t *key, config_dialects_fn *dialects, config_words_t words);
// Adds the names of the dialects that know the key; nothing where all do. `last` is between the last two.
void config_key_dialects(const config_key_t *key, config_dialects_fn *dialects, const char *between, const char *last,
                         buffer_t *out);
