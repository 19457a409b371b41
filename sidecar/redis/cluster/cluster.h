// Discovery of a Redis Cluster: asks a server whether it is a node of one, and nodes for the slot map.
#pragma once

#include <stdatomic.h>

#include "redis/error.h"
#include "redis/topology.h"

// Asks the known nodes and the seeds, one after the other, until one knows at least as much as the topology does; then the
// topology takes its map over. Every node gets half a second. `stop` is borrowed and may be NULL. *error tells why no node knew:
// OUTCOME_REFUSED if one answered that it is no node of a Cluster.
outcome_t cluster_refresh(topology_t *topology, const atomic_bool *stop, redis_error_t *error);

// Finds out the mode that the config leaves open: asks the server of host and port once, for a second at most. AUTO: no answer,
// or the login is refused. SINGLE: also if the server refuses INFO.
redis_mode_t cluster_find_mode(const redis_config_t *redis);
