/* Variables that are freed at the end of their scope: scoped(buffer_free) buffer_t out = {0}; */
#pragma once

#include "base/buffer.h"
#include "child.h"
#include "client.h"
#include "config/config.h"
#include "kept.h"
#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/conn.h"
#include "server.h"

/* The function takes the address of the variable. */
#define scoped(free_function) __attribute__((cleanup(free_function)))

static inline void child_drop(child_t **child) { child_free(*child); }
static inline void config_drop(config_t **config) { config_free(*config); }
static inline void conn_drop(conn_t **conn) { conn_free(*conn); }
static inline void keyspace_drop(keyspace_t **keys) { keyspace_free(*keys); }
static inline void metrics_drop(metrics_t **metrics) { metrics_free(*metrics); }
static inline void redis_drop(redis_t **redis) { redis_close(*redis); }
static inline void server_drop(server_t **server) { server_free(*server); }
