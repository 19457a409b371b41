// Keys of dialect bull in requests, and what is no key of Bull 4.
#ifndef QS_DIALECTS_BULL_KEYS_H
#define QS_DIALECTS_BULL_KEYS_H

#include "dialects/dialect.h"

// Keys of one request: `bull:video:WORD`, `bull:video:<id>SUFFIX`, and of the sidecar's own `sidecar:<queue>:WORD`.
void bull_own_key(conn_t *conn, const queue_keys_t *at, const char *word);
void bull_key(conn_t *conn, const queue_keys_t *at, const char *word);
void bull_job_key(conn_t *conn, const queue_keys_t *at, slice_t id, const char *suffix);

// Keys that only BullMQ has. A hash there is a job of Bull 4 that is called so.
enum { BULLMQ_KEYS = 4 };
extern const char *const bullmq_words[BULLMQ_KEYS]; // what follows `bull:video:` in them
void bull_foreign_keys(conn_t *conn, const queue_keys_t *at);

// What a script answered that found `found` in the key `what` (or in what the script calls so). Returns the outcome.
outcome_t bull_wrong_type(redis_error_t *error, const char *script, const char *what, const char *found);

#endif
