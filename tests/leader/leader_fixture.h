/* Helpers for tests of the leader's ticks: driven leaders, whose time passes by stepping the clocks of the sidecar and of Redis.
 */
#pragma once

#include "fixture.h"
#include "queue/lock.h"
#include "wait.h"

/* A long TTL, because a term also ends when the machine pauses for a TTL. The tests step the clocks instead of waiting. */
enum { TTL = 60000, RETRY_WITHIN = TTL + 500 + 1 }; /* ms after which a standby has tried the lock again */
#define TTL_TEXT "60s"
#define CONFIG   "group = \"app\"; lock = { ttl = \"" TTL_TEXT "\"; }; queues = ( { name = \"email\"; } );"

static inline fixture_t setup(bool proxy) {
    return fixture_start(&(fixture_options_t){.config = CONFIG, .preload = "shim_clock", .proxy = proxy, .closed = true});
}

/* Steps the clocks of the sidecar and of Redis. */
static inline void step_clocks(fixture_t *f, int64_t ms) {
    fixture_step_boottime(ms);
    server_step_clock(f->server, ms);
}

/* Steps the clocks in small steps and runs the driver after each, so that leaders renew, and superfluous requests show. */
static inline void drive_for(fixture_t *f, driver_t *driver, int64_t ms) {
    for (const int64_t step = TTL / 12; ms > 0; ms -= step) {
        step_clocks(f, ms < step ? ms : step);
        driver_settle(driver, f->r);
    }
}

static inline bool leads(instance_t *instance) {
    lease_t lease;
    return lease_get(instance->leases, 0, &lease);
}

#define cr_leads(instance)                                                                                                       \
    cr_assert(driver_until(&(instance)->driver, leads(instance), 10000), "does not lead: %s", fixture_log())

/* Whether the lease was renewed within the last quarter of a TTL. */
static inline bool fresh(instance_t *instance) {
    lease_t lease;
    return lease_get(instance->leases, 0, &lease) &&
           mono_diff(lease.deadline, mono_now()) > (TTL - TTL / 10 - TTL / 4) * NS_PER_MS;
}

static inline long long connections(fixture_t *f, const char *name) {
    char *list = redis_str(f->r, "CLIENT LIST"), *word = kept_printf(" name=%s ", name);
    long long count = 0;
    for (char *at = list; (at = strstr(at, word)); at++) count++;
    return count;
}

static inline void expect_lock(fixture_t *f, const char *token) { redis_expect(f->r, token, "GET sidecar:app:lock"); }
