// Hash tags of Redis Cluster: whether the keys of a queue and of its lock share a slot, and how to give them one tag.

#include "config/dialect.h"

slice_t config_hash_tag(const char *key) {
    const char *open = strchr(key, '{'), *close = open ? strchr(open + 1, '}') : NULL;
    return close && close > open + 1 ? (slice_t){open + 1, (size_t)(close - open - 1)} : slice_text("");
}

// The first key without this tag; NULL = all have it. Skips patterns: the text for their * may bring the tag.
static const redis_key_t *tag_find_missing(slice_t tag, const redis_keys_t *keys) {
    for (size_t i = 0; i < keys->count; i++)
        if (!keys->items[i].pattern && (!tag.len || !slice_equal(tag, config_hash_tag(keys->items[i].name))))
            return &keys->items[i];
    return NULL;
}

// Adds a name with the tag for a queue, and keeps the foreign name of a queue whose default is `name`.
static void tag_add_name(slice_t tag, const queue_config_t *queue, const redis_keys_t *keys, buffer_t *out) {
    slice_t rest = config_hash_tag(queue->name);
    if (!rest.len) rest = slice_text(queue->name);
    buffer_printf(out, "name = \"{%.*s}", (int)tag.len, tag.data);
    if (!slice_equal(rest, tag)) buffer_printf(out, ":%.*s", (int)rest.len, rest.data);
    buffer_str(out, "\"");
    for (size_t i = 0; i < keys->count; i++)
        if (keys->items[i].reserves)
            buffer_printf(out, ", and %s = \"%.*s\" unless it is set", keys->items[i].option, (int)rest.len, rest.data);
}

// `missing`: a key that the dialect does not make of `name`.
static void tag_add_option(const queue_config_t *queue, const redis_key_t *missing, const redis_keys_t *keys, buffer_t *out) {
    const config_key_t *key = config_queue_key_find(queue->dialect, missing->option);
    const char *value = key && key->type == KEY_REDIS ? *(char **)((char *)config_queue_base(key, queue) + key->at) : "";
    slice_t tag = slice_text(*value ? value : queue->name);
    buffer_printf(out, "give both one hash tag, such as %s = \"{%.*s}\" (also for the workers) and ", missing->option,
                  (int)tag.len, tag.data);
    tag_add_name(tag, queue, keys, out);
}

bool config_shares_slot(const queue_config_t *queue, buffer_t *advice) {
    redis_keys_t keys = config_redis_keys(queue);
    slice_t own = config_hash_tag(queue->name), theirs = keys.count ? config_hash_tag(keys.items[0].name) : own;
    const redis_key_t *missing = tag_find_missing(own, &keys);
    if (!missing) {
        // the lock has the tag of `name`
    } else if (!tag_find_missing(theirs, &keys)) {
        buffer_str(advice, "put the hash tag of its keys into `name` too: ");
        tag_add_name(theirs, queue, &keys, advice);
    } else if (own.len) {
        buffer_printf(advice, "put the hash tag of `name` into `%s`, which gives the key \"%s\"", missing->option, missing->name);
    } else if (strncmp(missing->name, queue->name, strlen(queue->name)) == 0) {
        buffer_printf(advice, "put the name into braces: name = \"{%s}\"", queue->name);
    } else {
        tag_add_option(queue, missing, &keys, advice);
    }
    config_redis_keys_free(&keys);
    return !missing;
}
