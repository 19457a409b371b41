// The verbs of the lock: acquire, renew, release, heal, claim. Each is one script; none keeps state here.
#ifndef QS_QUEUE_LOCK_H
#define QS_QUEUE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/keys.h"
#include "queue/token.h"
#include "redis/conn.h"

// A queue that another group owns, as acquire found it.
typedef struct foreign {
    size_t queue;    // index in the keyspace
    char owner[136]; // the group; "" when the meta key holds no hash
} foreign_t;

typedef struct lock_state {
    bool acquired;
    char holder[TOKEN_SIZE]; // whose lock it is now
    int64_t pttl_ms;         // of the holder's lock; -1 when it has no TTL at all
    buffer_t unserved;       // not acquired: names of our queues that the leader does not serve, joined by ", "; owned
    size_t unserved_count;
    foreign_t *foreign; // acquired: queues that are not ours; owned
    size_t foreign_count;
} lock_state_t;

void lock_state_clear(lock_state_t *state);

outcome_t lock_acquire(conn_t *conn, const keyspace_t *keys, size_t lock, const char *token, int64_t ttl_ms, lock_state_t *state,
                       redis_error_t *error);

// *held: the lock was still ours and lives for ttl_ms from when Redis got this.
outcome_t lock_renew(conn_t *conn, const lock_keys_t *lock, const char *token, int64_t ttl_ms, bool *held, redis_error_t *error);

// Gives the lock back if it is ours and publishes the lock's name on the vacant channel.
outcome_t lock_release(conn_t *conn, const keyspace_t *keys, size_t lock, const char *token, redis_error_t *error);

// Removes `token`'s lock if it still has more life than its own TTL.
outcome_t lock_heal(conn_t *conn, const lock_keys_t *lock, const char *token, bool *removed, redis_error_t *error);

// Takes a queue over from foreign->owner if nobody leads that group. *ours tells; otherwise foreign->owner is who owns it now.
outcome_t lock_claim(conn_t *conn, const keyspace_t *keys, size_t lock, const char *token, foreign_t *foreign, bool *ours,
                     redis_error_t *error);

// Listening for vacancies: SUBSCRIBE on a connection of its own, then take messages without waiting.
outcome_t lock_listen(conn_t *ear, const keyspace_t *keys, redis_error_t *error);
// *lock is the name that a message told, borrowed until the next call with the same `name` buffer, or NULL when there is none.
outcome_t lock_heard(conn_t *ear, buffer_t *name, const char **lock, redis_error_t *error);

#endif
