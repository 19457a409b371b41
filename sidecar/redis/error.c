#include "redis/error.h"

#include <stdarg.h>

// After an error with one of these codes nothing is written, and the same request may succeed later (redis src/server.c,
// createSharedObjects). After NOSCRIPT conn_open loads the scripts again.
static const char *const RETRY_CODES[] = {"LOADING",  "MASTERDOWN", "BUSY",       "READONLY", "CLUSTERDOWN",
                                          "TRYAGAIN", "MISCONF",    "NOREPLICAS", "OOM",      "NOSCRIPT"};

outcome_t redis_error_set(redis_error_t *error, outcome_t outcome, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    for (char *at = error->text; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = ' ';
    error->outcome = outcome;
    return outcome;
}

outcome_t redis_error_from_reply(redis_error_t *error, const char *text, size_t len) {
    int shown = (int)(len < sizeof error->text - 1 ? len : sizeof error->text - 1);
    size_t word = 0;
    while (word < len && text[word] != ' ') word++;
    for (size_t i = 0; i < sizeof RETRY_CODES / sizeof *RETRY_CODES; i++)
        if (word == strlen(RETRY_CODES[i]) && memcmp(text, RETRY_CODES[i], word) == 0)
            return redis_error_set(error, OUTCOME_RETRY, "%.*s", shown, text);
    return redis_error_set(error, OUTCOME_REFUSED, "%.*s", shown, text);
}

bool redis_error_is_full(const redis_error_t *error) {
    return error->outcome == OUTCOME_RETRY && strncmp(error->text, "OOM", 3) == 0;
}
