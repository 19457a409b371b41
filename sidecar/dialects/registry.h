// The dialects of this program: one line each. The first line is the default of the config key `dialect`.
#pragma once

#include "dialects/dialect.h"

#define DIALECTS(X)                                                                                                              \
    X(list)                                                                                                                      \
    X(kmqueue)                                                                                                                   \
    X(delayed_queue)                                                                                                             \
    X(bull)                                                                                                                      \
    X(bullmq)                                                                                                                    \
    X(private_queues)                                                                                                            \
    X(stream)                                                                                                                    \
    X(sidekiq)

#define X(name) extern const dialect_ops_t dialect_##name;
DIALECTS(X)
#undef X

// The settings of dialect `index`, for config_load; NULL behind the last dialect.
const config_dialect_t *dialect_settings(size_t index);
