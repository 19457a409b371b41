// The address on which a server listens.
#pragma once

#include "base/text/address.h"
#include "config/config.h"

enum { ENDPOINT_SIZE = 320 }; // bytes of "host:port" or of a socket's path, with the NUL

typedef struct endpoint {
    char host[256]; // "" = a unix socket
    int port;
    char text[ENDPOINT_SIZE]; // "127.0.0.1:6379", "[::1]:6379" or the socket's path, for messages
} endpoint_t;

void endpoint_set(endpoint_t *address, const char *host, int port);

// The address at which the sidecar reaches the server that announces `announced` (redis.addresses).
address_t endpoint_reachable(const redis_config_t *redis, const address_t *announced);
