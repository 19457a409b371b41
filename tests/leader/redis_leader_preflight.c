/* preflight_faults counts the present faults: a key that becomes wrong while the leader runs is counted, and a repaired key is
 * not, without a new connection. */
#include "fixture.h"
#include "http/health.h"
#include "leader/preflight.h"

#define CONFIG                                                                                                                   \
    "group = \"app\"; lock = { ttl = \"60s\"; }; queues = ( { name = \"email\"; roles = [\"dispatcher\", \"monitor\"]; }, "      \
    "{ name = \"sms\"; } );"
#define CANNOT "preflight: queue has wrong keys"
#define WELL   "queue keys are right again"

typedef struct {
    fixture_t f;
    instance_t instance;
} setup_t;

static void open_setup(setup_t *d, const char *wrong_key) {
    d->f = fixture_start(&(fixture_options_t){.config = CONFIG, .proxy = true, .closed = true});
    if (wrong_key) redis_ok(d->f.r, "SET %s x", wrong_key);
    instance_start(&d->instance, d->f.keys, INSTANCE_LEADER | INSTANCE_DISPATCHER);
    cr_assert(driver_until(&d->instance.driver, metric_get(&d->instance.metrics->leading), 10000));
}

static void close_setup(setup_t *d) {
    instance_stop(&d->instance);
    fixture_stop(&d->f);
}

/* Steps the clock, in steps so small that no recheck is left out. */
static void later(setup_t *d, int seconds) {
    for (; seconds > 0; seconds -= 3) {
        fixture_step_boottime(3000);
        driver_settle(&d->instance.driver, d->f.r);
    }
}

static void await_faults(setup_t *d, int64_t faults) {
    cr_assert(driver_until(&d->instance.driver, metric_get(&d->instance.metrics->preflight_faults) == faults, 10000),
              "%lld faults\n%s", (long long)metric_get(&d->instance.metrics->preflight_faults), fixture_log());
}

static setup_t d;
SUITE(redis_leader_preflight, , close_setup(&d));

Test(redis_leader_preflight, repaired_key_is_no_longer_counted) {
    open_setup(&d, "email:backup");
    redis_ok(d.f.r, "SET email x");
    await_faults(&d, 1);
    later(&d, 6);
    cr_assert_eq(fixture_log_count(CANNOT), 2, "the second reason is not logged");
    long of_it = proxy_requests(d.f.proxy, "TYPE email:backup"), of_others = proxy_requests(d.f.proxy, "TYPE sms:delayed");
    later(&d, 15);
    await_faults(&d, 1);
    cr_assert_eq(fixture_log_count(CANNOT), 2, "logged again without a change");
    cr_assert(of_others > 0 && proxy_requests(d.f.proxy, "TYPE email:backup") > of_it);
    cr_assert_eq(proxy_requests(d.f.proxy, "TYPE sms:delayed"), of_others, "rechecked a queue without a fault");
    redis_ok(d.f.r, "DEL email:backup");
    later(&d, 6);
    await_faults(&d, 1);
    cr_assert_eq(fixture_log_count(WELL), 0);
    redis_ok(d.f.r, "DEL email");
    later(&d, 6);
    await_faults(&d, 0);
    cr_assert_eq(fixture_log_count(WELL), 1);
    cr_assert_eq(metric_get(&d.instance.metrics->terms), 1);
    long long types = server_commandstat(d.f.server, "type");
    later(&d, 18);
    cr_assert_eq(server_commandstat(d.f.server, "type"), types, "rechecked although no fault is left");
}

Test(redis_leader_preflight, wrong_key_while_running_is_counted) {
    open_setup(&d, NULL);
    await_faults(&d, 0);
    redis_ok(d.f.r, "SET sms:delayed x");
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->queues[1].faults) > 0, 10000));
    later(&d, 6);
    await_faults(&d, 1);
    cr_assert_eq(fixture_log_count(CANNOT), 1);
    cr_assert_eq(fixture_log_count("\\\"sms:delayed\\\" holds a string where a zset is wanted"), 1, "%s", fixture_log());
    redis_ok(d.f.r, "DEL sms:delayed");
    later(&d, 6);
    await_faults(&d, 0);
}

Test(redis_leader_preflight, former_leader_still_rechecks) {
    open_setup(&d, "email:backup");
    await_faults(&d, 1);
    redis_ok(d.f.r, "SET sidecar:app:lock another PX 600000");
    fixture_step_boottime(20000); /* the renewal */
    cr_assert(driver_until(&d.instance.driver, !metric_get(&d.instance.metrics->leading), 10000));
    redis_ok(d.f.r, "DEL email:backup");
    later(&d, 6);
    await_faults(&d, 0);
}

/* Revokes a right that all queues need while the instance leads; the preflight of the next connection finds the fault. */
static void revoke_xtrim(void) {
    redis_ok(d.f.r, "ACL SETUSER default -xtrim");
    redis_ok(d.f.r, "CLIENT KILL TYPE normal SKIPME yes");
    later(&d, 3);
    await_faults(&d, 1);
    cr_assert(metric_get(&d.instance.metrics->leading));
}

/* The instance goes on leading, because it has the lock. The preflight for faults of no single queue is repeated, but seldom. */
Test(redis_leader_preflight, restored_right_of_all_queues_is_no_longer_counted) {
    open_setup(&d, NULL);
    revoke_xtrim();
    long checks = proxy_requests(d.f.proxy, "INFO memory");
    later(&d, 45); /* two renewals */
    cr_assert_eq(proxy_requests(d.f.proxy, "INFO memory"), checks);
    redis_ok(d.f.r, "ACL SETUSER default +xtrim");
    later(&d, 36);
    await_faults(&d, 0);
    cr_assert_eq(proxy_requests(d.f.proxy, "INFO memory"), checks + 1);
    cr_assert_eq(metric_get(&d.instance.metrics->terms), 1);
}

/* A recheck that ends early must not count as a repair. */
Test(redis_leader_preflight, recheck_refused_by_a_busy_redis_keeps_the_faults) {
    open_setup(&d, NULL);
    revoke_xtrim();
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "INFO memory", .error = "-BUSY Redis is busy"});
    later(&d, 63);
    cr_assert(driver_until(&d.instance.driver, proxy_fired(d.f.proxy) == 1, 10000));
    driver_run(&d.instance.driver, 30);
    cr_assert_eq(metric_get(&d.instance.metrics->preflight_faults), 1);
    redis_ok(d.f.r, "ACL SETUSER default +xtrim");
    later(&d, 63);
    await_faults(&d, 0);
    cr_assert_eq(metric_get(&d.instance.metrics->terms), 1);
}

/* The leader goes on with the fault, but begins no new term. */
Test(redis_leader_preflight, failed_preflight_takes_no_lock_again) {
    open_setup(&d, NULL);
    revoke_xtrim();
    redis_ok(d.f.r, "DEL sidecar:app:lock");
    later(&d, 21); /* the renewal */
    cr_assert(driver_until(&d.instance.driver, !metric_get(&d.instance.metrics->leading), 10000), "%s", fixture_log());
    later(&d, 12);
    cr_assert_eq(metric_get(&d.instance.metrics->terms), 1, "%s", fixture_log());
    redis_ok(d.f.r, "ACL SETUSER default +xtrim");
    later(&d, 6);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->leading), 10000), "%s", fixture_log());
    await_faults(&d, 0);
}

/* Meanwhile the same connection renews the other lock. */
Test(redis_leader_preflight, refused_lock_costs_no_other_lock) {
    d = (setup_t){.f = fixture_start(&(fixture_options_t){
                      .config = "group = \"app\"; lock = { ttl = \"60s\"; scope = \"queue\"; }; queues = ( { name = \"{a}\"; }, "
                                "{ name = \"{b}\"; } );",
                      .closed = true})};
    instance_start(&d.instance, d.f.keys, INSTANCE_LEADER | INSTANCE_DISPATCHER);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->leading) == 2, 10000));
    revoke_xtrim();
    redis_ok(d.f.r, "DEL sidecar:{b}:lock");
    later(&d, 21); /* the renewal */
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->leading) == 1, 10000), "%s", fixture_log());
    later(&d, 21);
    cr_assert_eq(metric_get(&d.instance.metrics->terms), 2, "%s", fixture_log());
    cr_assert_eq(metric_get(&d.instance.metrics->terms_lost), 1, "%s", fixture_log());
    redis_ok(d.f.r, "ACL SETUSER default +xtrim");
    later(&d, 69);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->leading) == 2, 10000), "%s", fixture_log());
    cr_assert_eq(metric_get(&d.instance.metrics->terms_lost), 1);
}

static bool readyz_reports(const char *text) {
    scoped(health_drop) health_t *health = health_new(d.instance.metrics, "app", true);
    scoped(buffer_free) buffer_t json = {0};
    health_ready(health, &json);
    return strstr(buffer_text(&json), text) != NULL;
}

/* The lease is long, but /readyz reports the error of Redis at once. */
Test(redis_leader_preflight, leader_without_redis_reports_the_reason) {
    open_setup(&d, NULL);
    proxy_refuse_new(d.f.proxy, true);
    proxy_disconnect(d.f.proxy);
    cr_assert(driver_until(&d.instance.driver, !metric_get(&d.instance.metrics->redis_up), 3000));
    cr_assert(metric_get(&d.instance.metrics->leading));
    cr_assert(readyz_reports("or it refuses the connection: ") && !readyz_reports("the log says why"));
    proxy_refuse_new(d.f.proxy, false);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->redis_up), 10000));
    cr_assert(!readyz_reports("or it refuses the connection"));
}

/* Each shard of a Cluster has a leader of its own, and the metric is of the instance. */
Test(redis_leader_preflight, leaders_of_two_shards_add_their_faults) {
    open_setup(&d, "email:delayed");
    await_faults(&d, 1);
    leases_t *leases = d.instance.leases;
    preflight_results_t *other = preflight_results_new(d.f.keys, leases, d.instance.metrics);
    cr_assert_eq(conn_open(d.f.conn, &d.f.error), OUTCOME_OK, "%s", d.f.error.text);
    cr_assert_eq(preflight_results_check(other, d.f.conn, &d.f.error), OUTCOME_OK, "%s", d.f.error.text);
    cr_assert_eq(metric_get(&d.instance.metrics->preflight_faults), 2);
    redis_ok(d.f.r, "DEL email:delayed");
    cr_assert_eq(preflight_results_recheck(other, d.f.conn, &d.f.error), OUTCOME_OK, "%s", d.f.error.text);
    cr_assert_eq(metric_get(&d.instance.metrics->preflight_faults), 1, "the fault of the first one is not forgotten");
    preflight_results_free(other);
    cr_assert_eq(metric_get(&d.instance.metrics->preflight_faults), 1);
}
