/* The dispatcher on a server that refuses tracking: its connections, its requests, and how tracking begins again. */
#include "cluster.h"
#include "dispatcher_fixture.h"
#include "http/health.h"

#include <pthread.h>

#define POLLING                                                                                                                  \
    "group = \"app\"; dispatcher = { safety_poll = \"1h\"; blind_poll = \"100ms\"; }; queues = ( { name = \"email\"; } );"

enum { POLL_MS = 100, NO_WAKE_RETRY_MS = 60000 };

static setup_t d;

/* Without tracking the subscriber has no use, so its connection stays closed. */
static void expect_one_connection(const char *refused) {
    cr_assert(driver_until(&d.instance.driver, cluster_connections(d.f.r, "") == 1, 3000), "while %s is refused: %d connections",
              refused, cluster_connections(d.f.r, ""));
    cr_assert_eq(cluster_connections(d.f.r, "-dispatcher"), 1);
    settle(&d);
    int ever = proxy_connections_total(d.f.proxy);
    long before = proxy_requests(d.f.proxy, NULL);
    int64_t start = wait_now_us();
    cr_assert_leq(driver_run(&d.instance.driver, 500), most_steps(500), "the dispatcher spins while %s is refused", refused);
    int64_t polls = (wait_now_us() - start) / 1000 / POLL_MS + 1;
    cr_assert_leq(proxy_requests(d.f.proxy, NULL) - before, polls, "more requests than safety polls while %s is refused",
                  refused);
    cr_assert_eq(proxy_connections_total(d.f.proxy), ever);
    cr_assert_eq(proxy_connections(d.f.proxy), 1);
}

/* The metric, and /readyz, which `status` reads. */
static void expect_reported(bool tracking_refused) {
    scoped(buffer_free) buffer_t json = {0};
    scoped(health_drop) health_t *health = health_new(d.instance.metrics, "app", true);
    health_ready(health, &json);
    cr_assert_eq(metric_get(&d.instance.metrics->tracking_refused), tracking_refused);
    cr_assert(strstr(buffer_text(&json), tracking_refused ? "\"wakeups\", \"ok\": false" : "\"wakeups\", \"ok\": true"), "%s",
              buffer_text(&json));
}

static void expect_tracking_refused(const char *refused, bool from_the_start) {
    setup_begin(&d, (fixture_options_t){.config = POLLING, .proxy = true});
    if (!from_the_start) {
        cr_assert(driver_until(&d.instance.driver, cluster_connections(d.f.r, "") == 2, 3000));
        settle(&d);
    }
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = refused, .error = "-NOPERM x", .times = -1});
    redis_ok(d.f.r, "ZADD email:delayed 1 first");
    expect_ready(&d, 1);
    expect_one_connection(refused);
    int64_t polls = metric_get(&d.instance.metrics->safety_polls);
    redis_ok(d.f.r, "ZADD email:delayed 1 second");
    expect_ready(&d, 2);
    cr_assert_gt(metric_get(&d.instance.metrics->safety_polls), polls, "only a poll can have found the job");
    expect_one_connection(refused);
    cr_assert_eq(fixture_log_count("redis refuses client tracking"), 1);
    expect_reported(true);
    /* The user gets the right. */
    proxy_pass(d.f.proxy);
    fixture_step_boottime(NO_WAKE_RETRY_MS);
    cr_assert(driver_until(&d.instance.driver, cluster_connections(d.f.r, "") == 2, 3000));
    cr_assert(driver_until(&d.instance.driver, !metric_get(&d.instance.metrics->tracking_refused), 3000));
    expect_reported(false);
}

SUITE(redis_dispatcher_blind, , setup_end(&d));

Test(redis_dispatcher_blind, refused_tracking_leaves_one_connection) { expect_tracking_refused("CLIENT TRACKING", true); }
Test(redis_dispatcher_blind, a_refused_channel_leaves_one_connection) { expect_tracking_refused("SUBSCRIBE", true); }
/* Not from the start: the proxy would also refuse the load of a script, because the script has these words too. */
Test(redis_dispatcher_blind, tracking_refused_later_leaves_one_connection) {
    expect_tracking_refused("CLIENT CACHING YES", false);
}

/* The subscriber dies between SUBSCRIBE and CLIENT TRACKING. Redis replies with an error that looks like a refusal, but the next
 * attempt succeeds. The test gets the text from the server. */
Test(redis_dispatcher_blind, a_subscriber_that_dies_at_once_is_replaced) {
    setup_begin(&d, (fixture_options_t){.proxy = true});
    redisReply *reply = redis_do(d.f.r, "CLIENT TRACKING ON REDIRECT 999999999 OPTIN NOLOOP");
    cr_assert_eq(reply->type, REDIS_REPLY_ERROR);
    char *error = kept_printf("-%s", reply->str);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "CLIENT TRACKING", .error = error});
    cr_assert(driver_until(&d.instance.driver, proxy_requests(d.f.proxy, "CLIENT TRACKING") == 2, 5000),
              "the dispatcher did not try again: %s", fixture_log());
    cr_assert(driver_until(&d.instance.driver, cluster_connections(d.f.r, "") == 2, 3000));
    settle(&d);
    redis_ok(d.f.r, "ZADD email:delayed 1 job");
    expect_ready(&d, 1);
    cr_assert_eq(metric_get(&of(&d, 0)->wakeups), 1, "only a wake-up can have found the job");
    cr_assert_eq(cluster_connections(d.f.r, ""), 2);
    cr_assert_eq(fixture_log_count("redis refuses client tracking"), 0);
}

static void refuse_tracking(void) {
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "CLIENT TRACKING", .error = "-NOPERM x", .times = -1});
    settle(&d);
}

/* Begins a blind dispatcher and waits until it has skipped one oversized entry at the head. */
static void begin_oversized(void) {
    setup_begin(&d, (fixture_options_t){.proxy = true,
                                        .config = "group = \"app\"; dispatcher = { blind_poll = \"100ms\"; }; "
                                                  "queues = ( { name = \"email\"; max_payload = \"1KiB\"; } );"});
    refuse_tracking();
    redis_ok(d.f.r, "EVAL %s 0", "return redis.call('ZADD', 'email:delayed', 1, string.rep('x', 2000))");
    cr_assert(driver_until(&d.instance.driver, metric_get(&of(&d, 0)->large) == 1, 10000));
}

/* An operator removes an oversized entry. The next job has its rank, which the polls skip. */
Test(redis_dispatcher_blind, a_job_in_the_place_of_an_oversized_entry_is_found) {
    begin_oversized();
    redis_ok(d.f.r, "DEL email:delayed");
    driver_run(&d.instance.driver, 500);
    redis_ok(d.f.r, "ZADD email:delayed 1 small");
    driver_run(&d.instance.driver, 500);
    fixture_step_boottime(NO_WAKE_RETRY_MS);
    expect_ready(&d, 1);
}

/* The entry stays: it costs one read a minute, not one a poll. */
Test(redis_dispatcher_blind, an_oversized_entry_is_seldom_read_again) {
    begin_oversized();
    for (int i = 2; i < 5; i++) {
        driver_run(&d.instance.driver, 500);
        cr_assert_eq(fixture_log_count("larger than max_payload"), i - 1, "each read has a line");
        fixture_step_boottime(NO_WAKE_RETRY_MS);
        cr_assert(driver_until(&d.instance.driver, fixture_log_count("larger than max_payload") == i, 10000));
        cr_assert_eq(metric_get(&of(&d, 0)->large), 1, "it is one entry, however often it is read");
    }
    redis_ok(d.f.r, "DEL email:delayed");
    fixture_step_boottime(NO_WAKE_RETRY_MS);
    cr_assert(driver_until(&d.instance.driver, metric_get(&of(&d, 0)->large) == 0, 10000));
}

typedef struct {
    redis_t *r;
    atomic_bool stop;
} busy_t;

static void *busy_main(void *arg) {
    busy_t *busy = arg;
    while (!atomic_load(&busy->stop))
        redis_ok(busy->r, "EVAL %s 0", "local n = 0 for i = 1, 6000000 do n = n + i end return 1"); /* some 40 ms */
    return NULL;
}

/* Queues of several locks are polled one by one. A poll of all takes longer than a tick. */
Test(redis_dispatcher_blind, a_slow_poll_reaches_the_last_queue, .timeout = 120) {
    enum { QUEUES = 40 };
    scoped(buffer_free) buffer_t config = {0};
    buffer_str(&config, "group = \"app\"; lock = { scope = \"queue\"; }; dispatcher = { blind_poll = \"100ms\"; }; queues = (");
    for (int i = 0; i < QUEUES; i++) buffer_printf(&config, "%s{ name = \"q%d\"; }", i ? ", " : " ", i);
    buffer_str(&config, " );");
    setup_begin(&d, (fixture_options_t){.proxy = true, .config = buffer_text(&config)});
    refuse_tracking();
    busy_t busy = {.r = redis_open(d.f.server)};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, busy_main, &busy), 0);
    redis_ok(d.f.r, "ZADD q%d:delayed 1 job", QUEUES - 1);
    bool found = driver_until(&d.instance.driver, redis_int(d.f.r, "LLEN q%d", QUEUES - 1) == 1, 20000);
    atomic_store(&busy.stop, true);
    pthread_join(thread, NULL);
    cr_assert(found, "the last queue is never polled");
    redis_close(busy.r);
}
