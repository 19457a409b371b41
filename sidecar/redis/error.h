// How a request to Redis can end. Every verb of queue/ returns one of these, and puts the reason into a redis_error_t.
#ifndef QS_REDIS_ERROR_H
#define QS_REDIS_ERROR_H

#include <stddef.h>

typedef enum outcome {
    OUTCOME_OK,
    // Refused for now (LOADING, READONLY, BUSY and their like): nothing was written. Back off, keep the state.
    OUTCOME_RETRY,
    // Refused for good, until somebody changes keys, rights or the configuration. Say it, go on with the rest, never spin.
    OUTCOME_REFUSED,
    // The lock is another's: nothing was written, and this term is over.
    OUTCOME_FENCED,
    // The connection is gone; what was under way may have happened or not.
    OUTCOME_DISCONNECTED,
} outcome_t;

typedef struct redis_error {
    outcome_t outcome;
    char text[256]; // one line for people, control bytes removed; "" when outcome is OUTCOME_OK
} redis_error_t;

// Sets *error and returns `outcome`.
outcome_t redis_error_set(redis_error_t *error, outcome_t outcome, const char *format, ...) __attribute__((format(printf, 3, 4)));

// What an error reply of Redis means; `text` is the reply without its leading '-', `len` bytes.
outcome_t redis_error_from_reply(redis_error_t *error, const char *text, size_t len);

#endif
