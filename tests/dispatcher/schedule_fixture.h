/* What the tests of one line share: a line on a desk, and what Redis could tell it. */
#ifndef QS_TEST_LINE_DESK_H
#define QS_TEST_LINE_DESK_H

#include "dispatcher/schedule.h"
#include "fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 100 };

#define NOW_US INT64_C(1800000000123456) /* by Redis */

static const mono_t NOW = {.ns = 77 * INT64_C(1000000000)};

typedef struct {
    config_t *config;
    metrics_t *metrics;
    line_t line;
} setup_t;

static inline setup_t setup_open(const char *settings) {
    setup_t setup = {.config = fixture_config("group = \"app\"; queues = ( { name = \"email\"; %s } );", settings)};
    setup.metrics = metrics_new(1);
    line_init(&setup.line, &setup.config->queues[0], &setup.metrics->queues[0], BATCH);
    fixture_capture_log();
    return setup;
}

static inline void setup_close(setup_t *setup) {
    metrics_free(setup->metrics);
    config_free(setup->config);
}

static inline mono_t at(int64_t us) { return mono_add(NOW, us * NS_PER_US); }

static inline void see_head(line_t *line, double score) {
    line_head(line, &(head_t){.exists = true, .score = score}, NOW_US, NOW);
}

static inline void see_none(line_t *line) { line_head(line, &(head_t){0}, NOW_US, NOW); }

static inline promote_reply_t moved(int64_t jobs) {
    return (promote_reply_t){.kind = PROMOTED_MOVED, .moved = jobs, .now_us = NOW_US, .bytes = jobs * 10};
}

/* Sends one promote and answers it. */
static inline bool promote(line_t *line, promote_reply_t reply, mono_t now) {
    line_ask_t ask = line_sent_promote(line, now);
    return line_promoted(line, &reply, &ask, now);
}

#endif
