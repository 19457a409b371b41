// Wake-ups: Redis says which watched key has changed, without being asked.
//
// CLIENT TRACKING on the data connection, in its default mode, redirected to a subscribed second connection: this works with
// RESP2 and needs no server configuration. OPTIN: only the read that follows CLIENT CACHING YES registers its keys. NOLOOP: our
// own writes say nothing. An invalidation comes once for each registration. (redis.io, client-side caching; redis src/tracking.c)
#ifndef QS_REDIS_TRACKING_H
#define QS_REDIS_TRACKING_H

#include <stdbool.h>

#include "base/slice.h"
#include "redis/conn.h"

// The channel on which Redis tells a tracking client's companion what changed (redis.io, client-side caching in RESP2).
#define INVALIDATE_CHANNEL "__redis__:invalidate"

// Makes `data` and `ear` (both borrowed) a tracking pair: opens what is closed, subscribes, switches tracking on. Afterwards
// nothing is registered: the caller must assume that everything changed. After a failure the ear is closed.
outcome_t tracking_start(conn_t *data, conn_t *subscriber, redis_error_t *error);

// Calls `changed` for each key that an arrived message names; key == NULL: every key (FLUSHALL, or the server forgot).
// Does not wait.
typedef void tracking_change_fn(void *self, const char *key, size_t len);
// A message of another channel; both last for the call.
typedef void tracking_message_fn(void *self, const char *channel, slice_t message);

// `heard` may be NULL: other channels are of no interest.
outcome_t tracking_read(conn_t *subscriber, tracking_change_fn *on_change, void *self, tracking_message_fn *on_message,
                        void *listener, redis_error_t *error);

// Makes the ear of a tracking pair hear one more channel. What it hears meanwhile of the others is given to `heard`; a key that
// changed is not told: after a start everything counts as changed.
outcome_t tracking_subscribe(conn_t *subscriber, const char *channel, tracking_message_fn *on_message, void *listener,
                             redis_error_t *error);

#endif
