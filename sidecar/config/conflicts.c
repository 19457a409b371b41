// Keys that two queues would both use, or one queue twice.
#include <stdlib.h>
#include <string.h>

#include "config/load.h"

typedef struct entry {
    const redis_key_t *key;
    size_t queue;
    size_t place; // among the keys of its queue
} entry_t;

typedef struct clash {
    const entry_t *left, *right; // right is the later one in the file
} clash_t;

// All keys of all queues that are worth comparing.
typedef struct field {
    redis_keys_t *of; // by queue
    entry_t *entries;
    size_t count;
} field_t;

static bool conflict_is_bull(const load_t *load, size_t queue) { return load->config->queues[queue].dialect == DIALECT_BULL; }

static int conflict_order_by_place(const entry_t *a, const entry_t *b) {
    if (a->queue != b->queue) return a->queue < b->queue ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

static int conflict_order_by_name(const void *left, const void *right) {
    const entry_t *a = left, *b = right;
    int order = strcmp(a->key->name, b->key->name);
    return order ? order : conflict_order_by_place(a, b);
}

// The order of the file: by the later key's queue, then the earlier one's, then their places.
static int conflict_order_by_queues(const void *left, const void *right) {
    const clash_t *a = left, *b = right;
    if (a->right->queue != b->right->queue) return a->right->queue < b->right->queue ? -1 : 1;
    int order = conflict_order_by_place(a->left, b->left);
    return order ? order : conflict_order_by_place(a->right, b->right);
}

static field_t conflicts_gather(const load_t *load) {
    size_t queues = load->config->queue_count, all = 0;
    field_t field = {.of = mem_array(queues, sizeof *field.of)};
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

// A Bull queue is compared by what its keys begin with, once. What both only read they may share.
static bool conflict_is(const load_t *load, const entry_t *a, const entry_t *b) {
    if (strcmp(a->key->name, b->key->name) != 0) return false;
    return (a->key->writes || b->key->writes) &&
           (a->queue == b->queue || (!conflict_is_bull(load, a->queue) && !conflict_is_bull(load, b->queue)));
}

static size_t conflicts_find(const load_t *load, const field_t *field, clash_t *out) {
    size_t count = 0;
    for (size_t i = 0; i < field->count; i++) {
        for (size_t j = i + 1; j < field->count && strcmp(field->entries[i].key->name, field->entries[j].key->name) == 0; j++) {
            if (!conflict_is(load, &field->entries[i], &field->entries[j])) continue;
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
        diagnostic_add(load->faults, location->file, location->line, "queue `%s`: its %s and its %s are the same key `%s`", a,
                       left->key->role, right->key->role, left->key->name);
    else
        diagnostic_add(load->faults, location->file, location->line,
                       "queues `%s` and `%s` share the key `%s`: it is %s of `%s` and %s of `%s`", a, b, left->key->name,
                       left->key->role, a, right->key->role, b);
}

static bool conflict_begins_with(const char *text, const char *start, size_t len) { return strncmp(text, start, len) == 0; }

// Ids of Bull's jobs may hold colons: each key that begins with the queue's own is the hash of a job that could be there.
static void conflicts_with_bull(load_t *load, const field_t *field, size_t bull, size_t other) {
    const queue_config_t *of = &load->config->queues[bull], *by = &load->config->queues[other];
    char *start = mem_printf("%s:", of->own.base);
    char *base = mem_printf("%s:", by->own.base);
    size_t later = bull > other ? bull : other;
    const location_t *location = config_load_location(load, later, conflict_is_bull(load, later) ? "bull_queue" : "name");
    if (conflict_is_bull(load, other) && strcmp(start, base) == 0) {
        if (other < bull)
            diagnostic_add(load->faults, location->file, location->line, "queues `%s` and `%s` are the same queue of Bull, `%s`",
                           by->name, of->name, of->own.base);
    } else if (conflict_is_bull(load, other) && conflict_begins_with(base, start, strlen(start))) {
        diagnostic_add(load->faults, location->file, location->line,
                       "queue `%s`: its keys begin with `%s`, and so do those of jobs of queue `%s`, whose ids may hold a colon: "
                       "use another `prefix` for one of them",
                       by->name, base, of->name);
    }
    for (size_t k = 0; !conflict_is_bull(load, other) && k < field->of[other].count; k++) {
        const redis_key_t *key = &field->of[other].items[k];
        if (key->pattern || !conflict_begins_with(key->name, start, strlen(start))) continue;
        location = config_load_location(load, later, later == other ? key->option : "bull_queue");
        diagnostic_add(load->faults, location->file, location->line,
                       "queue `%s`: its key `%s` begins with `%s`, as those of jobs of queue `%s` do: choose another", by->name,
                       key->name, start, of->name);
        break;
    }
    free(base);
    free(start);
}

// Whether some name fits both patterns, of one * each: one begins as the other does, and one ends so.
static bool patterns_overlap(const char *a, const char *b) {
    const char *star_a = strchr(a, '*');
    const char *star_b = strchr(b, '*');
    if (!star_a || !star_b) return false;
    size_t before = star_a - a < star_b - b ? (size_t)(star_a - a) : (size_t)(star_b - b);
    size_t end_a = strlen(star_a + 1);
    size_t end_b = strlen(star_b + 1);
    size_t behind = end_a < end_b ? end_a : end_b;
    return strncmp(a, b, before) == 0 && strcmp(star_a + 1 + end_a - behind, star_b + 1 + end_b - behind) == 0;
}

// Each would give the jobs of the other's workers to its own. With registries it is these that tell them apart.
static void conflicts_of_patterns(load_t *load, size_t one, size_t other) {
    const queue_config_t *a = &load->config->queues[one], *b = &load->config->queues[other];
    if (a->dialect != DIALECT_PRIVATE_QUEUES || b->dialect != DIALECT_PRIVATE_QUEUES) return;
    if ((*a->own.registry && *b->own.registry) || !patterns_overlap(a->own.private, b->own.private)) return;
    const location_t *location = config_load_location(load, other, "private");
    diagnostic_add(load->faults, location->file, location->line,
                   "queues `%s` and `%s`: a list can fit both `%s` and `%s`: choose a `private` that has no name in common "
                   "with the other",
                   a->name, b->name, a->own.private, b->own.private);
}

void config_load_conflicts(load_t *load) {
    field_t field = conflicts_gather(load);
    size_t count = conflicts_find(load, &field, NULL);
    clash_t *clashes = mem_array(count + 1, sizeof *clashes);
    conflicts_find(load, &field, clashes);
    if (count) qsort(clashes, count, sizeof *clashes, conflict_order_by_queues);
    for (size_t i = 0; i < count; i++) conflict_report(load, &clashes[i]);
    for (size_t i = 0; i < load->config->queue_count; i++) {
        if (!conflict_is_bull(load, i) || field.of[i].count == 0) continue;
        for (size_t j = 0; j < load->config->queue_count; j++) {
            if (j != i && field.of[j].count) conflicts_with_bull(load, &field, i, j);
        }
    }
    for (size_t i = 0; i < load->config->queue_count; i++)
        for (size_t j = i + 1; j < load->config->queue_count; j++)
            if (field.of[i].count && field.of[j].count) conflicts_of_patterns(load, i, j);
    for (size_t i = 0; i < load->config->queue_count; i++) config_redis_keys_free(&field.of[i]);
    free(clashes);
    free(field.entries);
    free(field.of);
}
