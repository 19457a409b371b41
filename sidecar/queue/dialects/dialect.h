// What a dialect must say for the dispatcher to serve it. The dispatcher knows this interface and no dialect.
#ifndef QS_QUEUE_DIALECTS_DIALECT_H
#define QS_QUEUE_DIALECTS_DIALECT_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/conn.h"
#include "queue/keys.h"

// A promote ends its batch at about so many bytes, so that no script runs for long.
enum { PROMOTE_BYTES = 2 * 1024 * 1024 };

typedef struct promote_ask {
    size_t queue;
    const char *token;
    int64_t batch;
    int64_t skip;  // entries at the head that are known to be too large
    int64_t first; // entries to read at once: few, unless those before were small
} promote_ask_t;

typedef enum promoted {
    PROMOTED_MOVED,  // see moved; may be 0
    PROMOTED_FULL,   // ready is at its limit
    PROMOTED_FENCED, // the lock is not ours
    PROMOTED_OWNER,  // another group owns the queue: `who`
    PROMOTED_TYPE,   // key `who` holds a `what`
} promoted_t;

typedef struct promote_reply {
    promoted_t kind;
    int64_t moved;
    int64_t now_us;     // Redis's time in the script; 0 where the kind has none
    bool has_oldest;    // false: nothing moved, or its age is not known
    double oldest;      // score of the first job moved
    int64_t bytes;      // of all entries read
    int64_t large;      // entries larger than max_payload in this batch, left where they are
    double large_score; // of the first of them, with its bytes and SHA-1
    int64_t large_bytes;
    char large_sha1[41];
    char who[136];
    char what[24];
} promote_reply_t;

typedef struct dialect_ops {
    const char *name;
    // Appends one request that moves at most ask->batch due jobs of ask->queue to ready, fenced.
    void (*promote_append)(conn_t *conn, const keyspace_t *keys, const promote_ask_t *ask);
    // Reads its reply.
    outcome_t (*promote_read)(conn_t *conn, promote_reply_t *reply, fault_t *fault);
    // When a job of this score falls due, in us since 1970 by Redis's clock, rounded up; INT64_MAX = never, INT64_MIN = always
    // was.
    int64_t (*due_us)(const queue_config_t *queue, double score);
} dialect_ops_t;

extern const dialect_ops_t dialect_list;

const dialect_ops_t *dialect_ops(dialect_t dialect);

#endif
