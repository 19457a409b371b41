// Subscriptions to the events of sentinels that tell of another primary. A lost event does no harm that lasts: the sentinels are
// asked from time to time, too.
#pragma once

#include <stdatomic.h>

#include "config/config.h"
#include "redis/sentinel/answer.h"

typedef struct sentinel_events sentinel_events_t;

// `redis` and `stop` are borrowed. Returns owned; NULL with errno set when no epoll descriptor is available.
sentinel_events_t *sentinel_events_new(const redis_config_t *redis, const atomic_bool *stop);
void sentinel_events_free(sentinel_events_t *events); // NULL is fine

// Subscribes at a sentinel that has just answered, unless it is subscribed already. True: the subscription is new, so ask again,
// as the primary may have changed in between.
bool sentinel_events_follow(sentinel_events_t *events, const address_t *sentinel);

int sentinel_events_fd(const sentinel_events_t *events); // readable when there may be an event

// Reads all that has arrived, and sends PING where a minute has passed without a byte; call it at least once a second.
// True: the primary may be another one, or a subscription was lost, so ask.
bool sentinel_events_read(sentinel_events_t *events);
