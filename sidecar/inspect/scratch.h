// Scratch keys for a dry run: one queue laid out like a list, in the slot of the first lock.
#pragma once

#include "queue/call.h"
#include "queue/lock.h"

typedef enum refusal {
    REFUSAL_ALL,     // needed to lead at all
    REFUSAL_AID,     // without it something is slower
    REFUSAL_DIALECT, // needed to serve some queues of one dialect
} refusal_t;

// Called for each refusal, with Redis's error text. With REFUSAL_DIALECT it concerns `queue` and all queues like it.
typedef void dry_run_fn(void *self, refusal_t refusal, size_t queue, const char *what, const char *text);

enum { SCRATCH_TTL_MS = 60000, SCRATCH_KEYS = 14, SCRATCH_LIMIT = 1000, SCRATCH_BYTES = 1 << 20 };

typedef struct scratch {
    conn_t *conn;
    keyspace_t *keys;
    config_t config;
    queue_config_t queue;
    const char *all[SCRATCH_KEYS]; // every key that a script may leave; borrowed from the fields above
    char token[TOKEN_SIZE];
    dry_run_fn *refused;
    void *self;
    redis_error_t *error;
    size_t like; // the queue whose dialect is tried
} scratch_t;

// Fills the fields that are not set by the caller; owned, ended by scratch_free. Nothing is written to Redis.
void scratch_init(scratch_t *scratch, const keyspace_t *keys);

void scratch_free(scratch_t *scratch);

call_t scratch_call(const scratch_t *scratch);

lock_call_t scratch_lock(const scratch_t *scratch, const char *token);

bool scratch_out_of_memory(const redis_error_t *error);

// Sends `command` for every scratch key. Ignores refusals: these commands only tidy up.
outcome_t scratch_for_all_keys(scratch_t *scratch, const char *command, int64_t ttl_ms);

// Creates every scratch key with its TTL in one transaction, so that no key without a TTL stays when we are killed. No script
// empties these keys, so the TTLs stay. A key that is refused here (in a full Redis, say) is created by a script.
outcome_t scratch_lay_out(scratch_t *scratch);

// One command with up to two arguments after the key, whose effect a script is then tried on. *full: Redis is out of memory.
outcome_t scratch_write(scratch_t *scratch, const char *command, const char *key, const char *one, const char *two, bool *full);
