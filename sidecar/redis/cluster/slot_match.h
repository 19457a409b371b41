// Matches the nodes of a slot map with the shards known so far. A shard outlives its primary: the node that has its slots takes
// its place. Pure.
#pragma once

#include "redis/cluster/slots.h"

// Every member is borrowed.
typedef struct slot_match {
    const slot_map_t *map;
    const address_t *nodes;  // where each node of the map is reached
    const address_t *shards; // where each shard was reached before
    size_t shard_count;
    size_t shard_max;      // most shards; also the index of no shard
    const uint16_t *slots; // the shard of each slot before
} slot_match_t;

// Puts the shard of each node into *of_nodes; shard_max = too many shards. Returns the number of shards after.
size_t slot_match(const slot_match_t *match, size_t *of_nodes);
