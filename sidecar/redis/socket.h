// Opening the socket to Redis, and the password for AUTH.
#ifndef QS_REDIS_SOCKET_H
#define QS_REDIS_SOCKET_H

#include "config/config.h"
#include "redis/error.h"

struct redisContext;

// Connects within timeout_ms. Returns an owned context whose socket does not block, or NULL with *error set to
// OUTCOME_DISCONNECTED; `target` is the address for that message.
struct redisContext *socket_open(const redis_config_t *redis, int64_t timeout_ms, const char *target, redis_error_t *error);

// The password to send; owned, "" = none. Reads password_file anew each time, so that a rotated secret needs no restart, and
// drops a trailing line end. Returns NULL with OUTCOME_REFUSED when the file cannot be read.
char *redis_password(const redis_config_t *redis, redis_error_t *error);

#endif
