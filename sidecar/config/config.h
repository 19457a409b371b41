// The configuration: read once from a libconfig file, checked as a whole, then never written again.
//
// One table row per key (config_keys) carries its name, type, default, bounds, reloadability and help; the parser, the dump of
// `check`, the sample file and docs/configuration.md follow this table.
#pragma once

#include <stdatomic.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/slice.h"
#include "config/file/files.h"

// The queue layout of a family of workers; see config/dialect.h.
typedef struct config_dialect config_dialect_t;
// The dialects that the program has, by number; NULL behind the last. The first is the default.
typedef const config_dialect_t *config_dialects_fn(size_t index);

typedef enum score_unit { SCORE_MS, SCORE_S } score_unit_t;
typedef enum redis_mode { REDIS_MODE_AUTO, REDIS_MODE_SINGLE, REDIS_MODE_SENTINEL, REDIS_MODE_CLUSTER } redis_mode_t;
typedef enum tls_verify { TLS_VERIFY_FULL, TLS_VERIFY_CA, TLS_VERIFY_NONE } tls_verify_t;
typedef enum tls_min { TLS_MIN_1_2, TLS_MIN_1_3 } tls_min_t;
typedef enum lock_scope { LOCK_SCOPE_AUTO, LOCK_SCOPE_GROUP, LOCK_SCOPE_QUEUE } lock_scope_t;
typedef enum retry_backoff { BACKOFF_NONE, BACKOFF_FIXED, BACKOFF_EXPONENTIAL } retry_backoff_t;
typedef enum history_mode { HISTORY_MINUTE, HISTORY_OFF } history_mode_t;
typedef enum log_format_name { FORMAT_AUTO, FORMAT_JSON, FORMAT_TEXT } log_format_name_t;

enum { ROLE_DISPATCHER = 1u << 0, ROLE_MONITOR = 1u << 1 };
enum { HIDE_MAX = 16 };                  // JSON pointers that `hide` may have
#define HEARTBEAT_OF_CONSUMER "consumer" // value of `heartbeat`: the server itself knows when a worker was last there

typedef struct retry_policy {
    int64_t times;     // retries before the final failure
    int64_t window_ms; // the count of retries starts again this long after the last retry
    retry_backoff_t backoff;
    int64_t delay_ms;
    int64_t delay_max_ms;
    double jitter; // share of the delay, 0 to 1
} retry_policy_t;

typedef struct strings {
    char **items; // owned, each NUL-ended
    size_t count;
} strings_t;

// Settings of `defaults`, which a queue may override. Durations are milliseconds, sizes are bytes.
typedef struct queue_policy {
    int64_t protected_timeout_ms; // one execution may take this long
    int64_t alive_timeout_ms;     // a job may exist this long; 0 = off
    bool alive_kills;             // end a job past its alive timeout even with a heartbeat
    char *heartbeat;              // pattern in which * is the job id; "off" = none; HEARTBEAT_OF_CONSUMER
    retry_policy_t retry;
    int64_t ready_limit;     // promotion waits while ready has this many jobs; 0 = no limit
    score_unit_t score_unit; // of the delayed scores, since 1970
    char *id_path;           // JSON pointers into the payload; "" = none
    char *created_path;
    char *type_path;
    char *trace_path;    // likewise, in the payload as the audit log has it
    bool end_duplicates; // jobs of equal bytes may be ended instead of retried
    int64_t max_payload; // bytes; larger entries stay where they are, and are counted and logged
    unsigned roles;      // ROLE_* bits
    char *on_failure;    // list that gets a notification of each failure; "" = none
    strings_t hide;      // JSON pointers into the payload: nobody may see these values (operate/hide.h)
} queue_policy_t;

// After fewer than `below` attempts a job waits `delay_ms`. The last step has `below` INT64_MAX.
typedef struct delay_step {
    int64_t below;
    int64_t delay_ms;
} delay_step_t;

typedef struct delay_steps {
    delay_step_t *items; // owned, ascending
    size_t count;
} delay_steps_t;

typedef struct queue_config {
    char *name;
    const config_dialect_t *dialect;
    int line; // where the queue's group begins in the file, for messages; 0 = unknown
    // Effective key names, never NULL; "" = the dialect has no such key (in dialect list only backup and dlq may be ""). A
    // name may hold any byte but NUL.
    char *ready;   // "" = no list, or several lists
    char *delayed; // zset
    char *backup;  // list that scans rotate; "" = no such scan
    char *errors;  // hash of the workers' reports
    char *dlq;     // list of dead letters; "" = none
    char *prefix;  // how the queue's keys begin; "" = the dialect has no such setting
    void *own;     // settings and key names of the dialect, in a struct that only the dialect knows; NULL = none; owned
    queue_policy_t policy;
} queue_config_t;

typedef enum redis_key_use { KEY_READS, KEY_WRITES } redis_key_use_t;

// The size of a key that /metrics and `status` show.
typedef enum redis_key_size {
    SIZE_NONE,    // none
    SIZE_READY,   // length of a list, or of a zset that workers take from at its lowest score; the queue may have several
    SIZE_DELAYED, // length of a zset whose scores promote_ops.due_us understands
    SIZE_BACKUP,  // length of a list whose entries rotation_ops.kind_of understands
    SIZE_GROUP,   // of a stream: entries that no consumer of config_dialect_t.consumer_group has read, and those that are pending
    // Length of a list of job ids, the oldest last. Field `processedOn` of a job's hash has the start time. The key of the hash
    // is the key of the list, with the id in place of the role.
    SIZE_ACTIVE,
} redis_key_size_t;

// One Redis key that a queue's workers and the sidecar share. Keys of the sidecar itself ("sidecar:...") are not listed.
typedef struct redis_key {
    const char *role;   // role in the queue: "ready", "backup", "unique"
    const char *option; // key of the config that sets the name
    char *name;         // in a pattern, * is any text
    const char *type;   // the type that Redis must report; NULL = any of several
    redis_key_use_t use;
    redis_key_size_t size;
    bool pattern;  // `name` is a pattern
    bool reserves; // any key that begins like this pattern, up to its *, may belong to a job of the queue
} redis_key_t;

typedef struct redis_keys {
    redis_key_t *items; // owned, with their names; patterns come last
    size_t count;
} redis_keys_t;

typedef struct redis_config {
    char *url; // always "" after a load, which splits it into the fields below
    char *host;
    int64_t port;
    char *socket; // path of a unix socket; "" = use host and port
    int64_t db;
    char *username;      // "" = AUTH with a password alone
    char *password;      // inline or from a url or the environment; "" = none. Secret
    char *password_file; // read again at each connect; wins over password; "" = none
    bool user_alone;     // a url gave a user and nothing gave a password: the user may be the password
    int64_t timeout_ms;  // how long one reply or one connect may take

    redis_mode_t mode;
    redis_mode_t found;  // what the server said that it is, if the settings leave it open; AUTO = nobody has asked
    strings_t nodes;     // seeds of a Cluster; address_parse reads each item of these three lists
    strings_t sentinels; // set if and only if `master` is
    strings_t addresses; // "announced=reachable", each announced address once; see address_parse_pair
    int64_t slice_us;    // time that one script may take
    char *master;
    char *sentinel_username; // like username, password and password_file
    char *sentinel_password;
    char *sentinel_password_file;
    bool sentinel_tls;

    bool tls;
    char *tls_ca_file;     // "" = the CAs of the system
    char *tls_cert_file;   // "" = no client certificate; then tls_key_file is "", too
    char *tls_key_file;    // PEM, not encrypted
    char *tls_server_name; // "" = the host that a connection goes to
    tls_verify_t tls_verify;
    tls_min_t tls_min;
} redis_config_t;

typedef struct config {
    char *path; // the file of the config
    char *group;
    history_mode_t history;
    redis_config_t redis;
    struct {
        int64_t ttl_ms;
        lock_scope_t scope; // use config_lock_scope
        bool lead;          // false: never acquire a lock
    } lock;
    struct {
        int64_t batch; // jobs per promote script
        int64_t safety_poll_ms;
        int64_t blind_poll_ms; // in place of safety_poll_ms where CLIENT TRACKING is refused
    } dispatcher;
    struct {
        int64_t scan_interval_ms; // 0 = auto
        int64_t rotation;         // entries; a longer backup list is read in place
    } monitor;
    struct {
        int64_t retain_ms;
        int64_t min_records;
        int64_t max_bytes;
        int64_t min_copies;
    } stream;
    struct {
        char *path;
        int64_t retain_ms;
        int64_t retain_rows;  // 0 = no limit
        int64_t retain_bytes; // 0 = no limit
        bool ephemeral;
    } audit;
    struct {
        char *listen;
        int64_t port; // 0 = off
        bool page;
        char *token_file;  // "" = none: only the public part of the API
        strings_t hosts;   // allowed in the header Host, besides addresses and localhost
        char *user_header; // "" = none
    } http;
    struct {
        log_level_t level;
        log_format_name_t format;
    } log;
    struct {
        int64_t poll_ms; // 0 = only a signal or a file event reloads
    } reload;
    queue_policy_t defaults;
    queue_config_t *queues;
    size_t queue_count;   // >= 1 after a good load
    strings_t all_hidden; // `hide` of `defaults` and of each queue, as far as hide_payload takes them

    atomic_int sharers;             // besides the owner
    struct config_origins *origins; // where each value came from, for config_dump; NULL in a refused config
    config_files_t files;           // from which it was read
} config_t;

// Reads and checks `path`. The order of precedence is environment (QUEUE_SIDECAR_<SECTION>_<KEY>) > file > default.
// Returns an owned config and appends warnings to *messages, one line "FILE:LINE: text" each. If there are errors, returns NULL
// and appends all errors instead. libconfig stops at a syntax error or a duplicate key, so that error is reported alone.
config_t *config_load(const char *path, config_dialects_fn *dialects, buffer_t *messages) __attribute__((warn_unused_result));

// Every key that the queue's roles use, each name once. Owned: free with config_redis_keys_free.
redis_keys_t config_redis_keys(const queue_config_t *queue);
void config_redis_keys_free(redis_keys_t *keys);
// Whether other queues may have the same key: the list of on_failure.
bool config_key_is_shared(const redis_key_t *key);

// The hash tag of a key (redis.io, cluster specification): the text between the first '{' and the next '}'; "" = none.
slice_t config_hash_tag(const char *key);
// Whether the keys of the queue have the hash tag of its name, which its lock in a Cluster has. False: adds how to give them one.
bool config_shares_slot(const queue_config_t *queue, buffer_t *advice);

// The mode that the settings ask for, nodes for a Cluster; otherwise the one that was found.
redis_mode_t config_redis_mode(const redis_config_t *redis);

// Whether the settings leave the mode open and would also work in a Cluster.
bool config_may_be_cluster(const config_t *config);

// Resolves lock.scope to GROUP or QUEUE, once the mode of Redis is known.
lock_scope_t config_lock_scope(const config_t *config, redis_mode_t mode);

// The name of a dialect, as in the file.
const char *config_dialect_word(const config_dialect_t *dialect);

// NULL is fine. Frees the config unless others still share it.
void config_free(config_t *config);
// Returns `config`, which lives until each sharer has called config_free. Any thread may call both.
config_t *config_share(config_t *config);

// Reads a file that config_load refused: all settings but queues, with the default for a wrong value. With these settings the
// CLI finds the instance that still runs with an earlier config. audit.path is empty if a fault of syntax hides it. Owned; NULL =
// the file cannot be read.
config_t *config_load_refused(const char *path, config_dialects_fn *dialects) __attribute__((warn_unused_result));

// Gives `config`, which was read from a dump, the secrets that a dump hides, of another one.
void config_take_secrets(config_t *config, const config_t *from);

// Writes every effective value in libconfig syntax, secrets redacted, each with a comment where it came from
// (default, file, environment, defaults).
void config_dump(const config_t *config, buffer_t *out);

// Visits every effective value, secrets redacted: `key` as "redis.host", "defaults.retry_times" or "queues.email.retry_times",
// `value` as a config would hold it, `from` as "default", "defaults", "FILE:LINE" or "env NAME".
typedef void config_visit_fn(void *self, const char *key, const char *value, const char *from);
void config_each(const config_t *config, config_visit_fn *visit, void *self);

// The origin of the value of a key outside queues, for messages: "FILE:LINE", or a variable of the environment; for a default,
// the file. Borrowed.
const char *config_place(const config_t *config, const char *section, const char *name);

const queue_config_t *config_find_queue(const config_t *config, const char *name); // NULL = there is none

// The list to which workers of the queue push jobs that failed; "" = none. Borrowed.
const char *config_dead_letters(const queue_config_t *queue);

// The pattern of the heartbeats that the queue looks at; NULL = none. Borrowed.
const char *config_heartbeat(const queue_config_t *queue);
// Whether two patterns make the same key, of one id or of two that differ by leading or trailing digits: "job*" and "job2*" meet
// in "job27".
bool config_heartbeats_meet(const char *one, const char *other);
// Finds queues with heartbeats in common, appends "queues email and orders have heartbeats in common ("*_alive")" to *text and
// sets *second to the second of them. False: each queue has its own.
bool config_shared_heartbeat(const config_t *config, size_t *second, buffer_t *text);

// Whether the dialect of the queue honours the key.
bool config_queue_knows(const queue_config_t *queue, const char *key);

// Reads a number, duration (ms) or size (bytes) by its name in the file. False: a queue of this dialect has no such key.
bool config_queue_number(const queue_config_t *queue, const char *key, int64_t *out);

// Appends to *changes what a reload from `old` to `fresh` would change, as "dispatcher.batch 500 -> 100, queue sms added, email:
// retry_times 3 -> 5", secrets redacted; and to *frozen the names of changed keys that need a restart.
void config_changes(const config_t *old, const config_t *fresh, buffer_t *frozen, buffer_t *changes);

// Writes one row per key as tab-separated text: section, name, type, default, bounds, reloadable, help, dialects (empty = all).
// `make check` compares this list with the sample and the docs.
void config_list_keys(config_dialects_fn *dialects, buffer_t *out);
