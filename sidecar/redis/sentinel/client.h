// One connection to a sentinel: AUTH, then requests with replies in order. Blocks, within a time limit.
#pragma once

#include "base/text/address.h"
#include "config/config.h"
#include "redis/socket/channel.h"

struct redisReply;

typedef struct sentinel_client sentinel_client_t;

enum { SENTINEL_TIMEOUT_MS = 500 };

time_limit_t sentinel_limit(const atomic_bool *stop); // SENTINEL_TIMEOUT_MS from now; `stop` may be NULL

// Connects and authenticates as the settings for sentinels say. Returns owned. NULL: *error names the sentinel.
sentinel_client_t *sentinel_client_new(const redis_config_t *redis, const address_t *sentinel, time_limit_t *limit,
                                       redis_error_t *error);
void sentinel_client_free(sentinel_client_t *client); // NULL is fine
int sentinel_client_fd(const sentinel_client_t *client);
int64_t sentinel_client_certificate_end(const sentinel_client_t *client); // as of tls_first_end

// Sends AUTH if the password file holds another password than the connection has sent. A refusal leaves the connection as it is.
// Call it only when no reply is outstanding. False: *error.
bool sentinel_client_renew(sentinel_client_t *client, time_limit_t *limit, redis_error_t *error);
// Whether the password file holds another password. A subscribed connection cannot send AUTH: replace it.
bool sentinel_client_is_outdated(const sentinel_client_t *client);

// Appends a request; `words` ends with NULL.
void sentinel_client_add(sentinel_client_t *client, const char *const *words);

// Sends what was added. False: the connection is lost.
bool sentinel_client_send(sentinel_client_t *client, time_limit_t *limit, redis_error_t *error);
// Sends what was added, and waits for the next reply; owned, and no error reply. NULL: *error.
struct redisReply *sentinel_client_read(sentinel_client_t *client, time_limit_t *limit, redis_error_t *error);

// The next reply or message that has arrived, without waiting; owned. NULL: none, or *error.
struct redisReply *sentinel_client_try_read(sentinel_client_t *client, redis_error_t *error);
