// A role's session with Redis: a connection for requests, a second one subscribed to changes (client tracking), and the
// back-off. A session does not depend on queues.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "config/config.h"
#include "model/metrics.h"
#include "redis/conn.h"
#include "redis/tracking.h"
#include "role/role.h"

typedef struct session_ops {
    const char *role;      // the role in log lines
    const char *data_name; // client names of both connections in CLIENT LIST
    const char *subscriber_name;
    void (*reset)(void *self);       // the connection or tracking ended or is new: anything may have changed
    tracking_change_fn *on_change;   // a watched key has changed
    tracking_message_fn *on_message; // a message on a channel of session_subscribe; may be NULL
} session_ops_t;

typedef struct session {
    const session_ops_t *ops; // static
    void *self;               // first argument of the operations; borrowed
    metrics_t *metrics;
    conn_t *data;
    conn_t *subscriber;       // receives invalidations and messages
    bool tracking;            // client tracking is on for this pair of connections
    bool tracking_refused;    // the server refuses client tracking, or the subscriber; counted in a metric
    bool tracking_suspected;  // see session_suspect_tracking
    mono_t tracking_retry_at; // when to try tracking again
    mono_t tracking_since;    // when tracking last began
    mono_t retry_at;          // no request before this
    backoff_t backoff;
    backoff_t subscriber_backoff; // while the server refuses only the subscriber's connection
    const char *const *channels;  // further channels to subscribe to; borrowed
    size_t channel_count;
} session_t;

// Borrows everything and opens nothing. End with session_free.
void session_init(session_t *session, const session_ops_t *ops, void *self, shard_t *shard, metrics_t *metrics,
                  const atomic_bool *stop);
void session_free(session_t *session);
// Subscribes to more channels on each new subscriber connection. A refused channel is logged once for each connection. Borrows
// everything; call it before the first session_ready.
void session_subscribe(session_t *session, const char *const *channels, size_t count);
void session_close(session_t *session);

// Opens closed connections, and notices that the server has closed one. Call it while no reply is awaited. False: send no
// request before retry_at.
bool session_ready(session_t *session);

// Backs off after a request that failed with RETRY or DISCONNECTED; closes both connections after DISCONNECTED.
void session_back_off(session_t *session, const redis_error_t *error);

// Ends a tick: waits until `next` or for a message; while the session backs off, until retry_at alone.
void session_wait(const session_t *session, mono_t next, role_wait_t *wait);

// Reads the messages that have arrived. False: the subscriber connection was lost; session_ready replaces it.
bool session_read_messages(session_t *session);
// A request was refused, perhaps because of CLIENT CACHING before it. The next session_ready asks whether Redis refuses that.
void session_suspect_tracking(session_t *session);
// Handles a refusal of client tracking: until the next attempt at tracking, only polls find changes.
void session_disable_tracking(session_t *session, const redis_error_t *error, mono_t now);
