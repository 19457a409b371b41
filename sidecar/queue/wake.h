// Wake-ups: Redis says which watched key has changed, without being asked.
//
// CLIENT TRACKING on the data connection, in its default mode, redirected to a subscribed second connection: this works with
// RESP2 and needs no server configuration. OPTIN: only the read that follows CLIENT CACHING YES registers its keys. NOLOOP: our
// own writes say nothing. An invalidation comes once for each registration. (redis.io, client-side caching; redis src/tracking.c)
#ifndef QS_QUEUE_WAKE_H
#define QS_QUEUE_WAKE_H

#include <stdbool.h>

#include "queue/conn.h"

// Makes `data` and `ear` (both borrowed) a tracking pair: opens what is closed, subscribes, switches tracking on. Afterwards
// nothing is registered: the caller must assume that everything changed. After a failure the ear is closed.
outcome_t wake_start(conn_t *data, conn_t *ear, fault_t *fault);

// Calls `changed` for each key that an arrived message names; key == NULL: every key (FLUSHALL, or the server forgot).
// Does not wait.
typedef void wake_fn(void *self, const char *key, size_t len);
outcome_t wake_take(conn_t *ear, wake_fn *changed, void *self, fault_t *fault);

#endif
