// Lock tokens: 128 random bits in hex, '-', and the lock's TTL in ms, so that any instance can see how long the lock may live.
#pragma once

#include "base/std.h"

enum { TOKEN_SIZE = 64 }; // bytes of a token with its NUL

// The bounds of lock.ttl.
enum { MIN_LOCK_TTL_MS = 200, MAX_LOCK_TTL_MS = 600000 };

void token_new(char token[TOKEN_SIZE], int64_t ttl_ms);
int64_t token_ttl_ms(const char *token); // 0 when the text is not a token or its TTL is out of bounds
