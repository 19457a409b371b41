#include "redis/error.h"

#include <ctype.h>
#include <stdarg.h>

#include "base/buffer.h"
#include "base/slice.h"

typedef struct error_row {
    const char *text;
    outcome_t outcome;
    redis_error_kind_t kind;
} error_row_t;

// The beginnings of error replies, whole words. After OUTCOME_RETRY nothing is written, and the same request may succeed later
// (redis src/server.c, createSharedObjects). After NOSCRIPT conn_open loads the scripts again.
static const error_row_t CODES[] = {
    {"ASK", OUTCOME_REFUSED, ERROR_ASK},
    {"BUSY", OUTCOME_RETRY, ERROR_OTHER},
    // The other texts of this code tell that the whole Cluster is down. (redis src/cluster.c, clusterRedirectClient)
    {"CLUSTERDOWN Hash slot not served", OUTCOME_RETRY, ERROR_SLOT_UNSERVED},
    {"CLUSTERDOWN", OUTCOME_RETRY, ERROR_CLUSTER_DOWN},
    {"CROSSSLOT", OUTCOME_REFUSED, ERROR_CROSS_SLOT},
    {"LOADING", OUTCOME_RETRY, ERROR_OTHER},
    {"MASTERDOWN", OUTCOME_RETRY, ERROR_OTHER_PRIMARY},
    {"MISCONF", OUTCOME_RETRY, ERROR_NO_WRITES},
    {"MOVED", OUTCOME_REFUSED, ERROR_MOVED},
    {"NOAUTH", OUTCOME_REFUSED, ERROR_NO_LOGIN},
    {"NOPERM", OUTCOME_REFUSED, ERROR_NO_RIGHT},
    {"NOREPLICAS", OUTCOME_RETRY, ERROR_NO_WRITES},
    {"NOSCRIPT", OUTCOME_RETRY, ERROR_NO_SCRIPT},
    {"OOM", OUTCOME_RETRY, ERROR_FULL},
    {"READONLY", OUTCOME_RETRY, ERROR_OTHER_PRIMARY},
    {"TRYAGAIN", OUTCOME_RETRY, ERROR_TRY_AGAIN},
    {"UNBLOCKED", OUTCOME_RETRY, ERROR_OTHER_PRIMARY}, // redis src/blocked.c, disconnectAllBlockedClients
    {"WRONGPASS", OUTCOME_REFUSED, ERROR_WRONG_PASSWORD},
    {"WRONGTYPE", OUTCOME_REFUSED, ERROR_WRONG_TYPE},
};

// Parts of replies that begin with "ERR", in any case of letters.
static const error_row_t PHRASES[] = {
    // CLIENT TRACKING. The subscriber's connection is gone; the next attempt opens another. (redis src/networking.c,
    // clientCommand)
    {"redirect to does not exist", OUTCOME_RETRY, ERROR_OTHER_PRIMARY},
    {"invalid password", OUTCOME_REFUSED, ERROR_WRONG_PASSWORD}, // before Redis 6
    {"without any password configured", OUTCOME_REFUSED, ERROR_NEEDLESS_PASSWORD},
    {"DB index", OUTCOME_REFUSED, ERROR_DATABASE_NUMBER},
    {"cluster support disabled", OUTCOME_REFUSED, ERROR_NO_CLUSTER},
    {"No such master", OUTCOME_REFUSED, ERROR_NO_SUCH_PRIMARY},
    {"unknown command", OUTCOME_REFUSED, ERROR_NO_COMMAND},
    {"unknown redis command", OUTCOME_REFUSED, ERROR_NO_COMMAND},
    {"unknown subcommand", OUTCOME_REFUSED, ERROR_NO_COMMAND},
    {"not available", OUTCOME_REFUSED, ERROR_NO_COMMAND},
    {"not supported", OUTCOME_REFUSED, ERROR_NO_COMMAND},
    {"not allowed", OUTCOME_REFUSED, ERROR_NO_COMMAND},
};

static outcome_t error_format(redis_error_t *error, outcome_t outcome, redis_error_kind_t kind, const char *format,
                              va_list args) {
    char text[sizeof error->text]; // an argument may be error->text
    vsnprintf(text, sizeof text, format, args);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = ' ';
    *error = (redis_error_t){.outcome = outcome, .kind = kind};
    memcpy(error->text, text, strlen(text) + 1);
    return outcome;
}

outcome_t redis_error_set(redis_error_t *error, outcome_t outcome, const char *format, ...) {
    va_list args;
    va_start(args, format);
    error_format(error, outcome, ERROR_OTHER, format, args);
    va_end(args);
    return outcome;
}

outcome_t redis_error_set_kind(redis_error_t *error, outcome_t outcome, redis_error_kind_t kind, const char *format, ...) {
    va_list args;
    va_start(args, format);
    error_format(error, outcome, kind, format, args);
    va_end(args);
    return outcome;
}

outcome_t redis_error_reword(redis_error_t *error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    error_format(error, error->outcome, error->kind, format, args);
    va_end(args);
    return error->outcome;
}

void redis_error_add_address(redis_error_t *error, const char *address) {
    redis_error_reword(error, "%s: %s", address, error->text);
    error->address.len = (unsigned short)strlen(address);
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

static bool reply_begins(slice_t reply, const char *words) {
    size_t len = strlen(words);
    return reply.len >= len && memcmp(reply.data, words, len) == 0 && (reply.len == len || reply.data[len] == ' ');
}

static bool reply_has(slice_t reply, const char *phrase) {
    size_t len = strlen(phrase);
    for (size_t at = 0; at + len <= reply.len; at++)
        if (strncasecmp(reply.data + at, phrase, len) == 0) return true;
    return false;
}

static const error_row_t *reply_row(slice_t reply) {
    static const error_row_t unknown = {"", OUTCOME_REFUSED, ERROR_OTHER};
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++)
        if (reply_begins(reply, CODES[i].text)) return &CODES[i];
    for (size_t i = 0; i < sizeof PHRASES / sizeof *PHRASES; i++)
        if (reply_has(reply, PHRASES[i].text)) return &PHRASES[i];
    return &unknown;
}

outcome_t redis_error_from_reply(redis_error_t *error, const char *reply, size_t len) {
    slice_t said = error_without_arguments(error_without_places((slice_t){reply, len}));
    const error_row_t *row = reply_row(said);
    int shown = (int)(said.len < sizeof error->text - 1 ? said.len : sizeof error->text - 1);
    return redis_error_set_kind(error, row->outcome, row->kind, "%.*s", shown, said.data);
}

char *redis_error_without(const redis_error_t *error, const char *address) {
    const size_t at = error->address.at, len = error->address.len;
    const slice_t named = {error->text + at, len};
    if (!len || !slice_is(named, address)) return mem_str(error->text);
    if (at == 0) return mem_str(error->text + len + strlen(": "));
    return mem_printf("%.*s%s", (int)(at - strlen(" to ")), error->text, error->text + at + len);
}

bool error_kind_is_slot(redis_error_kind_t kind) {
    return kind == ERROR_SLOT_IS_MOVING || kind == ERROR_SLOT_HAS_MOVED || kind == ERROR_SLOT_UNSERVED;
}

int64_t error_kind_pause_ms(redis_error_kind_t kind, int64_t usual_ms) {
    enum { SLOT_MS = 500 };
    return error_kind_is_slot(kind) && usual_ms > SLOT_MS ? SLOT_MS : usual_ms;
}

void redis_error_keep_worse(redis_error_t *worst, const redis_error_t *error) {
    static const int CONCERNS[] = {
        [OUTCOME_OK] = 0, [OUTCOME_RETRY] = 1, [OUTCOME_REFUSED] = 2, [OUTCOME_FENCED] = 3, [OUTCOME_DISCONNECTED] = 4};
    if (CONCERNS[error->outcome] > CONCERNS[worst->outcome]) *worst = *error;
}
