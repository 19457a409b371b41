#include "cli/load_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/registry.h"

const char *cli_config_path(const char *option) {
    if (option) return option;
    const char *variable = getenv("QUEUE_SIDECAR_CONFIG");
    return variable && *variable ? variable : CLI_DEFAULT_CONFIG;
}

config_t *cli_read_config(const char *path, buffer_t *messages) { return config_load(path, dialect_settings, messages); }

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
