// The watcher knows where the primaries are, for all roles: it hears the events of the sentinels, and asks sentinels or nodes
// from time to time, when a role wishes so, and after an event. Only Sentinel and Cluster need one.
#pragma once

#include <stdatomic.h>

#include "model/metrics.h"
#include "redis/topology.h"
#include "role/role.h"

typedef struct watcher watcher_t;

// Borrows everything. `role` is the role of the watcher. Returns owned; NULL with errno set when no descriptor is available.
watcher_t *watcher_new(topology_t *topology, metrics_t *metrics, const role_t *role);
void watcher_free(watcher_t *watcher); // NULL is fine

void watcher_tick(void *self, role_wait_t *wait); // role_tick_fn
