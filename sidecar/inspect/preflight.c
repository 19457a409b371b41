#include "inspect/preflight.h"

#include <stdlib.h>

#include "dialects/dialect.h"
#include "inspect/dry_run.h"
#include "redis/reply.h"

enum { OLDEST_VERSION = 60200 };

typedef struct look {
    conn_t *conn;
    const keyspace_t *keys;
    preflight_report_fn *report;
    void *self;
    redis_error_t *error;
    buffer_t *refusals; // by queue: rights that the dialect needs for this queue and for queues of equal needs, and lacks
    const bool *only;   // by queue: whether to check its keys; NULL = check all queues and the locks
} look_t;

static void preflight_report(const look_t *look, preflight_level_t finding, const char *queue, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void preflight_report(const look_t *look, preflight_level_t finding, const char *queue, const char *format, ...) {
    buffer_t text = {0};
    va_list args;
    va_start(args, format);
    buffer_vprintf(&text, format, args);
    va_end(args);
    look->report(look->self, finding, queue, buffer_text(&text));
    buffer_free(&text);
}

static void preflight_check_version(const look_t *look) {
    preflight_report(look, PREFLIGHT_FACT, NULL, "server is %s at %s", conn_server(look->conn), conn_target(look->conn));
    if (conn_version(look->conn) < OLDEST_VERSION)
        preflight_report(look, PREFLIGHT_REFUSED, NULL, "%s is too old: Redis 6.2 or Valkey 7.2 is needed",
                         conn_server(look->conn));
}

static outcome_t preflight_check_memory(const look_t *look) {
    redisReply *reply;
    request_begin(look->conn, "INFO", "memory");
    if (request_ask(look->conn, &reply, look->error) != OUTCOME_OK) return look->error->outcome;
    slice_t policy = reply_info(reply, "maxmemory_policy:");
    if (policy.len && !slice_is(policy, "noeviction"))
        preflight_report(
            look, PREFLIGHT_WARNING, NULL,
            "maxmemory-policy is %.*s: Redis may evict jobs and locks, and no promise holds then; set it to noeviction",
            (int)policy.len, policy.data);
    freeReplyObject(reply);
    return OUTCOME_OK;
}

static outcome_t preflight_check_role(const look_t *look) {
    redisReply *reply;
    request_begin(look->conn, "ROLE");
    if (request_ask(look->conn, &reply, look->error) != OUTCOME_OK) return look->error->outcome;
    if (!reply_is(reply_at(reply, 0), "master"))
        preflight_report(look, PREFLIGHT_REFUSED, NULL, "the server at %s is a %s: the sidecar must talk to the primary",
                         conn_target(look->conn), reply_text(reply_at(reply, 0)));
    freeReplyObject(reply);
    return OUTCOME_OK;
}

typedef struct typed_key {
    const char *what;
    const char *key;
    const char *type;
} typed_key_t;

static void preflight_check_type(const look_t *look, const char *queue, const typed_key_t *key, const redisReply *reply,
                                 const redis_error_t *error) {
    preflight_level_t finding = queue ? PREFLIGHT_QUEUE_REFUSED : PREFLIGHT_REFUSED;
    if (!reply)
        preflight_report(look, finding, queue, "cannot look at key \"%s\": %s", key->key, error->text);
    else if (!reply_is(reply, "none") && !reply_is(reply, key->type))
        preflight_report(look, finding, queue, "%s key \"%s\" holds a %s where a %s is wanted", key->what, key->key,
                         reply_text(reply), key->type);
}

// Keys of one lock or of one queue.
typedef struct key_set {
    const char *queue; // NULL: of a lock
    typed_key_t *keys; // owned
    size_t count;
    redis_keys_t used; // owned; holds the names
} key_set_t;

static key_set_t preflight_lock_keys(const lock_keys_t *lock) {
    key_set_t set = {.keys = mem_array(2, sizeof *set.keys)};
    set.keys[set.count++] = (typed_key_t){"lock", lock->key, "string"};
    set.keys[set.count++] = (typed_key_t){"served-queues", lock->served, "hash"};
    return set;
}

static key_set_t preflight_queue_keys(const queue_keys_t *queue) {
    const queue_config_t *config = queue->config;
    key_set_t set = {.queue = config->name, .used = config_redis_keys(config)};
    typed_key_t *keys = set.keys = mem_array(set.used.count + 5, sizeof *set.keys);
    for (size_t i = 0; i < set.used.count; i++) {
        const redis_key_t *key = &set.used.items[i];
        if (!key->pattern && key->type) keys[set.count++] = (typed_key_t){key->role, key->name, key->type};
    }
    if (config->policy.roles & ROLE_MONITOR) {
        keys[set.count++] = (typed_key_t){"stamps", queue->stamps, "hash"};
        keys[set.count++] = (typed_key_t){"sentinel", queue->sentinel, "hash"};
    }
    keys[set.count++] = (typed_key_t){"meta", queue->meta, "hash"};
    keys[set.count++] = (typed_key_t){"failures", queue->failures, "stream"};
    keys[set.count++] = (typed_key_t){"auditors", queue->auditors, "hash"};
    return set;
}

// The sets of the locks come first, then those of the queues. A queue that is not wanted has no keys in its set.
static key_set_t preflight_key_set(const look_t *look, size_t number) {
    const keyspace_t *keys = look->keys;
    bool of_lock = number < keys->lock_count;
    if (look->only && (of_lock || !look->only[number - keys->lock_count])) return (key_set_t){0};
    return of_lock ? preflight_lock_keys(&keys->locks[number]) : preflight_queue_keys(&keys->queues[number - keys->lock_count]);
}

static void preflight_append_types(const look_t *look, const key_set_t *set) {
    for (size_t i = 0; i < set->count; i++) {
        request_append(look->conn, "TYPE", set->keys[i].key);
    }
}

// Reads every reply, because an unread reply would answer a later request. *worst is the worst error of all sets.
static void preflight_read_types(const look_t *look, const key_set_t *set, outcome_t *worst) {
    for (size_t i = 0; i < set->count && *worst != OUTCOME_DISCONNECTED; i++) {
        redisReply *reply;
        redis_error_t error;
        outcome_t outcome = conn_read(look->conn, 0, &reply, &error);
        if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) {
            if (*worst == OUTCOME_OK) *look->error = error;
            *worst = outcome;
        } else {
            preflight_check_type(look, set->queue, &set->keys[i], reply, &error);
        }
        conn_reply_free(reply);
    }
}

// All requests go in one pipeline. A thousand round trips on a slow network would outlast the lock that a reload holds.
static outcome_t preflight_check_all_keys(const look_t *look) {
    enum { AT_ONCE = 64 };
    const keyspace_t *keys = look->keys;
    size_t all = keys->lock_count + keys->queue_count;
    outcome_t worst = OUTCOME_OK;
    for (size_t at = 0; at < all && worst == OUTCOME_OK; at += AT_ONCE) {
        key_set_t sets[AT_ONCE];
        size_t count = all - at < AT_ONCE ? all - at : AT_ONCE;
        for (size_t i = 0; i < count; i++) {
            sets[i] = preflight_key_set(look, at + i);
            preflight_append_types(look, &sets[i]);
        }
        for (size_t i = 0; i < count; i++) {
            preflight_read_types(look, &sets[i], &worst);
            free(sets[i].keys);
            config_redis_keys_free(&sets[i].used);
        }
    }
    return worst;
}

static bool preflight_shares_slot(const queue_keys_t *queue, unsigned slot) {
    const queue_config_t *config = queue->config;
    // Includes the keys that no role of this instance uses, because scripts declare them all.
    const char *const declared[] = {queue->meta, config->ready, config->delayed, config->backup, config->errors};
    redis_keys_t used = config_redis_keys(config);
    bool shared = true;
    for (size_t i = 0; shared && i < sizeof declared / sizeof *declared; i++)
        shared = !*declared[i] || slot == keyspace_slot(declared[i]);
    for (size_t i = 0; shared && i < used.count; i++) shared = used.items[i].pattern || slot == keyspace_slot(used.items[i].name);
    config_redis_keys_free(&used);
    return shared;
}

// A pattern with a hash tag has the slot of the tag. A pattern without a tag is not refused, because job ids may contain the
// tag.
static void preflight_check_patterns(const look_t *look, const queue_config_t *config, unsigned slot) {
    redis_keys_t used = config_redis_keys(config);
    for (size_t i = 0; i < used.count; i++) {
        const redis_key_t *key = &used.items[i];
        if (!key->pattern || slot == keyspace_slot(key->name)) continue;
        preflight_report(
            look, PREFLIGHT_WARNING, config->name,
            "in Redis Cluster a key of another slot is out of reach, and its job is not given back: put the hash tag of the "
            "queue "
            "into `%s`, which is \"%s\", unless what * stands for always holds it",
            key->option, key->name);
    }
    config_redis_keys_free(&used);
}

// In Cluster every script touches keys of one slot only.
static outcome_t preflight_check_slots(const look_t *look) {
    redisReply *reply;
    request_begin(look->conn, "INFO", "cluster");
    if (request_ask(look->conn, &reply, look->error) != OUTCOME_OK) return look->error->outcome;
    bool cluster = strstr(reply_text(reply), "cluster_enabled:1") != NULL;
    freeReplyObject(reply);
    for (size_t i = 0; cluster && i < look->keys->queue_count; i++) {
        const queue_keys_t *queue = &look->keys->queues[i];
        unsigned slot = keyspace_slot(look->keys->locks[queue->lock].key);
        if (preflight_shares_slot(queue, slot)) {
            preflight_check_patterns(look, queue->config, slot);
            continue;
        }
        preflight_report(
            look, PREFLIGHT_QUEUE_REFUSED, queue->config->name,
            "in Redis Cluster the keys of a queue and its lock must share a slot: set lock.scope = \"queue\" and put a hash tag "
            "into the "
            "name, like \"{%s}\"",
            queue->config->name);
    }
    return OUTCOME_OK;
}

// A queue with an unknown layout is not served either. A write to keys of another layout may lose jobs.
static outcome_t preflight_check_layout(const look_t *look, size_t i, bool *good) {
    const queue_config_t *queue = look->keys->queues[i].config;
    const dialect_ops_t *ops = dialect_ops(queue->dialect);
    buffer_t refusal = {0};
    *good = true;
    if (!ops->adopt) return OUTCOME_OK;
    const call_t call = {.conn = look->conn, .keys = look->keys, .queue = i, .error = look->error};
    outcome_t outcome = ops->adopt(&call, &refusal);
    if (outcome == OUTCOME_OK && refusal.len)
        preflight_report(look, PREFLIGHT_QUEUE_DISABLED, queue->name, "%s", buffer_text(&refusal));
    if (outcome == OUTCOME_REFUSED)
        preflight_report(look, PREFLIGHT_QUEUE_DISABLED, queue->name, "cannot tell whether its keys are of dialect %s: %s",
                         config_dialect_word(queue->dialect), look->error->text);
    *good = outcome == OUTCOME_OK && !refusal.len;
    buffer_free(&refusal);
    return outcome == OUTCOME_REFUSED ? OUTCOME_OK : outcome;
}

static outcome_t preflight_check_layouts(const look_t *look) {
    outcome_t outcome = OUTCOME_OK;
    bool good;
    for (size_t i = 0; i < look->keys->queue_count && outcome == OUTCOME_OK; i++)
        outcome = preflight_check_layout(look, i, &good);
    return outcome;
}

static void preflight_refused(void *self, refusal_t refusal, size_t queue, const char *what, const char *text) {
    const look_t *look = self;
    buffer_t *all = &look->refusals[queue];
    if (refusal == REFUSAL_DIALECT)
        buffer_printf(all, "%s%s: %s", all->len ? "; " : "", what, text);
    else
        preflight_report(look, refusal == REFUSAL_ALL ? PREFLIGHT_REFUSED : PREFLIGHT_WARNING, NULL,
                         "%s is refused: %s; see docs/acl.md", what, text);
}

// Disables only the queues that lack a right. Frees the refusals.
static void preflight_report_refusals(const look_t *look) {
    for (size_t i = 0; i < look->keys->queue_count; i++) {
        const queue_config_t *queue = look->keys->queues[i].config;
        const buffer_t *all = &look->refusals[dry_run_like(look->keys, i)];
        if (all->len)
            preflight_report(look, PREFLIGHT_QUEUE_DISABLED, queue->name,
                             "what dialect %s needs is refused (see docs/acl.md): %s", config_dialect_word(queue->dialect),
                             buffer_text(all));
    }
    for (size_t i = 0; i < look->keys->queue_count; i++) buffer_free(&look->refusals[i]);
    free(look->refusals);
}

static outcome_t preflight_check_all(const look_t *look) {
    outcome_t (*const looks[])(const look_t *) = {preflight_check_memory, preflight_check_role, preflight_check_slots,
                                                  preflight_check_all_keys, preflight_check_layouts};
    *look->error = (redis_error_t){0};
    preflight_check_version(look);
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        outcome_t outcome = looks[i](look);
        if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) return outcome;
        if (outcome == OUTCOME_REFUSED)
            preflight_report(look, PREFLIGHT_REFUSED, NULL, "preflight is refused: %s", look->error->text);
    }
    return OUTCOME_OK;
}

outcome_t preflight_read_only(conn_t *conn, const keyspace_t *keys, preflight_report_fn *report, void *self,
                              redis_error_t *error) {
    const look_t look = {.conn = conn, .keys = keys, .report = report, .self = self, .error = error};
    outcome_t outcome = preflight_check_all(&look);
    if (outcome == OUTCOME_OK) *error = (redis_error_t){0};
    return outcome;
}

outcome_t preflight(conn_t *conn, const keyspace_t *keys, preflight_report_fn *report, void *self, redis_error_t *error) {
    look_t look = {.conn = conn, .keys = keys, .report = report, .self = self, .error = error};
    outcome_t outcome = preflight_check_all(&look);
    if (outcome != OUTCOME_OK) return outcome;
    look.refusals = mem_array(keys->queue_count, sizeof *look.refusals);
    outcome = dry_run_shared(conn, keys, preflight_refused, &look, error);
    if (outcome == OUTCOME_OK) *error = (redis_error_t){0};
    preflight_report_refusals(&look);
    return outcome;
}

static outcome_t preflight_check_suspected(const look_t *look) {
    bool any = false;
    for (size_t i = 0; i < look->keys->queue_count; i++) any |= look->only[i];
    if (!any) return OUTCOME_OK;
    outcome_t outcome = preflight_check_slots(look);
    return outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY ? outcome : preflight_check_all_keys(look);
}

outcome_t preflight_again(conn_t *conn, const keyspace_t *keys, const bool *suspected, const bool *disabled,
                          preflight_report_fn *report, void *self, redis_error_t *error) {
    bool *wanted = mem_array(keys->queue_count, sizeof *wanted);
    bool any = false;
    look_t look = {.conn = conn, .keys = keys, .report = report, .self = self, .error = error, .only = suspected};
    look.refusals = mem_array(keys->queue_count, sizeof *look.refusals);
    *error = (redis_error_t){0};
    outcome_t outcome = preflight_check_suspected(&look);
    for (size_t i = 0; i < keys->queue_count && outcome == OUTCOME_OK; i++) {
        bool good = false;
        if (disabled[i]) outcome = preflight_check_layout(&look, i, &good);
        if (good) wanted[dry_run_like(keys, i)] = any = true; // otherwise the queue stays disabled
    }
    if (outcome == OUTCOME_OK && any) outcome = dry_run_dialects(conn, keys, wanted, preflight_refused, &look, error);
    if (outcome == OUTCOME_OK) *error = (redis_error_t){0};
    preflight_report_refusals(&look);
    free(wanted);
    return outcome;
}
