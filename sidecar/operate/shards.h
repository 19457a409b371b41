// The primaries that hold the queues of a config, for operators: each with a connection and its part of the queues. Without a
// Cluster one primary holds all queues.
#pragma once

#include "queue/keys.h"
#include "redis/conn.h"

typedef struct queue_shard {
    conn_t *conn;     // owned; not opened yet
    keyspace_t *keys; // owned; its queues only
} queue_shard_t;

typedef struct queue_shards {
    const config_t *config;
    const char *name;
    const atomic_bool *stop;
    topology_t *topology;   // owned
    unsigned *slots;        // of each queue of the config; owned
    unsigned slots_version; // of the topology
    unsigned version;       // rises whenever shards_find replaces the connections
    endpoint_t first;       // the server to be asked first
    queue_shard_t items[TOPOLOGY_SHARDS_MAX];
    size_t count;  // primaries that hold queues of ours
    conn_t *other; // of shards_connect; owned; NULL = none
} queue_shards_t;

// `name` as for conn_new; `stop` may be NULL. All are borrowed. Returns owned.
queue_shards_t *shards_new(const config_t *config, const char *name, const atomic_bool *stop);
void shards_free(queue_shards_t *shards); // NULL is fine

// In a Cluster, asks its nodes for the slots if `ask`, or if a slot has moved. Replaces all connections and keyspaces if a queue
// has another primary now. On another outcome than OUTCOME_OK no node tells.
outcome_t shards_find(queue_shards_t *shards, bool ask, redis_error_t *error);

// Opens a connection to the primary of a slot, which may hold no queue of ours; always the same slot. *conn is borrowed.
outcome_t shards_connect(queue_shards_t *shards, unsigned slot, conn_t **conn, redis_error_t *error);

// The address of a primary, or of the server to be asked first, for messages.
const char *shards_target(const queue_shards_t *shards);

bool shards_in_cluster(const queue_shards_t *shards);
bool shards_is_served(const queue_shards_t *shards, size_t queue); // a primary serves its slot

// Waits a second for one replica to have all that `conn` has written, if there is a replica: a failover to one that lacks it
// would undo it. Returns a warning if none has it, owned; NULL = all is well.
char *shards_wait_for_replica(conn_t *conn);
