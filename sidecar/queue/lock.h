// The lock: acquire, renew, release, claim, break stale. Each of these functions calls one script and keeps no state.
#pragma once

#include "model/token.h"
#include "queue/keys.h"
#include "redis/conn.h"

// A queue that another group owns, as lock_acquire found it.
typedef struct other_owner {
    size_t queue;    // index in the keyspace
    char owner[136]; // the group; "" = the meta key holds no hash
} other_owner_t;

typedef struct lock_state {
    bool acquired;
    char holder[TOKEN_SIZE]; // token of the instance that holds the lock now
    int64_t pttl_ms;         // TTL of the holder's lock; -1 = the lock has no TTL at all
    buffer_t unserved;       // only if not acquired: names of queues that the leader does not serve, joined by ", "; owned
    size_t unserved_count;
    other_owner_t *other_owner; // only if acquired: queues that another group owns; owned
    size_t other_owner_count;
} lock_state_t;

void lock_state_clear(lock_state_t *state);

// The context of a request for one lock. Every member is borrowed. Each function sets *error and returns its outcome.
typedef struct lock_call {
    conn_t *conn;
    const keyspace_t *keys;
    size_t lock;       // index in the keyspace
    const char *token; // token of the current term, or of the term that acquire would begin
    int64_t ttl_ms;    // TTL that acquire and renew set
    redis_error_t *error;
} lock_call_t;

outcome_t lock_acquire(const lock_call_t *call, lock_state_t *state);
// Only reads: the holder, "" = the lock is free, and the queues that it does not serve.
outcome_t lock_look(const lock_call_t *call, lock_state_t *state);
// Appends a renewal to the pipeline. The TTL counts from the moment at which Redis gets it.
void lock_send_renewal(const lock_call_t *call);
// Reads its reply. OUTCOME_OK: this instance still holds the lock. OUTCOME_FENCED: another instance holds it, or it is gone.
outcome_t lock_read_renewal(const lock_call_t *call);
// Releases the lock if this instance holds it. Then publishes the name of the lock on the vacant channel.
outcome_t lock_release(const lock_call_t *call);
// Takes a queue over from the group other_owner->owner if that group has no leader. Otherwise sets *ours to false and
// other_owner->owner to the owner of the queue.
outcome_t lock_claim(const lock_call_t *call, other_owner_t *other_owner, bool *ours);
// Removes the lock that has the token `holder`, if that lock has no TTL or more TTL left than this token allows.
outcome_t lock_break_stale(const lock_call_t *call, const char *holder, bool *removed);

// Opens `subscriber` and subscribes it to the channel of released locks. tracking_read then reads the names of these locks.
outcome_t lock_listen(conn_t *subscriber, const char *channel, redis_error_t *error);
