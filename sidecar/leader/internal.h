// What the files of the leader share. For leader*.c only.
#ifndef QS_LEADER_INTERNAL_H
#define QS_LEADER_INTERNAL_H

#include <stdatomic.h>

#include "base/backoff.h"
#include "base/buffer.h"
#include "leader/preflight.h"
#include "leader/sizes.h"
#include "queue/lock.h"
#include "redis/conn.h"

enum { RENEWALS_PER_TTL = 3 };

typedef struct leader leader_t; // as in leader.h

typedef enum election_state { ELECTION_STANDBY, ELECTION_LEADING } election_state_t;

// What this instance knows of one lock.
typedef struct election {
    election_state_t state;
    char token[TOKEN_SIZE];    // of the term that is, or of the one that would begin
    mono_t deadline;           // leading: end of the lease
    mono_t next;               // when to renew, or to look again
    mono_t claim_at;           // leading: when to try again for queues that other groups own
    bool maybe_held;           // an acquire was sent and its outcome is not known to be "no"
    char overlong[TOKEN_SIZE]; // holder whose lock was seen to live longer than its TTL; "" = none
    mono_t overlong_at;        // when that was first seen
    char holder[TOKEN_SIZE];   // last holder seen, to log a change once
    size_t unserved;           // our queues that nobody serves for us
    foreign_t *foreign;        // leading: queues that other groups own; owned
    size_t foreign_count;
    bool handed_over; // leading goes on from before a new configuration
} election_t;

struct leader {
    const keyspace_t *keys;
    int64_t ttl_ms;
    leases_t *leases;
    metrics_t *metrics;
    conn_t *conn;
    conn_t *subscriber; // listens for vacancies while a lock is not ours
    buffer_t message;
    backoff_t backoff;
    mono_t retry_at;            // no request before this
    mono_t subscriber_retry_at; // the same for the ear, whose faults must not keep us from leading
    unsigned checked;           // generation of the connection that had its preflight; 0 = none
    bool was_connected;
    mono_t logged_connected;        // when the log was last told of a connection: one that comes and goes must not fill it
    preflight_results_t *preflight; // of the preflight
    queue_sizes_t *sizes;
    election_t *elections;
    atomic_bool handing_over; // somebody is to take the locks over within this process
};

// Says why a request (of a lock, or NULL) failed and sets the time of the next attempt. A fault of rights or keys waits longest.
void leader_back_off(leader_t *leader, const lock_keys_t *lock, const redis_error_t *error);

// leader_seat.c; all on a connection that is open.
const char *leader_lock_name(const leader_t *leader, size_t lock);
void leader_acquire(leader_t *leader, size_t lock);
void leader_renew(leader_t *leader, size_t lock);
// The one place where a lock changes its state. `reason` is that of an end.
void leader_change_state(leader_t *leader, size_t lock, election_state_t state, const char *reason);
// How many of our queues nobody serves, over all locks.
void leader_count_unserved(leader_t *leader);

#endif
