/* The reader of Bull's failures, called as the monitor calls it. */
#pragma once

#include "audit_case.h"
#include "bull_failure.h"
#include "dialects/bull/failed_channel.h"
#include "dialects/bull/internal.h"
#include "dialects/registry.h"
#include "wait.h"

/* The reader of one leader, called as the monitor calls it. */
typedef struct {
    fixture_t f;
    metrics_t *metrics;
    void *reader;
    const char *token;
} setup_t;

static inline setup_t setup_start_on(fixture_options_t *options, const char *more) {
    options->config = kept(
        mem_printf("group = \"app\"; %s queues = ( { name = \"video\"; dialect = \"bull\"; max_payload = \"64KiB\"; } );", more));
    setup_t setup = {.f = fixture_start(options), .token = "T"};
    setup.metrics = metrics_new(1);
    setup.reader = bull_failed_task.open(&setup.f.keys->queues[0]);
    redis_ok(setup.f.r, "SET " BULL_LOCK " T");
    return setup;
}

static inline setup_t setup_start_as(const char *more, bool proxy) {
    return setup_start_on(&(fixture_options_t){.proxy = proxy}, more);
}

static inline setup_t setup_start_with(const char *more) { return setup_start_as(more, false); }

static inline setup_t setup_start(void) { return setup_start_with(""); }

static inline void setup_stop(setup_t *setup) {
    bull_failed_task.close(setup->reader);
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
    outcome_t outcome = bull_failed_task.step(setup->reader, &call);
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
static inline void forget_state(setup_t *setup) { bull_failed_task.forget(setup->reader); }

/* A worker lets a job fail now; its clock is `ahead_ms` ahead of Redis's. */
static inline void fail(setup_t *setup, const char *id, long long ahead_ms) {
    char finished[32];
    snprintf(finished, sizeof finished, "%lld", redis_ms(setup->f.r) + ahead_ms);
    bull_fail(setup->f.r, id, finished, "boom");
}

static inline void receive_message(setup_t *setup, const char *id, const char *error) {
    char *message = kept_printf("{\"jobId\":\"%s\",\"val\":\"%s\"}", id, error);
    bull_failed_task.on_message(setup->reader, NULL, slice_text(message));
}

static inline void expect_jobs(setup_t *setup, const char *ids) { expect_records(setup->f.r, "job", ids); }
