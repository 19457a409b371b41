// Which keys of Redis a queue uses: for the clash check, preflight, the dump and whoever grants rights.
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

enum { READS = 0, WRITES = 1, READ_PATTERN = 2, WRITTEN_PATTERN = 3 };

typedef struct used {
    redis_keys_t keys;
    size_t room;
} used_t;

// Takes name. A name that is empty is no key, and one that stands there already is not added again.
static void add(used_t *used, const char *role, const char *option, char *name, const char *type, int how) {
    bool known = !name || !*name;
    // Only lists of types may repeat: the rest is compared by the clash check, which wants to see it.
    for (size_t i = 0; !known && i < used->keys.count; i++)
        known = strcmp(used->keys.items[i].role, role) == 0 && strcmp(used->keys.items[i].name, name) == 0;
    if (known) {
        free(name);
        return;
    }
    if (used->keys.count == used->room) {
        used->room = used->room ? 2 * used->room : 16;
        redis_key_t *items = mem_array(used->room, sizeof *items);
        if (used->keys.count) memcpy(items, used->keys.items, used->keys.count * sizeof *items);
        free(used->keys.items);
        used->keys.items = items;
    }
    used->keys.items[used->keys.count++] = (redis_key_t){.role = role,
                                                         .option = option,
                                                         .name = name,
                                                         .type = type,
                                                         .writes = (how & WRITES) != 0,
                                                         .pattern = (how & READ_PATTERN) != 0};
}

static char *copy(const char *text) { return text ? mem_str(text) : NULL; }

// What stands under an option of its own name.
static void add_option(used_t *used, const char *option, const char *name, const char *type, int how) {
    add(used, option, option, copy(name), type, how);
}

static void add_heartbeat(used_t *used, const queue_policy_t *policy) {
    if ((policy->roles & ROLE_MONITOR) && strcmp(policy->heartbeat, "off") != 0)
        add_option(used, "heartbeat", policy->heartbeat, NULL, READ_PATTERN);
}

static void use_list(used_t *used, const queue_config_t *queue) {
    const queue_policy_t *policy = &queue->policy;
    bool monitor = policy->roles & ROLE_MONITOR;
    add_option(used, "ready", queue->ready, "list", WRITES);
    if ((policy->roles & ROLE_DISPATCHER) || policy->retry_backoff != BACKOFF_NONE)
        add_option(used, "delayed", queue->delayed, "zset", WRITES);
    if (!monitor) return;
    add_option(used, "backup", queue->backup, "list", WRITES);
    add_option(used, "errors", queue->errors, "hash", WRITES);
    add_option(used, "dlq", queue->dlq, "list", WRITES);
}

static void use_kmqueue(used_t *used, const queue_config_t *queue) {
    const dialect_config_t *own = &queue->own;
    add_option(used, "backup", queue->backup, "list", WRITES);
    for (size_t i = 0; i < own->lists.count; i++) {
        add(used, "ready", "queues", copy(own->lists.items[i]), "list", WRITES);
        add(used, "unique", "queues", copy(own->uniques.items[i]), "set", WRITES);
    }
    add_option(used, "dlq", queue->dlq, "list", WRITES);
}

static void use_delayed_queue(used_t *used, const queue_config_t *queue) {
    const dialect_config_t *own = &queue->own;
    add(used, "delayed", "prefix", copy(queue->delayed), "zset", WRITES);
    add(used, "events", "prefix", copy(own->events), "hash", WRITES);
    for (size_t i = 0; i < own->lists.count; i++) add(used, "ready", "types", copy(own->lists.items[i]), "list", WRITES);
}

// By the names of Bull's own sources (OptimalBits/bull, lib/queue.js, 4.16.5).
static void use_bull(used_t *used, const queue_config_t *queue) {
    static const struct {
        const char *name, *type;
        int how;
    } keys[] = {
        {"delayed", "zset", WRITES},
        {"wait", "list", WRITES},
        {"paused", "list", WRITES},
        {"meta-paused", NULL, READS},
        {"priority", "zset", WRITES},
        {"active", "list", WRITES},
        {"failed", "zset", WRITES},
        {"stalled", "set", WRITES},
        {"stalled-check", "string", WRITES},
        {"meta", "hash", READS},
        {"id", "string", WRITES},
        {"*", "hash", WRITTEN_PATTERN},
        {"*:lock", "string", READ_PATTERN},
        {"*:logs", "list", WRITTEN_PATTERN},
        {"de:*", "string", WRITTEN_PATTERN},
    };
    if (!*queue->own.base) return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        add(used, keys[i].name, "prefix", mem_printf("%s:%s", queue->own.base, keys[i].name), keys[i].type, keys[i].how);
}

static void use_private_queues(used_t *used, const queue_config_t *queue) {
    const dialect_config_t *own = &queue->own;
    add_option(used, "main", own->main, "list", WRITES);
    add_option(used, "registry", own->registry, NULL, READS);
    add_option(used, "dedup", own->dedup, "set", READS);
    add_option(used, "dlq", queue->dlq, "list", WRITES);
    add_option(used, "private", own->private, "list", WRITTEN_PATTERN);
}

redis_keys_t config_redis_keys(const queue_config_t *queue) {
    static void (*const use[])(used_t *, const queue_config_t *) = {
        [DIALECT_LIST] = use_list,
        [DIALECT_KMQUEUE] = use_kmqueue,
        [DIALECT_DELAYED_QUEUE] = use_delayed_queue,
        [DIALECT_BULL] = use_bull,
        [DIALECT_PRIVATE_QUEUES] = use_private_queues,
    };
    used_t used = {0};
    use[queue->dialect](&used, queue);
    add_heartbeat(&used, &queue->policy);
    return used.keys;
}

void config_redis_keys_free(redis_keys_t *keys) {
    for (size_t i = 0; i < keys->count; i++) free(keys->items[i].name);
    free(keys->items);
    *keys = (redis_keys_t){0};
}
