/* The reader of failed jobs, called as the monitor calls it. */
#pragma once

#include "audit_case.h"
#include "dialects/bull/bull_failure.h"
#include "dialects/failed/failed.h"
#include "wait.h"

/* The reader of one leader, for the first queue of the config. */
typedef struct {
    fixture_t f;
    metrics_t *metrics;
    const side_task_ops_t *task;
    void *reader;
    const char *token;
} setup_t;

static inline setup_t setup_open(const fixture_options_t *options, const side_task_ops_t *task) {
    setup_t setup = {.f = fixture_start(options), .task = task, .token = "T"};
    setup.metrics = metrics_new(1);
    setup.reader = task->open(&setup.f.keys->queues[0]);
    redis_ok(setup.f.r, "SET " BULL_LOCK " T");
    return setup;
}

static inline void setup_stop(setup_t *setup) {
    setup->task->close(setup->reader);
    metrics_free(setup->metrics);
    fixture_stop(&setup->f);
}

static inline outcome_t step(setup_t *setup, bool changed, mono_t *next) {
    side_task_call_t call = {.redis = fixture_call(&setup->f, setup->token),
                             .arm = true,
                             .changed = changed,
                             .metrics = &setup->metrics->queues[0],
                             .now = mono_now(),
                             .next = mono_never()};
    outcome_t outcome = setup->task->step(setup->reader, &call);
    *next = call.next;
    return outcome;
}

/* Runs steps until the next one is due in a second or more: then the reader waits for a change, or for its next full-range read.
 * Ends at the first outcome that is not OUTCOME_OK. */
static inline outcome_t run_steps_after(setup_t *setup, bool changed) {
    mono_t next;
    outcome_t outcome;
    do {
        outcome = step(setup, changed, &next);
        changed = false;
        while (!mono_reached(next, mono_now()) && mono_diff(next, mono_now()) < NS_PER_S) {
        }
    } while (outcome == OUTCOME_OK && mono_diff(next, mono_now()) < NS_PER_S);
    return outcome;
}

static inline outcome_t run_steps(setup_t *setup) { return run_steps_after(setup, true); }

static inline void read_failures(setup_t *setup) { cr_assert_eq(run_steps(setup), OUTCOME_OK, "%s", setup->f.error.text); }

/* Makes the reader forget its state, as for a new leader or a new connection. */
static inline void forget_state(setup_t *setup) { setup->task->forget(setup->reader); }

static inline void expect_jobs(setup_t *setup, const char *ids) { expect_records(setup->f.r, "job", ids); }
