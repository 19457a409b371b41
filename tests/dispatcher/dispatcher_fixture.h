/* Setup of the tests of the dispatcher's ticks: a dispatcher in a driver, and its server. The setup itself acquires the lock. */
#pragma once

#include "fixture.h"
#include "wait.h"

#define ALONE(settings)                                                                                                          \
    "group = \"app\"; dispatcher = { safety_poll = \"24h\"; batch = 10; }; queues = ( { name = \"email\"; " settings " } );"
#define TWO                                                                                                                      \
    "group = \"app\"; dispatcher = { safety_poll = \"24h\"; batch = 10; }; queues = ( { name = \"email\"; }, { name = \"sms\"; " \
    "} );"

typedef struct {
    fixture_t f;
    instance_t instance;
} setup_t;

static inline void setup_begin(setup_t *d, fixture_options_t options) {
    if (!options.config) options.config = ALONE("");
    options.closed = true;
    d->f = fixture_start(&options);
    instance_start(&d->instance, d->f.keys, INSTANCE_DISPATCHER);
    instance_lead(&d->instance, d->f.r);
}

static inline void setup_end(setup_t *d) {
    instance_stop(&d->instance);
    fixture_stop(&d->f);
}

static inline long long ready(setup_t *d) { return redis_int(d->f.r, "LLEN email"); }
static inline long long delayed(setup_t *d) { return redis_int(d->f.r, "ZCARD email:delayed"); }
static inline metrics_queue_t *of(setup_t *d, size_t queue) { return &d->instance.metrics->queues[queue]; }

/* Runs ticks until `jobs` jobs are ready. */
static inline void expect_ready(setup_t *d, long long jobs) {
    bool done = driver_until(&d->instance.driver, ready(d) == jobs, 15000);
    if (done) return;
    char *log = fixture_log();
    cr_assert_fail("%lld jobs are ready, %lld delayed, %lld were expected\n%s", ready(d), delayed(d), jobs, log);
}

/* Runs ticks until the dispatcher has no request to send now. */
static inline void settle(setup_t *d) { driver_settle(&d->instance.driver, d->f.r); }

static inline void add_due(setup_t *d, int jobs) {
    for (int i = 0; i < jobs; i++) redis_ok(d->f.r, "ZADD email:delayed %d job%04d", i, i);
}

/* Exactly one copy of each of add_due's jobs is there. */
static inline void expect_each_once(setup_t *d, int jobs) {
    cr_assert_eq(ready(d) + delayed(d), jobs);
    for (int i = 0; i < jobs; i++) {
        redisReply *found = redis_do(d->f.r, "LPOS email job%04d COUNT 0", i);
        char *score = redis_str(d->f.r, "ZSCORE email:delayed job%04d", i);
        cr_assert_eq(found->elements + (score != NULL), 1, "job %d is there %zu times", i, found->elements + (score != NULL));
    }
}

static inline long most_steps(int ms) { return 10 + 60L * wait_scaled_ms(ms) / 1000; }
