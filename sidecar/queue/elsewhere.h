// Other databases of the server. Redis names no database in a message of a channel or of client tracking, so such a message may
// be about a key of another one: it is a hint to look, and proves nothing.
#pragma once

#include "queue/keys.h"
#include "redis/conn.h"

typedef struct elsewhere {
    int64_t others;   // other databases that have keys; the look ends at the one below
    int64_t database; // of these the first that holds one of the keys; -1 = none does
    const char *key;  // this key; NULL = none, or there are too many databases to look at
} elsewhere_t;

// Looks for the keys in the other databases. OUTCOME_REFUSED: Redis does not tell.
outcome_t elsewhere_find(conn_t *conn, const keyspace_t *keys, const char *const *names, size_t count, elsewhere_t *out,
                         redis_error_t *error);
