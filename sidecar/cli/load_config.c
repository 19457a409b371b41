#include "cli/load_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/dialect.h"

const char *cli_config_path(const char *option) {
    if (option) return option;
    const char *variable = getenv("QUEUE_SIDECAR_CONFIG");
    return variable && *variable ? variable : CLI_DEFAULT_CONFIG;
}

// Adds one line for each queue whose dialect has a name but no code. False: there is one.
static bool load_config_knows_dialects(const config_t *config, buffer_t *messages) {
    size_t before = messages->len;
    for (size_t i = 0; i < config->queue_count; i++) {
        const queue_config_t *queue = &config->queues[i];
        if (dialect_ops(queue->dialect)) continue;
        buffer_printf(messages,
                      "%s:%d: queue `%s`: `dialect` is \"%s\", which is not in this version yet; available:", config->path,
                      queue->line, queue->name, config_dialect_word(queue->dialect));
        const char *between = " ";
        for (size_t d = 0; d < DIALECT_COUNT; d++) {
            if (!dialect_ops((dialect_t)d)) continue;
            buffer_printf(messages, "%s%s", between, config_dialect_word((dialect_t)d));
            between = ", ";
        }
        buffer_str(messages, "\n");
    }
    return messages->len == before;
}

config_t *cli_read_config(const char *path, buffer_t *messages) {
    config_t *config = config_load(path, messages);
    if (!config || load_config_knows_dialects(config, messages)) return config;
    config_free(config);
    return NULL;
}

config_t *cli_load_config(const char *path) {
    buffer_t messages = {0};
    config_t *config = cli_read_config(path, &messages);
    for (const char *line = buffer_text(&messages); *line;) {
        int len = (int)strcspn(line, "\n");
        fprintf(stderr, "%s%.*s\n", config ? "warning: " : "", len, line);
        line += len + (line[len] == '\n');
    }
    buffer_free(&messages);
    return config;
}
