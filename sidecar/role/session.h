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

typedef struct link {
    const char *role; // static; whose log lines these are
    metrics_t *metrics;
    conn_t *data;
    conn_t *ear;     // told of changes
    bool waking;     // tracking works on this pair of connections
    bool deaf;       // the server refuses it; counted in metrics
    mono_t wake_at;  // when to try tracking again
    mono_t woke_at;  // when tracking last began
    mono_t retry_at; // no request before this
    backoff_t backoff;
    const char *const *channels; // further ones that the ear hears; borrowed
    size_t channel_count;
    wake_heard_fn *heard;
    void *hearer; // of `heard`; borrowed
} link_t;

// Everything is borrowed; opens nothing yet. Ended by link_free.
// `names` are what CLIENT LIST shows of data and ear; static.
void link_init(link_t *link, const char *role, const char *const names[2], const redis_config_t *redis, metrics_t *metrics,
               const atomic_bool *stop);
void link_free(link_t *link);
// The ear hears these channels too, as long as it lives; one that is refused is said once for each ear. Everything is borrowed.
// Call it before the first link_open.
void link_also(link_t *link, const char *const *channels, size_t count, wake_heard_fn *heard, void *self);
void link_close(link_t *link);

// Opens what is closed. *fresh: the requests or the wake-ups begin anew, so everything may have changed meanwhile. False: not
// now, see retry_at.
bool link_open(link_t *link, mono_t now, bool *fresh);

// A request failed by what is not its own fault: waits before the next one. What is lost is closed; look at data.
void link_put_off(link_t *link, const redis_error_t *error);
// A request that wrote something has worked: the next trouble is met with the shortest wait again.
void link_works(link_t *link);

// Call it while no reply is wanted: false when the other side has closed data, which is then put off.
bool link_alive(link_t *link);

// Takes the wake-ups that have arrived. False: the ear is dead, which would be silent for ever; link_open replaces it.
// What came by channels of link_also is given to their `heard`.
bool link_hear(link_t *link, wake_fn *changed, void *self);
// The server takes no registrations any more: from now on only a poll finds what is new, until tracking is tried again.
void link_deaf(link_t *link, const redis_error_t *error, mono_t now);

#endif
