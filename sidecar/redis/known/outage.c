#include "redis/known/outage.h"

#include <pthread.h>

#include "base/buffer.h"

enum { AGAIN_S = 60, KINDS = OUTAGE_OF_TLS + 1 };

struct outage {
    pthread_mutex_t mutex; // guards all that follows
    size_t failing;        // connections
    mono_t since;          // when the first of them failed
    bool told;
    mono_t told_at[KINDS]; // the last line about each kind of error; 0 = none
};

outage_t *outage_new(void) {
    outage_t *outage = mem_alloc(sizeof *outage);
    pthread_mutex_init(&outage->mutex, NULL);
    return outage;
}

void outage_free(outage_t *outage) {
    if (outage) pthread_mutex_destroy(&outage->mutex);
    free(outage);
}

// Call it with the mutex held.
static int64_t outage_seconds(const outage_t *outage, mono_t now) { return mono_diff(now, outage->since) / NS_PER_S; }

bool outage_failed(outage_t *outage, bool fresh, unsigned kind, int64_t *lasted_s) {
    mono_t now = mono_now();
    pthread_mutex_lock(&outage->mutex);
    if (fresh && outage->failing++ == 0) outage->since = now;
    mono_t *told_at = &outage->told_at[kind];
    bool tell = !told_at->ns || mono_diff(now, *told_at) >= AGAIN_S * NS_PER_S;
    if (tell) *told_at = now;
    outage->told = outage->told || tell;
    *lasted_s = outage_seconds(outage, now);
    pthread_mutex_unlock(&outage->mutex);
    return tell;
}

bool outage_recovered(outage_t *outage, int64_t *lasted_s) {
    pthread_mutex_lock(&outage->mutex);
    bool tell = --outage->failing == 0 && outage->told;
    if (tell) outage->told = false;
    *lasted_s = outage_seconds(outage, mono_now());
    pthread_mutex_unlock(&outage->mutex);
    return tell;
}
