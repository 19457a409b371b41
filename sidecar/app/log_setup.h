// Applies a configuration to the log.
#pragma once

#include "base/buffer.h"
#include "base/log.h"
#include "config/config.h"

log_level_t app_log_level(const config_t *config);
void app_log_warnings(buffer_t *warnings); // warnings of config_load, one a line; cuts the text up

// Warns when the cgroup's `limit` (bytes) is too small for the largest job that the configuration allows: the kernel would kill
// the process again for the same job.
void app_log_memory(const config_t *config, int64_t limit);
