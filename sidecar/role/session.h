// What a role that is woken by Redis holds: a connection for its requests, a second one that hears of changes, and when to try
// again after trouble. It knows nothing of queues.
#ifndef QS_ROLE_SESSION_H
#define QS_ROLE_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "config/config.h"
#include "model/metrics.h"
#include "redis/conn.h"
#include "redis/tracking.h"

typedef struct session {
    const char *role; // static; whose log lines these are
    metrics_t *metrics;
    conn_t *data;
    conn_t *subscriber;       // told of changes
    bool tracking;            // tracking works on this pair of connections
    bool tracking_refused;    // the server refuses it; counted in metrics
    mono_t tracking_retry_at; // when to try tracking again
    mono_t tracking_since;    // when tracking last began
    mono_t retry_at;          // no request before this
    backoff_t backoff;
    const char *const *channels; // further ones that the ear hears; borrowed
    size_t channel_count;
    wake_heard_fn *on_message;
    void *on_message_self; // of `heard`; borrowed
} session_t;

// Everything is borrowed; opens nothing yet. Ended by session_free.
// `names` are what CLIENT LIST shows of data and ear; static.
void session_init(session_t *session, const char *role, const char *const names[2], const redis_config_t *redis,
                  metrics_t *metrics, const atomic_bool *stop);
void session_free(session_t *session);
// The ear hears these channels too, as long as it lives; one that is refused is said once for each ear. Everything is borrowed.
// Call it before the first session_open.
void session_subscribe(session_t *session, const char *const *channels, size_t count, wake_heard_fn *on_message, void *self);
void session_close(session_t *session);

// Opens what is closed. *fresh: the requests or the wake-ups begin anew, so everything may have changed meanwhile. False: not
// now, see retry_at.
bool session_open(session_t *session, mono_t now, bool *fresh);

// A request failed by what is not its own fault: waits before the next one. What is lost is closed; look at data.
void session_back_off(session_t *session, const redis_error_t *error);
// A request that wrote something has worked: the next trouble is met with the shortest wait again.
void session_reset_backoff(session_t *session);

// Call it while no reply is wanted: false when the other side has closed data, which is then put off.
bool session_check_alive(session_t *session);

// Takes the wake-ups that have arrived. False: the ear is dead, which would be silent for ever; session_open replaces it.
// What came by channels of session_subscribe is given to their `heard`.
bool session_read_messages(session_t *session, wake_fn *changed, void *self);
// The server takes no registrations any more: from now on only a poll finds what is new, until tracking is tried again.
void session_disable_tracking(session_t *session, const redis_error_t *error, mono_t now);

#endif
