// How a socket to Redis comes about, and the password that is sent on it.
#ifndef QS_REDIS_SOCKET_H
#define QS_REDIS_SOCKET_H

#include "config/config.h"
#include "redis/error.h"

struct redisContext;

// Connects within timeout_ms. Returns an owned context whose socket does not block, or NULL with *fault set to
// OUTCOME_LOST; `target` is the address for that message.
struct redisContext *conn_open_socket(const redis_config_t *redis, int64_t timeout_ms, const char *target, fault_t *fault);

// The password to send, owned, "" when there is none. password_file is read anew each time, so that a rotated secret needs no
// restart; a line end at its close is not part of it. Returns NULL with OUTCOME_FAULT when the file cannot be read.
char *conn_password(const redis_config_t *redis, fault_t *fault);

#endif
