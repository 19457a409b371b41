// The verbs of the lock: acquire, renew, release, claim, break stale. Each is one script; none keeps state here.
#ifndef QS_QUEUE_LOCK_H
#define QS_QUEUE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "model/token.h"
#include "queue/keys.h"
#include "redis/conn.h"

// A queue that another group owns, as acquire found it.
typedef struct other_owner {
    size_t queue;    // index in the keyspace
    char owner[136]; // the group; "" when the meta key holds no hash
} other_owner_t;

typedef struct lock_state {
    bool acquired;
    char holder[TOKEN_SIZE]; // whose lock it is now
    int64_t pttl_ms;         // of the holder's lock; -1 when it has no TTL at all
    buffer_t unserved;       // not acquired: names of our queues that the leader does not serve, joined by ", "; owned
    size_t unserved_count;
    other_owner_t *other_owner; // acquired: queues that are not ours; owned
    size_t other_owner_count;
} lock_state_t;

void lock_state_clear(lock_state_t *state);

// The context of a request for one lock. Everything is borrowed. Verbs set *error and return its outcome.
typedef struct lock_call {
    conn_t *conn;
    const keyspace_t *keys;
    size_t lock;       // index in the keyspace
    const char *token; // of the term that is, or that would begin
    int64_t ttl_ms;
    redis_error_t *error;
} lock_call_t;

outcome_t lock_acquire(const lock_call_t *call, lock_state_t *state);
// OUTCOME_OK: the lock is still ours and lives for ttl_ms from when Redis got this. OUTCOME_FENCED: it is not ours.
outcome_t lock_renew(const lock_call_t *call);
// Gives the lock back if it is ours and publishes its name on the vacant channel.
outcome_t lock_release(const lock_call_t *call);
// Takes a queue over from other_owner->owner if nobody leads that group. Otherwise *ours is false and other_owner->owner is who
// owns the queue now.
outcome_t lock_claim(const lock_call_t *call, other_owner_t *other_owner, bool *ours);
// Removes `holder`'s lock if it has more life left than its own TTL.
outcome_t lock_break_stale(const lock_call_t *call, const char *holder, bool *removed);

// Listening for vacancies: SUBSCRIBE on a connection of its own, then take messages without waiting.
outcome_t lock_listen(conn_t *subscriber, const keyspace_t *keys, redis_error_t *error);
// *lock is the name in the next message, borrowed until the next call with the same `name` buffer; NULL when there is no message.
outcome_t lock_read_message(conn_t *subscriber, buffer_t *name, const char **lock, redis_error_t *error);

#endif
