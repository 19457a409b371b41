#include "config/load.h"

#include "config/dialect.h"
#include "config/literal.h"
#include "config/value.h"

// The struct that holds the value of a key of `defaults` or outside queues; NULL for a key of queues only.
static void *load_base(config_t *config, const config_key_t *key) {
    if (config_key_in_policy(key)) return &config->defaults;
    return config_key_in_queue(key) ? NULL : config;
}

static void load_key(load_t *load, const config_key_t *key, const node_t *node, const char *group) {
    buffer_t why = {0};
    size_t row = config_key_row(key);
    load->keys[row] = node->location;
    if (!config_value_set(key, node, load_base(load->config, key), &why)) {
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
            config_load_unknown(load, node, section, NULL, place);
    }
    free(place);
}

static bool load_is_section(const char *name) {
    for (size_t row = 0; row < config_key_count; row++)
        if (config_key_begins_section(row) && strcmp(config_keys[row].section, name) == 0) return true;
    return false;
}

static void load_file(load_t *load, const node_t *root) {
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
            config_load_unknown(load, node, "", NULL, "");
    }
}

// Returns (owned) where a value came from, for messages after the load; NULL = the default.
static char *load_place(const config_key_t *key, const location_t *location) {
    if (location->origin == ORIGIN_ENVIRONMENT) return config_load_shown(key, ORIGIN_ENVIRONMENT);
    return location->file ? mem_printf("%s:%d", location->file, location->line) : NULL;
}

static struct config_origins *load_origins(const load_t *load) {
    struct config_origins *origins = mem_alloc(sizeof *origins);
    size_t queues = load->config->queue_count;
    origins->queues = mem_array(queues, sizeof *origins->queues);
    for (size_t row = 0; row < CONFIG_KEYS_MAX; row++) {
        origins->keys[row] = load->keys[row].origin;
        if (row < config_key_count) origins->places[row] = load_place(&config_keys[row], &load->keys[row]);
        for (size_t i = 0; i < queues; i++) origins->queues[i][row] = load->queues[i].keys[row].origin;
    }
    return origins;
}

static load_t load_begin(const char *path, config_dialects_fn *dialects, diagnostics_t *errors, diagnostics_t *warnings) {
    load_t load = {.config = mem_alloc(sizeof(config_t)), .dialects = dialects, .errors = errors, .warnings = warnings};
    load.config->path = mem_str(path);
    errors->main_file = warnings->main_file = path;
    for (size_t i = 0; i < config_key_count; i++) {
        void *base = load_base(load.config, &config_keys[i]);
        if (!base || strcmp(config_keys[i].fallback, CONFIG_AS_REDIS_TLS) == 0) continue;
        config_value_set_known(&config_keys[i], config_keys[i].fallback, base);
    }
    return load;
}

// One more than hide_payload takes is enough: then it hides all.
static void load_gather_hidden(strings_t *all, const strings_t *hide) {
    for (size_t i = 0; i < hide->count && all->count <= HIDE_MAX; i++)
        if (!strings_has(all, hide->items[i])) strings_add(all, hide->items[i]);
}

config_t *config_load(const char *path, config_dialects_fn *dialects, buffer_t *messages) {
    diagnostics_t errors = {0}, warnings = {0};
    load_t load = load_begin(path, dialects, &errors, &warnings);
    node_t *root = config_source_read(path, &errors, &load.config->files);
    if (root) {
        load_file(&load, root);
        config_load_url(&load, ORIGIN_FILE);
        config_load_environment(&load);
        config_load_url(&load, ORIGIN_ENVIRONMENT);
        config_load_redis(&load);
        config_load_queues(&load, root);
        config_load_check(&load);
        load_gather_hidden(&load.config->all_hidden, &load.config->defaults.hide);
        for (size_t i = 0; i < load.config->queue_count; i++)
            load_gather_hidden(&load.config->all_hidden, &load.config->queues[i].policy.hide);
        load.config->origins = load_origins(&load);
    }
    bool good = errors.count == 0;
    diagnostics_write(good ? &warnings : &errors, messages);
    diagnostics_free(&warnings);
    config_source_free(root);
    free(load.queues);
    if (good) return load.config;
    config_free(load.config);
    return NULL;
}

config_t *config_load_refused(const char *path, config_dialects_fn *dialects) {
    if (access(path, R_OK) != 0) return NULL;
    diagnostics_t errors = {0}; // config_load has reported these errors
    load_t load = load_begin(path, dialects, &errors, &errors);
    node_t *root = config_source_read(path, &errors, &load.config->files);
    if (root) load_file(&load, root);
    config_load_url(&load, ORIGIN_FILE);
    if (!root) *load.config->audit.path = '\0'; // nobody knows which one the file names
    config_load_environment(&load);
    config_load_url(&load, ORIGIN_ENVIRONMENT);
    diagnostics_free(&errors);
    config_source_free(root);
    return load.config;
}

static void load_take_text(char **text, const char *from) {
    if (**text) return;
    free(*text);
    *text = mem_str(from);
}

void config_take_secrets(config_t *config, const config_t *from) {
    redis_config_t *to = &config->redis;
    load_take_text(&to->password_file, from->redis.password_file);
    load_take_text(&to->sentinel_password_file, from->redis.sentinel_password_file);
    load_take_text(&to->password, from->redis.password);
    load_take_text(&to->sentinel_password, from->redis.sentinel_password);
    if (from->redis.user_alone) load_take_text(&to->username, from->redis.username);
}

const char *config_place(const config_t *config, const char *section, const char *name) {
    const config_key_t *key = config_key_find(section, name);
    const char *place = key && config->origins ? config->origins->places[config_key_row(key)] : NULL;
    return place ? place : config->path;
}

static void config_free_queue(queue_config_t *queue) {
    const config_key_t *key;
    for (size_t i = 0; (key = config_queue_key(queue->dialect, i)) != NULL; i++)
        if (config_key_in_queue(key)) config_value_free(key, config_queue_base(key, queue));
    if (queue->dialect->release && queue->own) queue->dialect->release(queue->own);
    free(queue->own);
}

config_t *config_share(config_t *config) {
    atomic_fetch_add(&config->sharers, 1);
    return config;
}

void config_free(config_t *config) {
    if (!config || atomic_fetch_sub(&config->sharers, 1) > 0) return;
    for (size_t i = 0; i < config_key_count; i++) {
        void *base = load_base(config, &config_keys[i]);
        if (base) config_value_free(&config_keys[i], base);
    }
    for (size_t i = 0; i < config->queue_count; i++) config_free_queue(&config->queues[i]);
    free(config->queues);
    strings_free(&config->all_hidden);
    for (size_t row = 0; config->origins && row < CONFIG_KEYS_MAX; row++) free(config->origins->places[row]);
    if (config->origins) free(config->origins->queues);
    free(config->origins);
    config_files_clear(&config->files);
    free(config->path);
    free(config);
}
