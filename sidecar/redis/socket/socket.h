// Opening the channel to a server, and the password for AUTH.
#pragma once

#include "config/config.h"
#include "redis/socket/channel.h"
#include "redis/socket/endpoint.h"

// Connects to `address`, with a TLS handshake if `tls`. Tries each address of a host name, with a share of the time each. Returns
// owned. NULL: *error names address->text. It is OUTCOME_REFUSED if a file must change, otherwise OUTCOME_DISCONNECTED.
channel_t *socket_open(const redis_config_t *redis, const endpoint_t *address, bool tls, time_limit_t *limit,
                       redis_error_t *error);

// The password to send; owned, "" = none. Each call reads password_file again, so a rotated secret needs no restart. A line end
// at the end of the file is dropped. Returns NULL with OUTCOME_REFUSED if the file cannot be read.
char *redis_password(const redis_config_t *redis, redis_error_t *error);
char *redis_sentinel_password(const redis_config_t *redis, redis_error_t *error); // the same for sentinels
