// Types and functions that the files of leader/ share.
#pragma once

#include <stdatomic.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "leader/preflight.h"
#include "leader/sizes.h"
#include "queue/lock.h"
#include "redis/conn.h"
#include "redis/topology.h"

enum { RENEWALS_PER_TTL = 3 };

typedef struct leader leader_t; // as in leader.h

typedef enum election_state { ELECTION_STANDBY, ELECTION_LEADING } election_state_t;

// The state of one lock, as this instance knows it.
typedef struct election {
    election_state_t state;
    char token[TOKEN_SIZE];     // of the current term, or of the next attempt
    char adopted[TOKEN_SIZE];   // what leader_adopt was told; constant while the thread runs
    mono_t deadline;            // leading: when the lease ends
    mono_t next;                // when to renew, or to try again
    mono_t claim_at;            // leading: when to claim queues of other groups again
    bool maybe_held;            // an acquire was sent and may have succeeded
    char overlong[TOKEN_SIZE];  // holder whose lock has more time left than its TTL; "" = none
    mono_t overlong_at;         // when this holder was first seen
    char holder[TOKEN_SIZE];    // last holder seen, to log a change once
    bool told_free;             // logged that nobody leads
    size_t unserved;            // queues of this instance that the leader does not serve
    other_owner_t *other_owner; // leading: queues that other groups own; owned
    size_t other_owner_count;
    bool handed_over; // the lock comes from the roles of the previous configuration
} election_t;

// The numbers that this leader adds to metrics which it shares with the leaders of other shards.
typedef struct leader_gauges {
    int64_t standing_by;
    int64_t unserved;
    int64_t writes_refused;
} leader_gauges_t;

struct leader {
    shard_t *shard;
    leader_gauges_t gauges;
    const keyspace_t *keys;
    int64_t ttl_ms;
    leases_t *leases;
    metrics_t *metrics;
    conn_t *conn;
    conn_t *subscriber; // subscribed to released locks while standing by
    backoff_t backoff;
    mono_t retry_at;            // no request before this
    mono_t subscriber_retry_at; // the same for the subscriber, whose errors must not delay the lock
    unsigned checked;           // generation of the connection on which the preflight last ran; 0 = none
    bool was_connected;
    mono_t logged_connected; // when "connected" was last logged: an unstable connection must not fill the log
    preflight_results_t *preflight;
    queue_sizes_t *sizes;
    election_t *elections;
    atomic_bool handing_over; // the roles of a new configuration take the locks over
};

const char *leader_lock_name(const leader_t *leader, size_t lock);

// Sets one of leader->gauges, and what it adds to the metric.
void leader_set_gauge(metric_t *metric, int64_t *gauge, int64_t value);

// Logs why a request failed and schedules the next attempt; the pause is longest after REFUSED.
void leader_back_off(leader_t *leader, const redis_error_t *error);
// The same for a request that concerns one lock. After REFUSED only this lock waits.
void leader_lock_failed(leader_t *leader, size_t lock, const redis_error_t *error);

lock_call_t leader_lock_call(leader_t *leader, size_t lock, redis_error_t *error);

// In election.c. Needs an open connection.
void leader_acquire(leader_t *leader, size_t lock);
// With lock.lead = false, instead: reads who leads.
void leader_look(leader_t *leader, size_t lock);
// Redis got an acquire or a renewal that was sent at `sent`: sets the end of the lease and the time of the next renewal.
void leader_set_deadline(leader_t *leader, size_t lock, mono_t sent);
// Claims the queues of the lock that other groups own.
void leader_claim_queues(leader_t *leader, size_t lock, mono_t now);
// The only place where an election changes its state. `reason` says why leading ended; NULL = this instance gave the lock away.
void leader_change_state(leader_t *leader, size_t lock, election_state_t state, const char *reason);
// Sets the metric of unserved queues, over all locks.
void leader_count_unserved(leader_t *leader);

// In renewal.c. Once the renewal of one lock is due: renews all locks that this instance leads, by one write. Needs an open
// connection.
bool renewal_is_due(const leader_t *leader);
void leader_renew(leader_t *leader);

// In listen.c. While another instance leads: subscribes to released locks, and reads the messages.
void leader_listen(leader_t *leader);
mono_t leader_listen_at(const leader_t *leader); // when to call it next, beside messages
