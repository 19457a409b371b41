// The table of all config keys, one row each. Parser, bounds, environment, dump and key list follow it.
#ifndef QS_CONFIG_TABLE_H
#define QS_CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

typedef enum key_type {
    KEY_INT,      // int64_t
    KEY_DURATION, // int64_t, milliseconds
    KEY_SIZE,     // int64_t, bytes
    KEY_REAL,     // double
    KEY_BOOL,     // bool
    KEY_ENUM,     // int: place in `words`
    KEY_ROLES,    // unsigned: ROLE_* bits
    KEY_TEXT,     // char *, owned; the rest too, each with a rule of its own
    KEY_NAME,     // no spaces or control characters, not our prefix
    KEY_REDIS,    // name of a Redis key, not our prefix
    KEY_PATTERN,  // "off", or the name of a Redis key with one `*`
    KEY_POINTER,  // JSON pointer, or ""
    KEY_STRINGS,  // strings_t, each item 1 to CONFIG_STRING_MOST bytes; bounds are of their number
    KEY_STEPS     // delay_steps_t, as "10: 10s" or "*: 1440s" for the rest; bounds are of the delays
} key_type_t;

typedef struct config_key {
    const char *section; // "" = top level; "queue" = in `defaults` and in each queue; "queue-only" = in each queue
    const char *name;
    key_type_t type;
    const char *fallback; // the default as text; NULL = must be given; "<name>..." begins with the queue's name, and
                          // "<dialect>" is the dialect's own
    const char *low;      // bounds as text, of texts in bytes; NULL where the type has none
    const char *high;
    size_t at; // offset in config_t, queue_policy_t ("queue") or queue_config_t ("queue-only")
    bool reloadable;
    const char *help;

    const char *zero;         // the word for 0, where 0 is below the bounds: "off", "auto"
    const char *const *words; // of an enum, NULL-terminated
    bool secret;              // never shown
    unsigned dialects;        // DIALECT_BIT of each dialect that knows the key; 0 = all
    unsigned fixed;           // of each that takes nothing but the default, and may be told so
} config_key_t;

#define DIALECT_BIT(dialect) (1u << (dialect))

enum { CONFIG_STRING_MOST = 256, CONFIG_STEPS_MAX = 16 };
enum { CONFIG_KEYS_MAX = 96, CONFIG_QUEUES_MAX = 1000, CONFIG_SECTIONS_MAX = 16 };

extern const config_key_t config_keys[];
extern const size_t config_key_count;

// Where a value came from; ORIGIN_DEFAULTS is the group `defaults`.
typedef enum origin { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_DEFAULTS } origin_t;

// By row of config_keys: of all keys outside queues (those of "queue" are the group `defaults`), and of each queue.
struct config_origins {
    origin_t keys[CONFIG_KEYS_MAX];
    origin_t (*queues)[CONFIG_KEYS_MAX];
};

// True for keys of a policy, and for keys that stand in a queue at all.
bool config_key_in_policy(const config_key_t *key);
bool config_key_in_queue(const config_key_t *key);

// Whether the dialect knows the key: what it does not know may not stand in its queues, and `defaults` does not reach it.
bool config_key_of_dialect(const config_key_t *key, dialect_t dialect);

// Row of a key, or NULL.
const config_key_t *config_key_find(const char *section, const char *name);
size_t config_key_row(const config_key_t *key);

// Names of the groups at the top of a file ("redis", "lock", ...), without `defaults` and `queues`. Returns how many.
size_t config_key_sections(const char *names[CONFIG_SECTIONS_MAX]);

// What one type is called in the key list.
const char *config_key_type_name(key_type_t type);

#endif
