// A shard is a primary with its replicas. A plain Redis has one shard; a Cluster has one for each primary that serves slots. A
// shard stays the same when another server becomes its primary: then its epoch rises, and each connection of an older epoch
// counts as closed.
#pragma once

#include "base/std.h"

typedef struct topology topology_t;
typedef struct shard shard_t;

enum { TOPOLOGY_SHARDS_MAX = 256 }; // also the index of no shard

typedef enum shard_reach { SHARD_UNUSED, SHARD_REACHED, SHARD_LOST } shard_reach_t; // by the leader role

enum { SERVER_ID_SIZE = 48 }; // of INFO server, run_id

// The password that a connection has sent.
typedef struct password_mark {
    uint64_t tag;     // tells passwords apart; never 0
    unsigned changes; // passwords that were noted before the connection has read the file
} password_mark_t;
