// Finds Redis keys that two queues use, or one queue twice.
#include <stdlib.h>
#include <string.h>

#include "config/dialect.h"
#include "config/load.h"

typedef struct entry {
    const redis_key_t *key;
    size_t queue;
    size_t place; // among the keys of its queue
} entry_t;

typedef struct clash {
    const entry_t *left, *right; // right is the later one in the file
} clash_t;

// All keys of the queues that have no errors.
typedef struct field {
    redis_keys_t *of; // by queue
    entry_t *entries;
    size_t count;
} keys_in_use_t;

// Returns the pattern with which a queue reserves all keys of a prefix; NULL = none.
static const redis_key_t *conflict_reserves(const keys_in_use_t *field, size_t queue) {
    for (size_t i = 0; i < field->of[queue].count; i++)
        if (field->of[queue].items[i].reserves) return &field->of[queue].items[i];
    return NULL;
}

static int conflict_order_by_place(const entry_t *a, const entry_t *b) {
    if (a->queue != b->queue) return a->queue < b->queue ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

static int conflict_order_by_name(const void *left, const void *right) {
    const entry_t *a = left, *b = right;
    int order = strcmp(a->key->name, b->key->name);
    return order ? order : conflict_order_by_place(a, b);
}

// In the order of the file: by the later queue, then the earlier one, then their places.
static int conflict_order_by_queues(const void *left, const void *right) {
    const clash_t *a = left, *b = right;
    if (a->right->queue != b->right->queue) return a->right->queue < b->right->queue ? -1 : 1;
    int order = conflict_order_by_place(a->left, b->left);
    return order ? order : conflict_order_by_place(a->right, b->right);
}

static keys_in_use_t conflicts_gather(const load_t *load) {
    size_t queues = load->config->queue_count, all = 0;
    keys_in_use_t field = {.of = mem_array(queues, sizeof *field.of)};
    for (size_t i = 0; i < queues; i++) {
        if (!load->config->queues[i].name || load->queues[i].duplicate) continue;
        field.of[i] = config_redis_keys(&load->config->queues[i]);
        all += field.of[i].count;
    }
    field.entries = mem_array(all + 1, sizeof *field.entries);
    for (size_t i = 0; i < queues; i++) {
        for (size_t k = 0; k < field.of[i].count; k++) {
            if (!field.of[i].items[k].pattern) field.entries[field.count++] = (entry_t){&field.of[i].items[k], i, k};
        }
    }
    if (field.count) qsort(field.entries, field.count, sizeof *field.entries, conflict_order_by_name);
    return field;
}

// Queues that reserve a prefix are compared by it elsewhere. Two queues may share a key that both only read.
static bool conflict_is(const keys_in_use_t *field, const entry_t *a, const entry_t *b) {
    if (strcmp(a->key->name, b->key->name) != 0 || (a->key->use == KEY_READS && b->key->use == KEY_READS)) return false;
    return a->queue == b->queue || (!conflict_reserves(field, a->queue) && !conflict_reserves(field, b->queue));
}

static size_t conflicts_find(const keys_in_use_t *field, clash_t *out) {
    size_t count = 0;
    for (size_t i = 0; i < field->count; i++) {
        for (size_t j = i + 1; j < field->count && strcmp(field->entries[i].key->name, field->entries[j].key->name) == 0; j++) {
            if (!conflict_is(field, &field->entries[i], &field->entries[j])) continue;
            if (out) out[count] = (clash_t){&field->entries[i], &field->entries[j]};
            count++;
        }
    }
    return count;
}

static void conflict_report(load_t *load, const clash_t *clash) {
    const entry_t *left = clash->left, *right = clash->right;
    const char *a = load->config->queues[left->queue].name, *b = load->config->queues[right->queue].name;
    const location_t *location = config_load_location(load, right->queue, right->key->option);
    if (left->queue == right->queue)
        diagnostic_add(load->errors, location, "queue `%s`: its %s and its %s are the same key `%s`", a, left->key->role,
                       right->key->role, left->key->name);
    else
        diagnostic_add(load->errors, location, "queues `%s` and `%s` share the key `%s`: it is %s of `%s` and %s of `%s`", a, b,
                       left->key->name, left->key->role, a, right->key->role, b);
}

// Two queues with reserved prefixes.
static void conflicts_report_same_prefix(load_t *load, const keys_in_use_t *field, size_t one, size_t other) {
    const redis_key_t *mine = conflict_reserves(field, one), *others = conflict_reserves(field, other);
    const char *of = load->config->queues[one].name, *by = load->config->queues[other].name;
    size_t later = one > other ? one : other;
    const location_t *location = config_load_location(load, later, conflict_reserves(field, later)->option);
    int base = (int)strlen(others->name) - 1;
    if (strcmp(mine->name, others->name) == 0) {
        if (other < one)
            diagnostic_add(load->errors, location, "queues `%s` and `%s` have the same keys, which begin with `%.*s`", by, of,
                           base, others->name);
    } else if (strncmp(others->name, mine->name, strlen(mine->name) - 1) == 0) {
        diagnostic_add(
            load->errors, location,
            "queue `%s`: its keys begin with `%.*s`, and so do those of jobs of queue `%s`, whose ids may hold a colon: "
            "use another `prefix` for one of them",
            by, base, others->name, of);
    }
}

// Reports the first key of a queue that begins with the reserved prefix of another one.
static void conflicts_report_reserved_key(load_t *load, const keys_in_use_t *field, size_t one, size_t other) {
    const redis_key_t *mine = conflict_reserves(field, one);
    size_t len = strlen(mine->name) - 1, later = one > other ? one : other;
    for (size_t k = 0; k < field->of[other].count; k++) {
        const redis_key_t *key = &field->of[other].items[k];
        if (key->pattern || strncmp(key->name, mine->name, len) != 0) continue;
        const location_t *location = config_load_location(load, later, later == other ? key->option : mine->option);
        diagnostic_add(load->errors, location,
                       "queue `%s`: its key `%s` begins with `%.*s`, which is reserved for jobs of queue `%s`: choose another",
                       load->config->queues[other].name, key->name, (int)len, mine->name, load->config->queues[one].name);
        break;
    }
}

void config_load_conflicts(load_t *load) {
    keys_in_use_t field = conflicts_gather(load);
    size_t count = conflicts_find(&field, NULL);
    clash_t *clashes = mem_array(count + 1, sizeof *clashes);
    conflicts_find(&field, clashes);
    if (count) qsort(clashes, count, sizeof *clashes, conflict_order_by_queues);
    for (size_t i = 0; i < count; i++) conflict_report(load, &clashes[i]);
    size_t queues = load->config->queue_count;
    for (size_t i = 0; i < queues; i++) {
        for (size_t j = 0; conflict_reserves(&field, i) && j < queues; j++) {
            if (j == i || field.of[j].count == 0) continue;
            (conflict_reserves(&field, j) ? conflicts_report_same_prefix : conflicts_report_reserved_key)(load, &field, i, j);
        }
    }
    for (size_t i = 0; i < queues; i++)
        for (size_t j = i + 1; j < queues; j++)
            if (field.of[i].count && field.of[j].count) config_load_compare(load, j, i);
    for (size_t i = 0; i < queues; i++) config_redis_keys_free(&field.of[i]);
    free(clashes);
    free(field.entries);
    free(field.of);
}
