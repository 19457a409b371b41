// The primaries that hold the queues of a config, for commands: each with a connection and its part of the queues. Without a
// Cluster one primary holds all queues.
#pragma once

#include "queue/keys.h"
#include "redis/conn.h"

typedef struct cli_shard {
    conn_t *conn;     // owned; not opened yet
    keyspace_t *keys; // owned; its queues only
} cli_shard_t;

typedef struct cli_shards {
    const config_t *config;
    const char *name;
    const atomic_bool *stop;
    topology_t *topology;   // owned
    unsigned *slots;        // of each queue of the config; owned
    unsigned slots_version; // of the topology
    unsigned version;       // rises whenever shards_find replaces the connections
    endpoint_t first;       // the server to be asked first
    cli_shard_t items[TOPOLOGY_SHARDS_MAX];
    size_t count; // primaries that hold queues of ours
} cli_shards_t;

// `name` as for conn_new; `stop` may be NULL. All are borrowed. Returns owned.
cli_shards_t *shards_new(const config_t *config, const char *name, const atomic_bool *stop);
void shards_free(cli_shards_t *shards); // NULL is fine

// In a Cluster, asks its nodes for the slots if `ask`, or if a slot has moved. Replaces all connections and keyspaces if a queue
// has another primary now. On another outcome than OUTCOME_OK no node tells.
outcome_t shards_find(cli_shards_t *shards, bool ask, redis_error_t *error);

// The address of a primary, or of the server to be asked first, for messages.
const char *shards_target(const cli_shards_t *shards);

bool shards_in_cluster(const cli_shards_t *shards);
bool shards_is_served(const cli_shards_t *shards, size_t queue); // a primary serves its slot

// Writes a line to stderr: which server could not be used, and why. `address` may be "".
void shards_print_error(const char *address, const redis_error_t *error);
