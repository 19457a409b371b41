// Opening the socket to Redis, and the password for AUTH.
#pragma once

#include "config/config.h"
#include "redis/error.h"
#include "redis/topology.h"

struct redisContext;

// Connects to the address, or to the unix socket of `redis`, within timeout_ms. Returns an owned context whose socket does not
// block. On failure it returns NULL and sets *error to OUTCOME_DISCONNECTED. The message names the address.
struct redisContext *socket_open(const redis_config_t *redis, const endpoint_t *address, int64_t timeout_ms,
                                 redis_error_t *error);

// The password to send; owned, "" = none. Each call reads password_file again, so a rotated secret needs no restart. A line end
// at the end of the file is dropped. Returns NULL with OUTCOME_REFUSED if the file cannot be read.
char *redis_password(const redis_config_t *redis, redis_error_t *error);
