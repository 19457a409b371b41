#include "config/load.h"

#include <stdlib.h>
#include <string.h>

#include "config/dialect.h"
#include "config/value.h"

static void *load_base(load_t *load, const config_key_t *key) {
    return config_key_in_policy(key) ? (void *)&load->config->defaults : (void *)load->config;
}

void config_load_defaults(load_t *load) {
    for (size_t i = 0; i < config_key_count; i++) {
        const config_key_t *key = &config_keys[i];
        if (config_key_in_policy(key) || !config_key_in_queue(key))
            config_value_set_known(key, key->fallback, load_base(load, key));
    }
}

static void load_key(load_t *load, const config_key_t *key, const node_t *node, const char *group) {
    buffer_t why = {0};
    size_t row = config_key_row(key);
    load->keys[row] = node->location;
    if (!config_value_set(key, node, load_base(load, key), &why)) {
        diagnostic_add(load->errors, &node->location, "`%s%s%s` %s", group, *group ? "." : "", key->name, buffer_text(&why));
        if (config_key_in_policy(key)) load->defaults_have_errors = true;
    }
    buffer_free(&why);
}

static void load_section(load_t *load, const node_t *group, const char *section) {
    if (group->kind != NODE_GROUP) {
        diagnostic_add(load->errors, &group->location, "`%s` must be a group: %s = { ... };", group->name, group->name);
        return;
    }
    char *place = mem_printf("`%s`: ", group->name);
    for (size_t i = 0; i < group->count; i++) {
        const node_t *node = &group->children[i];
        const config_key_t *key = config_key_find(section, node->name);
        if (key)
            load_key(load, key, node, group->name);
        else
            config_load_unknown(load, node, section, place, NULL);
    }
    free(place);
}

static bool load_is_section(const char *name) {
    const char *sections[CONFIG_SECTIONS_MAX];
    size_t count = config_key_sections(sections);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(sections[i], name) == 0) return true;
    }
    return false;
}

void config_load_file(load_t *load, const node_t *root) {
    for (size_t i = 0; i < root->count; i++) {
        const node_t *node = &root->children[i];
        const config_key_t *key = config_key_find("", node->name);
        if (key)
            load_key(load, key, node, "");
        else if (strcmp(node->name, "defaults") == 0)
            load_section(load, node, "queue");
        else if (load_is_section(node->name))
            load_section(load, node, node->name);
        else if (strcmp(node->name, "queues") != 0)
            config_load_unknown(load, node, "", "", NULL);
    }
}

const location_t *config_load_location(const load_t *load, size_t queue, const char *name) {
    const config_dialect_t *dialect = load->config->queues[queue].dialect;
    const queue_location_t *location = &load->queues[queue];
    const location_t *key = &location->keys[config_queue_row(dialect, config_queue_key_find(dialect, name))];
    return key->line ? key : &location->self;
}
