// Types and functions that the files of the topology share.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/condition.h"
#include "config/config.h"
#include "model/metrics.h"
#include "redis/error.h"
#include "redis/shard.h"
#include "redis/socket/endpoint.h"

enum { MAX_WAKE_FDS = 8 * TOPOLOGY_SHARDS_MAX };

enum {
    OUTAGE_OF_TLS = OUTCOME_DISCONNECTED + 1, // a handshake failed: its reason must not wait behind a lost connection's
    OUTAGE_KINDS,
};

// The failures of all connections to a shard.
typedef struct outage {
    size_t failing; // connections
    mono_t since;   // when the first of them failed
    bool told;
    mono_t told_at[OUTAGE_KINDS]; // the last line about each outcome_t, or OUTAGE_OF_TLS; 0 = none
} outage_t;

// The last idle connection that the other side has closed.
typedef struct idle_close {
    mono_t at;       // 0 = there was none
    int64_t idle_ms; // how long it had been silent
} idle_close_t;

struct shard {
    topology_t *topology;
    atomic_uint epoch;            // changed with the mutex held
    atomic_uint moves;            // likewise
    _Atomic int64_t keepalive_ms; // of shard_keepalive_ms; 0 = nothing is learned; changed with the mutex held
    // The mutex guards all that follows.
    endpoint_t endpoint;
    bool named; // sentinels or a slot map named the endpoint; else it is of the configuration
    outage_t outage;
    idle_close_t idle_close;
    char server_id[SERVER_ID_SIZE]; // of the server that the last connection has reached
    unsigned server_epoch;
    mono_t server_since;
    // For the metrics.
    int connections;
    bool connect_failed; // the last one did
    bool missing;        // is counted as such
    shard_reach_t reach;
    int64_t certificate_end; // of the last connection
    // The last answer of the sentinels.
    int64_t config_epoch;
    uint64_t located_number;
};

struct topology {
    const redis_config_t *redis;
    metrics_t *metrics;
    metrics_t *own_metrics; // owned
    pthread_mutex_t mutex;
    shard_t *shards[TOPOLOGY_SHARDS_MAX]; // owned; never replaced
    atomic_size_t shard_count;
    _Atomic uint16_t *slots; // shard of each slot, changed with the mutex held; NULL = no Cluster; owned
    const unsigned *needed;  // slots of our queues; NULL = all slots; borrowed
    size_t needed_count;
    atomic_uint version;
    _Atomic int64_t map_epoch;
    atomic_bool refresh_wanted;
    const struct locator_ops *locator_ops;
    struct locator *locator;    // owned; NULL = no sentinels
    _Atomic int64_t watched_ns; // of topology_note_watched
    int refresh_fd;
    int slots_fd;
    // The mutex guards all that follows.
    int64_t sentinel_certificate_end;
    password_mark_t password; // the newest one
    condition_t password_refused;
    int wake_fds[MAX_WAKE_FDS];
    size_t wake_fd_count;
};

// Call these with the mutex held, or before threads start. topology_add_shard returns the index of the new shard;
// TOPOLOGY_SHARDS_MAX = too many.
size_t topology_add_shard(topology_t *topology);
void shard_set_address(shard_t *shard, const char *host, int port);
void shard_count_missing(shard_t *shard); // updates the metric
