// Every Redis key and channel that the sidecar uses. They are derived once from the configuration.
#pragma once

#include "base/slice.h"
#include "config/config.h"

// A lock and its queues: all queues of the group, or the queues of one hash tag if lock.scope is "queue".
typedef struct lock_keys {
    char *name;     // the group, the hash tag like "{email}", or the queue that has no tag
    char *key;      // sidecar:<name>:lock, string: token of the leader
    char *served;   // sidecar:<name>:queues, hash: queues that the leader serves
    char *standbys; // sidecar:<name>:standbys, hash: standbys, for people
    size_t *queues; // indexes of the queues that the lock fences, ascending; part of by_lock
    size_t queue_count;
} lock_keys_t;

typedef struct queue_keys {
    const queue_config_t *config; // borrowed; has the keys that workers use
    size_t number;                // index in config->queues
    size_t lock;                  // index of the lock that fences this queue
    char *meta;                   // sidecar:<queue>:meta, hash: owner and counters of the queue
    char *failures;               // sidecar:<queue>:failures, stream of the queue's records
    char *stamps;                 // sidecar:<queue>:stamps, hash: stamps of jobs in progress
    char *sentinel;               // sidecar:<queue>:sentinel, hash: random part and number of the current marker
    char *auditors;               // sidecar:<queue>:auditors, hash: each auditor's position in the stream
    char *requeued;               // sidecar:<queue>:requeued, hash of requeue markers
    char *quarantine;             // sidecar:<queue>:aside, zset: quarantined entries, by the time of their quarantine
    char *recorded;               // sidecar:<queue>:recorded, zset: failures and dead letters that have a record, by time
    char *history; // sidecar:<queue>:history, string: what was counted in each minute of a day (queue/history/history.h)
    char *absent;  // sidecar:<queue>:none, never written; scripts get this key in place of one that the queue lacks
} queue_keys_t;

// Field of meta: how many ids of unique tasks have no task, at the monitor's last count of kmqueue; absent = none.
#define META_STALE_UNIQUE "stale_unique"
// Field of meta: when trim last removed a record younger than stream.retain, ms by Redis's clock; absent = never.
#define META_TRIMMED_EARLY "trimmed_early"
// Field of meta: when a notification was last lost, ms by Redis's clock, and why; absent = never (prologue/notifications.lua).
#define META_NOTIFICATION_LOST "notification_lost"

typedef struct keyspace {
    const config_t *config; // borrowed
    bool per_tag;           // each hash tag has its own lock: queues of different locks may be in different slots of a Cluster
    char *vacant;           // channel sidecar:<group>:vacant: names of released locks
    size_t *by_lock;        // the indexes of all queues, those of one lock side by side
    lock_keys_t *locks;
    size_t lock_count;
    queue_keys_t *queues; // in the order of config->queues
    size_t queue_count;
} keyspace_t;

keyspace_t *keyspace_new(const config_t *config); // owned
// The part of the keyspace with the queues of the config for which `wanted` is true: those of one shard of a Cluster. Owned.
keyspace_t *keyspace_new_part(const config_t *config, const bool *wanted);
void keyspace_free(keyspace_t *keys); // NULL is fine

char *keyspace_lock_of(const char *name);   // sidecar:<name>:lock; owned
char *keyspace_served_of(const char *name); // sidecar:<name>:queues; owned
// sidecar:{<group>}:answer:<id>, string: the state of an answer of the API; owned. All of a group are in one slot.
char *keyspace_answer_of(const char *group, const char *id);
// sidecar:<queue>:requeued, also for a queue that is not configured; owned. Ends at a NUL byte of the name.
char *keyspace_requeued_of(slice_t queue);

// The slot of a key in Redis Cluster, 0 to 16383 (redis.io, cluster specification: CRC16-XMODEM of the hash tag, or of the key).
unsigned keyspace_slot(const char *key);
