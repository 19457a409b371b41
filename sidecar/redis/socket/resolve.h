// The addresses of a host name, with a time limit: getaddrinfo itself may wait half a minute for a name server.
#pragma once

#include <netdb.h>

#include "redis/socket/channel.h"

// Returns the addresses of TCP servers, to be freed by freeaddrinfo. NULL: *error is OUTCOME_DISCONNECTED and names the host.
struct addrinfo *resolve_host(const char *host, int port, time_limit_t *limit, redis_error_t *error);
