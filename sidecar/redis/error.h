// The outcomes of a request to Redis. A function of queue/ that asks Redis returns an outcome and puts the reason into a
// redis_error_t.
#pragma once

#include "base/std.h"

typedef enum outcome {
    OUTCOME_OK,
    // Refused for now (LOADING, READONLY, BUSY, OOM and the like); nothing was written. Back off, then ask again.
    OUTCOME_RETRY,
    // Refused until somebody changes keys, rights or the configuration. Report it, go on with other queues, never spin.
    OUTCOME_REFUSED,
    // Another instance holds the lock; nothing was written. This term is over.
    OUTCOME_FENCED,
    // The connection is lost; requests in flight may or may not have been executed.
    OUTCOME_DISCONNECTED,
} outcome_t;

// The kinds of errors that code asks for. The text is for people: no code reads it.
typedef enum redis_error_kind {
    ERROR_OTHER,
    // Error replies, by their code or by a phrase (redis_error_from_reply).
    ERROR_NO_RIGHT,          // NOPERM
    ERROR_NO_LOGIN,          // NOAUTH
    ERROR_WRONG_PASSWORD,    // WRONGPASS
    ERROR_NEEDLESS_PASSWORD, // the server has none
    ERROR_DATABASE_NUMBER,   // the server has fewer databases
    ERROR_NO_COMMAND,        // a service does not have the command, or allows it to nobody
    ERROR_NO_CLUSTER,
    ERROR_NO_SUCH_PRIMARY, // the sentinel knows no primary of this name
    ERROR_WRONG_TYPE,
    ERROR_CROSS_SLOT,
    ERROR_FULL,      // Redis is at maxmemory and refuses commands that need memory
    ERROR_NO_WRITES, // MISCONF, NOREPLICAS: the server takes no writes
    ERROR_NO_SCRIPT, // NOSCRIPT
    // The server is no primary any more, or the two connections of a client lead to different servers.
    ERROR_OTHER_PRIMARY,
    ERROR_MOVED,
    ERROR_ASK,
    ERROR_TRY_AGAIN,
    ERROR_CLUSTER_DOWN,
    ERROR_SLOT_UNSERVED, // CLUSTERDOWN of this one slot
    // The same of a connection to a Cluster. Nothing was written.
    ERROR_SLOT_HAS_MOVED, // MOVED
    ERROR_SLOT_IS_MOVING, // ASK and TRYAGAIN
    // Connections.
    ERROR_STOPPED,    // the process is to stop, so the wait was cut short
    ERROR_IDLE,       // the other side closed a connection that was idle: no request is lost
    ERROR_TLS,        // a handshake failed
    ERROR_TLS_SILENT, // the server accepted the connection and said nothing in the handshake
} redis_error_kind_t;

typedef struct redis_error {
    outcome_t outcome;
    redis_error_kind_t kind;
    struct {
        unsigned short at, len; // of the server's address within `text`; len 0 = the text names none
    } address;
    char text[400]; // one line for people, control bytes removed; "" when outcome is OUTCOME_OK
} redis_error_t;

// Sets *error, of the kind ERROR_OTHER, and returns `outcome`.
outcome_t redis_error_set(redis_error_t *error, outcome_t outcome, const char *format, ...) __attribute__((format(printf, 3, 4)));
outcome_t redis_error_set_kind(redis_error_t *error, outcome_t outcome, redis_error_kind_t kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Another text for the same error; an argument may be the text before. Returns the outcome.
outcome_t redis_error_reword(redis_error_t *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Puts "ADDRESS: " before the text.
void redis_error_add_address(redis_error_t *error, const char *address);

// Of two errors keeps the one that concerns more: a request that may be sent again, a refusal, the term, the connection. Of equal
// ones it keeps the first.
void redis_error_keep_worse(redis_error_t *worst, const redis_error_t *error);

// Classifies an error reply of Redis: `len` bytes without the leading '-'.
outcome_t redis_error_from_reply(redis_error_t *error, const char *reply, size_t len);

// The text without the address of the server, for a line that has it already: "no reply in time" of "10.0.0.5:6379: no reply in
// time", and "cannot connect: refused" of "cannot connect to 10.0.0.5:6379: refused". Owned.
char *redis_error_without(const redis_error_t *error, const char *address);

// The error concerns one slot of a Cluster.
bool error_kind_is_slot(redis_error_kind_t kind);
// Pause before a role repeats a request that Redis refused: `usual_ms`, but less if a slot will be served soon.
int64_t error_kind_pause_ms(redis_error_kind_t kind, int64_t usual_ms);
