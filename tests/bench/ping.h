// A second client that sends PING all the time, to measure how long other clients wait meanwhile.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "bench.h"

enum { PING_PAUSE_US = 200, PING_MAX = 500000 };

typedef struct pinger {
    redisContext *redis;
    atomic_bool stop;
    double *ms;
    size_t count;
    pthread_t thread;
} pinger_t;

static inline void *ping_main(void *arg) {
    pinger_t *pinger = arg;
    use_realtime_priority();
    while (!atomic_load(&pinger->stop) && pinger->count < PING_MAX) {
        int64_t sent = mono_us();
        redis_do(pinger->redis, "PING");
        pinger->ms[pinger->count++] = (double)(mono_us() - sent) / 1000;
        sleep_us(PING_PAUSE_US);
    }
    return NULL;
}

static inline void ping_begin(pinger_t *pinger) {
    pinger->count = 0;
    atomic_store(&pinger->stop, false);
    if (pthread_create(&pinger->thread, NULL, ping_main, pinger) != 0) die("no thread");
}

static inline void ping_end(pinger_t *pinger) {
    atomic_store(&pinger->stop, true);
    pthread_join(pinger->thread, NULL);
}

static inline pinger_t ping_open(const bench_t *bench) {
    pinger_t pinger = {.redis = redis_open(bench), .ms = calloc(PING_MAX, sizeof(double))};
    if (!pinger.ms) die("no memory");
    return pinger;
}

static inline void ping_close(pinger_t *pinger) {
    free(pinger->ms);
    redisFree(pinger->redis);
}
