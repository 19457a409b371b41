#include "config/dialect.h"

const char *config_dialect_word(const config_dialect_t *dialect) { return dialect->name; }

const char *config_dead_letters(const queue_config_t *queue) {
    return queue->dialect->dead_letters ? queue->dialect->dead_letters(queue) : "";
}

static bool dialect_has_word(const char *words, const char *word) {
    size_t len = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += len) {
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0')) return true;
    }
    return false;
}

static const config_refusal_t *dialect_find_refusal(const config_dialect_t *dialect, const char *key) {
    for (size_t i = 0; i < dialect->refusal_count; i++)
        if (dialect_has_word(dialect->refusals[i].keys, key)) return &dialect->refusals[i];
    return NULL;
}

static const config_key_t *dialect_find_own_key(const config_dialect_t *dialect, const char *name) {
    for (size_t i = 0; i < dialect->key_count; i++)
        if (strcmp(dialect->keys[i].name, name) == 0) return &dialect->keys[i];
    return NULL;
}

bool config_key_of_dialect(const config_key_t *key, const config_dialect_t *dialect) {
    if (key->own) return dialect_find_own_key(dialect, key->name) != NULL;
    if (!config_key_in_queue(key)) return true;
    if (key->fallback && strcmp(key->fallback, CONFIG_DIALECT_PREFIX) == 0) return dialect->prefix != NULL;
    return !dialect_find_refusal(dialect, key->name);
}

bool config_dialect_takes(const config_key_t *key, const config_dialect_t *dialect, const node_t *node) {
    if (config_key_of_dialect(key, dialect)) return true;
    const config_refusal_t *refusal = dialect_find_refusal(dialect, key->name);
    return refusal && refusal->takes_default && node->kind == NODE_TEXT && strcmp(node->text, key->fallback) == 0;
}

void config_dialect_refuse(const config_key_t *key, const config_dialect_t *dialect, config_dialects_fn *dialects,
                           buffer_t *out) {
    const config_refusal_t *refusal = dialect_find_refusal(dialect, key->name);
    if (!refusal) {
        buffer_str(out, "is for ");
        config_key_dialects(key, dialects, ", ", " and ", out);
        buffer_str(out, ": remove it, or set `dialect`");
    } else if (refusal->takes_default) {
        buffer_printf(out, "must be \"%s\" in dialect %s: %s", key->fallback, dialect->name, refusal->instead);
    } else {
        buffer_printf(out, "is not for dialect %s: %s", dialect->name, refusal->instead);
    }
}

const config_key_t *config_queue_key(const config_dialect_t *dialect, size_t row) {
    if (row < config_key_count) return &config_keys[row];
    return row - config_key_count < dialect->key_count ? &dialect->keys[row - config_key_count] : NULL;
}

size_t config_queue_row(const config_dialect_t *dialect, const config_key_t *key) {
    return key->own ? config_key_count + (size_t)(key - dialect->keys) : config_key_row(key);
}

void *config_queue_base(const config_key_t *key, const queue_config_t *queue) {
    if (key->own) return queue->own;
    return config_key_in_policy(key) ? (void *)&queue->policy : (void *)queue;
}

const config_key_t *config_queue_key_find(const config_dialect_t *dialect, const char *name) {
    const config_key_t *key = config_key_find("queue-only", name);
    if (!key) key = config_key_find("queue", name);
    return key ? key : dialect_find_own_key(dialect, name);
}

bool config_queue_knows(const queue_config_t *queue, const char *name) {
    const config_key_t *key = config_queue_key_find(queue->dialect, name);
    return key && config_key_of_dialect(key, queue->dialect);
}

config_key_t config_key_with_dialects(const config_key_t *key, config_dialects_fn *dialects, config_words_t words) {
    config_key_t row = *key;
    if (key->type != KEY_DIALECT) return row;
    size_t count = 0;
    for (const config_dialect_t *dialect; count < CONFIG_DIALECTS_MAX && (dialect = dialects(count)) != NULL; count++)
        words[count] = dialect->name;
    words[count] = NULL;
    row.type = KEY_ENUM;
    row.fallback = words[0];
    row.words = words;
    row.at = 0;
    return row;
}

// Whether a dialect before `index` has an own key of this name.
static bool dialect_key_is_of_earlier(config_dialects_fn *dialects, size_t index, const char *name) {
    for (size_t i = 0; i < index; i++)
        if (dialect_find_own_key(dialects(i), name)) return true;
    return false;
}

void config_key_each(config_dialects_fn *dialects, config_key_fn *each, void *self) {
    config_words_t words;
    for (size_t i = 0; i < config_key_count; i++) {
        config_key_t row = config_key_with_dialects(&config_keys[i], dialects, words);
        each(self, &row);
    }
    const config_dialect_t *dialect;
    for (size_t i = 0; (dialect = dialects(i)) != NULL; i++)
        for (size_t k = 0; k < dialect->key_count; k++)
            if (!dialect_key_is_of_earlier(dialects, i, dialect->keys[k].name)) each(self, &dialect->keys[k]);
}

void config_key_dialects(const config_key_t *key, config_dialects_fn *dialects, const char *between, const char *last,
                         buffer_t *out) {
    size_t all = 0, left = 0;
    const config_dialect_t *dialect;
    for (; (dialect = dialects(all)) != NULL; all++) left += config_key_of_dialect(key, dialect);
    if (left == all) return;
    for (size_t i = 0; (dialect = dialects(i)) != NULL; i++) {
        if (!config_key_of_dialect(key, dialect)) continue;
        left--;
        buffer_printf(out, "%s%s", dialect->name, left > 1 ? between : left ? last : "");
    }
}

// ---- The Redis keys that a queue uses: for the check of conflicts, the preflight, the dump and ACL rules.

void redis_keys_add(redis_keys_t *keys, const redis_key_t *key) {
    if (!key->name || !*key->name) return;
    // Keep the same name in another role: the check of conflicts must see both.
    for (size_t i = 0; i < keys->count; i++)
        if (strcmp(keys->items[i].role, key->role) == 0 && strcmp(keys->items[i].name, key->name) == 0) return;
    keys->items = mem_grown(keys->items, keys->count, sizeof *keys->items);
    size_t at = keys->count++;
    for (; at && !key->pattern && keys->items[at - 1].pattern; at--) keys->items[at] = keys->items[at - 1];
    keys->items[at] = *key;
    keys->items[at].name = mem_str(key->name);
}

void redis_keys_add_option(redis_keys_t *keys, const char *option, char *name, const char *type, redis_key_size_t size) {
    redis_keys_add(keys, &(redis_key_t){option, option, name, type, KEY_WRITES, size, false, false});
}

static const char NOTIFICATIONS[] = "on_failure";

bool config_key_is_shared(const redis_key_t *key) { return strcmp(key->option, NOTIFICATIONS) == 0; }

redis_keys_t config_redis_keys(const queue_config_t *queue) {
    redis_keys_t keys = {0};
    queue->dialect->redis_keys(queue, &keys);
    redis_keys_add_option(&keys, NOTIFICATIONS, queue->policy.on_failure, "list", SIZE_NONE);
    if (config_heartbeat(queue))
        redis_keys_add(
            &keys, &(redis_key_t){.role = "heartbeat", .option = "heartbeat", .name = queue->policy.heartbeat, .pattern = true});
    return keys;
}

void config_redis_keys_free(redis_keys_t *keys) {
    for (size_t i = 0; i < keys->count; i++) free(keys->items[i].name);
    free(keys->items);
    *keys = (redis_keys_t){0};
}
