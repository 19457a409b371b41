/* The setup for tests of the monitor's ticks: a server, and a leading monitor in a driver. The tests act as producers and workers
 * by redis_* calls. */
#pragma once

#include "monitor_call.h"

#define QUEUE(settings) "{ name = \"email\"; protected_timeout = \"100ms\"; heartbeat = \"off\"; " settings " }"
#define ALONE(settings) "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( " QUEUE(settings) " );"
/* Without a wake-up the monitor does nothing for an hour. */
#define SLOW(settings)                                                                                                           \
    "group = \"app\"; monitor = { scan_interval = \"1h\"; }; queues = ( { name = \"email\"; protected_timeout = \"1h\"; "        \
    "heartbeat = \"off\"; retry_window = \"24h\"; " settings " } );"

typedef struct {
    fixture_t f;
    instance_t instance;
} setup_t;

static inline void open_setup(setup_t *d, fixture_options_t options) {
    if (!options.config) options.config = ALONE("retry_times = 1;");
    options.closed = true;
    d->f = fixture_start(&options);
    instance_start(&d->instance, d->f.keys, INSTANCE_MONITOR);
    instance_lead(&d->instance, d->f.r);
}

static inline void close_setup(setup_t *d) {
    instance_stop(&d->instance);
    fixture_stop(&d->f);
}

static inline metrics_queue_t *of(setup_t *d) { return &d->instance.metrics->queues[0]; }
static inline long long count(setup_t *d, const char *command) { return redis_int(d->f.r, command); }
static inline long long records(setup_t *d) { return count(d, "XLEN sidecar:email:failures"); }

/* Pushes a job to backup, as a worker that runs the job. */
static inline void work_on(setup_t *d, const char *job) { redis_ok(d->f.r, "LPUSH email:backup %s", job); }

static inline long long working(setup_t *d, const char *job) { return in_list(d->f.r, "email:backup", slice_text(job)); }
static inline long long waiting(setup_t *d, const char *job) { return in_list(d->f.r, "email", slice_text(job)); }

#define until(d, cond)                                                                                                           \
    do {                                                                                                                         \
        if (!driver_until(&(d)->instance.driver, cond, 25000)) {                                                                 \
            char *log_ = fixture_log();                                                                                          \
            cr_assert_fail("still false after 25 s: %s\n%s", #cond, log_);                                                       \
        }                                                                                                                        \
    } while (0)

/* Runs this many more scans. */
static inline void passes(setup_t *d, int more) {
    int64_t wanted = metric_get(&of(d)->passes) + more;
    until(d, metric_get(&of(d)->passes) >= wanted);
}

/* Runs until the monitor sends no request for three intervals. On a slow machine one interval proves nothing. */
static inline void idle(setup_t *d) {
    for (int tries = 0, still = 0; tries < 100 && still < 3; tries++) {
        long before = proxy_requests(d->f.proxy, NULL);
        driver_run(&d->instance.driver, 100);
        still = proxy_requests(d->f.proxy, NULL) == before ? still + 1 : 0;
    }
}

/* Returns "REASON ATTEMPTS ERROR" of the last record of a kind; owned. NULL: no such record. */
static inline char *reason_of(setup_t *d, const char *kind) {
    return redis_str(d->f.r, "EVAL %s 1 sidecar:email:failures %s",
                     "for _, e in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-')) do local f = {} "
                     "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                     "if f.kind == ARGV[1] then return f.reason .. ' ' .. f.attempts .. ' ' .. (f.error or '-') end end",
                     kind);
}

static inline void expect_reason(setup_t *d, const char *kind, const char *expected) {
    char *reason = reason_of(d, kind);
    cr_assert(expected ? reason && strcmp(reason, expected) == 0 : !reason, "%s: %s", kind, reason);
}
