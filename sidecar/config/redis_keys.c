// The Redis keys that a queue uses: for the check of conflicts, the preflight, the dump and ACL rules.
#include <stdlib.h>
#include <string.h>

#include "config/dialect.h"

void redis_keys_add(redis_keys_t *keys, const redis_key_t *key) {
    if (!key->name || !*key->name) return;
    // Only one role may have a key several times; the check of conflicts must see all others.
    for (size_t i = 0; i < keys->count; i++)
        if (strcmp(keys->items[i].role, key->role) == 0 && strcmp(keys->items[i].name, key->name) == 0) return;
    keys->items = mem_grown(keys->items, keys->count, sizeof *keys->items);
    keys->items[keys->count] = *key;
    keys->items[keys->count++].name = mem_str(key->name);
}

void redis_keys_add_option(redis_keys_t *keys, const char *option, char *name, const char *type, redis_key_size_t size) {
    redis_keys_add(keys, &(redis_key_t){option, option, name, type, KEY_WRITES, size, false, false});
}

redis_keys_t config_redis_keys(const queue_config_t *queue) {
    const queue_policy_t *policy = &queue->policy;
    redis_keys_t keys = {0};
    queue->dialect->redis_keys(queue, &keys);
    if ((policy->roles & ROLE_MONITOR) && strcmp(policy->heartbeat, "off") != 0)
        redis_keys_add(&keys,
                       &(redis_key_t){.role = "heartbeat", .option = "heartbeat", .name = policy->heartbeat, .pattern = true});
    return keys;
}

void config_redis_keys_free(redis_keys_t *keys) {
    for (size_t i = 0; i < keys->count; i++) free(keys->items[i].name);
    free(keys->items);
    *keys = (redis_keys_t){0};
}
