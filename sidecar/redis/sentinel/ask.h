// Asks several sentinels at once.
#pragma once

#include <stdatomic.h>

#include "config/config.h"
#include "redis/sentinel/answer.h"

// Fills *answers for `sentinels`, within SENTINEL_TIMEOUT_MS. The caller frees each answer. `stop` may be NULL.
void sentinel_ask_all(const redis_config_t *redis, const address_t *sentinels, size_t count, const atomic_bool *stop,
                      sentinel_answer_t *answers);
