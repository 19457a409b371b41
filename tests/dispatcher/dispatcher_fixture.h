/* What the tests of the dispatcher's ticks share: one dispatcher that leads by hand, on a stage, and its server. */
#ifndef QS_TEST_DISPATCHER_DESK_H
#define QS_TEST_DISPATCHER_DESK_H

#include "fixture.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ALONE(settings)                                                                                                          \
    "group = \"app\"; dispatcher = { safety_poll = \"24h\"; batch = 10; }; queues = ( { name = \"email\"; " settings " } );"
#define TWO                                                                                                                      \
    "group = \"app\"; dispatcher = { safety_poll = \"24h\"; batch = 10; }; queues = ( { name = \"email\"; }, { name = \"sms\"; " \
    "} );"

/* A dispatcher that leads, and its server. */
typedef struct {
    fixture_t f;
    crew_t crew;
} desk_t;

static inline void open_desk(desk_t *d, fixture_options_t options) {
    if (!options.config) options.config = ALONE("");
    options.closed = true;
    d->f = fixture_start(&options);
    crew_start(&d->crew, d->f.keys, CREW_DISPATCHER);
    crew_lead(&d->crew, d->f.r);
}

static inline void close_desk(desk_t *d) {
    crew_stop(&d->crew);
    fixture_stop(&d->f);
}

static inline long long ready(desk_t *d) { return redis_int(d->f.r, "LLEN email"); }
static inline long long delayed(desk_t *d) { return redis_int(d->f.r, "ZCARD email:delayed"); }
static inline metrics_queue_t *of(desk_t *d, size_t queue) { return &d->crew.metrics->queues[queue]; }

/* Steps until so many jobs are ready. */
static inline void expect_ready(desk_t *d, long long jobs) {
    bool done = stage_until(&d->crew.stage, ready(d) == jobs, 15000);
    if (done) return;
    char *log = fixture_log();
    cr_assert_fail("%lld jobs are ready, %lld delayed, %lld were expected\n%s", ready(d), delayed(d), jobs, log);
}

/* Works until everything that it wants now is done. */
static inline void settle(desk_t *d) { stage_settle(&d->crew.stage, d->f.r); }

static inline void add_due(desk_t *d, int jobs) {
    for (int i = 0; i < jobs; i++) redis_ok(d->f.r, "ZADD email:delayed %d job%04d", i, i);
}

/* Exactly one copy of each of add_due's jobs is there. */
static inline void expect_each_once(desk_t *d, int jobs) {
    cr_assert_eq(ready(d) + delayed(d), jobs);
    for (int i = 0; i < jobs; i++) {
        redisReply *found = redis_do(d->f.r, "LPOS email job%04d COUNT 0", i);
        char *score = redis_str(d->f.r, "ZSCORE email:delayed job%04d", i);
        cr_assert_eq(found->elements + (score != NULL), 1, "job %d is there %zu times", i, found->elements + (score != NULL));
        freeReplyObject(found);
        free(score);
    }
}

static inline long long now_ms(redis_t *r) {
    redisReply *reply = redis_do(r, "TIME");
    long long ms = strtoll(reply->element[0]->str, NULL, 10) * 1000 + strtoll(reply->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(reply);
    return ms;
}

static inline long most_steps(int ms) { return 10 + 60L * wait_scaled_ms(ms) / 1000; }

#endif
