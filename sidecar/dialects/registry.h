// The dialects of this program: one line each. The first is the default of the key `dialect`.
#pragma once

#include "dialects/dialect.h"

#define DIALECTS(X)                                                                                                              \
    X(list)                                                                                                                      \
    X(kmqueue)                                                                                                                   \
    X(delayed_queue)                                                                                                             \
    X(bull)                                                                                                                      \
    X(private_queues)

#define X(name) extern const dialect_ops_t dialect_##name;
DIALECTS(X)
#undef X

// What config_load gets: the settings of each dialect; NULL behind the last.
const config_dialect_t *dialect_settings(size_t index);
