// The table of all config keys, one row each. Parser, bounds, environment, dump and key list follow it.
#pragma once

#include "config/config.h"
#include "config/file/diagnostic.h"

typedef enum key_type {
    KEY_INT,      // int64_t
    KEY_DURATION, // int64_t, milliseconds
    KEY_MICROS,   // int64_t, microseconds
    KEY_SIZE,     // int64_t, bytes
    KEY_REAL,     // double
    KEY_BOOL,     // bool
    KEY_ENUM,     // int: place in `words`
    KEY_ROLES,    // unsigned: ROLE_* bits
    KEY_DIALECT,  // const config_dialect_t *, set by queues.c; its words are the dialects that the program has
    KEY_TEXT,     // char *, owned, as the types down to KEY_POINTER
    KEY_ADDRESS,  // host or socket: no URL
    KEY_USER,     // no URL
    KEY_NAME,     // no spaces or control characters; does not begin with CONFIG_OWN_PREFIX
    KEY_HEADER,   // name of an HTTP header that holds no secret, or ""
    KEY_REDIS,    // name of a Redis key; does not begin with CONFIG_OWN_PREFIX
    KEY_PATTERN,  // "off", or the name of a Redis key with one `*`
    KEY_POINTER,  // JSON pointer, or ""
    KEY_STRINGS,  // strings_t, each item 1 to MAX_CONFIG_STRING bytes; the bounds limit the number of items
    KEY_POINTERS, // strings_t, each item a JSON pointer but ""
    KEY_HOSTS,    // strings_t, each item a host name without a port; an address is one, too
    KEY_STEPS     // delay_steps_t, such as "10: 10s" and "*: 1440s" for later attempts; the bounds limit the delays
} key_type_t;

typedef struct config_key_type {
    const char *name; // in `help keys`
    size_t size;
    int kinds;            // bits of the node kinds that may hold such a value
    const char *describe; // printf format of the allowed values, from the bounds; NULL = the words of the key
} config_key_type_t;

extern const config_key_type_t config_key_types[]; // by key_type_t

#define CONFIG_DIALECT_PREFIX "<dialect>"   // stands for a default of each dialect
#define CONFIG_AS_REDIS_TLS   "<redis.tls>" // stands for the value of redis.tls

typedef struct config_key {
    const char *section; // "" = top level; "queue" = in `defaults` and in each queue; "queue-only" = in each queue
    const char *name;
    key_type_t type;
    const char *fallback; // the default as text; NULL = the file must set the key; "<name>" stands for the queue's name,
                          // CONFIG_DIALECT_PREFIX for config_dialect_t.prefix, CONFIG_AS_REDIS_TLS for redis.tls
    const char *low;      // bounds as text; for a text, bounds of its length in bytes; NULL = the type has no bounds
    const char *high;
    size_t at; // offset in config_t, queue_policy_t ("queue"), queue_config_t ("queue-only") or the struct of a dialect (own)
    bool reloadable;
    const char *help;

    const char *zero;         // the word for 0, where 0 is below the bounds: "off", "auto"
    const char *const *words; // of an enum, NULL-terminated
    bool secret;              // never shown
    bool secret_file;         // path of a file that holds a secret; shown only if it looks like a path
    bool own;                 // the key belongs to one dialect; its section is "queue-only" too
} config_key_t;

#define CONFIG_KEY(section_, name_, type_, fallback_, low_, high_, at_, reloadable_, help_, ...)                                 \
    {                                                                                                                            \
        .section = section_, .name = name_, .type = type_, .fallback = fallback_, .low = low_, .high = high_, .at = at_,         \
        .reloadable = reloadable_, .help = help_, __VA_ARGS__                                                                    \
    }
#define CONFIG_PLAIN .secret = false
#define DIALECT_KEY(name_, type_, fallback_, low_, high_, at_, reloadable_, help_)                                               \
    CONFIG_KEY("queue-only", name_, type_, fallback_, low_, high_, at_, reloadable_, help_, .own = true)

#define CONFIG_OWN_PREFIX "sidecar:" // the Redis keys of the sidecar itself begin with this
enum { MAX_CONFIG_STRING = 256, CONFIG_STEPS_MAX = 16 };
enum { CONFIG_KEYS_MAX = 128, CONFIG_QUEUES_MAX = 1000, CONFIG_DIALECTS_MAX = 16 };

// The rows of keys that do not belong to one dialect.
extern const config_key_t config_keys[];
extern const size_t config_key_count;

// The origin of each value. `keys` is by row of config_keys, for keys outside queues and in `defaults`. `queues` is by queue,
// then by config_queue_row.
struct config_origins {
    origin_t keys[CONFIG_KEYS_MAX];
    char *places[CONFIG_KEYS_MAX]; // "FILE:LINE" or a variable, by the row of a key outside queues; NULL = the default
    origin_t (*queues)[CONFIG_KEYS_MAX];
};

// A key in a policy may be in `defaults` and in a queue. A key in a queue is such a key, or a key of queues only.
bool config_key_in_policy(const config_key_t *key);
bool config_key_in_queue(const config_key_t *key);

// Row of a key, or NULL.
const config_key_t *config_key_find(const char *section, const char *name);
size_t config_key_row(const config_key_t *key);

// Whether the row is the first one of a group at the top of a file ("redis", "lock", ...), without `defaults` and `queues`.
bool config_key_begins_section(size_t row);
