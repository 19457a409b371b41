// Slot maps of a Redis Cluster: gives each node a shard, and each slot the shard of its node.

#include "base/buffer.h"
#include "base/wakeup.h"
#include "redis/cluster/slot_match.h"
#include "redis/topology.h"
#include "redis/topology_internal.h"

static size_t topology_find(const topology_t *topology, const address_t *address) {
    for (size_t i = 0; i < topology->shard_count; i++) {
        const endpoint_t *at = &topology->shards[i]->endpoint;
        if (at->port == address->port && address_host_equal(at->host, address->host)) return i;
    }
    return TOPOLOGY_SHARDS_MAX;
}

// Call it with the mutex held. Returns the shard of each node, owned; TOPOLOGY_SHARDS_MAX = none.
static size_t *topology_match(topology_t *topology, const slot_map_t *map, const address_t *nodes) {
    address_t *shards = mem_array(topology->shard_count, sizeof *shards);
    uint16_t *slots = mem_array(SLOT_COUNT, sizeof *slots);
    size_t *of_nodes = mem_array(map->node_count + 1, sizeof *of_nodes);
    for (size_t i = 0; i < SLOT_COUNT; i++) slots[i] = topology->slots[i];
    for (size_t i = 0; i < topology->shard_count; i++) {
        shards[i].port = topology->shards[i]->endpoint.port;
        snprintf(shards[i].host, sizeof shards[i].host, "%s", topology->shards[i]->endpoint.host);
    }
    size_t count = slot_match(&(slot_match_t){map, nodes, shards, topology->shard_count, TOPOLOGY_SHARDS_MAX, slots}, of_nodes);
    while (topology->shard_count < count) topology_add_shard(topology);
    free(shards);
    free(slots);
    return of_nodes;
}

// Call it with the mutex held.
static bool topology_set_slot(topology_t *topology, size_t slot, size_t shard) {
    if (topology->slots[slot] == shard) return false;
    topology->slots[slot] = (uint16_t)shard;
    return true;
}

// Call it without the mutex.
static void topology_slots_changed(topology_t *topology, bool changed) {
    if (!changed) return;
    atomic_fetch_add(&topology->version, 1);
    wakeup_raise(topology->slots_fd);
}

void topology_set_slots(topology_t *topology, const slot_map_t *map) {
    address_t *nodes = mem_array(map->node_count + 1, sizeof *nodes);
    bool changed = false;
    for (size_t i = 0; i < map->node_count; i++) nodes[i] = endpoint_reachable(topology->redis, &map->nodes[i]);
    pthread_mutex_lock(&topology->mutex);
    size_t *shards = topology_match(topology, map, nodes);
    for (size_t i = 0; i < map->node_count; i++)
        if (shards[i] < TOPOLOGY_SHARDS_MAX) shard_set_address(topology->shards[shards[i]], nodes[i].host, nodes[i].port);
    for (size_t slot = 0; slot < SLOT_COUNT; slot++) {
        size_t node = map->owner[slot];
        changed |= topology_set_slot(topology, slot, node ? shards[node - 1] : TOPOLOGY_SHARDS_MAX);
    }
    topology->map_epoch = map->epoch;
    for (size_t i = 0; i < topology->shard_count; i++) shard_count_missing(topology->shards[i]);
    pthread_mutex_unlock(&topology->mutex);
    free(nodes);
    free(shards);
    topology_slots_changed(topology, changed);
}

void topology_inherit(topology_t *topology, topology_t *old) {
    if (topology->locator && old->locator) topology->locator_ops->inherit(topology->locator, old->locator);
    if (!topology->slots || !old->slots) return;
    pthread_mutex_lock(&old->mutex);
    while (topology->shard_count < old->shard_count) topology_add_shard(topology);
    for (size_t i = 0; i < old->shard_count; i++) topology->shards[i]->endpoint = old->shards[i]->endpoint;
    for (size_t i = 0; i < SLOT_COUNT; i++) topology->slots[i] = old->slots[i];
    topology->map_epoch = topology_map_epoch(old);
    pthread_mutex_unlock(&old->mutex);
}

void topology_slot_moved(topology_t *topology, unsigned slot, const address_t *address) {
    if (!topology->slots) return;
    const address_t reached = endpoint_reachable(topology->redis, address);
    pthread_mutex_lock(&topology->mutex);
    size_t shard = topology_find(topology, &reached);
    bool known = shard < TOPOLOGY_SHARDS_MAX, changed = known && topology_set_slot(topology, slot, shard);
    pthread_mutex_unlock(&topology->mutex);
    topology_slots_changed(topology, changed);
    if (changed || !known) topology_want_refresh(topology); // a key of a foreign slot is no news
}
