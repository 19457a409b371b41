// Reads heartbeat keys: whether a key exists, and which worker its text names. Tells other groups of the patterns of these keys.
#pragma once

#include "queue/lock.h"

enum { WORKER_NAME_MAX = 256 }; // bytes of a name that are read

typedef struct heartbeat_check {
    const char *key;    // borrowed; NULL = skip
    bool asks_ttl;      // also ask whether the key has a TTL
    bool blank_is_dead; // a text of white space and control bytes counts as absent
    bool there;         // an unreadable key counts as there
    bool answered;      // the first request decides; EXISTS is not needed
    bool endless;       // the key is there and has no TTL
    char worker[WORKER_NAME_MAX];
    size_t worker_len; // 0 = the key names no worker: it is not a string, or holds only white space
} heartbeat_check_t;

// One request reads all names. A second request asks whether the keys without a name exist, and for the TTLs that are wanted.
outcome_t heartbeats_read(conn_t *conn, heartbeat_check_t *checks, size_t count, redis_error_t *error);

// Tells other groups of this database which heartbeats the queues of a lock have. Not in a Cluster, where no other group can look
// at a heartbeat of these queues. Not fenced: it is for people. OUTCOME_OK also if Redis refuses it.
outcome_t heartbeats_tell(const lock_call_t *call);

// A queue of another group that has heartbeats in common with a queue of ours, and a leader.
typedef struct heartbeat_overlap {
    size_t queue;                                 // ours; an index in the keyspace
    char other[136], group[136], heartbeat[1032]; // the name, the lock and the pattern of the other queue
} heartbeat_overlap_t;

// *found: whether there is such a queue; false if Redis refuses to tell.
outcome_t heartbeats_find_overlap(conn_t *conn, const keyspace_t *keys, bool *found, heartbeat_overlap_t *out,
                                  redis_error_t *error);
