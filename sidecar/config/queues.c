#include "config/dialect.h"
#include "config/load.h"
#include "config/value.h"

static const char name_mark[] = "<name>"; // stands for the name of the queue at the start of a default

static bool queue_is_named_after(const config_key_t *key) {
    return key->fallback && strncmp(key->fallback, name_mark, sizeof name_mark - 1) == 0;
}

static bool queue_is_derived(const config_key_t *key) {
    return queue_is_named_after(key) || (key->fallback && strcmp(key->fallback, CONFIG_DIALECT_PREFIX) == 0);
}

// Returns "queue `email`: ", or "queue 2: " for a queue without a valid name. queue_take_key reports the bad name.
static char *queue_message_prefix(const node_t *node, size_t place, queue_config_t *queue) {
    const node_t *name = config_source_child(node, "name");
    buffer_t why = {0};
    if (name) config_value_set(config_key_find("queue-only", "name"), name, queue, &why);
    buffer_free(&why);
    return queue->name ? mem_printf("queue `%s`: ", queue->name) : mem_printf("queue %zu: ", place);
}

static void queue_set_defaults(load_t *load, queue_config_t *queue, queue_location_t *location) {
    const config_key_t *key;
    for (size_t i = 0; (key = config_queue_key(queue->dialect, i)) != NULL; i++) {
        if (config_key_in_policy(key)) {
            config_value_copy(key, &queue->policy, &load->config->defaults);
            location->keys[i].origin = load->keys[i].origin == ORIGIN_FILE ? ORIGIN_DEFAULTS : ORIGIN_DEFAULT;
        } else if (config_key_in_queue(key) && key->fallback && !queue_is_derived(key)) {
            config_value_set_known(key, key->fallback, config_queue_base(key, queue));
        }
    }
}

static void queue_derive_names(queue_config_t *queue, const queue_location_t *location) {
    const config_key_t *key;
    for (size_t i = 0; (key = config_queue_key(queue->dialect, i)) != NULL; i++) {
        if (!config_key_in_queue(key) || !queue_is_derived(key) || location->keys[i].line) continue;
        if (!config_key_of_dialect(key, queue->dialect)) continue;
        char *text = queue_is_named_after(key) ? mem_printf("%s%s", queue->name, key->fallback + sizeof name_mark - 1)
                                               : mem_str(queue->dialect->prefix);
        config_value_set_known(key, text, config_queue_base(key, queue));
        free(text);
    }
}

// NULL: no dialect has this name.
static const config_dialect_t *queue_read_dialect(const load_t *load, const node_t *word, buffer_t *why) {
    int index = 0;
    config_words_t words;
    config_key_t key = config_key_with_dialects(config_key_find("queue-only", "dialect"), load->dialects, words);
    if (word && !config_value_set(&key, word, &index, why)) return NULL;
    return load->dialects((size_t)index);
}

// A queue while it is read from the file.
typedef struct queue_read {
    load_t *load;
    const char *prefix; // of messages
    queue_config_t *queue;
    queue_location_t *location;
    bool known; // false: unknown dialect, so no key is refused
} queue_read_t;

// Sets the value in `base`, or reports why the queue must not set the key. With an unknown dialect, checks only the value.
static void queue_take_key(const queue_read_t *read, const config_key_t *key, const node_t *node, void *base) {
    const config_dialect_t *dialect = read->queue->dialect;
    buffer_t why = {0};
    if (key->type == KEY_DIALECT)
        queue_read_dialect(read->load, node, &why);
    else if (read->known && !config_dialect_takes(key, dialect, node))
        config_dialect_refuse(key, dialect, read->load->dialects, &why);
    else
        config_value_set(key, node, base, &why);
    if (why.len) {
        diagnostic_add(read->load->errors, &node->location, "%s`%s` %s", read->prefix, node->name, buffer_text(&why));
        read->location->has_errors = true;
    }
    buffer_free(&why);
}

static void queue_take_foreign(const queue_read_t *read, const config_dialect_t *home, const config_key_t *key,
                               const node_t *node) {
    void *scratch = mem_alloc(home->own_size);
    queue_take_key(read, key, node, scratch);
    config_value_free(key, scratch);
    free(scratch);
}

static void queue_take_node(const queue_read_t *read, const node_t *node) {
    const config_dialect_t *home = read->queue->dialect;
    const config_key_t *key = config_queue_key_find(home, node->name);
    if (key) {
        read->location->keys[config_queue_row(home, key)] = node->location;
        queue_take_key(read, key, node, config_queue_base(key, read->queue));
        return;
    }
    for (size_t i = 0; !key && (home = read->load->dialects(i)) != NULL; i++) {
        key = config_queue_key_find(home, node->name);
        if (key) queue_take_foreign(read, home, key, node);
    }
    if (!key) config_load_unknown(read->load, node, "queue-only", read->known ? read->queue->dialect : NULL, read->prefix);
}

static void queue_take(load_t *load, const node_t *node, size_t place) {
    queue_config_t *queue = &load->config->queues[load->config->queue_count];
    queue_location_t *location = &load->queues[load->config->queue_count];
    char *prefix = queue_message_prefix(node, place, queue);
    buffer_t why = {0}; // queue_take_key reports the reason
    // Read the dialect first: it decides what the other keys mean.
    const config_dialect_t *dialect = queue_read_dialect(load, config_source_child(node, "dialect"), &why);
    queue->dialect = dialect ? dialect : load->dialects(0);
    queue->own = queue->dialect->own_size ? mem_alloc(queue->dialect->own_size) : NULL;
    *location = (queue_location_t){.self = node->location, .has_errors = load->defaults_have_errors};
    queue->line = node->location.line;
    queue_read_t read = {.load = load, .prefix = prefix, .queue = queue, .location = location, .known = dialect != NULL};
    queue_set_defaults(load, queue, location);
    for (size_t i = 0; i < node->count; i++) queue_take_node(&read, &node->children[i]);
    if (queue->name)
        queue_derive_names(queue, location);
    else if (!config_source_child(node, "name"))
        diagnostic_add(load->errors, &node->location, "%s`name` is missing", prefix);
    if (dialect) config_load_dialect(load, load->config->queue_count, prefix);
    load->config->queue_count++;
    buffer_free(&why);
    free(prefix);
}

void config_load_queues(load_t *load, const node_t *root) {
    const node_t *list = config_source_child(root, "queues");
    const location_t file = {.file = load->config->path}, *location = list ? &list->location : &file;
    if (list && list->kind != NODE_LIST) {
        diagnostic_add(load->errors, location, "`queues` must be a list of groups: queues = ( { name = \"email\"; } );");
        return;
    }
    size_t count = list ? list->count : 0;
    if (count == 0)
        diagnostic_add(load->errors, location, "there are no queues: name at least one, queues = ( { name = \"email\"; } );");
    if (count > CONFIG_QUEUES_MAX) {
        diagnostic_add(load->errors, &list->children[CONFIG_QUEUES_MAX].location,
                       "there are %zu queues, but at most %d may be in one config", count, CONFIG_QUEUES_MAX);
        count = CONFIG_QUEUES_MAX;
    }
    load->config->queues = mem_array(count, sizeof *load->config->queues);
    load->queues = mem_array(count, sizeof *load->queues);
    for (size_t i = 0; i < count; i++) {
        const node_t *node = &list->children[i];
        if (node->kind == NODE_GROUP)
            queue_take(load, node, i + 1);
        else
            diagnostic_add(load->errors, &node->location, "queue %zu must be a group: { name = \"email\"; }", i + 1);
    }
}
