#include "config/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/dialect.h"
#include "config/load.h"
#include "config/value.h"

static struct config_origins *config_keep_origins(const load_t *load) {
    struct config_origins *origins = mem_alloc(sizeof *origins);
    size_t queues = load->config->queue_count;
    origins->queues = mem_array(queues, sizeof *origins->queues);
    for (size_t row = 0; row < CONFIG_KEYS_MAX; row++) {
        origins->keys[row] = load->keys[row].origin;
        for (size_t i = 0; i < queues; i++) origins->queues[i][row] = load->queues[i].keys[row].origin;
    }
    return origins;
}

static load_t config_begin(const char *path, config_dialects_fn *dialects, diagnostics_t *errors, diagnostics_t *warnings) {
    load_t load = {.config = mem_alloc(sizeof(config_t)), .dialects = dialects, .errors = errors, .warnings = warnings};
    load.config->path = mem_str(path);
    errors->main_file = warnings->main_file = path;
    config_load_defaults(&load);
    return load;
}

config_t *config_load(const char *path, config_dialects_fn *dialects, buffer_t *messages) {
    diagnostics_t errors = {0}, warnings = {0};
    load_t load = config_begin(path, dialects, &errors, &warnings);
    node_t *root = config_source_read(path, &errors);
    if (root) {
        config_load_file(&load, root);
        config_load_url(&load, ORIGIN_FILE);
        config_load_environment(&load);
        config_load_url(&load, ORIGIN_ENVIRONMENT);
        config_load_queues(&load, root);
        config_load_check(&load);
        load.config->origins = config_keep_origins(&load);
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
    diagnostics_t errors = {0}; // config_load has reported them
    load_t load = config_begin(path, dialects, &errors, &errors);
    node_t *root = config_source_read(path, &errors);
    if (root) config_load_file(&load, root);
    config_load_environment(&load);
    diagnostics_free(&errors);
    config_source_free(root);
    return load.config;
}

static void config_free_queue(queue_config_t *queue) {
    const config_key_t *key;
    for (size_t i = 0; (key = config_queue_key(queue->dialect, i)) != NULL; i++)
        if (config_key_in_queue(key)) config_value_free(key, config_queue_base(key, queue));
    if (queue->dialect->release && queue->own) queue->dialect->release(queue->own);
    free(queue->own);
}

void config_free(config_t *config) {
    if (!config) return;
    for (size_t i = 0; i < config_key_count; i++) {
        if (config_key_in_policy(&config_keys[i]))
            config_value_free(&config_keys[i], &config->defaults);
        else if (!config_key_in_queue(&config_keys[i]))
            config_value_free(&config_keys[i], config);
    }
    for (size_t i = 0; i < config->queue_count; i++) config_free_queue(&config->queues[i]);
    free(config->queues);
    if (config->origins) free(config->origins->queues);
    free(config->origins);
    free(config->path);
    free(config);
}
