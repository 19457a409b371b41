/* The setup for tests of delayedQueue's side task: a server, and dispatcher and monitor in a driver. */
#pragma once

#include "delayed_call.h"

#define DE_TYPES "types = [\"" PAYMENT "\", \"" WELCOME "\"];"
#define DE_QUEUE(settings)                                                                                                       \
    "group = \"app\"; dispatcher = { safety_poll = \"24h\"; }; queues = ( { name = \"email\"; dialect = "                        \
    "\"delayed_queue\"; " settings " } );"

typedef struct {
    fixture_t f;
    instance_t instance;
} setup_t;

static inline void open_setup(setup_t *d, fixture_options_t options) {
    if (!options.config) options.config = DE_QUEUE(DE_TYPES);
    options.closed = true;
    d->f = fixture_start(&options);
    instance_start(&d->instance, d->f.keys, INSTANCE_DISPATCHER | INSTANCE_MONITOR);
    instance_lead(&d->instance, d->f.r);
}

static inline void close_setup(setup_t *d) {
    instance_stop(&d->instance);
    fixture_stop(&d->f);
}

static inline metrics_queue_t *of(setup_t *d) { return &d->instance.metrics->queues[0]; }
static inline long long count(setup_t *d, const char *command) { return redis_int(d->f.r, command); }
static inline long long records(setup_t *d) { return count(d, "XLEN sidecar:email:failures"); }

#define until(d, cond)                                                                                                           \
    do {                                                                                                                         \
        if (!driver_until(&(d)->instance.driver, cond, 25000)) {                                                                 \
            char *log_ = fixture_log();                                                                                          \
            cr_assert_fail("still false after 25 s: %s\n%s", #cond, log_);                                                       \
        }                                                                                                                        \
    } while (0)

/* Returns one field of the last record; kept. NULL: no record, or no such field. */
static inline char *recorded(setup_t *d, const char *field) {
    return redis_str(d->f.r, "EVAL %s 1 sidecar:email:failures %s",
                     "local e = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1] if not e then return end "
                     "for i = 1, #e[2], 2 do if e[2][i] == ARGV[1] then return e[2][i + 1] end end",
                     field);
}

static inline void expect_recorded(setup_t *d, const char *field, const char *expected) {
    char *found = recorded(d, field);
    cr_assert(expected ? found && strcmp(found, expected) == 0 : !found, "%s: %s", field, found);
}

/* The zset, the hash and the quarantine are empty. */
static inline void expect_empty(setup_t *d) {
    cr_assert_eq(count(d, "EXISTS " DELAYED_KEYS " de_events sidecar:email:aside"), 0);
}
