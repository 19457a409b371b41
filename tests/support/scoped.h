/* Variables that are freed at the end of their scope: scoped(buffer_free) buffer_t out = {0}; */
#pragma once

#include "base/buffer.h"
#include "child.h"
#include "client.h"
#include "config/config.h"
#include "daemon.h"
#include "http/health.h"
#include "kept.h"
#include "model/metrics.h"
#include "proxy.h"
#include "queue/keys.h"
#include "redis/conn.h"
#include "role/lease.h"
#include "server.h"

/* The function takes the address of the variable. */
#define scoped(free_function) __attribute__((cleanup(free_function)))

static inline void child_drop(child_t **child) { child_free(*child); }
static inline void config_drop(config_t **config) { config_free(*config); }
static inline void conn_drop(conn_t **conn) { conn_free(*conn); }
/* Ends the daemon by daemon_stop, which expects exit code 0. */
static inline void daemon_end(daemon_t **daemon) { daemon_stop(*daemon); }
static inline void daemon_drop(daemon_t **daemon) { daemon_free(*daemon); }
static inline void health_drop(health_t **health) { health_free(*health); }
static inline void keyspace_drop(keyspace_t **keys) { keyspace_free(*keys); }
static inline void leases_drop(leases_t **leases) { leases_free(*leases); }
static inline void metrics_drop(metrics_t **metrics) { metrics_free(*metrics); }
static inline void proxy_drop(proxy_t **proxy) { proxy_stop(*proxy); }
static inline void redis_drop(redis_t **redis) { redis_close(*redis); }
static inline void server_drop(server_t **server) { server_free(*server); }
static inline void topology_drop(topology_t **topology) { topology_free(*topology); }
