/* The setup for tests of dialect stream: a monitor and a dispatcher in a driver, with the stream `mail`, its group `workers` and
 * the zset `mail:delayed`. The tests act as producers and consumers by redis_* calls. */
#pragma once

#include "monitor/monitor_fixture.h"

#define MAIL_QUEUE(settings)                                                                                                     \
    "{ name = \"email\"; dialect = \"stream\"; stream = \"mail\"; delayed = \"mail:delayed\"; errors = "                         \
    "\"mail:errors\"; " settings " }"
/* Scans as often as possible. Entries stall after `timeout`; in MAIL after 100 ms. */
#define MAIL_EVERY(interval, timeout, settings)                                                                                  \
    "group = \"app\"; monitor = { scan_interval = \"" interval                                                                   \
    "\"; }; queues = ( " MAIL_QUEUE("group = \"workers\"; protected_timeout = \"" timeout "\"; " settings) " );"
#define MAIL_IN(timeout, settings) MAIL_EVERY("50ms", timeout, settings)
#define MAIL(settings)             MAIL_IN("100ms", settings)

static inline void make_group(setup_t *d) { redis_ok(d->f.r, "XGROUP CREATE mail workers 0 MKSTREAM"); }

static inline void open_mail_with(setup_t *d, fixture_options_t options) {
    options.closed = true;
    d->f = fixture_start(&options);
    instance_start(&d->instance, d->f.keys, INSTANCE_MONITOR | INSTANCE_DISPATCHER);
    instance_lead(&d->instance, d->f.r);
}

static inline void open_mail(setup_t *d, const char *config) {
    open_mail_with(d, (fixture_options_t){.config = config});
    make_group(d);
}

/* Adds an entry; returns its id, kept. */
static inline char *add(setup_t *d, const char *value) { return kept(redis_str(d->f.r, "XADD mail * data %s", value)); }

/* Reads as this consumer; returns how many entries it has got. */
static inline long long take(setup_t *d, const char *consumer) {
    return redis_int(d->f.r, "EVAL %s 1 mail %s",
                     "local got = redis.call('XREADGROUP', 'GROUP', 'workers', ARGV[1], 'COUNT', 1000, 'STREAMS', KEYS[1], '>') "
                     "return got and #got[1][2] or 0",
                     consumer);
}

static inline long long pending(setup_t *d) {
    return redis_int(d->f.r, "EVAL %s 1 mail", "return redis.call('XPENDING', KEYS[1], 'workers')[1]");
}

/* Counts the entries with this value of `data`. */
static inline long long entries(setup_t *d, const char *stream, const char *value) {
    return redis_int(d->f.r, "EVAL %s 1 %s %s",
                     "local n = 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
                     "if e[2][2] == ARGV[1] then n = n + 1 end end return n",
                     stream, value);
}

/* Returns a field of the newest record of a kind; kept. NULL: no such record, or no such field. */
static inline char *value_of(setup_t *d, const char *kind, const char *name) {
    return kept(redis_str(d->f.r, "EVAL %s 1 sidecar:email:failures %s %s",
                          "for _, e in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-')) do local f = {} "
                          "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                          "if f.kind == ARGV[1] then return f[ARGV[2]] end end",
                          kind, name));
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
