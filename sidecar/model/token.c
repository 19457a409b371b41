#include "model/token.h"

#include "base/clock.h"

enum { RANDOM_DIGITS = 32, TTL_DIGITS = 6 };

void token_new(char token[TOKEN_SIZE], int64_t ttl_ms) {
    random_hex(token, RANDOM_DIGITS);
    snprintf(token + RANDOM_DIGITS, TOKEN_SIZE - RANDOM_DIGITS, "-%lld", (long long)ttl_ms);
}

int64_t token_ttl_ms(const char *token) {
    const char *digits = token + RANDOM_DIGITS + 1;
    if (strspn(token, "0123456789abcdef") != RANDOM_DIGITS || digits[-1] != '-') return 0;
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > TTL_DIGITS || digits[count] != '\0') return 0;
    int64_t ttl_ms = strtoll(digits, NULL, 10);
    return ttl_ms >= MIN_LOCK_TTL_MS && ttl_ms <= MAX_LOCK_TTL_MS ? ttl_ms : 0;
}
