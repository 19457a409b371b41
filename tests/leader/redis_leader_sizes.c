/* Queue sizes that the leader measures for /metrics: right numbers while somebody scrapes, and no command while nobody does,
 * unless the history wants them (redis_leader_history). */
#include "fixture.h"
#include "inspect/snapshot.h"
#include "wait.h"

#define WITH_TTL(ttl)                                                                                                            \
    "group = \"app\"; history = \"off\"; lock = { ttl = \"" ttl                                                                  \
    "\"; }; monitor = { scan_interval = \"50ms\"; }; stream = { max_bytes = "                                                    \
    "\"1MiB\"; }; queues = ( { name = \"email\"; heartbeat = \"off\"; }, { name = \"fights\"; dialect = "                        \
    "\"private_queues\"; main = \"m\"; private = \"queue-*\"; heartbeat = \"off\"; } );"
#define QUEUES WITH_TTL("600ms")

typedef struct {
    fixture_t f;
    instance_t instance;
} setup_t;

static void open_setup(setup_t *d, const char *config, int roles) {
    d->f = fixture_start(&(fixture_options_t){.config = config, .closed = true});
    instance_start(&d->instance, d->f.keys, INSTANCE_LEADER | roles);
    cr_assert(driver_until(&d->instance.driver, metric_get(&d->instance.metrics->leading), 8000));
}

static void close_setup(setup_t *d) {
    instance_stop(&d->instance);
    fixture_stop(&d->f);
}

static metrics_queue_t *of(setup_t *d, size_t queue) { return &d->instance.metrics->queues[queue]; }

/* The number of queues that were measured: only the measurement calls XLEN in these tests. */
static long long measured(setup_t *d) { return server_commandstat(d->f.server, "xlen"); }

static void scrape(setup_t *d) { metrics_scraped(d->instance.metrics, mono_now()); }

/* Steps the clock and waits for the next measurement of all queues. */
static void later(setup_t *d, int64_t seconds) {
    int64_t before = metric_get(&of(d, 0)->counted_ns);
    fixture_step_boottime(seconds * 1000);
    scrape(d);
    cr_assert(driver_until(&d->instance.driver,
                           metric_get(&of(d, 0)->counted_ns) > before && metrics_counted(of(d, 0), mono_now()), 8000),
              "%s", fixture_log());
}

static setup_t d;
SUITE(redis_leader_sizes, , close_setup(&d));

Test(redis_leader_sizes, nothing_is_measured_without_scrapes) {
    open_setup(&d, WITH_TTL("60s"), 0);
    long long before = measured(&d); /* by the preflight */
    driver_run(&d.instance.driver, 1000);
    cr_assert_eq(measured(&d), before);
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, measured(&d) == before + 2, 8000), "not once for each queue");
    driver_run(&d.instance.driver, 1000);
    cr_assert_leq(measured(&d), before + 4, "measured again within 5 s");
    for (int i = 0; i < 13; i++) {
        fixture_step_boottime(10000);
        driver_settle(&d.instance.driver, d.f.r);
    }
    cr_assert(metric_get(&d.instance.metrics->leading));
    before = measured(&d);
    driver_run(&d.instance.driver, 1000);
    cr_assert_eq(measured(&d), before, "measured two minutes after the last scrape");
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, measured(&d) >= before + 2, 8000));
}

/* Lets the leader count the ready lists of both queues once more, a minute later, and nothing else. */
static void count_unscraped(void) {
    long long before = server_commandstat(d.f.server, "llen"), delayed = server_commandstat(d.f.server, "zcard");
    long long sizes = measured(&d);
    fixture_step_boottime(60000);
    cr_assert(driver_until(&d.instance.driver, server_commandstat(d.f.server, "llen") >= before + 2, 8000), "%s", fixture_log());
    cr_assert_eq(server_commandstat(d.f.server, "zcard"), delayed, "nobody wants to know how many jobs are delayed");
    cr_assert_eq(measured(&d), sizes, "nobody wants to know how many records there are");
    driver_settle(&d.instance.driver, d.f.r);
}

static int64_t grown_ms(size_t queue) {
    scoped(conn_drop) conn_t *conn = conn_new(d.f.shard, "test", NULL);
    scoped(snapshot_free) snapshot_t view;
    cr_assert_eq(snapshot_read(conn, d.f.keys, &view, &d.f.error), OUTCOME_OK, "%s", d.f.error.text);
    return view.queues[queue].grows_ms;
}

/* The list of one queue grows, that of the other gets jobs and loses some. Nobody scrapes. */
Test(redis_leader_sizes, status_hears_of_ready_lists_that_only_grow) {
    open_setup(&d, WITH_TTL("5m"), 0);
    for (int i = 0; i <= 5; i++) {
        redis_ok(d.f.r, "RPUSH email job");
        redis_ok(d.f.r, "RPUSH m job job");
        if (i == 3) redis_ok(d.f.r, "LTRIM m 3 -1");
        cr_assert_eq(grown_ms(0), 0, "after %d counts", i);
        count_unscraped();
    }
    cr_assert(grown_ms(0) >= 300000 && grown_ms(0) < 360000, "%lld", (long long)grown_ms(0));
    cr_assert_eq(grown_ms(1), 0);
    char *told = redis_str(d.f.r, "HGET sidecar:email:meta ready_grows");
    cr_assert(strstr(told, " 6"), "%s", told);
    count_unscraped();
    cr_assert_geq(grown_ms(0), 360000);
    redis_ok(d.f.r, "HDEL sidecar:email:meta ready_grows");
    redis_ok(d.f.r, "LPOP email");
    count_unscraped();
    cr_assert_eq(grown_ms(0), 0);
}

static int64_t anomaly_told(anomaly_kind_t kind) {
    anomaly_seen_t seen = {0};
    scoped(conn_drop) conn_t *conn = conn_new(d.f.shard, "test", NULL);
    scoped(snapshot_free) snapshot_t view;
    cr_assert_eq(snapshot_read(conn, d.f.keys, &view, &d.f.error), OUTCOME_OK, "%s", d.f.error.text);
    const char *field = view.queues[0].anomalies[kind];
    return field && anomaly_read(field, view.now_ms, &seen) ? seen.number : 0;
}

/* A rolling restart does not end what is told of the last hour. */
Test(redis_leader_sizes, a_new_leader_keeps_the_events_that_the_former_one_told) {
    open_setup(&d, WITH_TTL("5m"), 0);
    anomaly_add(of(&d, 0), ANOMALY_early_jobs, 3, redis_ms(d.f.r));
    count_unscraped();
    instance_stop(&d.instance);
    redis_ok(d.f.r, "DEL sidecar:app:lock");
    instance_start(&d.instance, d.f.keys, INSTANCE_LEADER);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->leading), 8000));
    anomaly_add(of(&d, 0), ANOMALY_orphan_reports, 1, redis_ms(d.f.r));
    count_unscraped();
    cr_assert_eq(anomaly_told(ANOMALY_orphan_reports), 1);
    cr_assert_eq(anomaly_told(ANOMALY_early_jobs), 3);
}

/* A full Redis refuses the field for `status`. The leader must not back off, and goes on to count. */
Test(redis_leader_sizes, a_full_redis_does_not_stop_the_counts) {
    open_setup(&d, WITH_TTL("5m"), 0);
    for (int i = 0; i <= 12; i++) {
        redis_ok(d.f.r, "CONFIG SET maxmemory 0");
        redis_ok(d.f.r, "RPUSH email job");
        redis_ok(d.f.r, "CONFIG SET maxmemory 1");
        count_unscraped();
    }
    cr_assert_eq(redis_int(d.f.r, "HEXISTS sidecar:email:meta ready_grows"), 0);
    cr_assert_eq(fixture_log_count("redis is not ready"), 0, "%s", fixture_log());
}

/* A list whose length stays is not reported: its workers may be paused. */
Test(redis_leader_sizes, a_list_that_does_not_grow_is_not_reported) {
    open_setup(&d, WITH_TTL("5m"), 0);
    redis_ok(d.f.r, "RPUSH email job");
    for (int i = 0; i <= 12; i++) count_unscraped();
    cr_assert_eq(redis_int(d.f.r, "HEXISTS sidecar:email:meta ready_grows"), 0);
}

Test(redis_leader_sizes, sizes_equal_those_in_redis, .timeout = 60) {
    open_setup(&d, WITH_TTL("60s"), INSTANCE_MONITOR);
    redis_ok(d.f.r, "ZADD email:delayed 1000 a 9000000000000 b");
    redis_ok(d.f.r, "RPUSH email 1 2 3");
    redis_ok(d.f.r, "RPUSH email:backup x y");
    redis_ok(d.f.r, "RPUSH queue-one done running");
    redis_ok(d.f.r, "XADD sidecar:email:failures * event e");
    redis_ok(d.f.r, "HSET sidecar:email:meta bytes 262144");
    cr_assert(driver_until(&d.instance.driver, metric_get(&of(&d, 0)->passes) > 2 && metric_get(&of(&d, 1)->passes) > 2, 8000));
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, metric_get(&of(&d, 1)->counted_ns), 8000));
    const metrics_queue_t *email = of(&d, 0), *fights = of(&d, 1);
    cr_assert(metric_get(&email->delayed_jobs) == 2 && metric_get(&email->ready_jobs) == 3);
    cr_assert_eq(metric_get(&email->in_progress_jobs), 2);
    cr_assert(metric_get(&email->next_due_ms) == 1000 && metric_get(&email->due_since_ms) == 1000);
    cr_assert(metric_get(&email->stream_records) == 1 && metric_get(&email->stream_bytes) == 262144);
    cr_assert_eq(metric_get(&email->stream_full_percent), 25);
    int64_t age_ms = metrics_age_ms(d.instance.metrics, metric_get(&email->running_since_ms), mono_now());
    cr_assert(age_ms >= 0 && age_ms < wait_scaled_ms(20000), "%lld", (long long)age_ms);
    cr_assert_eq(metric_get(&fights->in_progress_jobs), 1, "not the number that scans have found");
    cr_assert(metric_get(&fights->running_since_ms) > 0 && metric_get(&fights->running_since_ms) < INT64_MAX);
    cr_assert(metric_get(&fights->delayed_jobs) < 0 && metric_get(&fights->due_since_ms) < 0 &&
              metric_get(&fights->next_due_ms) < 0);
    /* A job that has been due for an hour by Redis's clock. */
    redis_ok(d.f.r, "FLUSHALL");
    redis_ok(d.f.r, "EVAL %s 1 email:delayed", "redis.call('ZADD', KEYS[1], (redis.call('TIME')[1] - 3600) * 1000, 'a')");
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->leading), 8000));
    later(&d, 5);
    age_ms = metrics_age_ms(d.instance.metrics, metric_get(&email->due_since_ms), mono_now());
    cr_assert(age_ms >= 3600000 && age_ms < 3601000 + wait_scaled_ms(20000), "%lld", (long long)age_ms);
    cr_assert_eq(metric_get(&email->running_since_ms), INT64_MAX, "an age although no job is in progress");
    redis_ok(d.f.r, "DEL email:delayed");
    later(&d, 5);
    cr_assert(metric_get(&email->delayed_jobs) == 0 && metric_get(&email->due_since_ms) == INT64_MAX);
    cr_assert_lt(metric_get(&email->next_due_ms), 0);
}

Test(redis_leader_sizes, standby_reports_no_sizes) {
    open_setup(&d, QUEUES, 0);
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, metrics_counted(of(&d, 1), mono_now()), 8000));
    redis_ok(d.f.r, "SET sidecar:app:lock another PX 600000");
    cr_assert(driver_until(&d.instance.driver, !metric_get(&d.instance.metrics->leading), 8000));
    cr_assert(!metrics_counted(of(&d, 0), mono_now()) && !metrics_counted(of(&d, 1), mono_now()));
    long long before = measured(&d);
    scrape(&d);
    driver_run(&d.instance.driver, 500);
    cr_assert_eq(measured(&d), before);
}

Test(redis_leader_sizes, only_led_queues_are_measured) {
    d = (setup_t){.f =
                      fixture_start(&(fixture_options_t){.config = "group = \"app\"; history = \"off\"; lock = { scope = "
                                                                   "\"queue\"; ttl = \"60s\"; }; queues = ( { name = \"{a}\"; }, "
                                                                   "{ name = \"{b}\"; }, { name = \"{c}\"; } );",
                                                         .closed = true})};
    redis_ok(d.f.r, "SET sidecar:{b}:lock another PX 600000");
    for (const char *name = "abc"; *name; name++) redis_ok(d.f.r, "RPUSH {%b} 1 2", name, (size_t)1);
    instance_start(&d.instance, d.f.keys, INSTANCE_LEADER);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->leading) == 2, 8000));
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, metrics_counted(of(&d, 2), mono_now()), 8000));
    cr_assert(metrics_counted(of(&d, 0), mono_now()) && !metrics_counted(of(&d, 1), mono_now()));
    cr_assert(metric_get(&of(&d, 0)->ready_jobs) == 2 && metric_get(&of(&d, 2)->ready_jobs) == 2);
}

Test(redis_leader_sizes, key_of_wrong_type_is_logged_once_and_spoils_no_other_size) {
    open_setup(&d, WITH_TTL("60s"), 0);
    redis_ok(d.f.r, "RPUSH email 1 2 3");
    redis_ok(d.f.r, "SET email:delayed x");
    for (int i = 0; i < 3; i++) later(&d, 5);
    cr_assert(metric_get(&of(&d, 0)->delayed_jobs) < 0 && metric_get(&of(&d, 0)->ready_jobs) == 3);
    cr_assert_eq(fixture_log_count("cannot read some queue sizes"), 1);
    cr_assert_eq(fixture_log_count("email:delayed: WRONGTYPE"), 1);
    cr_assert_geq(metric_get(&of(&d, 0)->faults), 3);
    redis_ok(d.f.r, "DEL email:delayed");
    later(&d, 5);
    cr_assert_eq(metric_get(&of(&d, 0)->delayed_jobs), 0);
    cr_assert_eq(fixture_log_count("all queue sizes are readable again"), 1);
    cr_assert_eq(metric_get(&d.instance.metrics->terms), 1, "the wrong key has ended a term");
}

/* Otherwise a sum over all instances would count the queue twice. */
Test(redis_leader_sizes, queue_of_another_group_is_not_measured) {
    d = (setup_t){.f = fixture_start(&(fixture_options_t){.config = QUEUES, .closed = true})};
    redis_ok(d.f.r, "HSET sidecar:email:meta group others");
    redis_ok(d.f.r, "SET sidecar:others:lock another PX 600000");
    instance_start(&d.instance, d.f.keys, INSTANCE_LEADER);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->leading), 8000));
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, metrics_counted(of(&d, 1), mono_now()), 8000));
    cr_assert(!metrics_counted(of(&d, 0), mono_now()));
    redis_ok(d.f.r, "DEL sidecar:others:lock");
    cr_assert(driver_until(&d.instance.driver, (scrape(&d), metrics_counted(of(&d, 0), mono_now())), 20000),
              "not measured after the takeover");
}

/* The reply to the claim is lost: until the claim succeeds, the other group measures the queue. */
Test(redis_leader_sizes, queue_whose_claim_is_lost_is_not_measured) {
    d = (setup_t){.f = fixture_start(&(fixture_options_t){.config = WITH_TTL("60s"), .proxy = true, .closed = true})};
    redis_ok(d.f.r, "HSET sidecar:email:meta group others");
    redis_ok(d.f.r, "SET sidecar:others:lock another PX 600000");
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = "sidecar:others:lock"});
    instance_start(&d.instance, d.f.keys, INSTANCE_LEADER);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->leading), 8000));
    cr_assert_eq(proxy_fired(d.f.proxy), 1);
    fixture_step_boottime(21000); /* the renewal reconnects */
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, metrics_counted(of(&d, 1), mono_now()), 20000));
    cr_assert(!metrics_counted(of(&d, 0), mono_now()));
}

static void open_many(int queues) {
    scoped(buffer_free) buffer_t config = {0};
    buffer_str(&config, "group = \"app\"; history = \"off\"; lock = { ttl = \"60s\"; }; queues = (");
    for (int i = 0; i < queues; i++) buffer_printf(&config, "%s{ name = \"q%d\"; }", i ? ", " : "", i);
    buffer_str(&config, ");");
    open_setup(&d, config.data, 0);
}

/* A round trip for each queue would make the leader of a thousand queues late to renew its lock. */
Test(redis_leader_sizes, a_tick_tells_some_anomalies_in_one_round_trip) {
    open_many(100);
    driver_settle(&d.instance.driver, d.f.r);
    for (size_t i = 0; i < 100; i++) anomaly_add(of(&d, i), ANOMALY_early_jobs, 1, 1);
    long long told = server_commandstat(d.f.server, "hset");
    long long reads = server_info_int(d.f.server, "stats", "total_reads_processed");
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, server_commandstat(d.f.server, "hset") > told, 8000));
    cr_expect_eq(server_commandstat(d.f.server, "hset") - told, 64);
    cr_assert(driver_until(&d.instance.driver, server_commandstat(d.f.server, "hset") >= told + 100, 8000));
    cr_assert_lt(server_info_int(d.f.server, "stats", "total_reads_processed") - reads, 60);
    cr_assert(redis_int(d.f.r, "HEXISTS sidecar:q0:meta anomaly:early_jobs") &&
              redis_int(d.f.r, "HEXISTS sidecar:q99:meta anomaly:early_jobs"));
}

Test(redis_leader_sizes, many_queues_are_measured_step_by_step) {
    open_many(400);
    for (int i = 0; i < 400; i++) redis_ok(d.f.r, "RPUSH q%d %s", i, "job");
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, metrics_counted(of(&d, 399), mono_now()), 20000));
    for (size_t i = 0; i < 400; i++) cr_assert(metrics_counted(of(&d, i), mono_now()) && metric_get(&of(&d, i)->ready_jobs) == 1);
}

Test(redis_leader_sizes, lost_server_is_handled_by_the_leader) {
    open_setup(&d, QUEUES, 0);
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, metrics_counted(of(&d, 1), mono_now()), 8000));
    server_kill(d.f.server);
    fixture_step_boottime(5000);
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, !metric_get(&d.instance.metrics->leading), 8000));
    server_restart(d.f.server, SERVER_LOSE_DATA);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->leading), 8000));
    scrape(&d);
    cr_assert(driver_until(&d.instance.driver, metrics_counted(of(&d, 1), mono_now()), 20000), "%s", fixture_log());
}
