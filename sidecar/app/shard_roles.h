// The roles that serve the queues of one shard, with all that they share. Nothing of them changes while they run: other settings
// or other queues need other roles, which take over.
#pragma once

#include "auditor/share.h"
#include "config/config.h"
#include "queue/keys.h"
#include "redis/topology.h"
#include "role/role.h"

typedef struct shard_roles shard_roles_t;

// In start order. They stop in reverse, so the leader releases its locks after the other roles have ended.
enum { LEADER, DISPATCHER, MONITOR, AUDITOR, SHARD_ROLES };

// Every member is borrowed.
typedef struct shard_roles_spec {
    const config_t *config;
    topology_t *topology;
    size_t shard;
    const bool *queues; // which of the config's queues; NULL = all
    metrics_t *metrics;
    audit_share_t *log; // NULL = the auditor has its own
    int told_fd;        // raised when a role has ended
} shard_roles_spec_t;

// Returns owned, NULL with errno set. Starts nothing.
shard_roles_t *shard_roles_new(const shard_roles_spec_t *spec);
void shard_roles_free(shard_roles_t *roles); // NULL is fine; no role may be running

role_t *shard_roles_role(shard_roles_t *roles, int number);
bool shard_roles_auditor_is_behind(const shard_roles_t *roles);
bool shard_roles_have(const shard_roles_t *roles, const bool *queues); // these queues, and no others

// Starts one role, or all. False: no thread is available (logged).
bool shard_roles_start_role(shard_roles_t *roles, int number);
bool shard_roles_start(shard_roles_t *roles);

// Asks all roles to stop, and the leader to keep its locks for other roles.
void shard_roles_stop_for_others(shard_roles_t *roles);
bool shard_roles_stopping(const shard_roles_t *roles);
bool shard_roles_ended(shard_roles_t *roles); // every thread has ended

// Starts role `number` of `next`, if the same role of `old` has ended; else returns false. *failed: the start failed.
bool shard_roles_hand_over(shard_roles_t *old, shard_roles_t *next, int number, bool *failed);
// Before the start of `next`: takes the locks over that `old`, which may still run, leads.
void shard_roles_adopt(shard_roles_t *next, shard_roles_t *old);
// After the end of `old`, whose locks no role will adopt any more. Releases the locks that `next` lacks; NULL: none.
void shard_roles_retire(shard_roles_t *old, const keyspace_t *next);

// Stops all roles. Releases the locks when dispatcher and monitor have ended. False: call it again when a role has ended.
bool shard_roles_end(shard_roles_t *roles);
void shard_roles_withdraw(shard_roles_t *roles);          // see auditor_withdraw; after the end
void shard_roles_log_running(const shard_roles_t *roles); // each role that has not ended
void shard_roles_abandon(shard_roles_t *roles);           // see role_abandon
