// Asks the sentinels for the primary, on behalf of all threads of a process: one ask at a time, and not too often.
#pragma once

#include "base/clock.h"
#include "redis/sentinel/group.h"

typedef struct locator locator_t;

typedef struct located {
    address_t address; // as the sidecar reaches the primary
    int64_t config_epoch;
    uint64_t number;         // of the ask that found it; later asks have higher numbers
    mono_t asked_at;         // when the last ask began, even if it failed
    int64_t certificate_end; // of the sentinels, as of tls_first_end
} located_t;

// `redis` is borrowed. Returns owned.
locator_t *locator_new(const redis_config_t *redis);
void locator_free(locator_t *locator); // NULL is fine
// See sentinel_group_inherit. Waits until no thread asks through `old`.
void locator_inherit(locator_t *locator, locator_t *old);

// Tells what an ask that began at `since` or later has found; asks if there was none. *error tells why the primary is unknown.
// `stop` may be NULL.
outcome_t locator_find(locator_t *locator, mono_t since, const atomic_bool *stop, located_t *located, redis_error_t *error);

// The last time by which all connections would have ended, had the sentinels told of another primary: an ask began then, and its
// answer is in effect, or none came; or the watcher had read all events. Does not block.
mono_t locator_watched_at(const locator_t *locator);
void locator_note_watched(locator_t *locator, mono_t at);

// Calls `use` with the group, which no other thread uses meanwhile.
void locator_inspect(locator_t *locator, void (*use)(const sentinel_group_t *group, void *arg), void *arg);
