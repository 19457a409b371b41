// A read-only snapshot of all queues of a configuration for `status`: leaders, lengths of failure streams, and how far audit logs
// have copied them.
#ifndef QS_INSPECT_SNAPSHOT_H
#define QS_INSPECT_SNAPSHOT_H

#include "base/instance.h"
#include "model/token.h"
#include "queue/stream.h"

// One audit log that has acknowledged the stream of a queue.
typedef struct snapshot_copy {
    char instance[48];    // the random name of that log
    stream_id_t position; // everything up to here is on its disk
    int64_t heard_ms;     // when it last said so, by Redis's clock
} snapshot_copy_t;

typedef struct snapshot_queue {
    char error[160];         // why some fields are unknown; "" = none
    bool served;             // by whoever holds its lock
    char owner[136];         // the group that owns it; "" = none yet
    stream_ends_t stream;    // error is not set
    snapshot_copy_t *copies; // owned; in the order of their names
    size_t copy_count;
    int64_t uncopied_ms; // time in the id of the oldest record that fewer than stream.min_copies (one at least) logs have, of
                         // those that were heard of within STREAM_HEARD_MS; 0 = there is none
} snapshot_queue_t;

// An instance that has found the lock held by another.
typedef struct snapshot_standby {
    char instance[INSTANCE_SIZE];
    int64_t heard_ms; // when it last looked, by Redis's clock
    bool lives;       // it has looked recently enough
} snapshot_standby_t;

typedef struct snapshot_lock {
    char error[160];
    char holder[TOKEN_SIZE];      // what the lock holds, cut; "" = nobody leads
    int64_t pttl_ms;              // of the lock; -1: it has no end, -2: there is no lock
    char leader[INSTANCE_SIZE];   // who that is; "" = not known
    int64_t since_ms;             // when its term began, by Redis's clock; 0 = not known
    snapshot_standby_t *standbys; // owned; in the order of their names
    size_t standby_count;
} snapshot_lock_t;

typedef struct snapshot {
    int64_t now_ms;                   // Redis's clock
    int64_t memory_used, memory_most; // bytes; most 0: no limit. -1 = not known
    snapshot_lock_t *locks;           // owned, as in the keyspace
    snapshot_queue_t *queues;         // owned, likewise
    size_t lock_count, queue_count;
} snapshot_t;

// Opens the connection where it is closed. A refused key sets the `error` of its lock or queue. Any other outcome than
// OUTCOME_OK: the snapshot is not valid, and the connection is closed. *out is owned in each case: snapshot_free.
outcome_t snapshot_read(conn_t *conn, const keyspace_t *keys, snapshot_t *out, redis_error_t *error);
void snapshot_free(snapshot_t *snapshot);

#endif
