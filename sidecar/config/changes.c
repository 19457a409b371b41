// Compares two configurations for a reload.

#include "config/dialect.h"
#include "config/value.h"

static void changes_write_key(const config_key_t *key, const char *queue, buffer_t *out) {
    if (out->len) buffer_str(out, ", ");
    if (queue)
        buffer_printf(out, "%s: ", queue);
    else if (*key->section)
        buffer_printf(out, "%s.", key->section);
    buffer_str(out, key->name);
}

// Compare secrets raw: config_value_write redacts them. Only texts are secret.
static bool changes_is_equal(const config_key_t *key, const void *old, const void *fresh, buffer_t *was, buffer_t *is) {
    config_value_write(key, old, was);
    config_value_write(key, fresh, is);
    if (key->secret) {
        const char *const *before = (const void *)((const char *)old + key->at);
        const char *const *after = (const void *)((const char *)fresh + key->at);
        return strcmp(*before, *after) == 0;
    }
    return strcmp(buffer_text(was), buffer_text(is)) == 0;
}

static void changes_compare(const config_key_t *key, const char *queue, const void *old, const void *fresh, buffer_t *frozen,
                            buffer_t *changes) {
    buffer_t was = {0};
    buffer_t is = {0};
    if (!changes_is_equal(key, old, fresh, &was, &is)) {
        buffer_t *out = key->reloadable ? changes : frozen;
        changes_write_key(key, queue, out);
        if (key->reloadable) buffer_printf(out, " %s -> %s", buffer_text(&was), buffer_text(&is));
    }
    buffer_free(&was);
    buffer_free(&is);
}

const queue_config_t *config_find_queue(const config_t *config, const char *name) {
    for (size_t i = 0; i < config->queue_count; i++)
        if (strcmp(config->queues[i].name, name) == 0) return &config->queues[i];
    return NULL;
}

static void changes_compare_queues(const queue_config_t *old, const queue_config_t *fresh, buffer_t *frozen, buffer_t *changes) {
    const config_key_t *key;
    for (size_t i = 0; (key = config_queue_key(fresh->dialect, i)) != NULL; i++) {
        if (!config_key_in_queue(key) || (key->own && old->dialect != fresh->dialect)) continue;
        changes_compare(key, fresh->name, config_queue_base(key, old), config_queue_base(key, fresh), frozen, changes);
    }
}

static void changes_write_only_in(const config_t *one, const config_t *other, const char *what, buffer_t *changes) {
    for (size_t i = 0; i < one->queue_count; i++)
        if (!config_find_queue(other, one->queues[i].name))
            buffer_printf(changes, "%squeue %s %s", changes->len ? ", " : "", one->queues[i].name, what);
}

void config_changes(const config_t *old, const config_t *fresh, buffer_t *frozen, buffer_t *changes) {
    for (size_t i = 0; i < config_key_count; i++)
        if (!config_key_in_queue(&config_keys[i])) changes_compare(&config_keys[i], NULL, old, fresh, frozen, changes);
    changes_write_only_in(fresh, old, "added", changes);
    changes_write_only_in(old, fresh, "removed", changes);
    for (size_t i = 0; i < fresh->queue_count; i++) {
        const queue_config_t *before = config_find_queue(old, fresh->queues[i].name);
        if (before) changes_compare_queues(before, &fresh->queues[i], frozen, changes);
    }
}
