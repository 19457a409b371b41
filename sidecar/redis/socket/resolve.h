// The addresses of a host name, with a time limit: getaddrinfo itself may wait half a minute for a name server.
#pragma once

#include <netdb.h>

#include "redis/socket/channel.h"

typedef struct lookup lookup_t;

// Looks up the addresses of TCP servers. Threads that ask for the same host and port at the same time share one lookup. Returns
// owned. NULL: *error is OUTCOME_DISCONNECTED and names the host.
lookup_t *resolve_host(const char *host, int port, time_limit_t *limit, redis_error_t *error);
const struct addrinfo *resolve_addresses(const lookup_t *lookup); // borrowed
void resolve_free(lookup_t *lookup);                              // NULL is fine
