#include "redis/topology.h"

#include <pthread.h>

#include "base/buffer.h"
#include "base/wakeup.h"

enum { MAX_WAKE_FDS = 8 };

struct shard {
    topology_t *topology;
    endpoint_t address; // guarded by the mutex
    atomic_uint epoch;  // changed with the mutex held
    // The server that the last connection reached; guarded by the mutex.
    char server_id[SERVER_ID_SIZE];
    unsigned server_epoch;
    mono_t server_since;
};

struct topology {
    const redis_config_t *redis;
    pthread_mutex_t mutex;
    shard_t shard;
    int wake_fds[MAX_WAKE_FDS];
    size_t wake_fd_count;
};

static void endpoint_set(endpoint_t *address, const char *host, int port) {
    address->port = port;
    snprintf(address->host, sizeof address->host, "%s", host);
    snprintf(address->text, sizeof address->text, strchr(host, ':') ? "[%s]:%d" : "%s:%d", address->host, port);
}

topology_t *topology_new(const redis_config_t *redis) {
    topology_t *topology = mem_alloc(sizeof *topology);
    topology->redis = redis;
    pthread_mutex_init(&topology->mutex, NULL);
    topology->shard.topology = topology;
    if (*redis->socket)
        snprintf(topology->shard.address.text, ENDPOINT_SIZE, "%s", redis->socket);
    else
        endpoint_set(&topology->shard.address, redis->host, (int)redis->port);
    return topology;
}

void topology_free(topology_t *topology) {
    if (!topology) return;
    pthread_mutex_destroy(&topology->mutex);
    free(topology);
}

void topology_wake_on_change(topology_t *topology, int wake_fd) { topology->wake_fds[topology->wake_fd_count++] = wake_fd; }

shard_t *topology_shard(topology_t *topology, size_t index) {
    (void)index;
    return &topology->shard;
}

const redis_config_t *shard_config(const shard_t *shard) { return shard->topology->redis; }

unsigned shard_epoch(const shard_t *shard) { return atomic_load(&shard->epoch); }
const atomic_uint *shard_epoch_place(const shard_t *shard) { return &shard->epoch; }

unsigned shard_address(shard_t *shard, endpoint_t *address) {
    pthread_mutex_lock(&shard->topology->mutex);
    *address = shard->address;
    unsigned epoch = shard_epoch(shard);
    pthread_mutex_unlock(&shard->topology->mutex);
    return epoch;
}

// Call it with the mutex held.
static void shard_raise_epoch(shard_t *shard) {
    const topology_t *topology = shard->topology;
    atomic_fetch_add(&shard->epoch, 1);
    for (size_t i = 0; i < topology->wake_fd_count; i++) wakeup_raise(topology->wake_fds[i]);
}

void shard_move(shard_t *shard, const char *host, int port) {
    pthread_mutex_lock(&shard->topology->mutex);
    if (strcmp(shard->address.host, host) != 0 || shard->address.port != port) {
        endpoint_set(&shard->address, host, port);
        shard_raise_epoch(shard);
    }
    pthread_mutex_unlock(&shard->topology->mutex);
}

void shard_suspect(shard_t *shard, unsigned epoch) {
    pthread_mutex_lock(&shard->topology->mutex);
    if (shard_epoch(shard) == epoch) shard_raise_epoch(shard);
    pthread_mutex_unlock(&shard->topology->mutex);
}

mono_t shard_note_server(shard_t *shard, unsigned epoch, const char *id) {
    pthread_mutex_lock(&shard->topology->mutex);
    bool same = *id && strcmp(shard->server_id, id) == 0 && shard->server_epoch == epoch;
    if (!same) shard->server_since = mono_now();
    snprintf(shard->server_id, SERVER_ID_SIZE, "%s", id);
    shard->server_epoch = epoch;
    mono_t since = shard->server_since;
    pthread_mutex_unlock(&shard->topology->mutex);
    return since;
}
