// The servers of a deployment in words for people. `check --redis` and `status` use the same words.
#pragma once

#include "base/buffer.h"
#include "inspect/servers.h"

// "single server", or which sentinels name which primary.
void servers_text_mode(const servers_t *servers, const redis_config_t *redis, buffer_t *out);
// Encryption, replicas and eviction.
void servers_text_primary(const primary_view_t *primary, buffer_t *out);
void servers_text_queues(const keyspace_t *keys, buffer_t *out); // "; queues: a, b"

// Each describes a problem in *what, and returns how bad it is; 0 = there is none. `now_ms` is by this machine's clock.
typedef int64_t servers_problem_fn(const servers_t *servers, int64_t now_ms, buffer_t *what);
#define SERVERS_WRITES_REMEDY                                                                                                    \
    "of MISCONF the log of Redis has the reason: most often its disk is full; of NOREPLICAS start a replica, or lower "          \
    "min-replicas-to-write"
servers_problem_fn servers_refuse_writes, servers_sentinels_silent, servers_sentinels_quarrel, servers_certificate_ends,
    servers_failover_loses, servers_one_node;
