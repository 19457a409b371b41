/* A thin client: a hiredis connection with a timeout, and calls that fail the test on an unexpected reply.
 * The format is that of redisCommand (%s, %b with a size_t length). */
#pragma once

#include "kept.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>

typedef redisContext redis_t;

/* Connects to a unix socket; NULL if that fails. A command may take timeout_ms (scaled). Owned by the caller: redis_close. */
redis_t *redis_open_path(const char *socket, int timeout_ms);
/* NULL is allowed. */
void redis_close(redis_t *r);

/* Returns any reply, also an error; fails the test if the connection breaks. */
redisReply *redis_do(redis_t *r, const char *format, ...);
/* Returns the integer reply. */
long long redis_int(redis_t *r, const char *format, ...);
/* Returns Redis's time, in ms and in us. */
long long redis_ms(redis_t *r);
long long redis_us(redis_t *r);
/* Returns the string or status reply; NULL for nil. */
char *redis_str(redis_t *r, const char *format, ...);
/* Fails the test on an error reply; ignores any other reply. */
void redis_ok(redis_t *r, const char *format, ...);
/* Fails the test unless the command replied this string (NULL: nil). */
void redis_expect(redis_t *r, const char *expected, const char *format, ...);
/* Returns the text of the error reply; fails the test on any other reply. */
char *redis_error(redis_t *r, const char *format, ...);
