// The embedded scripts, as embed.sh lays them out: text that ends in a NUL byte, and its length without that byte.
#ifndef QS_QUEUE_LUA_EMBED_H
#define QS_QUEUE_LUA_EMBED_H

#include <stddef.h>

// One row per script in sidecar/queue/lua: X(name).
#define SCRIPT_LIST(X)                                                                                                           \
    X(acquire)                                                                                                                   \
    X(renew)                                                                                                                     \
    X(release)                                                                                                                   \
    X(heal)                                                                                                                      \
    X(claim)                                                                                                                     \
    X(promote)                                                                                                                   \
    X(heads)                                                                                                                     \
    X(census)                                                                                                                    \
    X(stamp)                                                                                                                     \
    X(plant)                                                                                                                     \
    X(settle)                                                                                                                    \
    X(reports)                                                                                                                   \
    X(sweep)                                                                                                                     \
    X(tails)                                                                                                                     \
    X(acknowledge)                                                                                                               \
    X(trim)                                                                                                                      \
    X(requeue)                                                                                                                   \
    X(bull_promote)                                                                                                              \
    X(bull_mark)                                                                                                                 \
    X(bull_stalled)                                                                                                              \
    X(bull_settle)                                                                                                               \
    X(bull_seen)                                                                                                                 \
    X(bull_failed)                                                                                                               \
    X(bull_record)                                                                                                               \
    X(bull_requeue)                                                                                                              \
    X(private_tails)                                                                                                             \
    X(private_letters)                                                                                                           \
    X(record_once)                                                                                                               \
    X(de_promote)                                                                                                                \
    X(de_requeue)                                                                                                                \
    X(aside)                                                                                                                     \
    X(aside_settle)

#define X(name)                                                                                                                  \
    extern const char lua_##name[];                                                                                              \
    extern const size_t lua_##name##_len;
SCRIPT_LIST(X)
#undef X

#endif
