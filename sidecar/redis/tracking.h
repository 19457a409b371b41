// Wake-ups: Redis reports which watched key has changed.
//
// The data connection uses CLIENT TRACKING in its default mode, redirected to a second, subscribed connection. This works with
// RESP2 and needs no configuration of the server. OPTIN: only the read after CLIENT CACHING YES registers its keys. NOLOOP: the
// sidecar's own writes cause no message. Each registration causes one message. (redis.io, client-side caching; redis
// src/tracking.c)
#pragma once

#include "base/slice.h"
#include "redis/conn.h"

// The channel on which Redis reports changes to the subscriber (redis.io, client-side caching in RESP2).
#define INVALIDATE_CHANNEL "__redis__:invalidate"

// Makes `data` and `subscriber` (both borrowed) a tracking pair. Opens a closed connection, subscribes and turns tracking on. An
// open subscriber must be new. No key is registered after that, so the caller must assume that every key has changed. A failure
// closes the subscriber.
outcome_t tracking_start(conn_t *data, conn_t *subscriber, redis_error_t *error);
// Whether Redis accepts CLIENT CACHING on the data connection of a pair. A user may have the right to CLIENT TRACKING alone.
outcome_t tracking_try_caching(conn_t *data, redis_error_t *error);

// One key changed. key == NULL: any key may have changed (FLUSHALL, or the server dropped registrations).
typedef void tracking_change_fn(void *self, const char *key, size_t len);
// A message on another channel. Channel and message are valid during the call.
typedef void tracking_message_fn(void *self, const char *channel, slice_t message);

// Reads the messages that have arrived. Does not wait. Both functions may be NULL.
outcome_t tracking_read(conn_t *subscriber, tracking_change_fn *on_change, tracking_message_fn *on_message, void *self,
                        redis_error_t *error);

// Subscribes to one more channel. Messages that arrive meanwhile on other channels go to `on_message`. Invalidations are
// dropped, because after tracking_start every key counts as changed.
outcome_t tracking_subscribe(conn_t *subscriber, const char *channel, tracking_message_fn *on_message, void *self,
                             redis_error_t *error);

// Appends CLIENT CACHING YES: the next request of the connection registers the keys that it reads.
void request_caching(conn_t *conn);
