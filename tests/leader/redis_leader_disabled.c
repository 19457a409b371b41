/* The preflight disables queues of a dialect whose commands Redis refuses. Other queues are served, the log and /readyz report
 * the disabled ones, and restoring the right enables them without a restart. */
#include "fixture.h"
#include "http/health.h"

#define CONFIG                                                                                                                   \
    "group = \"app\"; lock = { ttl = \"60s\"; }; queues = ( { name = \"email\"; }, { name = \"video\"; dialect = \"bull\"; }, "  \
    "{ name = \"audio\"; dialect = \"bull\"; }, { name = \"mail\"; dialect = \"kmqueue\"; queues = [\"one:safe\"]; } );"
enum { ALL_ROLES = INSTANCE_LEADER | INSTANCE_DISPATCHER | INSTANCE_MONITOR };
#define NOT_SERVED "preflight: queue disabled"

static fixture_t setup(void) { return fixture_start(&(fixture_options_t){.config = CONFIG, .proxy = true, .closed = true}); }

/* Adds a due job to one queue of each dialect that has delayed jobs. */
static void delay_jobs(fixture_t *f) {
    redis_ok(f->r, "ZADD email:delayed 1 job");
    redis_ok(f->r, "HSET bull:video:1 name n data {} opts {}");
    redis_ok(f->r, "ZADD bull:video:delayed 1 1");
}

/* One instance on a server of its own. */
typedef struct {
    fixture_t f;
    instance_t instance;
} setup_t;

/* `command` revokes a right or adds a foreign key before the instance starts. */
static void begin(setup_t *d, int roles, const char *command) {
    d->f = setup();
    redis_ok(d->f.r, command);
    delay_jobs(&d->f);
    instance_start(&d->instance, d->f.keys, roles);
}

static void end(setup_t *d) {
    instance_stop(&d->instance);
    fixture_stop(&d->f);
}

static bool leads(instance_t *instance) {
    lease_t lease;
    return lease_get(instance->leases, 0, &lease);
}

/* Steps the clock to the next recheck. */
static void later(void) { fixture_step_boottime(5000); }

/* Whether /readyz is 200 and its text contains `text`. */
static bool readyz_reports(instance_t *instance, const char *text) {
    scoped(health_drop) health_t *health = health_new(instance->metrics, "g", true);
    scoped(buffer_free) buffer_t json = {0};
    cr_assert(health_ready(health, &json), "not ready although other queues are served: %s", buffer_text(&json));
    return strstr(buffer_text(&json), text) != NULL;
}

static setup_t d;
SUITE(redis_leader_disabled, , end(&d));

Test(redis_leader_disabled, missing_right_of_one_dialect_disables_only_its_queues) {
    begin(&d, ALL_ROLES, "ACL SETUSER default -zcount"); /* bull alone needs it */
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN email") == 1, 10000), "%s", fixture_log());
    cr_assert(leads(&d.instance));
    cr_assert_eq(redis_int(d.f.r, "LLEN bull:video:wait"), 0);
    cr_assert_eq(metric_get(&d.instance.metrics->preflight_faults), 2, "a fault for each of the two queues");
    cr_assert_eq(metric_get(&d.instance.metrics->unserved), 2);
    cr_assert(readyz_reports(&d.instance, "some queues are not being served"));
    cr_assert_eq(fixture_log_count(NOT_SERVED), 2);
    cr_assert_eq(fixture_log_count("script bull_promote: "), 2);
    cr_assert_eq(fixture_log_count("cannot lead"), 0);
}

Test(redis_leader_disabled, restored_right_needs_no_restart) {
    begin(&d, ALL_ROLES, "ACL SETUSER default -zcount -scard");
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN email") == 1, 10000), "%s", fixture_log());
    cr_assert_eq(metric_get(&d.instance.metrics->unserved), 3);
    for (int i = 0; i < 3; i++) { /* rechecked three times, logged once */
        long before = proxy_requests(d.f.proxy, "sidecar:preflight");
        later();
        cr_assert(driver_until(&d.instance.driver, proxy_requests(d.f.proxy, "sidecar:preflight") > before, 3000), "recheck %d",
                  i);
    }
    cr_assert_eq(fixture_log_count(NOT_SERVED), 3);
    redis_ok(d.f.r, "ACL SETUSER default +zcount");
    later();
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN bull:video:wait") == 1, 10000), "%s", fixture_log());
    cr_assert_eq(metric_get(&d.instance.metrics->unserved), 1, "kmqueue still lacks scard");
    cr_assert_eq(metric_get(&d.instance.metrics->preflight_faults), 1);
    cr_assert_eq(fixture_log_count("queue enabled again"), 2);
    cr_assert_eq(metric_get(&d.instance.metrics->terms), 1, "the missing right has ended a term");
    redis_ok(d.f.r, "ACL SETUSER default +scard");
    later();
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->preflight_faults) == 0, 10000));
    cr_assert(!readyz_reports(&d.instance, "some queues are not being served"));
    long rechecks = proxy_requests(d.f.proxy, "sidecar:preflight");
    later();
    fixture_step_boottime(1000);
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(proxy_requests(d.f.proxy, "sidecar:preflight"), rechecks, "rechecked although no queue is disabled");
}

/* The preflight probes one queue for all like it. Another fault of this queue must not hide the refused command. */
Test(redis_leader_disabled, queue_stays_disabled_while_its_probe_has_another_fault) {
    begin(&d, ALL_ROLES, "ACL SETUSER default -zcount");
    redis_ok(d.f.r, "XADD bull:video:events * f v");
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN email") == 1, 10000), "%s", fixture_log());
    for (int i = 0; i < 2; i++) {
        long before = proxy_requests(d.f.proxy, "sidecar:preflight");
        cr_assert(lease_queue_disabled(d.instance.leases, 1) && lease_queue_disabled(d.instance.leases, 2), "recheck %d", i);
        later();
        cr_assert(driver_until(&d.instance.driver, proxy_requests(d.f.proxy, "sidecar:preflight") > before, 10000), "recheck %d",
                  i);
    }
    cr_assert_eq(fixture_log_count("queue enabled again"), 0);
}

/* A recheck must not enable the queue while the foreign key exists. */
Test(redis_leader_disabled, queue_of_a_foreign_system_is_enabled_when_that_is_gone) {
    begin(&d, ALL_ROLES, "XADD bull:video:events * f v");
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN email") == 1, 10000), "%s", fixture_log());
    for (int i = 0; i < 3; i++) {
        cr_assert(lease_queue_disabled(d.instance.leases, 1) && !lease_queue_disabled(d.instance.leases, 2), "recheck %d: %s", i,
                  fixture_log());
        long before = proxy_requests(d.f.proxy, "TYPE bull:video:events");
        later();
        driver_settle(&d.instance.driver, d.f.r);
        cr_assert_gt(proxy_requests(d.f.proxy, "TYPE bull:video:events"), before, "recheck %d", i);
    }
    cr_assert_eq(fixture_log_count(NOT_SERVED), 1);
    cr_assert_eq(redis_int(d.f.r, "LLEN bull:video:wait"), 0);
    redis_ok(d.f.r, "DEL bull:video:events");
    later();
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN bull:video:wait") == 1, 10000), "%s", fixture_log());
}

/* Of two queues of one dialect only the queue that needs the refused command is disabled. */
Test(redis_leader_disabled, repaired_queue_is_enabled_again) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; lock = { ttl = \"60s\"; }; queues = ( { name = \"a\"; dialect = \"private_queues\"; main = "
                  "\"one\"; private = \"one-*\"; }, { name = \"b\"; dialect = \"private_queues\"; main = \"two\"; registry = "
                  "\"two:workers\"; } );",
        .closed = true});
    scoped(instance_stop) instance_t instance;
    redis_ok(f.r, "ACL SETUSER default -sscan");
    instance_start(&instance, f.keys, INSTANCE_LEADER);
    cr_assert(driver_until(&instance.driver, leads(&instance), 10000), "%s", fixture_log());
    cr_assert(!lease_queue_disabled(instance.leases, 0) && lease_queue_disabled(instance.leases, 1));
    cr_assert_eq(metric_get(&instance.metrics->unserved), 1);
    redis_ok(f.r, "ACL SETUSER default +sscan -scan");
    later();
    cr_assert(driver_until(&instance.driver, !lease_queue_disabled(instance.leases, 1), 10000), "%s", fixture_log());
    cr_assert(!lease_queue_disabled(instance.leases, 0), "a recheck has disabled a queue that was enabled");
}

/* Without a command that every queue needs, the instance does not lead. */
Test(redis_leader_disabled, refused_core_command_prevents_leading) {
    begin(&d, ALL_ROLES, "ACL SETUSER default -xtrim");
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("cannot lead") > 0, 10000));
    driver_run(&d.instance.driver, 200);
    cr_assert_not(leads(&d.instance));
    cr_assert_eq(redis_int(d.f.r, "LLEN email"), 0);
    redis_ok(d.f.r, "ACL SETUSER default +xtrim");
    fixture_step_boottime(5000);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN email") == 1, 10000));
}

/* A recheck that fails half-way has no result: the queue stays disabled, the term goes on, and the leader does not spin. */
Test(redis_leader_disabled, lost_recheck_changes_nothing) {
    begin(&d, INSTANCE_LEADER | INSTANCE_DISPATCHER, "ACL SETUSER default -zcount");
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN email") == 1, 10000), "%s", fixture_log());
    static const char *const requests[] = {"TYPE bull:video:events", "HMGET bull:video:meta", "TYPE bull:audio:pc",
                                           "sidecar:preflight"}; /* of a recheck */
    for (size_t i = 0; i < 4; i++) {
        proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = requests[i]});
        later();
        cr_assert(driver_until(&d.instance.driver, proxy_fired(d.f.proxy) > 0, 5000), "request %s", requests[i]);
        metrics_scraped(d.instance.metrics, mono_now()); /* makes the sizes due while the leader backs off */
        proxy_pass(d.f.proxy);
        long steps = driver_run(&d.instance.driver, 200);
        cr_assert_leq(steps, 20, "it spins");
        cr_assert_eq(redis_int(d.f.r, "LLEN bull:video:wait"), 0);
        cr_assert(driver_until(&d.instance.driver, leads(&d.instance), 10000));
    }
    cr_assert_eq(fixture_log_count(NOT_SERVED), 2);
    redis_ok(d.f.r, "ACL SETUSER default +zcount");
    later();
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN bull:video:wait") == 1, 10000), "%s", fixture_log());
}

/* The standby's preflight was long ago. After the takeover it must check again before it serves queues. */
Test(redis_leader_disabled, handed_over_leader_checks_before_it_serves) {
    scoped(fixture_stop) fixture_t f = setup();
    scoped(instance_stop) instance_t one, two;
    instance_start(&one, f.keys, INSTANCE_LEADER);
    cr_assert(driver_until(&one.driver, leads(&one), 10000));
    redis_ok(f.r, "ACL SETUSER default -zcount");
    instance_start(&two, f.keys, INSTANCE_LEADER | INSTANCE_DISPATCHER | INSTANCE_MONITOR);
    cr_assert(driver_until(&two.driver, fixture_log_count("standing by") > 0, 5000));
    redis_ok(f.r, "ACL SETUSER default +zcount");
    delay_jobs(&f);
    fixture_step_boottime(6000);
    leader_finish(one.leader);
    cr_assert(driver_until(&two.driver, redis_int(f.r, "LLEN bull:video:wait") == 1, 10000), "%s", fixture_log());
}
