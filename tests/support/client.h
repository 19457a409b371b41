/* A thin client: a hiredis connection with a timeout, and calls that fail the test where a reply is not what was asked for.
 * The format is that of redisCommand (%s, %b with a size_t length). */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>

typedef redisContext redis_t;

/* Connects to a unix socket; NULL if nobody listens. A command may take timeout_ms (scaled). Owned by the caller: redis_close. */
redis_t *redis_open_path(const char *socket, int timeout_ms);
/* NULL is allowed. */
void redis_close(redis_t *r);

/* Any reply, also an error reply; fails the test when the connection broke. Owned by the caller: freeReplyObject. */
redisReply *redis_do(redis_t *r, const char *format, ...);
/* The integer that the command replied. */
long long redis_int(redis_t *r, const char *format, ...);
/* The string or status that the command replied, owned by the caller (free); NULL for nil. */
char *redis_str(redis_t *r, const char *format, ...);
/* Runs a command that must not fail; whatever else it replied is thrown away. */
void redis_ok(redis_t *r, const char *format, ...);
/* Fails the test unless the command replied this string (NULL: nil). */
void redis_expect(redis_t *r, const char *expected, const char *format, ...);
/* The text of the error that the command replied, owned by the caller (free); fails the test when there was none. */
char *redis_error(redis_t *r, const char *format, ...);
