// A role's session with Redis: a connection for requests, a second one subscribed to changes (client tracking), and the
// back-off. It knows nothing of queues.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "config/config.h"
#include "model/metrics.h"
#include "redis/conn.h"
#include "redis/tracking.h"
#include "role/role.h"

typedef struct session {
    const char *role; // static; the role in log lines
    metrics_t *metrics;
    conn_t *data;
    conn_t *subscriber;       // receives invalidations and messages
    bool tracking;            // client tracking is on for this pair of connections
    bool tracking_refused;    // the server refuses client tracking; a metric tells it
    mono_t tracking_retry_at; // when to try tracking again
    mono_t tracking_since;    // when tracking last began
    mono_t retry_at;          // no request before this
    backoff_t backoff;
    const char *const *channels; // further channels to subscribe to; borrowed
    size_t channel_count;
    tracking_message_fn *on_message;
    void *on_message_self; // its first argument; borrowed
} session_t;

// Borrows everything and opens nothing. `names` are the client names of both connections in CLIENT LIST; static. End with
// session_free.
void session_init(session_t *session, const char *role, const char *const names[2], const redis_config_t *redis,
                  metrics_t *metrics, const atomic_bool *stop);
void session_free(session_t *session);
// Subscribes to more channels on each new subscriber connection. A refused channel is logged once for each connection. Borrows
// everything; call it before the first session_open.
void session_subscribe(session_t *session, const char *const *channels, size_t count, tracking_message_fn *on_message,
                       void *self);
void session_close(session_t *session);

// Opens closed connections. *fresh: a connection or tracking is new, so anything may have changed meanwhile. False: not now, see
// retry_at.
bool session_open(session_t *session, mono_t now, bool *fresh);

// Backs off after a request that failed with RETRY or DISCONNECTED; closes both connections after DISCONNECTED.
void session_back_off(session_t *session, const redis_error_t *error);
// Call after a successful write: the next trouble starts with the shortest back-off.
void session_reset_backoff(session_t *session);

// Call while no reply is awaited: false when the server has closed the connection; the session then backs off.
bool session_check_alive(session_t *session);

// Ends a tick: waits until `next` or for a message; while the session backs off, until retry_at alone.
void session_wait(const session_t *session, mono_t next, role_wait_t *wait);

// Reads the messages that have arrived and calls `changed` for each invalidated key. False: the subscriber connection was lost;
// session_open replaces it.
bool session_read_messages(session_t *session, tracking_change_fn *changed, void *self);
// The server refuses client tracking: polls alone find changes until tracking is tried again.
void session_disable_tracking(session_t *session, const redis_error_t *error, mono_t now);
