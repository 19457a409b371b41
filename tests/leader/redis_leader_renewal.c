/* When locks are renewed, and when a standby tries again. */
#include "leader_fixture.h"
#include "queue/scripts.h"

#include <pthread.h>

enum { LOCKS = 30 };

static fixture_t begin(void) {
    static char config[4096];
    int len = snprintf(config, sizeof config, "lock = { ttl = \"" TTL_TEXT "\"; scope = \"queue\"; }; queues = ( ");
    for (int i = 0; i < LOCKS; i++)
        len += snprintf(config + len, sizeof config - (size_t)len, "%s{ name = \"q%d\"; }", i ? ", " : "", i);
    snprintf(config + len, sizeof config - (size_t)len, " );");
    return fixture_start(&(fixture_options_t){.config = config, .preload = "shim_clock", .proxy = true, .closed = true});
}

static void lead_all(instance_t *instance) {
    cr_assert(driver_until(&instance->driver, metric_get(&instance->metrics->leading) == LOCKS, 10000));
}

static long renewals(const fixture_t *f) {
    return proxy_requests(f->proxy, script_renew.sha1) + proxy_requests(f->proxy, script_renew.sha1_without_flags);
}

/* The number of locks that were renewed within the last quarter of a TTL. */
static int fresh_locks(instance_t *instance) {
    int count = 0;
    for (size_t i = 0; i < LOCKS; i++) {
        lease_t lease;
        count += lease_get(instance->leases, i, &lease) &&
                 mono_diff(lease.deadline, mono_now()) > (TTL - TTL / 10 - TTL / 4) * NS_PER_MS;
    }
    return count;
}

typedef struct {
    fixture_t *f;
    long wanted, sent; /* renewals */
} holder_t;

/* Lets replies pass once all renewals were sent. */
static void *pass_after_requests(void *argument) {
    holder_t *holder = argument;
    wait_for(renewals(holder->f) >= holder->wanted, 5000);
    holder->sent = renewals(holder->f);
    proxy_pass(holder->f->proxy);
    return NULL;
}

static fixture_t f;
SUITE(redis_leader_renewal, , fixture_stop(&f));

/* The first reply is held until the server has got all renewals. */
Test(redis_leader_renewal, no_renewal_waits_for_the_reply_to_another) {
    f = begin();
    scoped(instance_stop) instance_t instance;
    pthread_t thread;
    instance_start(&instance, f.keys, INSTANCE_LEADER);
    lead_all(&instance);
    driver_settle(&instance.driver, f.r);
    step_clocks(&f, TTL / 4); /* locks that were acquired one after the other are renewed together */
    holder_t holder = {.f = &f, .wanted = renewals(&f) + LOCKS};
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = "EVALSHA"});
    cr_assert_eq(pthread_create(&thread, NULL, pass_after_requests, &holder), 0);
    step_clocks(&f, TTL / 12 + 1000);
    cr_assert(driver_until(&instance.driver, proxy_fired(f.proxy) == 1, 5000));
    pthread_join(thread, NULL);
    cr_assert_eq(holder.sent, holder.wanted, "%ld renewals waited for the first reply", holder.wanted - holder.sent);
    cr_assert(driver_until(&instance.driver, fresh_locks(&instance) == LOCKS, 5000));
    cr_assert_eq(renewals(&f), holder.wanted);
    cr_assert_eq(metric_get(&instance.metrics->terms), LOCKS);
}

enum { SLOW_MS = 1000 };

/* The reply to a request takes a second. */
static void *pass_slowly(void *argument) {
    fixture_t *slow = argument;
    wait_for(proxy_fired(slow->proxy) > 0, 5000);
    fixture_step_boottime(SLOW_MS);
    proxy_pass(slow->proxy);
    return NULL;
}

/* Redis may have begun to count the TTL when the request was sent, and another instance may lead after that time. */
static void expect_lease_of_slow_reply(instance_t *instance, const char *request) {
    pthread_t thread;
    lease_t lease;
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = request});
    cr_assert_eq(pthread_create(&thread, NULL, pass_slowly, &f), 0);
    cr_assert(driver_until(&instance->driver, proxy_fired(f.proxy) == 1 && fresh(instance), 10000));
    pthread_join(thread, NULL);
    cr_assert(lease_get(instance->leases, 0, &lease));
    cr_assert_leq(mono_diff(lease.deadline, mono_now()), (TTL - TTL / 10 - SLOW_MS) * NS_PER_MS, "%s", request);
}

Test(redis_leader_renewal, a_lease_counts_from_the_acquisition_that_was_sent) {
    f = setup(true);
    instance_t instance;
    instance_start(&instance, f.keys, INSTANCE_LEADER);
    expect_lease_of_slow_reply(&instance, " sidecar:app:standbys");
    instance_stop(&instance);
}

Test(redis_leader_renewal, a_lease_counts_from_the_renewal_that_was_sent) {
    f = setup(true);
    instance_t instance;
    instance_start(&instance, f.keys, INSTANCE_LEADER);
    cr_leads(&instance);
    driver_settle(&instance.driver, f.r);
    step_clocks(&f, TTL / 3 + 1000);
    expect_lease_of_slow_reply(&instance, " 1 sidecar:app:lock");
    instance_stop(&instance);
}

Test(redis_leader_renewal, a_refused_renewal_delays_no_other) {
    f = begin();
    scoped(instance_stop) instance_t instance;
    instance_start(&instance, f.keys, INSTANCE_LEADER);
    lead_all(&instance);
    for (int i = 0; i < 2; i++) { /* a renewal, or the script of a release, has one key */
        proxy_rule_t rule = {.action = PROXY_REFUSE, .error = "-WRONGTYPE x", .times = -1};
        rule.match = i ? " 1 sidecar:q17:lock " : " 1 sidecar:q3:lock ";
        proxy_rule(f.proxy, rule);
    }
    for (int i = 0; i < 12; i++) {
        drive_for(&f, &instance.driver, TTL / 4);
        cr_assert_geq(fresh_locks(&instance), i < 2 ? 0 : LOCKS - 2);
    }
    cr_assert_leq(metric_get(&instance.metrics->terms_lost), 2 * 12);
    cr_assert_geq(fixture_log_count("redis refuses the lock"), 1);
    cr_assert_eq(metric_get(&instance.metrics->reconnects), 0, "a refusal closes no connection");
}

Test(redis_leader_renewal, a_refused_acquire_delays_no_other) {
    f = begin();
    scoped(instance_stop) instance_t instance;
    instance_start(&instance, f.keys, INSTANCE_LEADER);
    proxy_rule(
        f.proxy,
        (proxy_rule_t){.action = PROXY_REFUSE, .match = "sidecar:q0:lock sidecar:q0:queues", .error = "-NOPERM x", .times = -1});
    cr_assert(driver_until(&instance.driver, metric_get(&instance.metrics->leading) == LOCKS - 1, 1000));
    proxy_pass(f.proxy);
    fixture_step_boottime(2000);
    lead_all(&instance);
}

/* The random delay does not grow with the TTL: a takeover within TTL + 1 s is promised for each. */
Test(redis_leader_renewal, a_standby_tries_half_a_second_after_the_expiry_at_most) {
    enum { ROUNDS = 8, LEFT_MS = TTL / 2 };
    f = setup(false);
    fixture_hold_boottime();
    for (int i = 0; i < ROUNDS; i++) {
        instance_t instance;
        redis_ok(f.r, "SET sidecar:app:lock 0123456789abcdef0123456789abcde%d-%d PX %d", i, TTL, LEFT_MS);
        instance_start(&instance, f.keys, INSTANCE_LEADER);
        cr_assert(driver_until(&instance.driver, fixture_log_count("standing by") == i + 1, 10000));
        driver_settle(&instance.driver, f.r); /* the subscription makes it try once more */
        step_clocks(&f, LEFT_MS + 500 + 1);
        cr_leads(&instance);
        instance_stop(&instance); /* without a release */
    }
}
