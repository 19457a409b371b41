/* The dispatcher when requests fail: every due job reaches ready exactly once, and other queues are served. */
#include "cluster.h"
#include "dispatcher_fixture.h"

#include <criterion/parameterized.h>

enum {
    ASKED_AT_FIRST = 3,    /* a read of both heads; then a read of each head, or a promote of the bad queue and a read */
    ASKED_PER_JOB = 3,     /* a read, a promote, a read */
    ASKED_PER_FAULT = 3,   /* a read, a promote, a read of the bad queue */
    FAULT_EVERY_MS = 5000, /* pause before the next request for the bad queue */
};

static setup_t d;

/* The largest number of requests in `ms` while one of two queues has an error and the other one gets `jobs` jobs. */
static int64_t most_asked(int jobs, int64_t ms) {
    int64_t polls = ms / d.f.config->dispatcher.safety_poll_ms;
    return ASKED_AT_FIRST + (int64_t)ASKED_PER_JOB * jobs + ASKED_PER_FAULT * (ms / FAULT_EVERY_MS) + polls;
}

/* Queue email has an error. Queue sms is served, and requests for email are rare. */
static void expect_one_fault(const char *repair) {
    enum { JOBS = 3 };
    long before = proxy_requests(d.f.proxy, "EVALSHA");
    int64_t start = wait_now_us();
    for (int i = 1; i <= JOBS; i++) {
        redis_ok(d.f.r, "ZADD sms:delayed 1 job%d", i);
        cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN sms") == i, 3000), "an error of email stops sms: %s",
                  fixture_log());
    }
    cr_assert_leq(driver_run(&d.instance.driver, 300), 20, "the dispatcher spins");
    long asked = proxy_requests(d.f.proxy, "EVALSHA") - before;
    int64_t most = most_asked(JOBS, (wait_now_us() - start) / 1000);
    cr_assert_leq(asked, most, "%ld requests, but at most %lld are needed", asked, (long long)most);
    size_t email = strcmp(d.f.keys->queues[0].config->name, "email") == 0 ? 0 : 1;
    cr_assert_gt(metric_get(&of(&d, email)->faults), 0);
    cr_assert_eq(metric_get(&of(&d, 1 - email)->faults), 0);
    redis_ok(d.f.r, repair);
    fixture_step_boottime(5001);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "EXISTS email:delayed") == 0, 3000));
}

SUITE(redis_dispatcher_trouble, , setup_end(&d));

Test(redis_dispatcher_trouble, a_key_of_the_wrong_type_stops_no_other_queue) {
    static const char *const keys[] = {"email", "email:delayed", "sidecar:email:meta"};
    for (size_t i = 0; i < 3; i++) {
        setup_begin(&d, (fixture_options_t){.config = TWO, .proxy = true});
        add_due(&d, 3);
        fixture_make_key(d.f.r, keys[i], "stream");
        char *repair = kept_printf("DEL %s", keys[i]);
        expect_one_fault(repair);
        setup_end(&d);
    }
}

Test(redis_dispatcher_trouble, a_queue_of_another_group_is_left_alone) {
    setup_begin(&d, (fixture_options_t){.config = TWO, .proxy = true});
    add_due(&d, 3);
    redis_ok(d.f.r, "HSET sidecar:email:meta group others");
    expect_one_fault("DEL sidecar:email:meta");
    expect_each_once(&d, 3);
}

Test(redis_dispatcher_trouble, missing_rights_to_one_queue_stop_no_other) {
    static const char *const configs[] = {TWO, "group = \"app\"; dispatcher = { safety_poll = \"100ms\"; };"
                                               "queues = ( { name = \"sms\"; }, { name = \"email\"; } );"};
    for (size_t i = 0; i < 2; i++) {
        setup_begin(
            &d, (fixture_options_t){.config = configs[i], .proxy = true, .redis = "username = \"half\"; password = \"secret\";"});
        redis_ok(d.f.r, "ACL SETUSER half on >secret +@all &* ~sms ~sms:* ~sidecar:* ~email");
        add_due(&d, 3);
        expect_one_fault("ACL SETUSER half ~email:*");
        expect_each_once(&d, 3);
        setup_end(&d);
    }
}

static const char *const RETRYABLE[] = {"-LOADING x",     "-MASTERDOWN x", "-BUSY x",    "-READONLY x",
                                        "-CLUSTERDOWN x", "-TRYAGAIN x",   "-MISCONF x", "-NOREPLICAS x"};
enum { RETRYABLES = sizeof RETRYABLE / sizeof *RETRYABLE };

ParameterizedTestParameters(redis_dispatcher_trouble, backs_off_after_retryable_errors) {
    static int numbers[RETRYABLES];
    for (int i = 0; i < RETRYABLES; i++) numbers[i] = i;
    return cr_make_param_array(int, numbers, RETRYABLES);
}

ParameterizedTest(int *number, redis_dispatcher_trouble, backs_off_after_retryable_errors) {
    setup_begin(&d, (fixture_options_t){.config = TWO, .proxy = true});
    settle(&d);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "EVALSHA", .error = RETRYABLE[*number], .times = -1});
    add_due(&d, 30);
    redis_ok(d.f.r, "ZADD sms:delayed 1 x");
    long steps = driver_run(&d.instance.driver, 400);
    cr_assert_leq(proxy_fired(d.f.proxy), 30 * wait_scaled_ms(1000) / 1000, "requests refused with %s", RETRYABLE[*number]);
    cr_assert_leq(steps, most_steps(400));
    cr_assert(driver_until(&d.instance.driver, proxy_fired(d.f.proxy) >= 2, 10000));
    expect_each_once(&d, 30);
    cr_assert_eq(ready(&d), 0);
    proxy_pass(d.f.proxy);
    expect_ready(&d, 30);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN sms") == 1, 3000));
    expect_each_once(&d, 30);
    cr_assert_eq(metric_get(&of(&d, 0)->faults), 0);
}

Test(redis_dispatcher_trouble, a_lost_reply_moves_each_job_once) {
    setup_begin(&d, (fixture_options_t){.proxy = true});
    settle(&d);
    for (int nth = 1; nth <= 6; nth++) { /* promotes and reads take turns */
        redis_ok(d.f.r, "DEL email");
        add_due(&d, 35);
        proxy_rule(d.f.proxy, (proxy_rule_t){.action = nth % 2 ? PROXY_LOSE : PROXY_DROP, .match = "EVALSHA", .nth = nth});
        long fired = proxy_fired(d.f.proxy);
        cr_assert(driver_until(&d.instance.driver, ready(&d) == 35 && proxy_fired(d.f.proxy) > fired, 5000), "EVALSHA %d", nth);
        expect_each_once(&d, 35);
        proxy_pass(d.f.proxy);
    }
    cr_assert_geq(metric_get(&d.instance.metrics->reconnects), 6);
}

Test(redis_dispatcher_trouble, a_cut_anywhere_moves_each_job_once) {
    setup_begin(&d, (fixture_options_t){.proxy = true});
    settle(&d);
    for (long bytes = 0; bytes < 1500; bytes += 97) {
        redis_ok(d.f.r, "DEL email");
        add_due(&d, 35);
        proxy_cut_after(d.f.proxy, bytes % 2 ? PROXY_UP : PROXY_DOWN, bytes);
        expect_ready(&d, 35);
        expect_each_once(&d, 35);
        proxy_pass(d.f.proxy);
    }
}

Test(redis_dispatcher_trouble, goes_on_after_script_flush) {
    setup_begin(&d, (fixture_options_t){0});
    settle(&d);
    for (int i = 1; i <= 3; i++) {
        redis_ok(d.f.r, "SCRIPT FLUSH");
        redis_ok(d.f.r, "ZADD email:delayed 1 job%d", i);
        expect_ready(&d, i);
    }
}

static void kill_named(redis_t *r, const char *name) {
    char *list = redis_str(r, "CLIENT LIST"), *at = strstr(list, name);
    cr_assert_not_null(at, "%s", list);
    while (at > list && at[-1] != '\n') at--;
    redis_ok(r, "CLIENT KILL ID %lld", strtoll(at + 3, NULL, 10));
}

Test(redis_dispatcher_trouble, tracking_resumes_after_either_connection_is_killed) {
    static const char *const names[] = {" name=queue-sidecar-wakeups ", " name=queue-sidecar-dispatcher "};
    setup_begin(&d, (fixture_options_t){0});
    settle(&d);
    for (int i = 1; i <= 6; i++) {
        kill_named(d.f.r, names[i % 2]);
        if (i > 2) redis_ok(d.f.r, "ZADD email:delayed 1 lost%d", i); /* before the dispatcher has noticed */
        cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->reconnects) >= i, 3000));
        cr_assert(driver_until(&d.instance.driver, cluster_connections(d.f.r, "") == 2, 3000));
        settle(&d);
        redis_ok(d.f.r, "ZADD email:delayed 1 heard%d", i);
        expect_ready(&d, i + (i > 2 ? i - 2 : 0));
    }
    cr_assert_eq(metric_get(&of(&d, 0)->missed), 0);
}

#define POLLING_TWO                                                                                                              \
    "group = \"app\"; dispatcher = { safety_poll = \"100ms\"; }; queues = ( { name = \"email\"; }, { name = \"sms\"; } );"
#define POLLING "group = \"app\"; dispatcher = { safety_poll = \"100ms\"; }; queues = ( { name = \"email\"; } );"

/* With NOLOOP Redis may evict our tracking entry without a message. The safety poll finds the change. */
Test(redis_dispatcher_trouble, an_evicted_tracking_entry_loses_no_job) {
    setup_begin(&d, (fixture_options_t){.config = POLLING_TWO});
    redis_ok(d.f.r, "CONFIG SET tracking-table-max-keys 1");
    settle(&d);
    for (int i = 1; i <= 3; i++) {
        redis_ok(d.f.r, "ZADD sms:delayed 1 job%d", i);
        redis_ok(d.f.r, "ZADD email:delayed 1 job%d", i);
        expect_ready(&d, i);
        cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN sms") == i, 3000));
    }
}

static void expect_polling(const char *refused, bool from_the_start) {
    setup_begin(&d, (fixture_options_t){.config = POLLING, .proxy = true});
    if (!from_the_start) settle(&d);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = refused, .error = "-NOPERM x", .times = -1});
    settle(&d);
    for (int i = 1; i <= 3; i++) {
        redis_ok(d.f.r, "ZADD email:delayed 1 job%d", i);
        cr_assert(driver_until(&d.instance.driver, ready(&d) == i, 10000), "no job moves while %s is refused", refused);
    }
    cr_assert_leq(driver_run(&d.instance.driver, 500), most_steps(500), "the dispatcher spins while %s is refused", refused);
    cr_assert_gt(fixture_log_count("NOPERM"), 0);
    setup_end(&d);
}

Test(redis_dispatcher_trouble, the_safety_poll_serves_without_tracking) {
    expect_polling("CLIENT TRACKING", true);
    expect_polling("SUBSCRIBE", true);
    expect_polling("CLIENT ID", true);
    expect_polling("CLIENT CACHING YES", false); /* false: a script has these words too, and must load first */
}

/* A full batch looks like the begin of a backlog, but nothing more is due. */
Test(redis_dispatcher_trouble, the_safety_poll_serves_after_a_batch_that_took_all) {
    setup_begin(&d, (fixture_options_t){.proxy = true,
                                        .config = "group = \"app\"; dispatcher = { blind_poll = \"100ms\"; batch = 2; }; "
                                                  "queues = ( { name = \"email\"; } );"});
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "CLIENT TRACKING", .error = "-NOPERM x", .times = -1});
    settle(&d);
    redis_ok(d.f.r, "ZADD email:delayed 1 first 2 second");
    expect_ready(&d, 2);
    settle(&d);
    redis_ok(d.f.r, "ZADD email:delayed 3 later");
    expect_ready(&d, 3);
}

Test(redis_dispatcher_trouble, a_step_of_the_redis_clock_makes_no_job_early) {
    setup_begin(&d, (fixture_options_t){.config = POLLING, .preload = "shim_clock"});
    long long start = redis_ms(d.f.r);
    redis_ok(d.f.r, "ZADD email:delayed %lld soon %lld hour", start + 200, start + 3600000);
    settle(&d);
    server_step_clock(d.f.server, -1000);
    long steps = 0;
    while (ready(&d) == 0) {
        driver_step(&d.instance.driver, 5);
        cr_assert(ready(&d) == 0 || redis_ms(d.f.r) >= start + 200, "early");
        cr_assert_lt(++steps, 3000);
    }
    cr_assert_leq(metric_get(&of(&d, 0)->empty), 5);
    server_step_clock(d.f.server, 3600 * 1000);
    expect_ready(&d, 2);
}

Test(redis_dispatcher_trouble, works_at_maxmemory) {
    setup_begin(&d, (fixture_options_t){0});
    add_due(&d, 50);
    redis_ok(d.f.r, "CONFIG SET maxmemory 1");
    expect_ready(&d, 50);
}

Test(redis_dispatcher_trouble, a_frozen_server_does_not_delay_a_stop) {
    setup_begin(&d, (fixture_options_t){.redis = "timeout = \"60s\";"});
    settle(&d);
    add_due(&d, 5);
    server_freeze(d.f.server);
    atomic_store(&d.instance.driver.role.stop, true);
    int64_t start = wait_now_us();
    driver_step(&d.instance.driver, 1);
    cr_assert_lt(wait_now_us() - start, INT64_C(20000) * wait_scaled_ms(1000));
    server_thaw(d.f.server);
}

Test(redis_dispatcher_trouble, backs_off_while_redis_is_down) {
    setup_begin(&d, (fixture_options_t){0});
    settle(&d);
    server_kill(d.f.server);
    cr_assert_leq(driver_run(&d.instance.driver, 500), most_steps(500));
    server_restart(d.f.server, SERVER_LOSE_DATA);
    redis_close(d.f.r);
    d.f.r = redis_open(d.f.server);
    instance_lead(&d.instance, d.f.r);
    add_due(&d, 5);
    expect_ready(&d, 5);
}

/* The preflight disables a queue whose keys belong to another dialect. Other queues are served, and so is this one after the
 * repair. */
Test(redis_dispatcher_trouble, a_disabled_queue_is_skipped) {
    setup_begin(&d, (fixture_options_t){.config = TWO});
    lease_disable_queue(d.instance.leases, 1, true);
    redis_ok(d.f.r, "ZADD sms:delayed 1 a");
    add_due(&d, 3);
    expect_ready(&d, 3);
    settle(&d);
    cr_assert_eq(redis_int(d.f.r, "EXISTS sms"), 0);
    lease_disable_queue(d.instance.leases, 1, false);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN sms") == 1, 5000));
}
