/* Redis refuses requests because of one key: work that does not need the key goes on, and the refusal is reported once, and
 * again when it ends. */
#include "dialects/kmqueue/kmqueue_fixture.h"
#include "monitor/internal.h"

/* So many entries that settle.lua does not count duplicates (scan_may_end): jobs end only after complete scans. */
enum { MANY = 5000 };

static setup_t d;

static void fill(const char *list, int jobs) {
    redis_ok(d.f.r, "EVAL %s 1 %s %d", "for i = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], 'job' .. i) end", list, jobs);
}

static int logged(void) { return fixture_log_count("redis refuses the monitor\""); }
static int logged_end(void) { return fixture_log_count("redis accepts the monitor's requests again"); }

/* Repeats refused requests until `cond` is true; steps the clock over each pause. */
#define try_until(d, cond)                                                                                                       \
    do {                                                                                                                         \
        for (int try_ = 0; try_ < 100 && !(cond); try_++) {                                                                      \
            fixture_step_boottime(5001);                                                                                         \
            driver_run(&(d)->instance.driver, 60);                                                                               \
        }                                                                                                                        \
        cr_assert(cond, "still false: %s", #cond);                                                                               \
    } while (0)

SUITE(redis_monitor_faults, , close_setup(&d));

Test(redis_monitor_faults, a_target_of_the_wrong_type_delays_no_other_job, .timeout = 60) {
    open_setup(
        &d, (fixture_options_t){
                .config = ALONE("retry_times = 9; retry_backoff = \"fixed\"; retry_delay = \"50ms\"; max_payload = \"2KiB\";")});
    redis_ok(d.f.r, "SET email:delayed x");
    fill("email:backup", MANY);
    until(&d, metric_get(&of(&d)->faults) > 0);
    redis_ok(d.f.r, "HSET email:errors job17 %s", "!spoilt");
    try_until(&d, records(&d) == 1);
    expect_reason(&d, "failed", "reported 1 !spoilt");
    cr_assert_eq(count(&d, "LLEN email:backup"), MANY - 1 + count(&d, "HLEN sidecar:email:sentinel") / 2,
                 "the other jobs must stay in backup");
    cr_assert_geq(metric_get(&of(&d)->passes), 2, "scans must end");
    cr_assert_eq(logged(), 1);
    cr_assert_eq(logged_end(), 0);
    redis_ok(d.f.r, "DEL email:delayed");
    fixture_step_boottime(5001);
    until(&d, count(&d, "ZCARD email:delayed") >= 300);
    try_until(&d, logged_end() == 1);
}

/* Between two pages workers finish all jobs that the first page has read. Among large jobs the scan does not go back, so it may
 * miss jobs. */
static void lose_place(void) {
    monitor_t *m = d.instance.monitor;
    const scan_t *scan = &m->scans[0];
    monitor_reset(m);
    cr_assert(monitor_begin_scans(m) && monitor_next_turn(m));
    cr_assert_eq(scan->state, SCAN_READ);
    while (scan->state == SCAN_READ && scan->of.pass.answered == 0) cr_assert(monitor_step_scan(m));
    redis_ok(d.f.r, "LTRIM email:backup 0 -61");
    while (scan->state == SCAN_READ && !scan->of.pass.incomplete) cr_assert(monitor_step_scan(m));
    cr_assert_eq(scan->state, SCAN_READ, "the scan has lost its place");
    while (scan->state == SCAN_READ) cr_assert(monitor_step_scan(m));
}

Test(redis_monitor_faults, a_refusal_in_an_incomplete_scan_is_reported, .timeout = 60) {
    open_setup(&d, (fixture_options_t){
                       .config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; rotation = 10; }; queues = ( " QUEUE(
                           "retry_times = 9;") " );"});
    driver_run(&d.instance.driver, 100);
    redis_ok(d.f.r, "SET email x");
    redis_ok(d.f.r, "EVAL %s 1 email:backup",
             "for i = 1, 200 do redis.call('LPUSH', KEYS[1], 'job' .. i .. string.rep('x', 40000)) end");
    for (int i = 1; i <= 200; i++) {
        char job[40010];
        int head = snprintf(job, sizeof job, "job%d", i);
        memset(job + head, 'x', 40000);
        set_stamp(d.f.r, (slice_t){job, (size_t)head + 40000}, (stamp_t){.born_us = 1, .seen = 1});
    }
    lose_place();
    cr_assert_eq(logged(), 1);
}

Test(redis_monitor_faults, a_blocked_settle_is_not_tried_for_every_job, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.proxy = true, .config = ALONE("retry_times = 9;")});
    redis_ok(d.f.r, "SET email x");
    fill("email:backup", MANY);
    until(&d, metric_get(&of(&d)->faults) > 0);
    long before = proxy_requests(d.f.proxy, "retried");
    int64_t faults = metric_get(&of(&d)->faults);
    fixture_step_boottime(5001);
    until(&d, metric_get(&of(&d)->faults) > faults);
    cr_assert_leq(proxy_requests(d.f.proxy, "retried") - before, 256, "a scan must stop settling after one page");
    redis_ok(d.f.r, "DEL email");
    fixture_step_boottime(5001);
    until(&d, count(&d, "LLEN email") >= 300);
}

/* In KMQueue each task names its own list. */
Test(redis_monitor_faults, a_list_of_the_wrong_type_does_not_delay_other_tasks, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
    char *stuck = km_json(d.f.r, (km_t){.common = true}), *bytes = km_json(d.f.r, (km_t){.queue = PLAIN, .common = true}),
         *again = km_again(bytes, 0, "normal");
    redis_ok(d.f.r, "HSET " SAFE " x y");
    for (int i = 0; i < MANY; i++) {
        char id[40];
        snprintf(id, sizeof id, "\"id\":\"n-%d\"", i);
        char *one = km_with(stuck, "\"id\":\"t-1\"", id);
        redis_ok(d.f.r, "LPUSH " BACKUP " %s", one);
        free(one);
    }
    until(&d, metric_get(&of(&d)->faults) > 0);
    km_take(&d, bytes);
    try_until(&d, in(&d, PLAIN, again));
    cr_assert_eq(logged(), 2, "once by the scans, once by the count of unique ids");
    cr_assert_geq(metric_get(&of(&d)->passes), 2);
    redis_ok(d.f.r, "DEL " SAFE);
    fixture_step_boottime(5001);
    until(&d, count(&d, "LLEN " SAFE) >= 300);
    free(stuck), free(bytes), free(again);
}

/* If Redis refuses to read a heartbeat, the job counts as alive; the other jobs of its page are settled. */
Test(redis_monitor_faults, a_refused_heartbeat_read_delays_no_other_job) {
    open_setup(&d, (fixture_options_t){
                       .proxy = true,
                       .config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; "
                                 "protected_timeout = \"100ms\"; id_path = \"/id\"; } );"});
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "bad_alive", .error = "-NOPERM x", .times = -1});
    work_on(&d, "{\"id\":\"bad\"}");
    work_on(&d, "{\"id\":\"good\"}");
    try_until(&d, waiting(&d, "{\"id\":\"good\"}"));
    cr_assert_eq(working(&d, "{\"id\":\"bad\"}"), 1);
    cr_assert_eq(logged(), 1);
    proxy_pass(d.f.proxy);
    fixture_step_boottime(5001);
    until(&d, waiting(&d, "{\"id\":\"bad\"}"));
    try_until(&d, logged_end() == 1);
}

/* One job whose keys Redis refuses: the other jobs of its request are settled. */
Test(redis_monitor_faults, a_refused_job_delays_no_other_job) {
    for (int place = 0; place < 3; place++) {
        open_setup(&d, (fixture_options_t){.proxy = true, .config = ALONE("retry_times = 1;")});
        proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "spoilt", .error = "-NOPERM x", .times = -1});
        for (int i = 0; i < 3; i++) redis_ok(d.f.r, "LPUSH email:backup %s%d", i == place ? "spoilt" : "job", i);
        try_until(&d, count(&d, "LLEN email") == 2);
        redis_ok(d.f.r, "LMOVE email email:backup RIGHT LEFT");
        try_until(&d, records(&d) == 3);
        cr_assert_eq(count(&d, "LLEN email"), 1);
        cr_assert_eq(logged(), place + 1);
        proxy_pass(d.f.proxy);
        fixture_step_boottime(5001);
        until(&d, count(&d, "LLEN email") == 2);
        close_setup(&d);
    }
}

/* Redis refuses only a request at the end of each scan. The condition lasts until the request succeeds. */
static void expect_reported_once(void) {
    until(&d, metric_get(&of(&d)->faults) > 0);
    int64_t passes = metric_get(&of(&d)->passes);
    try_until(&d, metric_get(&of(&d)->faults) >= 4);
    cr_assert_geq(metric_get(&of(&d)->passes), passes + 3, "scans must end");
    cr_assert_eq(logged(), 1);
    cr_assert_eq(logged_end(), 0);
    redis_ok(d.f.r, "ACL SETUSER default +@all");
    try_until(&d, logged_end() == 1);
    cr_assert_eq(logged(), 1);
}

#define LONG_LIVED                                                                                                               \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; protected_timeout = \"1h\"; "      \
    "heartbeat = \"off\"; retry_window = \"24h\"; } );"

Test(redis_monitor_faults, a_refused_sentinel_push_is_reported_once) {
    open_setup(&d, (fixture_options_t){.config = LONG_LIVED});
    work_on(&d, "job");
    until(&d, count(&d, "LLEN email:backup") == 2 && count(&d, "HLEN sidecar:email:stamps") == 1);
    redis_ok(d.f.r, "ACL SETUSER default -hset");
    redis_ok(d.f.r, "EVAL %s 1 email:backup", "redis.call('DEL', KEYS[1]) redis.call('LPUSH', KEYS[1], 'job')");
    expect_reported_once();
    until(&d, count(&d, "LLEN email:backup") == 2);
}

Test(redis_monitor_faults, a_refused_report_removal_is_reported_once) {
    open_setup(&d, (fixture_options_t){.config = LONG_LIVED});
    redis_ok(d.f.r, "ACL SETUSER default -hdel");
    redis_ok(d.f.r, "HSET email:errors %s boom", "nobody's job");
    expect_reported_once();
    until(&d, metric_get(&of(&d)->stray_reports) == 1);
    cr_assert_eq(count(&d, "HLEN email:errors"), 0);
}

/* A monitor that loses the lock forgets the refusal without a line that Redis accepts its requests again. */
static void expect_no_end(void) {
    until(&d, metric_get(&of(&d)->faults) > 0);
    redis_ok(d.f.r, "SET sidecar:app:lock another PX 600000");
    for (int i = 0; i < 3; i++) {
        fixture_step_boottime(5001);
        driver_run(&d.instance.driver, 60);
    }
    cr_assert_eq(logged(), 1);
    cr_assert_eq(logged_end(), 0);
}

Test(redis_monitor_faults, a_refused_sentinel_push_is_forgotten_when_fenced) {
    open_setup(&d, (fixture_options_t){.config = LONG_LIVED});
    work_on(&d, "job");
    until(&d, count(&d, "LLEN email:backup") == 2 && count(&d, "HLEN sidecar:email:stamps") == 1);
    redis_ok(d.f.r, "ACL SETUSER default -hset");
    redis_ok(d.f.r, "EVAL %s 1 email:backup", "redis.call('DEL', KEYS[1]) redis.call('LPUSH', KEYS[1], 'job')");
    expect_no_end();
}

Test(redis_monitor_faults, a_refused_report_removal_is_forgotten_when_fenced) {
    open_setup(&d, (fixture_options_t){.config = LONG_LIVED});
    redis_ok(d.f.r, "ACL SETUSER default -hdel");
    redis_ok(d.f.r, "HSET email:errors %s boom", "nobody's job");
    expect_no_end();
}

/* Another error stops a scan. The next scan does not report the refusals of the stopped scan. */
Test(redis_monitor_faults, the_next_scan_forgets_refusals_of_a_stopped_scan) {
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 9;")});
    redis_ok(d.f.r, "SET email x");
    redis_ok(d.f.r, "ACL SETUSER default -hscan");
    redis_ok(d.f.r, "HSET sidecar:email:stamps %s x", "of a job that is gone");
    redis_ok(d.f.r, "LPUSH email:backup job");
    try_until(&d, metric_get(&of(&d)->faults) >= 4); /* the second scan at the latest finds the job stalled */
    redis_ok(d.f.r, "ACL SETUSER default +hscan");
    redis_ok(d.f.r, "DEL email");
    int before = logged();
    try_until(&d, logged_end() == 1);
    cr_assert_eq(logged(), before, "%s", fixture_log());
}

/* A job that arrives in an idle queue begins a scan, so a refusal is reported (/readyz) at once. */
Test(redis_monitor_faults, a_missing_right_is_reported_when_a_job_needs_it) {
    open_setup(&d, (fixture_options_t){.config = SLOW("")});
    driver_run(&d.instance.driver, 100); /* until the queue waits for a change */
    redis_ok(d.f.r, "ACL SETUSER default -hset");
    work_on(&d, "job");
    until(&d, metrics_is_refused(of(&d), mono_now()));
    for (int i = 0; i < 5; i++) {
        fixture_step_boottime(5001);
        driver_run(&d.instance.driver, 60);
        cr_assert(metrics_is_refused(of(&d), mono_now()), "the refusal was forgotten before the next attempt");
    }
    cr_assert_eq(logged(), 1);
    redis_ok(d.f.r, "ACL SETUSER default +hset");
    try_until(&d, count(&d, "HLEN sidecar:email:stamps") == 1 && logged_end() == 1);
}
