/* Steps of the side tasks of dialect bull, or of the one that BULL_DIALECT names, with a short stalled_interval. */
#pragma once

#include "bull_call.h"
#include "dialects/bull_queue.h"
#include "dialects/registry.h"
#include "model/metrics.h"
#include "wait.h"

#define STREAM "sidecar:video:failures"
#ifndef BULL_DIALECT
#define BULL_DIALECT  dialect_bull
#define BULL_SETTINGS "dialect = \"bull\"; alive_timeout = \"1h\"; "
#endif
#define CONFIG "group = \"app\"; queues = ( { name = \"video\"; stalled_interval = \"1s\"; " BULL_SETTINGS "} );"

enum { INTERVAL_MS = 30 }; /* shorter than a config allows, because tests wait for it */

typedef struct {
    fixture_t f;
    metrics_t *metrics;
    void *states[SIDE_TASKS_MAX];
    side_task_call_t call; /* the call of the last step */
} setup_t;

static inline setup_t setup(void) {
    setup_t s = {.f = fixture_start(&(fixture_options_t){.config = CONFIG})};
    s.metrics = metrics_new(1);
    bull_config(&s.f.config->queues[0])->stalled_interval_ms = INTERVAL_MS;
    for (int i = 0; i < SIDE_TASKS_MAX; i++) s.states[i] = BULL_DIALECT.side_tasks[i]->open(&s.f.keys->queues[0]);
    redis_ok(s.f.r, "SET " BULL_LOCK " T");
    return s;
}

static inline void teardown(setup_t *s) {
    for (int i = 0; i < SIDE_TASKS_MAX; i++) BULL_DIALECT.side_tasks[i]->close(s->states[i]);
    metrics_free(s->metrics);
    fixture_stop(&s->f);
}

static inline outcome_t step_as(setup_t *s, const char *token) {
    s->call = (side_task_call_t){
        .redis = fixture_call(&s->f, token), .metrics = &s->metrics->queues[0], .now = mono_now(), .next = mono_never()};
    s->f.error = (redis_error_t){0};
    mono_t next = mono_never();
    outcome_t outcome = OUTCOME_OK;
    for (int i = 0; i < SIDE_TASKS_MAX && outcome == OUTCOME_OK; i++) {
        s->call.next = mono_never();
        outcome = BULL_DIALECT.side_tasks[i]->step(s->states[i], &s->call);
        next = mono_min(next, s->call.next);
    }
    s->call.next = next;
    return outcome;
}

static inline void step(setup_t *s) { cr_assert_eq(step_as(s, "T"), OUTCOME_OK, "%s", s->f.error.text); }

/* Runs steps when they are due, until `settled` jobs were retried or ended. */
static inline void check_until(setup_t *s, long settled) {
    const metrics_queue_t *m = &s->metrics->queues[0];
    wait_t wait = wait_begin(10000);
    do {
        if (mono_reached(s->call.next, mono_now())) step(s);
        if (metric_get(&m->retried) + metric_get(&m->ended) >= settled) return;
    } while (wait_again(&wait));
    cr_assert_fail("%ld jobs were settled", (long)(metric_get(&m->retried) + metric_get(&m->ended)));
}

/* Runs steps until jobs are marked again. The last marked jobs are checked before that. */
static inline void check_once(setup_t *s) {
    char *before = redis_str(s->f.r, "HGET sidecar:video:meta marked");
    wait_t wait = wait_begin(10000);
    bool anew = false;
    do {
        if (mono_reached(s->call.next, mono_now())) step(s);
        char *now = redis_str(s->f.r, "HGET sidecar:video:meta marked");
        anew = strcmp(before, now) != 0;
    } while (!anew && wait_again(&wait));
    cr_assert(anew);
}

static inline void active(redis_t *r, const char *id, const char *counter) {
    bull_job(r, id, "0");
    if (counter) redis_ok(r, "HSET " BULL "%s stalledCounter %s", id, counter);
    redis_ok(r, "LPUSH " BULL "active %s", id);
}

/* A field in the record of job `id`. Kept; NULL = no such record or field. */
static inline char *field(redis_t *r, const char *id, const char *name) {
    return redis_str(r, "EVAL %s 1 " STREAM " %s %s",
                     "for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do local f = {} "
                     "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                     "if f.job == ARGV[1] then return f[ARGV[2]] or false end end return false",
                     id, name);
}

static inline void expect_field(redis_t *r, const char *id, const char *name, const char *expected) {
    char *found = field(r, id, name);
    cr_assert(expected ? found && strcmp(found, expected) == 0 : !found, "%s of %s is %s", name, id, found);
}
