#include "redis/sentinel/locator.h"

#include <poll.h>
#include <pthread.h>

#include "base/buffer.h"

// Asks a second, in the long run and at once: after a failover, connections of all roles want to be confirmed within
// milliseconds.
enum { ASKS_PER_S = 4, ASKS_AT_ONCE = 16 };

struct locator {
    pthread_mutex_t mutex; // held during an ask: whoever waits for it gets the result
    sentinel_group_t *group;
    mono_t asked_at; // when the last ask began; 0 = never
    mono_t earned_at;
    double asks_left; // before the next one has to wait
    located_t found;
    redis_error_t error; // of the last ask
};

static void locator_free(locator_t *locator) {
    sentinel_group_free(locator->group);
    pthread_mutex_destroy(&locator->mutex);
    free(locator);
}

// Waits until no thread asks through `old`.
static void locator_inherit(locator_t *locator, locator_t *old) {
    pthread_mutex_lock(&old->mutex);
    pthread_mutex_lock(&locator->mutex);
    sentinel_group_inherit(locator->group, old->group);
    pthread_mutex_unlock(&locator->mutex);
    pthread_mutex_unlock(&old->mutex);
}

static void locator_earn(locator_t *locator) {
    mono_t now = mono_now();
    locator->asks_left += (double)mono_diff(now, locator->earned_at) * ASKS_PER_S / NS_PER_S;
    if (locator->asks_left > ASKS_AT_ONCE) locator->asks_left = ASKS_AT_ONCE;
    locator->earned_at = now;
}

// Waits until another ask is allowed. Nothing may spin, whatever the roles meet.
static void locator_await_turn(locator_t *locator) {
    locator_earn(locator);
    while (locator->asks_left < 1) {
        poll(NULL, 0, (int)((1 - locator->asks_left) * 1000 / ASKS_PER_S) + 1);
        locator_earn(locator);
    }
    locator->asks_left--;
}

static void locator_ask(locator_t *locator, const atomic_bool *stop) {
    locator_await_turn(locator);
    locator->asked_at = mono_now();
    const address_t *primary = sentinel_group_ask(locator->group, stop, &locator->error);
    if (primary)
        locator->found = (located_t){.address = *primary,
                                     .config_epoch = sentinel_group_epoch(locator->group),
                                     .number = locator->found.number + 1,
                                     .certificate_end = sentinel_group_certificate_end(locator->group)};
    locator->found.asked_at = locator->asked_at;
}

outcome_t locator_find(locator_t *locator, mono_t since, const atomic_bool *stop, located_t *located, redis_error_t *error) {
    pthread_mutex_lock(&locator->mutex);
    if (mono_diff(locator->asked_at, since) < 0) locator_ask(locator, stop);
    *located = locator->found;
    *error = locator->error;
    pthread_mutex_unlock(&locator->mutex);
    return error->outcome;
}

void locator_attach(topology_t *topology) {
    static const locator_ops_t ops = {locator_find, locator_inherit, locator_free};
    const redis_config_t *redis = topology_config(topology);
    if (config_redis_mode(redis) != REDIS_MODE_SENTINEL) return;
    locator_t *locator = mem_alloc(sizeof *locator);
    pthread_mutex_init(&locator->mutex, NULL);
    locator->group = sentinel_group_new(redis);
    locator->asks_left = ASKS_AT_ONCE;
    locator->earned_at = mono_now();
    topology_set_locator(topology, &ops, locator);
}

void locator_inspect(locator_t *locator, void (*use)(const sentinel_group_t *group, void *arg), void *arg) {
    pthread_mutex_lock(&locator->mutex);
    use(locator->group, arg);
    pthread_mutex_unlock(&locator->mutex);
}
