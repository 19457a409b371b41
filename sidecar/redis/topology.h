// The addresses of the primaries. All connections of a role set, or of a CLI command, share one topology. Thread-safe.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/condition.h"
#include "config/config.h"
#include "model/metrics.h"
#include "redis/cluster/slots.h"
#include "redis/error.h"
#include "redis/shard.h"
#include "redis/socket/endpoint.h"

// `redis` is borrowed. Its mode CLUSTER makes a Cluster, in which no slot has a shard yet. Its mode SENTINEL needs
// locator_attach. Returns owned.
topology_t *topology_new(const redis_config_t *redis);
// A topology of this one server, whatever the mode. Returns owned.
topology_t *topology_new_at(const redis_config_t *redis, const char *host, int port);
void topology_free(topology_t *topology); // NULL is fine

// Registers an eventfd (base/wakeup.h) to raise when the epoch of a shard rises. End with topology_stop_waking.
void topology_wake_on_change(topology_t *topology, int wake_fd);
void topology_stop_waking(topology_t *topology, int wake_fd);

// The metrics into which connections count; never NULL. Without topology_set_metrics nobody else reads these numbers.
metrics_t *topology_metrics(const topology_t *topology);
void topology_set_metrics(topology_t *topology, metrics_t *metrics); // borrowed; call it before a connection opens

const redis_config_t *topology_config(const topology_t *topology);
void topology_wake(topology_t *topology); // raises all of them

shard_t *topology_shard(topology_t *topology, size_t index); // shard 0 is always there
size_t topology_shard_count(const topology_t *topology);

const redis_config_t *shard_config(const shard_t *shard);
topology_t *shard_topology(const shard_t *shard);
metrics_t *shard_metrics(const shard_t *shard); // of its topology

// Copies the address of the primary. Returns the epoch in which it is valid.
unsigned shard_address(shard_t *shard, endpoint_t *endpoint);
unsigned shard_epoch(const shard_t *shard);
const atomic_uint *shard_epoch_place(const shard_t *shard); // for waits that end when the epoch rises

// Another server is the primary now: raises the epoch. Does nothing if the address is the same.
void shard_move(shard_t *shard, const char *host, int port);

// A connection of `epoch` saw that its server is no longer the primary. Of all connections of that epoch, the first to tell
// raises it.
void shard_suspect(shard_t *shard, unsigned epoch);

// A connection tells the metrics of its connects and of its end. `certificate_end` is as of tls_first_end.
void shard_connect_failed(shard_t *shard);
void shard_connected(shard_t *shard, int64_t certificate_end);
// Notes whether the leader role of the shard has a connection. *up becomes 1 if the leader roles of all shards have one, else 0.
void shard_set_reach(shard_t *shard, shard_reach_t reach, metric_t *up);
void shard_disconnected(shard_t *shard);

// Notes that a connection of this epoch has reached a server. `id` identifies its process (INFO server, run_id; "" = unknown).
// Returns when this process first reached the data of that server: another process or another epoch may have other data.
mono_t shard_note_server(shard_t *shard, unsigned epoch, const char *id);

// After this time without a byte from the server a connection to the shard sends PING.
enum { KEEPALIVE_S = 60 }; // unless the shard has learned a shorter one
int64_t shard_keepalive_ms(const shard_t *shard);
// Notes that the other side has closed a connection that was idle for so long. Somebody may have killed it by hand, and others at
// the same moment. Two that were closed after the same time at different moments show a limit.
typedef enum idle_news { IDLE_NO_NEWS, IDLE_FIRST, IDLE_LIMIT } idle_news_t; // IDLE_LIMIT: PING comes sooner now
idle_news_t shard_note_idle_close(shard_t *shard, int64_t idle_ms, mono_t now);

// ---- The password file, as all connections know it.

uint64_t password_tag(const char *password);
unsigned topology_password_changes(topology_t *topology);
// Whether another password was noted since. A connection may read a password from the file before the password is noted: that
// one is not old.
bool topology_password_is_old(topology_t *topology, const password_mark_t *sent);
// Notes the content of the file. True: it has changed since the last call, so wake all roles.
bool topology_note_password(topology_t *topology, const char *password);
// Notes whether the server refuses the newest password; NULL = it does not.
condition_change_t topology_note_refusal(topology_t *topology, const char *refusal);

// ---- Redis Sentinel.

typedef struct locator locator_t; // redis/sentinel/locator.h

// The result of asking the sentinels.
typedef struct located {
    address_t address; // as the sidecar reaches the primary
    int64_t config_epoch;
    uint64_t number;         // of the ask that found it; later asks have higher numbers
    mono_t asked_at;         // when the last ask began, even if it failed
    int64_t certificate_end; // of the sentinels, as of tls_first_end
} located_t;

// The locator opens connections, which know the topology. So the topology calls it by these functions only.
typedef struct locator_ops {
    outcome_t (*find)(locator_t *locator, mono_t since, const atomic_bool *stop, located_t *located, redis_error_t *error);
    void (*inherit)(locator_t *locator, locator_t *old);
    void (*free)(locator_t *locator);
} locator_ops_t;

// Takes ownership of the locator. Call it before threads start.
void topology_set_locator(topology_t *topology, const locator_ops_t *ops, locator_t *locator);
locator_t *topology_locator(const topology_t *topology); // NULL = no sentinels
// Asks the sentinels for the primary, unless an ask that began at `since` or later has told. The epoch of the shard rises if the
// primary is another server, or if the sentinels have failed over and back. Without sentinels it does nothing. `stop` may be
// NULL.
outcome_t shard_locate(shard_t *shard, mono_t since, const atomic_bool *stop, redis_error_t *error);
// Notes a time by which all connections would have ended, had the sentinels told of another primary: an ask began then, and its
// answer is in effect, or none came; or the watcher had read all events.
void topology_note_watched(topology_t *topology, mono_t at);
// True: nothing was noted for a second, so this process was frozen or the watcher is stuck. Then ask before a request is sent.
// Without sentinels: false.
bool topology_is_unwatched(const topology_t *topology, mono_t now);
// Number of times that the shard has got another address. Unlike the epoch, it does not rise by a suspicion.
unsigned shard_moves(const shard_t *shard);

// ---- Redis Cluster.

bool topology_is_cluster(const topology_t *topology);
// The slots of our queues (borrowed; by default all slots). Only their primaries count as missing. Call it before threads start.
void topology_need_slots(topology_t *topology, const unsigned *slots, size_t count);
bool topology_lacks_slots(const topology_t *topology); // no shard is known for one of these
// The shard that serves the slot; TOPOLOGY_SHARDS_MAX = none is known. Without a Cluster, shard 0.
size_t topology_shard_of(const topology_t *topology, unsigned slot);
unsigned topology_version(const topology_t *topology); // rises whenever a slot gets another shard

// The config epoch of the newest slot map so far; 0 = none.
int64_t topology_map_epoch(const topology_t *topology);
// Takes a slot map over. A new primary keeps the shard of the one whose slots it has.
void topology_set_slots(topology_t *topology, const slot_map_t *map);
// Begins with what `old`, which may be of other settings, knows: shards and slots, or the primary that its sentinels named. Call
// it before threads start.
void topology_inherit(topology_t *topology, topology_t *old);
// A node said that the slot has moved. The primary of another shard gets the slot at once. An unknown server may be the new
// primary of any shard, so the map must tell.
void topology_slot_moved(topology_t *topology, unsigned slot, const address_t *address);

// Tells the watcher to ask soon where the primaries are: a connection was lost or is slow, or a slot has moved.
void topology_want_refresh(topology_t *topology);
bool topology_take_refresh(topology_t *topology); // true once after topology_want_refresh
// Registers the eventfd that topology_want_refresh raises; -1 = none.
void topology_wake_on_refresh(topology_t *topology, int wake_fd);
// Registers the eventfd to raise when a slot gets another shard; -1 = none.
void topology_wake_on_slots(topology_t *topology, int wake_fd);
