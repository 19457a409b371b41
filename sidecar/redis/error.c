#include "redis/error.h"

#include <ctype.h>
#include <stdarg.h>

#include "base/buffer.h"
#include "base/slice.h"

// After an error with one of these codes nothing is written, and the same request may succeed later (redis src/server.c,
// createSharedObjects). After NOSCRIPT conn_open loads the scripts again.
static const char *const RETRY_CODES[] = {"LOADING", "MASTERDOWN", "BUSY", "READONLY", "CLUSTERDOWN", "TRYAGAIN",
                                          "MISCONF", "NOREPLICAS", "OOM",  "NOSCRIPT", "UNBLOCKED"};

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

// Redis 6.2 puts places in the script before the error of a command: "ERR Error running script (call to f_SHA1): @user_script:9:
// @user_script: 9: -READONLY ..." (redis 6.2 src/scripting.c, luaPushError and evalGenericCommand). Redis 7 puts them behind it.
static slice_t error_without_places(slice_t text) {
    static const char RUNNING[] = "ERR Error running script (call to ";
    static const char PLACE[] = "@user_script:";
    bool raised = text.len >= strlen(RUNNING) && memcmp(text.data, RUNNING, strlen(RUNNING)) == 0;
    const char *end = text.data + text.len;
    const char *at = raised ? memmem(text.data, text.len, PLACE, strlen(PLACE)) : text.data;
    if (!at) return text;
    while ((size_t)(end - at) >= strlen(PLACE) && memcmp(at, PLACE, strlen(PLACE)) == 0) {
        at += strlen(PLACE);
        while (at < end && (*at == ' ' || *at == ':' || isdigit((unsigned char)*at))) at++;
    }
    if (at > text.data && at < end && *at == '-') at++;
    return (slice_t){at, (size_t)(end - at)};
}

// Redis shows the arguments of a command that it does not know, which may be a password or a payload (redis src/server.c,
// commandCheckExistence).
static slice_t error_without_arguments(slice_t text) {
    static const char ARGUMENTS[] = ", with args beginning with";
    const char *at = memmem(text.data, text.len, ARGUMENTS, strlen(ARGUMENTS));
    return at ? (slice_t){text.data, (size_t)(at - text.data)} : text;
}

outcome_t redis_error_from_reply(redis_error_t *error, const char *reply, size_t len) {
    slice_t error_text = error_without_arguments(error_without_places((slice_t){reply, len}));
    const char *text = error_text.data;
    len = error_text.len;
    int shown = (int)(len < sizeof error->text - 1 ? len : sizeof error->text - 1);
    size_t word = 0;
    while (word < len && text[word] != ' ') word++;
    for (size_t i = 0; i < sizeof RETRY_CODES / sizeof *RETRY_CODES; i++)
        if (word == strlen(RETRY_CODES[i]) && memcmp(text, RETRY_CODES[i], word) == 0)
            return redis_error_set(error, OUTCOME_RETRY, "%.*s", shown, text);
    return redis_error_set(error, OUTCOME_REFUSED, "%.*s", shown, text);
}

char *redis_error_without(const char *text, const char *address) {
    static const char TO[] = " to ";
    size_t len = strlen(address), to = strlen(TO);
    const char *at = len ? strstr(text, address) : NULL;
    if (at && at == text && strncmp(at + len, ": ", 2) == 0) return mem_str(at + len + 2);
    if (!at || (size_t)(at - text) < to || strncmp(at - to, TO, to) != 0) return mem_str(text);
    return mem_printf("%.*s%s", (int)(at - to - text), text, at + len);
}

bool redis_error_is_full(const redis_error_t *error) {
    return error->outcome == OUTCOME_RETRY && strncmp(error->text, "OOM", 3) == 0;
}

bool redis_error_lacks_command(const redis_error_t *error) {
    static const char *const TEXTS[] = {"unknown command", "unknown redis command", "unknown subcommand",
                                        "not available",   "not supported",         "not allowed"};
    bool lacks = false;
    for (size_t i = 0; error->outcome == OUTCOME_REFUSED && i < sizeof TEXTS / sizeof *TEXTS; i++)
        lacks |= strcasestr(error->text, TEXTS[i]) != NULL;
    return lacks;
}

bool redis_reason_is_slot(const char *reason) {
    return strstr(reason, SLOT_IS_MOVING) || strstr(reason, SLOT_HAS_MOVED) || strstr(reason, SLOT_IS_UNSERVED);
}

int64_t redis_reason_pause_ms(const char *reason, int64_t usual_ms) {
    enum { SLOT_MS = 500 };
    return redis_reason_is_slot(reason) && usual_ms > SLOT_MS ? SLOT_MS : usual_ms;
}
