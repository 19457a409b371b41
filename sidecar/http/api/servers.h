// Connections of the api role to Redis, which stay open while they are in use.
#pragma once

#include "base/clock.h"
#include "http/api/answer.h"
#include "operate/shards.h"

// The server of a queue, connected.
typedef struct api_server {
    conn_t *conn;           // borrowed
    const keyspace_t *keys; // of the server's queues; borrowed
    size_t queue;           // index in `keys`
    uint64_t version;       // of `keys`: another one has other memory
} api_server_t;

typedef struct api_redis {
    queue_shards_t *shards; // owned; NULL = closed
    uint32_t opened;        // how often
    mono_t used_at;
} api_redis_t;

bool api_redis_find(api_redis_t *redis, const config_t *config, const char *queue, api_server_t *out, answer_t *answer);
void api_redis_close(api_redis_t *redis);
mono_t api_redis_rest(api_redis_t *redis); // closes unused connections; returns when to call it again
// The problem of a request that failed.
void api_redis_failed(const redis_error_t *error, answer_t *answer);
