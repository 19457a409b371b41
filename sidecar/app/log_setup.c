#include "app/log_setup.h"

#include <string.h>

// The peak memory of an instance, measured with many of the largest jobs failing at once: the monitor holds one, for a moment
// twice, the auditor another, and the kernel buffers more.
enum { MEMORY_BASE = 24 << 20, MEMORY_OF_JOB = 5, SMALLEST_PAYLOAD = 1 << 10 };

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

void app_log_memory(const config_t *config, int64_t limit) {
    int64_t largest = 0;
    for (size_t i = 0; i < config->queue_count; i++)
        if (config->queues[i].policy.max_payload > largest) largest = config->queues[i].policy.max_payload;
    int64_t needed = MEMORY_BASE + MEMORY_OF_JOB * largest;
    if (needed <= limit) return;
    int64_t fits = (limit - MEMORY_BASE) / MEMORY_OF_JOB;
    if (fits >= SMALLEST_PAYLOAD)
        log_warn("main", NULL, "memory limit too small for max_payload; raise the limit or lower max_payload",
                 F_INT("limit", limit), F_INT("needed", needed), F_INT("max_payload", largest), F_INT("fits", fits));
    else
        log_warn("main", NULL, "memory limit too small for max_payload; raise the limit", F_INT("limit", limit),
                 F_INT("needed", needed), F_INT("max_payload", largest));
}
