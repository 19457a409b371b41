/* The leader role, driven tick by tick: beginning, renewal and end of terms, with every kind of reply from Redis. */
#include "leader_fixture.h"
#include "queue/scripts.h"

#include <criterion/parameterized.h>

static fixture_t f;
static instance_t one, two;

static void stop(void) {
    instance_stop(&one);
    instance_stop(&two);
    fixture_stop(&f);
}

SUITE(redis_leader, , stop());

/* Starts a server, and one leader that has not ticked yet. */
static void start(bool proxy) {
    f = setup(proxy);
    instance_start(&one, f.keys, INSTANCE_LEADER);
}

static void start_two(bool proxy) {
    start(proxy);
    instance_start(&two, f.keys, INSTANCE_LEADER);
}

Test(redis_leader, single_instance_leads) {
    start(false);
    mono_t before = mono_now();
    cr_leads(&one);
    lease_t lease;
    cr_assert(lease_get(one.leases, 0, &lease));
    cr_assert_eq(token_ttl_ms(lease.token), TTL);
    expect_lock(&f, lease.token);
    int64_t lives_ms = mono_diff(lease.deadline, before) / NS_PER_MS;
    int64_t took_ms = mono_diff(mono_now(), before) / NS_PER_MS;
    cr_assert(lives_ms <= took_ms + TTL - TTL / 10 + 1, "the lease must end before the lock can");
    cr_assert_eq(metric_get(&one.metrics->leading), 1);
    cr_assert_eq(metric_get(&one.metrics->terms), 1);
    driver_step(&one.driver, 1);
    cr_assert_eq(connections(&f, "queue-sidecar-leader"), 1);
    cr_assert_eq(connections(&f, "queue-sidecar-vacant"), 0, "a leader must not subscribe");
}

static long renewals(void) {
    return proxy_requests(f.proxy, script_renew.sha1) + proxy_requests(f.proxy, script_renew.sha1_without_flags);
}

Test(redis_leader, lock_is_renewed_at_a_third_of_the_ttl) {
    start(true);
    cr_leads(&one);
    for (long i = 1, before = renewals(); i <= 12; i++) {
        step_clocks(&f, TTL / 4);
        cr_assert_leq(driver_run(&one.driver, 30), 10, "it spins");
        cr_assert_eq(renewals(), before + i - 1, "renewed too early");
        step_clocks(&f, TTL / 12);
        cr_assert(driver_until(&one.driver, fresh(&one), 10000));
        cr_assert_eq(renewals(), before + i);
        cr_assert_gt(redis_int(f.r, "PTTL sidecar:app:lock"), TTL * 3 / 4);
    }
    cr_assert(leads(&one));
    cr_assert_eq(metric_get(&one.metrics->terms), 1);
}

Test(redis_leader, standby_takes_over_when_the_lock_expires) {
    start_two(true);
    cr_leads(&one);
    cr_assert(driver_until(&two.driver, connections(&f, "queue-sidecar-vacant") == 1, 3000));
    driver_settle(&two.driver, f.r);
    cr_assert_not(leads(&two));
    cr_assert_eq(fixture_log_count("standing by"), 1);
    instance_stop(&one); /* without a release, as after a kill */
    long before = proxy_requests(f.proxy, "EVALSHA");
    drive_for(&f, &two.driver, TTL - TTL / 4);
    cr_assert_not(leads(&two));
    drive_for(&f, &two.driver, RETRY_WITHIN - (TTL - TTL / 4));
    cr_leads(&two);
    cr_assert_leq(proxy_requests(f.proxy, "EVALSHA") - before, 4, "a standby tries more often than once per remaining TTL");
}

/* The time in us between a release and the next term. */
static int64_t released_us(void) {
    instance_start(&one, f.keys, INSTANCE_LEADER);
    instance_start(&two, f.keys, INSTANCE_LEADER);
    cr_leads(&one);
    cr_assert(driver_until(&two.driver, connections(&f, "queue-sidecar-vacant") == 1, 3000));
    driver_settle(&two.driver, f.r);
    int64_t start = wait_now_us();
    leader_finish(one.leader);
    cr_assert_not(leads(&one));
    cr_leads(&two);
    start = wait_now_us() - start;
    cr_assert_eq(connections(&f, "queue-sidecar-leader"), 1);
    leader_finish(two.leader);
    instance_stop(&one);
    instance_stop(&two);
    return start;
}

Test(redis_leader, standby_takes_over_at_once_after_a_release) {
    f = setup(false);
    cr_assert(wait_for(released_us() < INT64_C(1000) * wait_scaled_ms(200), 10000));
}

Test(redis_leader, term_ends_when_the_lock_is_gone) {
    start(false);
    cr_leads(&one);
    redis_ok(f.r, "SET sidecar:app:lock another PX %d", 2 * TTL);
    step_clocks(&f, TTL / 3);
    cr_assert(driver_until(&one.driver, !leads(&one), 3000));
    cr_assert_eq(metric_get(&one.metrics->terms_lost), 1);
    cr_assert_eq(metric_get(&one.metrics->leading), 0);
    driver_settle(&one.driver, f.r);
    expect_lock(&f, "another");
    drive_for(&f, &one.driver, 2 * TTL + RETRY_WITHIN);
    cr_leads(&one);
    cr_assert_eq(metric_get(&one.metrics->terms), 2);
    redis_ok(f.r, "DEL sidecar:app:lock");
    lease_t lease;
    lease_get(one.leases, 0, &lease);
    lease_suspect(one.leases, 0, lease.term);
    driver_step(&one.driver, 1); /* a suspicion is checked at once */
    cr_assert(metric_get(&one.metrics->terms_lost) == 2);
}

Test(redis_leader, lost_reply_to_acquire_keeps_the_term) {
    start(true);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = "sidecar:app:queues sidecar:app:standbys"}); /* acquire */
    cr_assert(driver_until(&one.driver, proxy_fired(f.proxy) == 1, 3000));
    cr_assert_not(leads(&one));
    char *token = redis_str(f.r, "GET sidecar:app:lock");
    cr_leads(&one);
    expect_lock(&f, token);
    cr_assert_eq(metric_get(&one.metrics->terms), 1);
}

Test(redis_leader, lock_that_may_be_held_is_released) {
    start(true);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = "sidecar:app:queues sidecar:app:standbys"});
    cr_assert(driver_until(&one.driver, proxy_fired(f.proxy) == 1, 3000));
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:app:lock"), 1);
    leader_finish(one.leader);
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:app:lock"), 0);
}

Test(redis_leader, lost_renewal_is_sent_again) {
    start(true);
    cr_leads(&one);
    for (int i = 1; i <= 2; i++) {
        proxy_rule(f.proxy, (proxy_rule_t){.action = i == 1 ? PROXY_LOSE : PROXY_DROP, .match = "EVALSHA"});
        step_clocks(&f, TTL / 3);
        cr_assert(driver_until(&one.driver, metric_get(&one.metrics->reconnects) == i, 3000));
        cr_assert(driver_until(&one.driver, fresh(&one), 10000));
        proxy_pass(f.proxy);
    }
    cr_assert_eq(metric_get(&one.metrics->terms), 1);
}

Test(redis_leader, lock_left_by_a_clock_step_is_broken) {
    start_two(false);
    cr_leads(&one);
    instance_stop(&one);
    server_step_clock(f.server, -3600 * 1000);
    cr_assert_gt(redis_int(f.r, "PTTL sidecar:app:lock"), 3000 * 1000);
    driver_settle(&two.driver, f.r);
    drive_for(&f, &two.driver, TTL - TTL / 4);
    cr_assert(!leads(&two) && metric_get(&two.metrics->clock_steps_healed) == 0, "broken before a second check, a TTL later");
    drive_for(&f, &two.driver, RETRY_WITHIN - (TTL - TTL / 4));
    cr_leads(&two);
    cr_assert_eq(metric_get(&two.metrics->clock_steps_healed), 1);
}

Test(redis_leader, living_leader_survives_a_clock_step) {
    start_two(false);
    cr_leads(&one);
    driver_step(&two.driver, 1);
    server_step_clock(f.server, -3600 * 1000);
    driver_add(&one.driver, leader_tick, two.leader);
    drive_for(&f, &one.driver, 4 * TTL);
    cr_assert(leads(&one) && !leads(&two));
    cr_assert_eq(metric_get(&two.metrics->clock_steps_healed), 0);
    cr_assert_eq(metric_get(&one.metrics->terms), 1);
}

Test(redis_leader, standby_names_queues_its_leader_skips) {
    f = setup(false);
    scoped(config_drop) config_t *wider =
        fixture_config("redis = { socket = \"%s\"; }; group = \"app\"; lock = { ttl = \"" TTL_TEXT "\"; };"
                       "queues = ( { name = \"email\"; }, { name = \"sms\"; } );",
                       server_socket(f.server));
    scoped(keyspace_drop) keyspace_t *keys = keyspace_new(wider);
    instance_start(&one, f.keys, INSTANCE_LEADER);
    instance_start(&two, keys, INSTANCE_LEADER);
    cr_leads(&one);
    driver_step(&two.driver, 1);
    cr_assert_eq(metric_get(&two.metrics->unserved), 1);
    cr_assert_eq(fixture_log_count("\"queues\":\"sms\""), 1);
    instance_stop(&one);
    drive_for(&f, &two.driver, RETRY_WITHIN);
    cr_leads(&two);
    cr_assert_eq(metric_get(&two.metrics->unserved), 0);
    instance_stop(&two);
}

Test(redis_leader, queue_is_claimed_only_from_a_group_without_leader) {
    f = setup(false);
    scoped(config_drop) config_t *other =
        fixture_config("redis = { socket = \"%s\"; }; group = \"other\"; lock = { ttl = \"" TTL_TEXT "\"; };"
                       "queues = ( { name = \"sms\"; }, { name = \"email\"; } );",
                       server_socket(f.server));
    scoped(keyspace_drop) keyspace_t *keys = keyspace_new(other);
    instance_start(&one, f.keys, INSTANCE_LEADER);
    instance_start(&two, keys, INSTANCE_LEADER);
    cr_leads(&one);
    cr_leads(&two);
    cr_assert_eq(fixture_log_count("another group owns this queue"), 1);
    driver_add(&one.driver, leader_tick, two.leader);
    drive_for(&f, &one.driver, 3 * TTL);
    cr_assert_eq(metric_get(&two.metrics->unserved), 1);
    redis_expect(f.r, "app", "HGET sidecar:email:meta group");
    redis_expect(f.r, "", "HGET sidecar:other:queues email");
    instance_stop(&one);
    drive_for(&f, &two.driver, 3 * TTL);
    cr_assert_eq(metric_get(&two.metrics->unserved), 0);
    redis_expect(f.r, "other", "HGET sidecar:email:meta group");
    instance_stop(&two);
}

static const char *const PASSING[] = {"-LOADING x",     "-MASTERDOWN x", "-BUSY x",    "-READONLY x",
                                      "-CLUSTERDOWN x", "-TRYAGAIN x",   "-MISCONF x", "-NOREPLICAS x"};
enum { PASSINGS = sizeof PASSING / sizeof *PASSING };

ParameterizedTestParameters(redis_leader, temporary_errors_are_retried_with_back_off) {
    static int numbers[PASSINGS];
    for (int i = 0; i < PASSINGS; i++) numbers[i] = i;
    return cr_make_param_array(int, numbers, PASSINGS);
}

ParameterizedTest(int *number, redis_leader, temporary_errors_are_retried_with_back_off) {
    start(true);
    proxy_rule(f.proxy,
               (proxy_rule_t){.action = PROXY_REFUSE, .match = "sidecar:app:queues", .error = PASSING[*number], .times = -1});
    long steps = driver_run(&one.driver, 400);
    long tries = proxy_fired(f.proxy);
    cr_assert_leq(tries, 6 * wait_scaled_ms(1000) / 1000, "%ld requests refused with %s", tries, PASSING[*number]);
    cr_assert_leq(steps, 60 * wait_scaled_ms(1000) / 1000, "it spins");
    cr_assert(driver_until(&one.driver, (tries = proxy_fired(f.proxy)) >= 2, 10000), "no retry after %s", PASSING[*number]);
    proxy_pass(f.proxy);
    cr_leads(&one);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "EVALSHA", .error = PASSING[*number], .times = 2});
    step_clocks(&f, TTL / 3);
    cr_assert(driver_until(&one.driver, proxy_fired(f.proxy) == tries + 2, 10000));
    cr_assert(driver_until(&one.driver, fresh(&one), 10000), "the term must go on until its lease expires");
    cr_assert_eq(metric_get(&one.metrics->terms), 1);
}

Test(redis_leader, permanent_refusal_is_retried_seldom) {
    start(true);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE,
                                       .match = "sidecar:app:queues sidecar:app:standbys",
                                       .error = "-NOPERM x",
                                       .times = -1});
    long steps = driver_run(&one.driver, 500);
    cr_assert_eq(proxy_fired(f.proxy), 1);
    cr_assert_leq(steps, 40);
    cr_assert_eq(fixture_log_count("redis refuses the lock"), 1);
    proxy_pass(f.proxy);
    fixture_step_boottime(2000);
    cr_leads(&one);
}

Test(redis_leader, failed_preflight_prevents_leading) {
    start(true);
    fixture_make_key(f.r, "sidecar:app:lock", "list");
    long steps = driver_run(&one.driver, 500);
    cr_assert_not(leads(&one));
    cr_assert_leq(proxy_connections_total(f.proxy), 3);
    cr_assert_leq(steps, 40);
    cr_assert_eq(metric_get(&one.metrics->preflight_faults), 1);
    redis_ok(f.r, "DEL sidecar:app:lock");
    fixture_step_boottime(5000);
    cr_leads(&one);
    cr_assert_eq(metric_get(&one.metrics->preflight_faults), 0);
}

Test(redis_leader, frozen_server_ends_the_term_in_time) {
    f = fixture_start(&(fixture_options_t){.config = CONFIG, .redis = "timeout = \"100ms\";", .closed = true});
    instance_start(&one, f.keys, INSTANCE_LEADER);
    cr_leads(&one);
    server_freeze(f.server);
    fixture_step_boottime(TTL / 2);
    driver_run(&one.driver, 300);
    cr_assert(leads(&one) && metric_get(&one.metrics->leading) == 1, "the server may answer again before the lease expires");
    lease_t lease;
    cr_assert(lease_get(one.leases, 0, &lease));
    fixture_step_boottime(mono_diff(lease.deadline, mono_now()) / NS_PER_MS + 1);
    cr_assert_not(leads(&one));
    driver_step(&one.driver, 1);
    cr_assert_eq(metric_get(&one.metrics->leading), 0);
    atomic_store(&one.driver.role.stop, true);
    int64_t start = wait_now_us();
    leader_finish(one.leader);
    cr_assert_lt(wait_now_us() - start, INT64_C(10000) * wait_scaled_ms(1000),
                 "leader_finish waits although the stop flag is set");
    server_thaw(f.server);
}

Test(redis_leader, no_busy_loop_while_redis_is_down) {
    start_two(false);
    cr_leads(&one);
    cr_assert(driver_until(&two.driver, connections(&f, "queue-sidecar-vacant") == 1, 3000));
    server_kill(f.server);
    long most = 60 * wait_scaled_ms(1000) / 1000;
    fixture_step_boottime(TTL / 2);
    cr_assert_leq(driver_run(&one.driver, 1000), most, "the leader spins");
    fixture_step_boottime(TTL / 2);
    cr_assert_leq(driver_run(&one.driver, 600), most, "the former leader spins");
    cr_assert_not(leads(&one));
    cr_assert_leq(driver_run(&two.driver, 1600), most, "the standby spins");
    server_restart(f.server, SERVER_LOSE_DATA);
    cr_leads(&two);
}

Test(redis_leader, readable_sockets_do_not_wake_during_back_off) {
    start(true);
    redis_ok(f.r, "SET sidecar:app:lock somebody PX %d", TTL);
    cr_assert(driver_until(&one.driver, connections(&f, "queue-sidecar-vacant") == 1, 3000));
    proxy_rule(f.proxy,
               (proxy_rule_t){.action = PROXY_REFUSE, .match = "sidecar:app:queues", .error = "-LOADING x", .times = -1});
    step_clocks(&f, RETRY_WITHIN);
    cr_assert(driver_until(&one.driver, proxy_fired(f.proxy) >= 3, 3000)); /* now the back-off is long */
    for (int i = 0; i < 3; i++) redis_ok(f.r, "PUBLISH sidecar:app:vacant app");
    cr_assert_leq(driver_run(&one.driver, 300), 50 * wait_scaled_ms(1), "it spins");
    proxy_pass(f.proxy);
    cr_leads(&one);
}

Test(redis_leader, killed_connection_keeps_the_term) {
    start(false);
    cr_leads(&one);
    for (int i = 1; i <= 3; i++) {
        redis_ok(f.r, "CLIENT KILL TYPE normal SKIPME yes");
        cr_assert(driver_until(&one.driver, metric_get(&one.metrics->reconnects) == i, 3000));
    }
    cr_assert(leads(&one));
    cr_assert_eq(metric_get(&one.metrics->terms), 1);
}

Test(redis_leader, each_queue_has_its_own_lock) {
    f = fixture_start(&(fixture_options_t){.closed = true,
                                           .config = "group = \"app\"; lock = { ttl = \"" TTL_TEXT "\"; scope = \"queue\"; };"
                                                     "queues = ( { name = \"a\"; }, { name = \"b\"; }, { name = \"c\"; } );"});
    instance_start(&one, f.keys, INSTANCE_LEADER);
    instance_start(&two, f.keys, INSTANCE_LEADER);
    redis_ok(f.r, "SET sidecar:b:lock somebody PX 600000");
    cr_assert(driver_until(&one.driver, metric_get(&one.metrics->leading) == 2, 3000));
    redis_ok(f.r, "DEL sidecar:b:lock");
    redis_ok(f.r, "PUBLISH sidecar:app:vacant b");
    driver_add(&one.driver, leader_tick, two.leader);
    cr_assert(driver_until(&one.driver, metric_get(&one.metrics->leading) == 3, 3000));
    cr_assert_eq(metric_get(&two.metrics->leading), 0);
    leader_finish(one.leader);
    cr_assert(driver_until(&two.driver, metric_get(&two.metrics->leading) == 3, 3000));
}

Test(redis_leader, odd_locks_are_retried_slowly) {
    static const char *const locks[] = {"",
                                        "-",
                                        "somebody",
                                        "x--5",
                                        "x-600001",
                                        "0123456789abcdef0123456789abcdef-9223372036854775807",
                                        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef-300"};
    f = setup(true);
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        instance_start(&one, f.keys, INSTANCE_LEADER);
        redis_ok(f.r, "SET sidecar:app:lock %s", locks[i]);
        long before = proxy_requests(f.proxy, "sidecar:app:queues sidecar:app:standbys"), steps = driver_run(&one.driver, 100);
        drive_for(&f, &one.driver, TTL);
        steps += driver_run(&one.driver, 100);
        cr_assert_not(leads(&one), "leads although the lock is \"%s\"", locks[i]);
        expect_lock(&f, locks[i]);
        cr_assert_leq(proxy_requests(f.proxy, "sidecar:app:queues sidecar:app:standbys") - before,
                      6 * wait_scaled_ms(1000) / 1000);
        cr_assert_leq(steps, 60 * wait_scaled_ms(1000) / 1000, "it spins at \"%s\"", locks[i]);
        redis_ok(f.r, "DEL sidecar:app:lock");
        instance_stop(&one);
    }
}

Test(redis_leader, foreign_lock_value_is_logged) {
    f = setup(false);
    redis_ok(f.r, "SET sidecar:app:lock hello");
    instance_start(&one, f.keys, INSTANCE_LEADER);
    cr_assert(driver_until(&one.driver, fixture_log_count("holds a foreign value") > 0, 3000));
    cr_assert_gt(fixture_log_count("sidecar:app:lock"), 0);
    cr_assert_not(leads(&one));
    redis_ok(f.r, "DEL sidecar:app:lock");
    step_clocks(&f, RETRY_WITHIN);
    cr_leads(&one);
    redis_ok(f.r, "DEL sidecar:app:lock"); /* a key of another type, while the one leads */
    redis_ok(f.r, "LPUSH sidecar:app:lock x");
    step_clocks(&f, TTL / 3);
    cr_assert(driver_until(&one.driver, fixture_log_count("redis refuses the lock") > 0, 3000));
    char *log = fixture_log();
    cr_assert_not_null(strstr(strstr(log, "redis refuses the lock"), "\"key\":\"sidecar:app:lock\""), "%s", log);
    redis_ok(f.r, "DEL sidecar:app:lock");
    cr_leads(&one);
}

Test(redis_leader, flapping_connection_is_logged_once) {
    start(false);
    for (int i = 1; i <= 5; i++) {
        cr_leads(&one);
        long long terms = metric_get(&one.metrics->reconnects);
        redis_ok(f.r, "CLIENT KILL TYPE normal SKIPME yes");
        cr_assert(driver_until(&one.driver, metric_get(&one.metrics->reconnects) > terms, 5000));
    }
    cr_assert_eq(fixture_log_count("\"msg\":\"connected\""), 1);
}
