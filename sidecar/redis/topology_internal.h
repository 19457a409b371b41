// Types and functions that the files of the topology share.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "config/config.h"
#include "model/metrics.h"
#include "redis/known/certificates.h"
#include "redis/known/secret.h"
#include "redis/known/server.h"
#include "redis/shard.h"
#include "redis/socket/endpoint.h"

typedef struct locator locator_t; // as in topology.h

enum { MAX_WAKE_FDS = 8 * TOPOLOGY_SHARDS_MAX };

struct shard {
    topology_t *topology;
    endpoint_t endpoint;   // guarded by the mutex
    atomic_uint epoch;     // changed with the mutex held
    known_server_t *known; // owned
    // For the metrics; guarded by the mutex.
    int connections;
    bool connect_failed; // the last one did
    bool missing;        // is counted as such
    shard_reach_t reach;
    // The last answer of the sentinels; guarded by the mutex.
    int64_t config_epoch;
    uint64_t located_number;
    atomic_uint moves;
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
    locator_t *locator;           // NULL = no sentinels
    secret_t *secret;             // owned
    certificates_t *certificates; // owned
    int refresh_fd;
    int slots_fd;
    int wake_fds[MAX_WAKE_FDS];
    size_t wake_fd_count;
};

// Call these with the mutex held, or before threads start. topology_add_shard returns the index of the new shard;
// TOPOLOGY_SHARDS_MAX = too many.
size_t topology_add_shard(topology_t *topology);
void shard_set_address(shard_t *shard, const char *host, int port);
void shard_count_missing(shard_t *shard); // updates the metric
