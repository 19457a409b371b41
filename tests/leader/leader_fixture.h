/* What the tests of the leader's ticks share: leaders on stages, whose time passes by the clocks of the product and of Redis. */
#pragma once

#include "fixture.h"
#include "queue/lock.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Long, for a machine that stands still for so long ends a term as well: the tests let it pass by the clocks. */
enum { TTL = 60000, LOOK = TTL + TTL / 20 + 1 }; /* within LOOK a standby looks at the lock again */
#define TTL_TEXT "60s"
#define CONFIG   "group = \"app\"; lock = { ttl = \"" TTL_TEXT "\"; }; queues = ( { name = \"email\"; } );"

static inline fixture_t setup(bool proxy) {
    return fixture_start(&(fixture_options_t){.config = CONFIG, .preload = "shim_clock", .proxy = proxy, .closed = true});
}

/* So much time passes for the product and for Redis. */
static inline void pass(fixture_t *f, int64_t ms) {
    fixture_step_boottime(ms);
    server_step_clock(f->server, ms);
}

/* And for those on the stage, who have their turn often enough to keep what they hold, and to ask more than they should. */
static inline void live(fixture_t *f, driver_t *driver, int64_t ms) {
    for (const int64_t step = TTL / 12; ms > 0; ms -= step) {
        pass(f, ms < step ? ms : step);
        driver_settle(driver, f->r);
    }
}

static inline bool leads(instance_t *instance) {
    lease_t lease;
    return lease_get(instance->leases, 0, &lease);
}

#define cr_leads(instance)                                                                                                       \
    cr_assert(driver_until(&(instance)->driver, leads(instance), 10000), "does not lead: %s", fixture_log())

/* Renewed just now. */
static inline bool fresh(instance_t *instance) {
    lease_t lease;
    return lease_get(instance->leases, 0, &lease) &&
           mono_diff(lease.deadline, mono_now()) > (TTL - TTL / 10 - TTL / 4) * NS_PER_MS;
}

static inline long long connections(fixture_t *f, const char *name) {
    char *list = redis_str(f->r, "CLIENT LIST"), *word = mem_printf(" name=%s ", name);
    long long count = 0;
    for (char *at = list; (at = strstr(at, word)); at++) count++;
    free(word);
    free(list);
    return count;
}

static inline void expect_lock(fixture_t *f, const char *token) { redis_expect(f->r, token, "GET sidecar:app:lock"); }
