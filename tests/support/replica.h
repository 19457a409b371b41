/* A replica of a server, and its promotion. */
#pragma once

#include "server.h"

/* Starts a replica of `primary`, which must listen on TCP, and waits until it has all data. Owned by the caller. */
server_t *replica_start(server_t *primary, const server_options_t *options);
/* Makes it a primary with the data that it has. What the former primary writes from now on is lost to it. */
void replica_promote(server_t *replica);
