/* Setup of the tests of a schedule, and replies of Redis for it. */
#pragma once

#include "dispatcher/schedule.h"
#include "fixture.h"

enum { BATCH = 100, SLICE_US = 500 };

#define NOW_US INT64_C(1800000000123456) /* by Redis's clock */

static const mono_t NOW = {.ns = 77 * INT64_C(1000000000)};

typedef struct {
    config_t *config;
    metrics_t *metrics;
    schedule_t schedule;
} setup_t;

static inline setup_t setup_open(const char *settings) {
    setup_t setup = {.config = fixture_config("group = \"app\"; queues = ( { name = \"email\"; %s } );", settings)};
    setup.metrics = metrics_new(1);
    schedule_init(&setup.schedule, &setup.config->queues[0], &setup.metrics->queues[0], BATCH, SLICE_US);
    fixture_capture_log();
    return setup;
}

static inline void setup_close(setup_t *setup) {
    schedule_free(&setup->schedule);
    metrics_free(setup->metrics);
    config_free(setup->config);
    *setup = (setup_t){0};
}

static inline mono_t at(int64_t us) { return mono_add(NOW, us * NS_PER_US); }

static inline void see_next_due(schedule_t *schedule, double score) {
    schedule_read_next_due(schedule, &(next_due_t){.exists = true, .score = score}, NOW_US, NOW);
}

static inline void see_none(schedule_t *schedule) { schedule_read_next_due(schedule, &(next_due_t){0}, NOW_US, NOW); }

static inline promote_reply_t moved(int64_t jobs) {
    return (promote_reply_t){.moved = jobs, .now_us = NOW_US, .bytes = jobs * 10};
}

static inline void read_promote(schedule_t *schedule, const promote_reply_t *reply, const schedule_request_t *ask, mono_t now) {
    schedule_replied(schedule);
    schedule_read_promote(schedule, reply, ask, now);
}

/* Sends one promote and gives the schedule this reply. */
static inline void promote(schedule_t *schedule, promote_reply_t reply, mono_t now) {
    schedule_request_t ask = schedule_sent_promote(schedule, SLICE_US, now);
    read_promote(schedule, &reply, &ask, now);
}
