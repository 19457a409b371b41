/* The setup for tests of private_queues: a monitor in a driver, with main `fights`, private lists `queue-*`, the dead letter list
 * `fights-dlq` and the set of finished ids `fights-done`. */
#pragma once

#include "monitor/monitor_fixture.h"

/* Scans as often as possible. Jobs stall after `timeout`; in FIGHTS after 100 ms. */
#define FIGHTS_IN(timeout, settings)                                                                                             \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( " FIGHTS_QUEUE("protected_timeout = \"" timeout        \
                                                                                         "\"; " settings) " );"
#define FIGHTS(settings) FIGHTS_IN("100ms", settings)
#define FIGHTS_QUEUE(settings)                                                                                                   \
    "{ name = \"email\"; dialect = \"private_queues\"; main = \"fights\"; private = \"queue-*\"; " settings " }"

static inline void open_fights(setup_t *d, const char *config) { open_setup(d, (fixture_options_t){.config = config}); }

/* Pushes a job to a worker's empty list, as the worker's BLMOVE does. */
static inline void take(setup_t *d, const char *worker, const char *job) { redis_ok(d->f.r, "LPUSH queue-%s %s", worker, job); }

/* Returns the number of entries of a list with these bytes. */
static inline long long there(setup_t *d, const char *list, const char *job) { return in_list(d->f.r, list, slice_text(job)); }

/* Returns a field of the newest record of a kind; kept. NULL: no such record, or no such field. */
static inline char *value_of(setup_t *d, const char *kind, const char *name) {
    return redis_str(d->f.r, "EVAL %s 1 sidecar:email:failures %s %s",
                     "for _, e in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-')) do local f = {} "
                     "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                     "if f.kind == ARGV[1] then return f[ARGV[2]] end end",
                     kind, name);
}

static inline void expect_value(setup_t *d, const char *kind, const char *name, const char *expected) {
    char *value = value_of(d, kind, name);
    cr_assert(expected ? value && strcmp(value, expected) == 0 : !value, "%s of %s is %s", name, kind, value);
}

/* Returns the number of records with this reason. */
static inline long long reasons(setup_t *d, const char *reason) {
    return redis_int(
        d->f.r, "EVAL %s 1 sidecar:email:failures %s",
        "local n = 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
        "for i = 1, #e[2], 2 do if e[2][i] == 'reason' and e[2][i + 1] == ARGV[1] then n = n + 1 end end end return n",
        reason);
}
