// What a configuration means for the log.
#ifndef QS_APP_LOG_SETUP_H
#define QS_APP_LOG_SETUP_H

#include "base/buffer.h"
#include "base/log.h"
#include "config/config.h"

log_level_t app_log_level(const config_t *config);
void app_log_warnings(buffer_t *warnings); // those of config_load, a line each; the text is cut up

// Warns where memory may not be enough for the largest jobs that the configuration allows: a process that is killed for one comes
// back to the same one. `limit`: bytes, of the cgroup.
void app_log_memory(const config_t *config, int64_t limit);

#endif
