// Where the primaries are. All connections of a role set, or of a CLI command, share one topology. Thread-safe.
//
// A shard is a primary with its replicas. A plain Redis has one shard. A shard stays the same when another server becomes its
// primary: then its epoch rises, and each connection of an older epoch counts as closed.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "config/config.h"
#include "redis/socket/endpoint.h"

typedef struct topology topology_t;
typedef struct shard shard_t;

// `redis` is borrowed. Returns owned.
topology_t *topology_new(const redis_config_t *redis);
void topology_free(topology_t *topology); // NULL is fine

// Registers an eventfd (base/wakeup.h) to raise when the epoch of a shard rises. Call it before threads start.
void topology_wake_on_change(topology_t *topology, int wake_fd);

shard_t *topology_shard(topology_t *topology, size_t index); // shard 0 is always there

const redis_config_t *shard_config(const shard_t *shard);

// Copies the address of the primary. Returns the epoch in which it is valid.
unsigned shard_address(shard_t *shard, endpoint_t *address);
unsigned shard_epoch(const shard_t *shard);
const atomic_uint *shard_epoch_place(const shard_t *shard); // for waits that end when the epoch rises

// Another server is the primary now: raises the epoch. Does nothing if the address is the same.
void shard_move(shard_t *shard, const char *host, int port);

// A connection of `epoch` saw that its server is no longer the primary. Of all connections of that epoch, the first to tell
// raises it.
void shard_suspect(shard_t *shard, unsigned epoch);

enum { SERVER_ID_SIZE = 48 };
// Notes the server that a connection of `epoch` has reached. `id` identifies its process (INFO server, run_id; "" = unknown).
// Returns when this process first reached the data of that server: another process or another epoch may have other data.
mono_t shard_note_server(shard_t *shard, unsigned epoch, const char *id);
