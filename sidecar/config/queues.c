#include <string.h>

#include <stdlib.h>

#include "config/dialects.h"
#include "config/load.h"
#include "config/value.h"

static const char name_mark[] = "<name>";       // begins the default of a key that is named after its queue
static const char dialect_mark[] = "<dialect>"; // the default that each dialect has its own of: a prefix

static bool named_after_queue(const config_key_t *key) {
    return key->fallback && strncmp(key->fallback, name_mark, sizeof name_mark - 1) == 0;
}

static bool is_derived(const config_key_t *key) {
    return named_after_queue(key) || (key->fallback && strcmp(key->fallback, dialect_mark) == 0);
}

static void *base_of(queue_config_t *queue, const config_key_t *key) {
    return config_key_in_policy(key) ? (void *)&queue->policy : (void *)queue;
}

static const config_key_t *find(const char *name) {
    const config_key_t *key = config_key_find("queue-only", name);
    return key ? key : config_key_find("queue", name);
}

// "queue `email`: ", or by its place in the list where it has no good name.
static char *prefix_of(const node_t *node, size_t place) {
    const node_t *name = config_source_child(node, "name");
    queue_config_t scratch = {0};
    buffer_t why = {0};
    bool good = name && config_value_set(find("name"), name, &scratch, &why);
    char *prefix = good ? mem_printf("queue `%s`: ", scratch.name) : mem_printf("queue %zu: ", place);
    buffer_free(&why);
    free(scratch.name);
    return prefix;
}

static void fall_back(load_t *load, queue_config_t *queue, queue_location_t *location) {
    buffer_t why = {0};
    for (size_t i = 0; i < config_key_count; i++) {
        const config_key_t *key = &config_keys[i];
        if (config_key_in_policy(key)) {
            config_value_copy(key, &queue->policy, &load->config->defaults);
            location->keys[i].origin = load->keys[i].origin == ORIGIN_FILE ? ORIGIN_DEFAULTS : ORIGIN_DEFAULT;
        } else if (config_key_in_queue(key) && key->fallback && !is_derived(key)) {
            if (!config_value_set_text(key, key->fallback, queue, &why)) abort(); // the table contradicts itself
        }
    }
    buffer_free(&why);
}

static void derive_names(queue_config_t *queue, const queue_location_t *location) {
    buffer_t why = {0};
    for (size_t i = 0; i < config_key_count; i++) {
        const config_key_t *key = &config_keys[i];
        if (!config_key_in_queue(key) || !is_derived(key) || location->keys[i].line) continue;
        if (!config_key_of_dialect(key, queue->dialect)) continue;
        char *text = named_after_queue(key) ? mem_printf("%s%s", queue->name, key->fallback + sizeof name_mark - 1)
                                            : mem_str(queue->dialect == DIALECT_BULL ? "bull" : "de_");
        if (!config_value_set_text(key, text, queue, &why)) abort(); // a good name makes a good key
        free(text);
    }
    buffer_free(&why);
}

const location_t *config_load_location(const load_t *load, size_t queue, const char *name) {
    const queue_location_t *location = &load->queues[queue];
    const location_t *key = &location->keys[config_key_row(find(name))];
    return key->line ? key : &location->self;
}

// The dialect stands anywhere in the group, but decides what the other keys mean. False: it is not a good one.
static bool read_dialect(const node_t *node, dialect_t *dialect) {
    const node_t *word = config_source_child(node, "dialect");
    queue_config_t scratch = {.dialect = DIALECT_LIST};
    buffer_t why = {0};
    bool good = !word || config_value_set(find("dialect"), word, &scratch, &why);
    *dialect = scratch.dialect;
    buffer_free(&why);
    return good;
}

// Dialect NULL: not known, so nothing is foreign to it.
static void take_key(load_t *load, const config_key_t *key, const node_t *node, const char *prefix, const dialect_t *dialect) {
    queue_config_t *queue = &load->config->queues[load->config->queue_count];
    queue_location_t *location = &load->queues[load->config->queue_count];
    buffer_t why = {0};
    location->keys[config_key_row(key)] = (location_t){node->file, node->line, ORIGIN_FILE};
    if (dialect && !config_dialect_takes(key, *dialect, node)) {
        config_dialect_refuse(key, *dialect, &why);
        diagnostic_add(load->faults, node->file, node->line, "%s`%s` %s", prefix, key->name, buffer_text(&why));
        location->faulty = true;
    } else if (!config_value_set(key, node, base_of(queue, key), &why)) {
        diagnostic_add(load->faults, node->file, node->line, "%s`%s` %s", prefix, key->name, buffer_text(&why));
        location->faulty = true;
    }
    buffer_free(&why);
}

static void take_queue(load_t *load, const node_t *node, size_t place) {
    queue_config_t *queue = &load->config->queues[load->config->queue_count];
    queue_location_t *location = &load->queues[load->config->queue_count];
    char *prefix = prefix_of(node, place);
    *location = (queue_location_t){.self = {node->file, node->line, ORIGIN_FILE}, .faulty = load->defaults_faulty};
    queue->line = node->line;
    dialect_t dialect;
    bool known = read_dialect(node, &dialect);
    fall_back(load, queue, location);
    for (size_t i = 0; i < node->count; i++) {
        const config_key_t *key = find(node->children[i].name);
        if (key)
            take_key(load, key, &node->children[i], prefix, known ? &dialect : NULL);
        else
            config_load_unknown(load, &node->children[i], "queue-only", prefix, &dialect);
    }
    if (queue->name)
        derive_names(queue, location);
    else if (!config_source_child(node, "name"))
        diagnostic_add(load->faults, node->file, node->line, "%sit has no `name`: every queue needs one", prefix);
    if (known) config_load_dialect(load, load->config->queue_count, prefix);
    load->config->queue_count++;
    free(prefix);
}

void config_load_queues(load_t *load, const node_t *root) {
    const node_t *list = config_source_child(root, "queues");
    const char *file = list ? list->file : load->config->path;
    if (list && list->kind != NODE_LIST) {
        diagnostic_add(load->faults, file, list->line, "`queues` must be a list of groups: queues = ( { name = \"email\"; } );");
        return;
    }
    if (!list || list->count == 0) {
        diagnostic_add(load->faults, file, list ? list->line : 0,
                       "there are no queues: name at least one, queues = ( { name = \"email\"; } );");
        return;
    }
    size_t count = list->count;
    if (count > CONFIG_QUEUES_MAX) {
        diagnostic_add(load->faults, file, list->children[CONFIG_QUEUES_MAX].line,
                       "there are %zu queues, but at most %d may be in one config", count, CONFIG_QUEUES_MAX);
        count = CONFIG_QUEUES_MAX;
    }
    load->config->queues = mem_array(count, sizeof *load->config->queues);
    load->queues = mem_array(count, sizeof *load->queues);
    for (size_t i = 0; i < count; i++) {
        const node_t *node = &list->children[i];
        if (node->kind == NODE_GROUP)
            take_queue(load, node, i + 1);
        else
            diagnostic_add(load->faults, node->file, node->line, "queue %zu must be a group: { name = \"email\"; }", i + 1);
    }
}
