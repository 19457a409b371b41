/* The monitor under faults: workers finish during a scan; Redis is full, flushed or away; the lock is lost; sentinels and keys
 * are damaged. */
#include "monitor_fixture.h"

#include "wait.h"

#include <pthread.h>

static setup_t d;
SUITE(redis_monitor_trouble, , close_setup(&d));

/* Drops one request of a scan. The worker finishes its job before the monitor repeats the request. */
Test(redis_monitor_trouble, a_worker_may_finish_at_any_step_of_a_scan, .timeout = 60) {
    static const char *const steps[] = {"LLEN email:backup", "RPOPLPUSH", "HMGET sidecar:email:stamps", "EXISTS", "retried"};
    open_setup(
        &d,
        (fixture_options_t){
            .proxy = true,
            .redis = "timeout = \"20s\";",
            .config =
                "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; protected_timeout = "
                "\"100ms\"; retry_times = 9; } );"});
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char job[8];
        snprintf(job, sizeof job, "job%zu", i);
        work_on(&d, job);
        until(&d, stamp_of(d.f.r, slice_text(job)).seen);
        long fired = proxy_fired(d.f.proxy);
        /* The proxy drops the request before Redis sees it, so the repeated request comes after the worker. */
        proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = steps[i]});
        until(&d, proxy_fired(d.f.proxy) > fired);
        redis_ok(d.f.r, "LREM email:backup 1 %s", job);
        cr_assert_eq(waiting(&d, job), 0);
        until(&d, !stamp_of(d.f.r, slice_text(job)).born_us);
        cr_assert_eq(waiting(&d, job), 0, "%s was retried although it was finished", job);
    }
    cr_assert_eq(records(&d), 0);
}

/* Redis runs each request of a scan, but the reply is lost: no job is settled twice. */
Test(redis_monitor_trouble, lost_replies_lose_and_double_nothing, .timeout = 60) {
    static const char *const steps[] = {"LLEN email:backup", "RPOPLPUSH", "HMGET sidecar:email:stamps", "digest",
                                        "retried",           "failed"};
    open_setup(&d, (fixture_options_t){.proxy = true, .config = ALONE("retry_times = 1;")});
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char job[8];
        snprintf(job, sizeof job, "job%zu", i);
        proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = steps[i]});
        work_on(&d, job);
        until(&d, waiting(&d, job));
        cr_assert_eq(waiting(&d, job) + working(&d, job), 1);
        redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT");
        until(&d, records(&d) == 2 * (long long)(i + 1));
        proxy_pass(d.f.proxy);
        cr_assert_eq(waiting(&d, job) + working(&d, job), 0);
    }
    cr_assert_geq(proxy_fired(d.f.proxy), 5);
    expect_reason(&d, "failed", "retries_exhausted 2 -");
}

static void fill(int jobs) {
    for (int i = 0; i < jobs; i++) redis_ok(d.f.r, "LPUSH email:backup job%d", i);
}

Test(redis_monitor_trouble, a_lock_lost_during_a_scan_changes_nothing) {
    open_setup(&d, (fixture_options_t){.proxy = true, .config = ALONE("retry_times = 0;")});
    fill(300);
    until(&d, count(&d, "HLEN sidecar:email:stamps") == 300);
    redis_ok(d.f.r, "SET sidecar:app:lock another");
    until(&d, lease_take_suspicion(d.instance.leases, 0));
    long before = proxy_requests(d.f.proxy, NULL);
    cr_assert_leq(driver_run(&d.instance.driver, 300), 5);
    cr_assert_leq(proxy_requests(d.f.proxy, NULL), before);
    for (int i = 0; i < 300; i++) {
        char job[8];
        snprintf(job, sizeof job, "job%d", i);
        cr_assert_eq(working(&d, job) + waiting(&d, job), 1);
    }
    cr_assert_eq(records(&d), 0);
    instance_lead(&d.instance, d.f.r);
    until(&d, records(&d) == 300);
}

Test(redis_monitor_trouble, flushall_during_a_scan_starts_over) {
    open_setup(&d, (fixture_options_t){.proxy = true, .redis = "timeout = \"20s\";", .config = ALONE("retry_times = 1;")});
    fill(900);
    passes(&d, 1);
    long fired = proxy_fired(d.f.proxy);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = "RPOPLPUSH", .nth = 300});
    until(&d, proxy_fired(d.f.proxy) > fired);
    redis_ok(d.f.r, "FLUSHALL");
    instance_lead(&d.instance, d.f.r);
    driver_run(&d.instance.driver, 200);
    cr_assert_eq(records(&d), 0);
    work_on(&d, "a");
    until(&d, waiting(&d, "a"));
}

Test(redis_monitor_trouble, a_full_redis_is_read_without_rotation) {
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 1;")});
    fill(600);
    passes(&d, 1);
    redis_ok(d.f.r, "CONFIG SET maxmemory 1");
    char *refusal = redis_error(d.f.r, "LPUSH x y");
    cr_assert(strncmp(refusal, "OOM", 3) == 0);
    free(refusal);
    until(&d, count(&d, "LLEN email") == 600);
    cr_assert_geq(fixture_log_count("redis is full: workers cannot take jobs"), 1);
    redis_ok(d.f.r, "CONFIG SET maxmemory 0");
    for (int i = 0; i < 600; i++) redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT");
    redis_ok(d.f.r, "CONFIG SET maxmemory 1");
    until(&d, records(&d) == 1200);
    cr_assert_eq(count(&d, "LLEN email"), 0);
}

/* Returns the number of sentinels in backup. */
static int sentinels(setup_t *of) {
    redisReply *list = redis_do(of->f.r, "LRANGE email:backup 0 -1");
    int found = 0;
    for (size_t i = 0; i < list->elements; i++) found += strncmp(list->element[i]->str, "sidecar-sentinel:", 17) == 0;
    return found;
}

static char *sentinel(setup_t *of, int n) {
    char *random = redis_str(of->f.r, "HGET sidecar:email:sentinel random"),
         *text = kept_printf("sidecar-sentinel:%s:%d", random, n);
    return text;
}

Test(redis_monitor_trouble, deleted_and_old_sentinels_are_repaired) {
    open_setup(&d, (fixture_options_t){
                       .config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; "
                                 "protected_timeout = \"1h\"; heartbeat = \"off\"; } );"});
    fill(20);
    passes(&d, 2);
    cr_assert_eq(sentinels(&d), 1);
    cr_assert_eq(metric_get(&of(&d)->sentinels), 1);
    char *one = sentinel(&d, 1);
    redis_ok(d.f.r, "LREM email:backup 0 %s", one); /* deleted */
    until(&d, sentinels(&d) == 1 && metric_get(&of(&d)->sentinels) == 2);
    redis_ok(d.f.r, "LPUSH email:backup %s", one); /* the old sentinel returns */
    until(&d, sentinels(&d) == 1 && metric_get(&of(&d)->old_sentinels) == 1);
    char *two = sentinel(&d, 2);
    cr_assert_eq(working(&d, two), 1, "the current sentinel must stay");
    redis_ok(d.f.r, "LPUSH email:backup %s", two); /* doubled */
    int64_t scans = metric_get(&of(&d)->passes);
    until(&d, metric_get(&of(&d)->passes) > scans + 3);
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), 20);
}

/* Copies of the sentinel end each scan early. Jobs between them must keep their stamps. */
Test(redis_monitor_trouble, copies_of_the_sentinel_delay_no_stalled_job) {
    enum { COPIES = 8, JOBS = 400 };
    open_setup(&d, (fixture_options_t){
                       .config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; rotation = 10000; }; queues = ( " QUEUE(
                           "retry_times = 1;") " );"});
    fill(1);
    passes(&d, 2);
    char *copy = sentinel(&d, 1);
    redis_ok(d.f.r, "EVAL %s 1 email:backup %s",
             "for i = 1, 3200 do redis.call('LPUSH', KEYS[1], 'more' .. i) "
             "if i % 400 == 0 then redis.call('LPUSH', KEYS[1], ARGV[1]) end end",
             copy);
    cr_assert_geq(sentinels(&d), COPIES);
    until(&d, count(&d, "LLEN email") >= COPIES * JOBS);
    until(&d, sentinels(&d) <= 1);
}

#define NO_STALL                                                                                                                 \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; protected_timeout = \"1h\"; "      \
    "heartbeat = \"off\"; } );"

/* After its hash was deleted, a sentinel is still recognized: the monitor removes it, and does not treat it as a job. */
Test(redis_monitor_trouble, a_sentinel_whose_hash_was_deleted_is_removed) {
    open_setup(&d, (fixture_options_t){.config = NO_STALL});
    fill(20);
    passes(&d, 2);
    for (int round = 1; round <= 3; round++) {
        char *old = sentinel(&d, 1);
        if (round == 2) { /* a new sentinel with another random part exists before the old sentinel returns */
            redis_ok(d.f.r, "DEL sidecar:email:sentinel");
            redis_ok(d.f.r, "LREM email:backup 0 %s", old);
            until(&d, count(&d, "EXISTS sidecar:email:sentinel"));
            redis_ok(d.f.r, "LPUSH email:backup %s", old);
        } else {
            redis_ok(d.f.r, "DEL sidecar:email:sentinel");
        }
        until(&d, working(&d, old) == 0);
        until(&d, sentinels(&d) == 1);
        cr_assert_eq(metric_get(&of(&d)->old_sentinels), round);
    }
    passes(&d, 3);
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), 20, "a sentinel was stamped");
    cr_assert_eq(count(&d, "LLEN email:backup"), 21);
    cr_assert_eq(records(&d) + count(&d, "LLEN email"), 0);
}

/* A new leader has no memory of the sentinel. */
Test(redis_monitor_trouble, a_list_that_holds_only_a_sentinel_without_its_hash_holds_no_job) {
    open_setup(&d, (fixture_options_t){.config = NO_STALL});
    fill(1);
    passes(&d, 2);
    redis_ok(d.f.r, "LREM email:backup 1 job0");
    redis_ok(d.f.r, "DEL sidecar:email:sentinel");
    instance_stop(&d.instance);
    instance_start(&d.instance, d.f.keys, INSTANCE_MONITOR);
    instance_lead(&d.instance, d.f.r);
    until(&d, count(&d, "LLEN email:backup") == 0);
    cr_assert_eq(metric_get(&of(&d)->old_sentinels), 1);
    until(&d, count(&d, "HLEN sidecar:email:stamps") == 0);
    cr_assert_eq(records(&d), 0);
}

/* An entry that resembles a sentinel is a job. */
Test(redis_monitor_trouble, a_forged_sentinel_is_a_job) {
    static const char *const forged[] = {"sidecar-sentinel:", "sidecar-sentinel:0123456789abcdef0123456789abcdef:1",
                                         "sidecar-sentinel::1"};
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 1;")});
    for (size_t i = 0; i < 3; i++) work_on(&d, forged[i]);
    for (size_t i = 0; i < 3; i++) until(&d, waiting(&d, forged[i]));
    char *real = sentinel(&d, 1), *longer = kept_printf("%s0x", real);
    work_on(&d, longer);
    until(&d, waiting(&d, longer));
    cr_assert_eq(waiting(&d, real), 0);
    redis_ok(d.f.r, "DEL sidecar:email:sentinel email");
    for (size_t i = 0; i < 3; i++) work_on(&d, forged[i]); /* also without the hash these entries are jobs */
    for (size_t i = 0; i < 3; i++) until(&d, waiting(&d, forged[i]) || !working(&d, forged[i]));
    cr_assert_eq(records(&d), 7, "three jobs must end, and four must be retried");
}

Test(redis_monitor_trouble, a_forged_sentinel_of_zero_bytes_is_a_job) {
    char zeros[] = "sidecar-sentinel:00000000000000000000000000000000:1";
    memset(zeros + 17, 0, 32);
    slice_t forged = {zeros, sizeof zeros - 1};
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 1;")});
    redis_ok(d.f.r, "LPUSH email:backup %b", forged.data, forged.len);
    until(&d, in_list(d.f.r, "email", forged));
    cr_assert_eq(records(&d), 1, "the entry must be retried as a job");
}

Test(redis_monitor_trouble, keys_of_the_wrong_type_block_their_queue_only, .timeout = 60) {
    static const struct {
        const char *key, *right;
    } keys[] = {{"email:backup", "list"},         {"email:errors", "hash"},           {"email", "list"},
                {"sidecar:email:stamps", "hash"}, {"sidecar:email:sentinel", "hash"}, {"sidecar:email:failures", "stream"},
                {"sidecar:email:meta", "hash"}};
    open_setup(
        &d,
        (fixture_options_t){
            .config =
                "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; defaults = { heartbeat = \"off\"; "
                "protected_timeout = \"50ms\"; retry_times = 1; }; queues = ( { name = \"email\"; }, { name = \"sms\"; } );"});
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        redis_ok(d.f.r, "FLUSHALL");
        instance_lead(&d.instance, d.f.r);
        driver_run(&d.instance.driver, 30);
        if (strcmp(keys[k].key, "email:backup") != 0) work_on(&d, "a");
        fixture_make_key(d.f.r, keys[k].key, strcmp(keys[k].right, "list") == 0 ? "hash" : "list");
        int64_t faults = metric_get(&of(&d)->faults);
        redis_ok(d.f.r, "LPUSH sms:backup b");
        until(&d, metric_get(&of(&d)->faults) > faults);
        until(&d, redis_int(d.f.r, "LLEN sms") == 1);
        cr_assert_leq(driver_run(&d.instance.driver, 300), 300, "ticks without a pause because of %s", keys[k].key);
        if (strcmp(keys[k].key, "email:backup") != 0) cr_assert_eq(working(&d, "a"), 1, "%s", keys[k].key);
        redis_ok(d.f.r, "DEL %s", keys[k].key);
        fixture_step_boottime(5001);
        work_on(&d, "c");
        until(&d, waiting(&d, "c"));
    }
}

/* The sidecar's user lacks the right to one command. */
Test(redis_monitor_trouble, a_missing_right_loses_no_job, .timeout = 300) {
    static const char *const commands[] = {"lrem", "brpoplpush", "rpoplpush", "hmget",   "llen",
                                           "lpos", "xadd",       "hscan",     "evalsha", "getrange"};
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 1;")});
    fill(20);
    passes(&d, 1);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        redis_ok(d.f.r, "ACL SETUSER default -%s", commands[i]);
        redis_t *admin = d.f.r;
        driver_run(&d.instance.driver, 250);
        redis_ok(admin, "ACL SETUSER default +%s", commands[i]);
        fixture_step_boottime(5001);
        redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT"); /* a scan needs a job in backup */
        passes(&d, 1);
        cr_assert_eq(count(&d, "LLEN email") + count(&d, "LLEN email:backup") - sentinels(&d) + metric_get(&of(&d)->ended), 20,
                     "without %s", commands[i]);
        redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT");
    }
}

Test(redis_monitor_trouble, without_tracking_the_monitor_polls) {
    open_setup(&d, (fixture_options_t){.proxy = true, .config = ALONE("retry_times = 1;")});
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "CLIENT TRACKING", .error = "-NOPERM no", .times = -1});
    until(&d, proxy_fired(d.f.proxy) > 0); /* the monitor has asked for tracking */
    work_on(&d, "a");
    until(&d, waiting(&d, "a"));
    cr_assert_gt(fixture_log_count("redis refuses client tracking"), 0);
}

/* Neither a scan nor a wake-up can find the report within an hour. */
Test(redis_monitor_trouble, without_tracking_reports_are_looked_for) {
    enum { POLL_MS = 100, RUN_MS = 1000 };
    open_setup(&d, (fixture_options_t){.proxy = true, .config = "dispatcher = { blind_poll = \"100ms\"; }; " SLOW("")});
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "CLIENT TRACKING", .error = "-NOPERM no", .times = -1});
    until(&d, proxy_fired(d.f.proxy) > 0);
    for (int i = 0; i < 3; i++) {
        char job[8];
        snprintf(job, sizeof job, "job%d", i);
        work_on(&d, "other");
        work_on(&d, job);
        redis_ok(d.f.r, "HSET email:errors %s boom", job);
        until(&d, waiting(&d, job));
        cr_assert_eq(working(&d, job), 0);
    }
    driver_settle(&d.instance.driver, d.f.r);
    int64_t start = wait_now_us();
    long looks = proxy_requests(d.f.proxy, "HLEN email:errors"), scans = metric_get(&of(&d)->passes);
    driver_run(&d.instance.driver, RUN_MS);
    looks = proxy_requests(d.f.proxy, "HLEN email:errors") - looks;
    cr_assert(looks >= 2 && looks <= (wait_now_us() - start) / 1000 / POLL_MS + 1, "%ld looks", looks);
    cr_assert_eq(metric_get(&of(&d)->passes), scans, "a look is no scan");
}

/* Redis allows CLIENT TRACKING, but not CLIENT CACHING. Redis 6.2 can only add the right to a subcommand. */
#define NO_CACHING "-client +client|id +client|setname +client|tracking +client|list"

static void expect_polling_without_caching(bool from_the_start) {
    open_setup(&d, (fixture_options_t){.config = "dispatcher = { blind_poll = \"100ms\"; }; " SLOW("")});
    if (from_the_start) redis_ok(d.f.r, "ACL SETUSER default " NO_CACHING);
    work_on(&d, "old");
    until(&d, stamp_of(d.f.r, slice_text("old")).seen);
    redis_ok(d.f.r, "ACL SETUSER default " NO_CACHING);
    for (int i = 0; i < 3; i++) {
        char job[8];
        snprintf(job, sizeof job, "job%d", i);
        work_on(&d, job);
        redis_ok(d.f.r, "HSET email:errors %s boom", job);
        until(&d, waiting(&d, job));
    }
    cr_assert_eq(metric_get(&d.instance.metrics->tracking_refused), 1);
    cr_assert_eq(fixture_log_count("redis refuses client tracking"), 1);
    if (from_the_start) cr_assert_eq(fixture_log_count("redis refuses the monitor"), 0);
}

Test(redis_monitor_trouble, without_caching_the_monitor_polls) { expect_polling_without_caching(true); }
Test(redis_monitor_trouble, the_monitor_polls_after_it_lost_the_right_to_caching) { expect_polling_without_caching(false); }

Test(redis_monitor_trouble, a_killed_tracking_connection_is_replaced) {
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    until(&d, redis_int(d.f.r, "EVAL %s 0", "return #redis.call('PUBSUB', 'CHANNELS', '*')"));
    driver_settle(&d.instance.driver, d.f.r);
    redis_ok(d.f.r, "CLIENT KILL TYPE pubsub");
    work_on(&d, "a");
    until(&d, stamp_of(d.f.r, slice_text("a")).seen);
    cr_assert_eq(metric_get(&d.instance.metrics->reconnects), 1);
    redis_ok(d.f.r, "HSET email:errors a boom");
    until(&d, waiting(&d, "a")); /* only the new tracking connection can wake the monitor within an hour */
}

/* A full stream delays only ends. */
Test(redis_monitor_trouble, a_full_stream_ends_no_job) {
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 1;")});
    redis_ok(d.f.r, "HSET sidecar:email:meta bytes 268435456");
    work_on(&d, "a");
    until(&d, waiting(&d, "a"));
    cr_assert_eq(metric_get(&of(&d)->retried_unrecorded), 1);
    redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT");
    until(&d, fixture_log_count("the failure stream is full"));
    cr_assert_geq(metric_get(&of(&d)->ends_held), 1);
    cr_assert_eq(working(&d, "a"), 1);
    redis_ok(d.f.r, "HSET sidecar:email:meta bytes 0");
    until(&d, records(&d) == 1);
    cr_assert_eq(working(&d, "a"), 0);
}

/* No record can be added, and no later command repairs that. Retries need no record. */
Test(redis_monitor_trouble, a_stream_at_its_last_id_delays_only_ends) {
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 1;")});
    redis_ok(d.f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551615 f v");
    work_on(&d, "a");
    until(&d, waiting(&d, "a"));
    redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT");
    until(&d, metric_get(&of(&d)->ends_held) > 0);
    work_on(&d, "b");
    until(&d, waiting(&d, "b"));
    cr_assert_eq(working(&d, "a"), 1);
    redis_ok(d.f.r, "DEL sidecar:email:failures");
    until(&d, !working(&d, "a"));
    cr_assert_eq(records(&d), 1);
}

/* Two leaders, one of them already replaced: each job stays in one place. */
Test(redis_monitor_trouble, a_replaced_leader_moves_no_job_twice) {
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 1;")});
    scoped(instance_stop) instance_t other;
    fill(50);
    passes(&d, 1);
    instance_start(&other, d.f.keys, INSTANCE_MONITOR);
    instance_lead(&other, d.f.r);
    for (int i = 0; i < 400 && count(&d, "LLEN email") < 50; i++) {
        driver_step(&d.instance.driver, 2);
        driver_step(&other.driver, 2);
        cr_assert_eq(count(&d, "LLEN email") + count(&d, "LLEN email:backup") - sentinels(&d), 50);
    }
    cr_assert(driver_until(&other.driver, count(&d, "LLEN email") == 50, 8000));
    cr_assert_eq(records(&d), 50);
}

static void *beat_late(void *unused) {
    wait_for(proxy_fired(d.f.proxy) == 1, 10000);
    redis_t *r = redis_open(d.f.server);
    redis_ok(r, "SET 7_alive worker");
    redis_close(r);
    proxy_pass(d.f.proxy);
    return unused;
}

/* The heartbeat comes back after the scan has missed it twice, and before the settle. */
Test(redis_monitor_trouble, a_heartbeat_at_the_last_moment_keeps_the_job) {
    pthread_t thread;
    const slice_t job = slice_text("{\"id\":7}");
    open_setup(&d, (fixture_options_t){
                       .config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; "
                                 "protected_timeout = \"100ms\"; heartbeat = \"*_alive\"; id_path = \"/id\"; } );",
                       .proxy = true});
    work_on(&d, job.data);
    until(&d, stamp_of(d.f.r, job).missing > 0);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = "EXISTS 7_alive"});
    cr_assert_eq(pthread_create(&thread, NULL, beat_late, NULL), 0);
    until(&d, proxy_fired(d.f.proxy) == 1);
    pthread_join(thread, NULL);
    passes(&d, 3);
    cr_assert_eq(records(&d), 0);
    cr_assert(working(&d, job.data) && !waiting(&d, job.data));
    cr_assert_eq(stamp_of(d.f.r, job).missing, 0);
}
