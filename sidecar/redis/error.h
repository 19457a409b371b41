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

typedef struct redis_error {
    outcome_t outcome;
    char text[400]; // one line for people, control bytes removed; "" when outcome is OUTCOME_OK
} redis_error_t;

// Sets *error and returns `outcome`.
outcome_t redis_error_set(redis_error_t *error, outcome_t outcome, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Classifies an error reply of Redis: `len` bytes without the leading '-'.
outcome_t redis_error_from_reply(redis_error_t *error, const char *reply, size_t len);

// The text of an error without the address of the server, for a line that has it already: "no reply in time" of "10.0.0.5:6379:
// no reply in time", and "cannot connect: refused" of "cannot connect to 10.0.0.5:6379: refused". Owned.
char *redis_error_without(const char *text, const char *address);

// A service does not have the command, or allows it to nobody.
bool redis_error_lacks_command(const redis_error_t *error);
// Redis is at maxmemory and refuses commands that need memory.
bool redis_error_is_full(const redis_error_t *error);

// Text of an error that concerns one slot of a Cluster; the reply of Redis follows, and a key may precede. Nothing was written.
#define SLOT_IS_MOVING   "its slot is being moved: "
#define SLOT_HAS_MOVED   "its slot has moved: "
#define SLOT_IS_UNSERVED "no node serves its slot: "
bool redis_reason_is_slot(const char *reason);
// Pause before a role repeats a request that Redis refused for this reason: `usual_ms`, but less if a slot will be served
// soon.
int64_t redis_reason_pause_ms(const char *reason, int64_t usual_ms);
