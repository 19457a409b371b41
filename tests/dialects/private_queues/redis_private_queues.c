/* private_queues: the monitor finds the jobs of dead workers in their private lists, and changes no other key. */
#include "private_fixture.h"

static setup_t d;
SUITE(redis_private, , close_setup(&d));

Test(redis_private, a_stalled_job_goes_back_to_the_right_end_of_main) {
    open_fights(&d, FIGHTS("retry_times = 1;"));
    redis_ok(d.f.r, "RPUSH fights first next");
    take(&d, "w1", "job");
    until(&d, there(&d, "fights", "job"));
    redis_expect(d.f.r, "job", "RPOP fights"); /* the next worker takes it */
    cr_assert_eq(count(&d, "EXISTS queue-w1"), 0);
    expect_value(&d, "retried", "reason", "stalled");
    expect_value(&d, "retried", "dialect", "private_queues");
    expect_value(&d, "retried", "worker", "w1");
    take(&d, "w2", "job"); /* another worker dies with the job */
    until(&d, reasons(&d, "retries_exhausted") == 1);
    cr_assert_eq(count(&d, "EXISTS queue-w2"), 0);
    cr_assert_eq(there(&d, "fights", "job"), 0);
    expect_value(&d, "failed", "attempts", "2");
    expect_value(&d, "failed", "worker", "w2");
    expect_value(&d, "failed", "payload", "job");
    cr_assert_eq(count(&d, "LLEN fights"), 2);
}

Test(redis_private, a_worker_that_goes_on_is_left_alone) {
    open_setup(&d, (fixture_options_t){.config = FIGHTS_IN("1h", "retry_times = 1; "), .preload = "shim_clock"});
    char job[32];
    for (int i = 0; i < 10; i++) { /* each job takes less time than the timeout, all jobs together take more */
        snprintf(job, sizeof job, "job%d", i);
        take(&d, "w1", job);
        passes(&d, 2);
        server_step_clock(d.f.server, 40 * 60 * 1000);
        passes(&d, 2);
        redis_ok(d.f.r, "LREM queue-w1 1 %s", job);
    }
    cr_assert_eq(records(&d), 0);
    cr_assert_eq(count(&d, "EXISTS fights"), 0);
}

Test(redis_private, jobs_behind_the_tail_wait_for_their_turn) {
    open_fights(&d, FIGHTS_IN("400ms", "retry_times = 9;"));
    redis_ok(d.f.r, "RPUSH queue-w1 third second first");
    until(&d, there(&d, "fights", "first"));
    cr_assert_eq(count(&d, "LLEN queue-w1"), 2, "each job must have its own protected timeout");
    until(&d, count(&d, "EXISTS queue-w1") == 0);
    redis_expect(d.f.r, "third", "LINDEX fights -1");
    redis_expect(d.f.r, "first", "LINDEX fights 0"); /* the order is reversed, which is allowed */
}

Test(redis_private, a_missing_heartbeat_alone_proves_a_stall) {
    open_fights(&d, FIGHTS_IN("1h", "heartbeat = \"*_alive\";"));
    redis_ok(d.f.r, "SET living_alive 1");
    redis_ok(d.f.r, "RPUSH queue-dead second first");
    take(&d, "living", "its job");
    until(&d, count(&d, "EXISTS queue-dead") == 0);
    cr_assert_eq(there(&d, "queue-living", "its job"), 1);
    cr_assert_eq(count(&d, "LLEN fights"), 2);
    expect_value(&d, "retried", "worker", "dead");
    cr_assert_eq(metric_get(&of(&d)->stalled_by[CAUSE_worker_gone]), 2);
    redis_ok(d.f.r, "DEL living_alive");
    until(&d, there(&d, "fights", "its job"));
}

/* The two scans without a heartbeat must be a scan interval apart, however many scans there are. */
Test(redis_private, a_heartbeat_that_is_late_saves_the_job) {
    open_fights(&d, "group = \"app\"; monitor = { scan_interval = \"1h\"; }; queues = ( " FIGHTS_QUEUE(
                        "heartbeat = \"*_alive\"; protected_timeout = \"1h\"; retry_window = \"24h\";") " );");
    take(&d, "w1", "job");
    for (int i = 0; i < 6; i++) {
        instance_lead(&d.instance, d.f.r); /* a new term begins with a scan */
        passes(&d, 1);
    }
    cr_assert_eq(there(&d, "queue-w1", "job"), 1);
}

Test(redis_private, another_leader_keeps_the_stamps) {
    open_setup(&d, (fixture_options_t){.config = FIGHTS_IN("1h", "retry_times = 9;"), .preload = "shim_clock"});
    take(&d, "w1", "job");
    passes(&d, 2);
    stamp_t stamp = stamp_of(d.f.r, slice_text("job"));
    cr_assert(stamp.seen);
    instance_lead(&d.instance, d.f.r);
    passes(&d, 2);
    cr_assert(same_stamp(stamp_of(d.f.r, slice_text("job")), stamp), "a new term changed the stamp");
    server_step_clock(d.f.server, 3600 * 1000);
    until(&d, there(&d, "fights", "job"));
}

#define EVERYTHING                                                                                                               \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; dialect = \"private_queues\"; "    \
    "main = \"queue-main\"; private = \"queue-*\"; dlq = \"queue-dlq\"; dedup = \"queue-done\"; id_path = \"/id\"; "             \
    "protected_timeout = \"100ms\"; }, { name = \"queue-other\"; roles = [\"dispatcher\"]; } );"

Test(redis_private, never_takes_configured_keys_or_other_types) {
    static const char *const lists[] = {"queue-main", "queue-dlq", "queue-other"};
    open_fights(&d, EVERYTHING);
    for (size_t i = 0; i < 3; i++) redis_ok(d.f.r, "RPUSH %s precious", lists[i]);
    redis_ok(d.f.r, "SET queue-counter 7");
    redis_ok(d.f.r, "SADD queue-done 1");
    redis_ok(d.f.r, "ZADD queue-zset 1 precious");
    redis_ok(d.f.r, "RPUSH sidecar:queue-1 precious");
    redis_ok(d.f.r, "RPUSH queue-* named like the pattern"); /* the list of a worker called * */
    take(&d, "w1", "job");
    until(&d, there(&d, "queue-main", "job") && count(&d, "LLEN queue-*") == 0);
    for (size_t i = 0; i < 3; i++) cr_assert_eq(there(&d, lists[i], "precious"), 1, "%s", lists[i]);
    redis_expect(d.f.r, "7", "GET queue-counter");
    cr_assert_eq(count(&d, "SCARD queue-done") + count(&d, "ZCARD queue-zset") + count(&d, "LLEN sidecar:queue-1"), 3);
}

/* SCAN's special characters in a pattern match only themselves. */
Test(redis_private, only_the_star_of_a_pattern_is_special) {
    open_fights(&d, "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; dialect = "
                    "\"private_queues\"; main = \"fights\"; private = \"q[a-z]?\\\\*-end\"; protected_timeout = \"100ms\"; } );");
    redis_ok(d.f.r, "RPUSH %s job", "q[a-z]?\\w1-end");
    redis_ok(d.f.r, "RPUSH %s precious", "qab\\w1-end");
    redis_ok(d.f.r, "RPUSH %s precious", "q[a-z]?\\w1-end2");
    until(&d, there(&d, "fights", "job"));
    expect_value(&d, "retried", "worker", "w1");
    cr_assert_eq(count(&d, "LLEN fights"), 1);
}

#define REGISTRY(settings)                                                                                                       \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; dialect = \"private_queues\"; "    \
    "main = \"fights\"; registry = \"workers\"; protected_timeout = \"100ms\"; " settings " } );"

Test(redis_private, a_registry_names_the_lists) {
    static const char *const fills[] = {"SADD workers mine-1 fights sidecar:app:lock nothing",
                                        "HSET workers mine-1 host fights x", "RPUSH workers mine-1 mine-1 mine-1 fights"};
    for (size_t i = 0; i < 3; i++) {
        open_fights(&d, REGISTRY("retry_times = 0;"));
        redis_ok(d.f.r, "RPUSH queue-stranger precious");
        redis_ok(d.f.r, fills[i]);
        redis_ok(d.f.r, "RPUSH mine-1 job");
        redis_ok(d.f.r, "RPUSH fights waits");
        until(&d, reasons(&d, "retries_exhausted") == 1); /* a name that occurs three times makes no duplicates */
        expect_value(&d, "failed", "worker", "mine-1");
        cr_assert_eq(there(&d, "fights", "waits"), 1);
        cr_assert_eq(there(&d, "queue-stranger", "precious"), 1);
        close_setup(&d);
    }
}

/* HSCAN sends the values too: here 20 MB at once. */
Test(redis_private, a_registry_may_have_large_values) {
    static const char fill[] =
        "for i = 1, 500 do redis.call('HSET', 'workers', 'mine-' .. i, string.rep('x', 40000)) end return 1";
    open_fights(&d, REGISTRY(""));
    redis_ok(d.f.r, "EVAL %s 0", fill);
    redis_ok(d.f.r, "RPUSH mine-1 job");
    until(&d, there(&d, "fights", "job"));
    cr_assert_eq(redis_int(d.f.r, "LLEN mine-1"), 0);
    cr_assert_eq(redis_int(d.f.r, "LLEN fights"), 1);
}

Test(redis_private, a_registry_name_must_match_the_pattern) {
    open_fights(&d, REGISTRY("private = \"queue-*\";"));
    redis_ok(d.f.r, "SADD workers queue-w1 bank-accounts");
    redis_ok(d.f.r, "RPUSH bank-accounts precious");
    take(&d, "w1", "job");
    until(&d, there(&d, "fights", "job"));
    passes(&d, 4);
    cr_assert_eq(there(&d, "bank-accounts", "precious"), 1);
}

Test(redis_private, logs_a_registry_of_the_wrong_type) {
    open_fights(&d, REGISTRY(""));
    driver_run(&d.instance.driver, 100); /* no registry yet: no lists */
    redis_ok(d.f.r, "SET workers text");
    until(&d, metric_get(&of(&d)->faults) > 0);
    cr_assert(fixture_log_count("workers is a string") > 0);
}

Test(redis_private, equal_bytes_in_two_lists_are_retried_and_never_lost) {
    open_fights(&d, FIGHTS("retry_times = 0;"));
    passes(&d, 3);
    take(&d, "w1", "same");
    take(&d, "w2", "same");
    until(&d, count(&d, "EXISTS queue-w1 queue-w2") == 0);
    cr_assert_eq(there(&d, "fights", "same") + reasons(&d, "retries_exhausted"), 2);
}

/* A new leader does not know the duplicates yet, and settle.lua reads only one list. */
Test(redis_private, equal_bytes_in_two_lists_are_not_ended_by_a_new_leader) {
    open_fights(&d, FIGHTS_IN("1h", "retry_times = 0;"));
    take(&d, "w1", "same");
    take(&d, "w2", "same");
    passes(&d, 2);
    stamp_t stamp = stamp_of(d.f.r, slice_text("same"));
    stamp.seen -= 2 * 3600000;
    set_stamp(d.f.r, slice_text("same"), stamp);
    instance_lead(&d.instance, d.f.r);
    until(&d, there(&d, "fights", "same") || reasons(&d, "retries_exhausted"));
    cr_assert_eq(reasons(&d, "retries_exhausted"), 0);
}

/* One job's error does not stop the jobs of lists that a scan reads later. */
Test(redis_private, a_refused_job_does_not_stop_the_others, .timeout = 300) {
    char job[32];
    open_fights(&d, FIGHTS("registry = \"workers\"; dedup = \"fights-done\"; id_path = \"/id\";"));
    redis_ok(d.f.r, "SET fights-done text"); /* the monitor looks up only jobs with an id */
    for (int i = 0; i < 400; i++) {
        snprintf(job, sizeof job, i < 300 ? "{\"id\":\"%d\"}" : "job%d", i);
        redis_ok(d.f.r, "RPUSH workers queue-%d", i);
        redis_ok(d.f.r, "RPUSH queue-%d %s", i, job);
        if (i == 299) until(&d, metric_get(&of(&d)->faults) > 0);
    }
    cr_assert(
        driver_reaches(&d.instance.driver, count(&d, "LLEN fights"), 100, 20000)); /* a pause follows each scan with an error */
    redis_ok(d.f.r, "DEL fights-done");
    cr_assert(driver_reaches(&d.instance.driver, count(&d, "LLEN fights"), 400, 20000));
}

Test(redis_private, scans_ten_thousand_lists) {
    open_fights(&d, FIGHTS_IN("1h", ""));
    redis_ok(d.f.r, "EVAL %s 0", "for i = 1, 10000 do redis.call('RPUSH', 'queue-w' .. i, 'job' .. i) end");
    until(&d, metric_get(&of(&d)->in_progress) == 10000);
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), 10000);
    for (int i = 1; i <= 100; i++) redis_ok(d.f.r, "DEL queue-w%d", i); /* these jobs are finished */
    redis_ok(d.f.r, "EVAL %s 0", "for i = 101, 10000 do redis.call('DEL', 'queue-w' .. i) end");
    until(&d, count(&d, "HLEN sidecar:email:stamps") == 0);
    cr_assert_eq(records(&d), 0);
}

static double cpu_us(server_t *server) {
    char *info = server_info(server, "cpu"), *user = strstr(info, "used_cpu_user:"), *sys = strstr(info, "used_cpu_sys:");
    cr_assert(user && sys);
    return (strtod(user + strlen("used_cpu_user:"), NULL) + strtod(sys + strlen("used_cpu_sys:"), NULL)) * 1e6;
}

/* Each SCAN step through a large database blocks Redis for less than 1 ms. */
Test(redis_private, finds_lists_among_a_million_other_keys, .timeout = 120) {
    open_fights(&d, FIGHTS(""));
    for (int i = 0; i < 10; i++) redis_ok(d.f.r, "DEBUG POPULATE 100000 other%d", i);
    take(&d, "w1", "job");
    long long scans = server_commandstat(d.f.server, "scan");
    double began = cpu_us(d.f.server);
    cr_assert(driver_until(&d.instance.driver, there(&d, "fights", "job"), 60000));
    scans = server_commandstat(d.f.server, "scan") - scans;
    double each = (cpu_us(d.f.server) - began) / (double)scans;
    cr_assert_geq(scans, 2000);
    fprintf(stderr, "%lld steps of SCAN, %.0f us of Redis each\n", scans, each);
    cr_assert_lt(each, 1000);
}

Test(redis_private, keeps_oversized_jobs_and_retries_binary_jobs) {
    char *large = kept(malloc(17 << 20));
    memset(large, 'L', 17 << 20);
    open_fights(&d, FIGHTS(""));
    redis_ok(d.f.r, "RPUSH queue-w1 %b", large, (size_t)(17 << 20));
    redis_ok(d.f.r, "RPUSH queue-w2 %b", "\0\0\0", (size_t)3);
    redis_ok(d.f.r, "RPUSH queue-w3 %b", "", (size_t)0);
    redis_ok(d.f.r, "RPUSH queue-w4 %b", "\xff\xfe{", (size_t)3);
    until(&d, count(&d, "LLEN fights") == 3);
    cr_assert_eq(in_list(d.f.r, "fights", (slice_t){"\0\0\0", 3}), 1);
    cr_assert_eq(in_list(d.f.r, "fights", (slice_t){"", 0}), 1);
    cr_assert_eq(in_list(d.f.r, "fights", (slice_t){"\xff\xfe{", 3}), 1);
    cr_assert_eq(count(&d, "LLEN queue-w1"), 1);
    until(&d, metric_get(&of(&d)->passes) > 2);
    cr_assert_eq(metric_get(&of(&d)->large), 1, "one entry, however many scans have met it");
    cr_assert(fixture_log_count("larger than max_payload") > 0);
    redis_ok(d.f.r, "DEL queue-w1");
    until(&d, metric_get(&of(&d)->large) == 0);
}

/* The reply has more jobs than the request had lists. */
Test(redis_private, a_broken_reply_overflows_no_page) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = FIGHTS(""), .proxy = true});
    const scan_ops_t *ops = dialect_ops(f.config->queues[0].dialect)->scan;
    const call_t call = fixture_call(&f, NULL);
    void *lists = ops->open(&f.keys->queues[0]);
    backup_page_t page = {.count = 0};
    backup_status_t status;
    scoped(buffer_free) buffer_t broken = {0};
    buffer_printf(&broken, "*%d\r\n:1", 1 + 4 * 1000);
    for (int i = 0; i < 1000; i++) buffer_str(&broken, "\r\n:1\r\n$1\r\nx\r\n:1\r\n+");
    redis_ok(f.r, "LPUSH queue-w1 job");
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REPLACE, .match = "queue-w1", .error = buffer_text(&broken)});
    ops->status_append(&call, lists);
    cr_assert_eq(ops->status_read(&call, lists, &status), OUTCOME_OK, "%s", f.error.text);
    for (int i = 0; i < 2; i++) { /* the first page finds the name, the second reads the list */
        ops->page_append(&call, lists, BACKUP_PAGE);
        cr_assert_eq(ops->page_read(&call, lists, &page), OUTCOME_OK, "%s", f.error.text);
    }
    cr_assert_eq(page.count, 1);
    cr_assert_eq(page.vacant, 0);
    backup_page_clear(&page);
    ops->close(lists);
}

#define DEDUP(settings) FIGHTS("dedup = \"fights-done\"; id_path = \"/id\"; " settings)

Test(redis_private, drops_a_finished_job_instead_of_a_retry) {
    open_fights(&d, DEDUP("retry_times = 0;"));
    redis_ok(d.f.r, "SADD fights-done 7 eight");
    take(&d, "w1", "{\"id\":7}");
    take(&d, "w2", "{\"id\":\"eight\"}");
    take(&d, "w3", "{\"id\":\"nine\"}");
    take(&d, "w4", "no id");
    until(&d, reasons(&d, "retries_exhausted") == 2);
    until(&d, metric_get(&of(&d)->duplicates_dropped) == 2);
    cr_assert_eq(count(&d, "EXISTS queue-w1 queue-w2 queue-w3 queue-w4 fights"), 0);
    cr_assert_eq(records(&d), 2);
    cr_assert_eq(count(&d, "SCARD fights-done"), 2);
    cr_assert_eq(count(&d, "EXISTS sidecar:email:stamps"), 0);
}

Test(redis_private, a_dedup_set_of_the_wrong_type_keeps_the_job) {
    open_fights(&d, DEDUP(""));
    redis_ok(d.f.r, "SET fights-done text");
    take(&d, "w1", "{\"id\":7}");
    until(&d, metric_get(&of(&d)->faults) > 0);
    cr_assert_eq(count(&d, "LLEN queue-w1"), 1);
    cr_assert(fixture_log_count("holds a string") > 0);
    redis_ok(d.f.r, "DEL fights-done");
    redis_ok(d.f.r, "SADD fights-done 7");
}
