#include "app_log.h"

#include <string.h>

log_level_t app_log_level(const config_t *config) {
    switch (config->log.level) {
    case LEVEL_ERROR: return LOG_ERROR;
    case LEVEL_WARN: return LOG_WARN;
    case LEVEL_INFO: return LOG_INFO;
    case LEVEL_DEBUG: return LOG_DEBUG;
    }
    return LOG_INFO;
}

void app_log_warnings(buffer_t *warnings) {
    char *rest = warnings->data;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        if (*line) log_warn("main", NULL, "configuration", F_STR("reason", line));
}
