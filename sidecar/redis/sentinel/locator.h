// Asks the sentinels for the primary, on behalf of all threads of a process: one ask at a time, and not too often.
#pragma once

#include "redis/sentinel/group.h"
#include "redis/topology.h"

// Makes the topology find its primary by sentinels, if its settings name some.
void locator_attach(topology_t *topology);

// Tells what an ask that began at `since` or later has found; asks if there was none. *error tells why the primary is unknown.
// `stop` may be NULL. Others call shard_locate.
outcome_t locator_find(locator_t *locator, mono_t since, const atomic_bool *stop, located_t *located, redis_error_t *error);

// Calls `use` with the group, which no other thread uses meanwhile.
void locator_inspect(locator_t *locator, void (*use)(const sentinel_group_t *group, void *arg), void *arg);
