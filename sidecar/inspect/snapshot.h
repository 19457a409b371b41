// A read-only snapshot of all queues of a configuration, for `status`: the leaders, the lengths of failure streams, and the
// position of each audit log.
#pragma once

#include "base/host.h"
#include "model/anomaly.h"
#include "model/token.h"
#include "queue/stream.h"

// One audit log that has acknowledged the stream of a queue.
typedef struct snapshot_copy {
    char instance[48];    // the random name of that log
    stream_id_t position; // the log has every record up to this id on disk
    int64_t heard_ms;     // time of its last acknowledgement, by Redis's clock
} snapshot_copy_t;

typedef struct snapshot_queue {
    redis_error_t error;   // the first of an unknown field; OUTCOME_OK = every field is known
    bool served;           // the leader serves the queue
    char owner[136];       // the group that owns the queue; "" = no group yet
    int64_t grows_ms;      // for how long the ready list only grew, as the leader counts; 0 = it did not
    int64_t grows_to;      // its length at the last count
    int64_t stale_unique;  // ids of unique tasks without a task, as the monitor counts; 0 = none
    int64_t trimmed_early; // when records younger than stream.retain were last trimmed, ms by Redis's clock; 0 = never
    int64_t lost_ms;       // when a notification of a failure was last lost, by Redis's clock; 0 = never
    char lost_why[224];
    char *anomalies[ANOMALY_KINDS]; // values of their fields; owned; NULL = none
    stream_ends_t stream;           // its error is NULL
    snapshot_copy_t *copies;        // owned; in the order of their names; of many those that were heard of last
    size_t copy_count;
    char cursor[24]; // of the next page of copies; "" = all are read
    // Time in the id of the oldest record that too few logs have: fewer than stream.min_copies (at least one) of the logs heard
    // of within STREAM_HEARD_MS; 0 = there is no such record.
    int64_t uncopied_ms;
} snapshot_queue_t;

// A standby: an instance that another instance keeps from the lock.
typedef struct snapshot_standby {
    char instance[INSTANCE_SIZE];
    int64_t heard_ms; // time of its last attempt, by Redis's clock
    bool lives;       // its last attempt is recent enough
} snapshot_standby_t;

typedef struct snapshot_lock {
    redis_error_t error;
    char holder[TOKEN_SIZE];      // value of the lock, cut; "" = the lock is free
    int64_t pttl_ms;              // TTL of the lock; -1 = the lock never expires; -2 = the lock is free
    char leader[INSTANCE_SIZE];   // the leading instance; "" = unknown
    int64_t since_ms;             // time at which the leader's term began, by Redis's clock; 0 = unknown
    int64_t others;               // queues of the leader's configuration that this one does not have
    snapshot_standby_t *standbys; // owned; in the order of their names
    size_t standby_count;
} snapshot_lock_t;

typedef struct snapshot {
    int64_t now_ms;                   // Redis's clock
    int64_t memory_used, memory_most; // bytes; a limit of 0 = no limit; -1 = unknown
    snapshot_lock_t *locks;           // owned, as in the keyspace
    snapshot_queue_t *queues;         // owned, likewise
    size_t lock_count, queue_count;
} snapshot_t;

// Opens a closed connection. A refused key sets the `error` of its lock or queue. On any other outcome than OUTCOME_OK the
// snapshot is not valid, and the connection is closed. *out is owned in each case: free it with snapshot_free.
outcome_t snapshot_read(conn_t *conn, const keyspace_t *keys, snapshot_t *out, redis_error_t *error);
void snapshot_free(snapshot_t *snapshot);
