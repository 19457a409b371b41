/* Dialect stream: the monitor gives entries of dead consumers back as copies, and the dispatcher adds due jobs. */
#include "stream_fixture.h"

#include "wait.h"

static setup_t d;
SUITE(redis_groups, , close_setup(&d));

Test(redis_groups, an_entry_of_a_dead_consumer_comes_back_as_a_copy) {
    open_mail(&d, MAIL("retry_times = 1; dlq = \"mail:dead\";"));
    char *first = add(&d, "job");
    cr_assert_eq(take(&d, "w1"), 1);
    until(&d, reasons(&d, "stalled") == 1);
    cr_assert_eq(pending(&d), 0);
    cr_assert_eq(entries(&d, "mail", "job"), 1, "the old entry must be gone");
    cr_assert_eq(redis_int(d.f.r, "XACK mail workers %s", first), 0, "a late XACK must do nothing");
    expect_value(&d, "retried", "worker", "w1");
    expect_value(&d, "retried", "dialect", "stream");
    cr_assert_eq(take(&d, "w2"), 1); /* another consumer dies with the copy */
    until(&d, reasons(&d, "retries_exhausted") == 1);
    cr_assert_eq(pending(&d) + count(&d, "XLEN mail"), 0);
    cr_assert_eq(entries(&d, "mail:dead", "job"), 1);
    expect_value(&d, "failed", "attempts", "2");
    expect_value(&d, "failed", "worker", "w2");
    expect_value(&d, "failed", "payload", "job");
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), 0);
}

Test(redis_groups, a_consumer_that_acknowledges_keeps_its_entries) {
    open_mail(&d, MAIL_IN("1h", ""));
    for (int i = 0; i < 5; i++) add(&d, "job");
    take(&d, "w1");
    passes(&d, 3);
    cr_assert_eq(pending(&d), 5);
    cr_assert_eq(records(&d) + count(&d, "EXISTS sidecar:email:stamps"), 0, "healthy entries need no stamp");
}

/* Deliveries to consumers that claim an entry count, too. */
Test(redis_groups, deliveries_of_one_id_count) {
    open_mail(&d, MAIL("retry_times = 2;"));
    char *id = add(&d, "job");
    take(&d, "w1");
    redis_ok(d.f.r, "XCLAIM mail workers w2 0 %s", id);
    redis_ok(d.f.r, "XCLAIM mail workers w3 0 %s", id);
    until(&d, records(&d) == 1);
    expect_value(&d, "failed", "attempts", "3");
    expect_value(&d, "failed", "worker", "w3");
}

Test(redis_groups, a_heartbeat_of_the_consumer_protects_its_entries) {
    open_mail(&d, MAIL("heartbeat = \"alive:*\";"));
    redis_ok(d.f.r, "SET alive:slow 1");
    add(&d, "long job");
    take(&d, "slow");
    add(&d, "job");
    take(&d, "dead");
    until(&d, entries(&d, "mail", "job") == 1 && reasons(&d, "stalled") == 1);
    passes(&d, 3);
    cr_assert_eq(pending(&d), 1);
    expect_value(&d, "retried", "worker", "dead");
    redis_ok(d.f.r, "DEL alive:slow");
    until(&d, pending(&d) == 0);
}

/* From Redis 7.2 on the server knows when a consumer was last there. */
Test(redis_groups, the_idle_time_of_a_consumer_is_a_heartbeat) {
    open_mail(&d, MAIL("heartbeat = \"consumer\"; consumer_timeout = \"1s\";"));
    if (server_major(d.f.server) < 8) cr_skip("this server does not tell when a consumer was last there");
    add(&d, "job");
    take(&d, "slow");
    int64_t end_us = wait_now_us() + 3000000;
    while (wait_now_us() < end_us) {
        take(&d, "slow"); /* it polls while it works */
        driver_run(&d.instance.driver, 50);
        if (pending(&d) == 0) break;
    }
    cr_assert_eq(pending(&d), 1, "a consumer that polls is alive");
    until(&d, pending(&d) == 0 && entries(&d, "mail", "job") == 1);
}

/* Each script reads all consumers in one step. */
Test(redis_groups, more_consumers_than_a_slice_can_read_are_refused) {
    open_mail_with(&d, (fixture_options_t){.config = MAIL("heartbeat = \"consumer\"; consumer_timeout = \"50ms\";"),
                                           .redis = "slice = \"50us\""});
    make_group(&d);
    add(&d, "job");
    take(&d, "w0");
    for (int i = 1; i <= 10; i++) redis_ok(d.f.r, "XGROUP CREATECONSUMER mail workers w%d", i);
    until(&d, fixture_log_count("the group \\\"workers\\\" of the stream \\\"mail\\\" has 11 consumers") > 0);
    cr_expect_gt(fixture_log_count("redis.slice has room for 10: remove"), 0);
    cr_expect_gt(fixture_log_count("or set redis.slice to 55us or more"), 0);
    driver_run(&d.instance.driver, 300);
    cr_assert_eq(pending(&d), 1);
    redis_ok(d.f.r, "XGROUP DELCONSUMER mail workers w9");
    fixture_step_boottime(10000); /* the pause after a refusal */
    until(&d, pending(&d) == 0 && entries(&d, "mail", "job") == 1);
}

/* A name may have any bytes. */
Test(redis_groups, the_name_of_a_consumer_may_have_any_bytes) {
    open_mail(&d, MAIL("retry_times = 1;"));
    char *id = add(&d, "job");
    redis_ok(d.f.r, "XREADGROUP GROUP workers %b STREAMS mail >", "w\0\xff", (size_t)3);
    cr_assert_eq(pending(&d), 1);
    until(&d, reasons(&d, "stalled") == 1);
    cr_assert_eq(redis_int(d.f.r, "XACK mail workers %s", id), 0);
}

Test(redis_groups, due_members_become_entries) {
    open_mail(&d, MAIL_IN("1h", "score_unit = \"s\";"));
    redis_ok(d.f.r, "ZADD mail:delayed 1000000001 b 1000000000 a 99999999999 later");
    until(&d, count(&d, "XLEN mail") == 2);
    redis_expect(d.f.r, "later", "EVAL %s 1 mail:delayed", "return redis.call('ZRANGE', KEYS[1], 0, -1)[1]");
    redis_expect(d.f.r, "data a data b", "EVAL %s 1 mail",
                 "local out = {} for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
                 "out[#out + 1] = table.concat(e[2], ' ') end return table.concat(out, ' ')");
}

Test(redis_groups, a_retry_with_backoff_goes_through_delayed) {
    open_mail(&d, MAIL("retry_times = 3; retry_backoff = \"fixed\"; retry_delay = \"200ms\"; retry_window = \"1h\";"));
    add(&d, "job");
    redis_ok(d.f.r, "XADD mail * data two other fields");
    take(&d, "w1");
    until(&d, records(&d) == 2);
    cr_assert_eq(entries(&d, "mail", "two"), 1, "an entry of other fields cannot be delayed");
    until(&d, entries(&d, "mail", "job") == 1);
    cr_assert_eq(count(&d, "EXISTS mail:delayed"), 0);
}

Test(redis_groups, a_report_ends_or_retries_an_entry) {
    open_mail(&d, MAIL_IN("1h", "retry_times = 3;"));
    char *again = add(&d, "again"), *never = add(&d, "never");
    take(&d, "w1");
    redis_ok(d.f.r, "HSET mail:errors %s timeout %s !invalid 1-1 orphan", again, never);
    until(&d, records(&d) == 2 && count(&d, "EXISTS mail:errors") == 0);
    cr_assert_eq(entries(&d, "mail", "again"), 1);
    cr_assert_eq(entries(&d, "mail", "never") + pending(&d), 0);
    expect_value(&d, "failed", "error", "!invalid");
    expect_value(&d, "retried", "error", "timeout");
}

static void report_and_await(const char *value, const char *report) {
    char *id = add(&d, value);
    take(&d, "w1");
    driver_settle(&d.instance.driver, d.f.r);
    redis_ok(d.f.r, "HSET mail:errors %s %s", id, report);
    until(&d, count(&d, "EXISTS mail:errors") == 0);
}

/* The next scan without a wake-up would begin in an hour. */
Test(redis_groups, a_report_wakes_the_monitor) {
    open_mail(&d, MAIL_EVERY("1h", "1h", "retry_times = 1;"));
    report_and_await("one", "boom");
    report_and_await("two", "!no");
    report_and_await("three", "boom");
    cr_assert_eq(reasons(&d, "reported"), 3);
}

/* A consumer may get the entry after its report was read, so it takes two scans. The second one does not wait for its interval.
 */
Test(redis_groups, a_report_without_its_entry_is_removed_soon) {
    open_mail(&d, MAIL_EVERY("1h", "1h", ""));
    add(&d, "job");
    take(&d, "w1");
    driver_settle(&d.instance.driver, d.f.r);
    redis_ok(d.f.r, "HSET mail:errors 1-1 orphan");
    until(&d, count(&d, "EXISTS mail:errors") == 0);
    cr_assert_eq(fixture_log_count("removed a report whose job is not in progress"), 1);
    cr_assert_eq(pending(&d), 1);
}

Test(redis_groups, without_tracking_reports_are_looked_for) {
    open_mail_with(&d, (fixture_options_t){.proxy = true,
                                           .config = "dispatcher = { blind_poll = \"100ms\"; }; " MAIL_EVERY("1h", "1h", "")});
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "CLIENT TRACKING", .error = "-NOPERM no", .times = -1});
    make_group(&d);
    until(&d, proxy_fired(d.f.proxy) > 0);
    report_and_await("one", "boom");
    report_and_await("two", "boom");
    cr_assert_eq(reasons(&d, "reported"), 2);
}

/* A report may be of any entry, so a scan for it reads all. Steady reports must leave Redis most of the time. */
Test(redis_groups, steady_reports_do_not_make_scans_steady) {
    open_mail(&d, MAIL_EVERY("1h", "1h", ""));
    for (int i = 0; i < 2000; i++) add(&d, "job");
    take(&d, "w1");
    driver_settle(&d.instance.driver, d.f.r);
    int64_t scans = metric_get(&of(&d)->passes), end_us = wait_now_us() + 2000000;
    for (int i = 0; wait_now_us() < end_us; i++) {
        redis_ok(d.f.r, "HSET mail:errors %d-1 orphan", i);
        driver_run(&d.instance.driver, 20);
    }
    scans = metric_get(&of(&d)->passes) - scans;
    cr_assert(scans >= 1 && scans <= 3, "%lld scans", (long long)scans);
}

Test(redis_groups, an_entry_that_is_deleted_while_pending_ends_without_payload) {
    open_mail(&d, MAIL("dlq = \"mail:dead\";"));
    add(&d, "one");
    add(&d, "two");
    take(&d, "w1");
    redis_ok(d.f.r, "XTRIM mail MAXLEN 0");
    until(&d, reasons(&d, "unreadable") == 2);
    cr_assert_eq(pending(&d), 0);
    expect_value(&d, "failed", "payload", NULL);
    expect_value(&d, "failed", "worker", "w1");
    cr_assert_eq(count(&d, "EXISTS mail:dead"), 0);
    add(&d, "three"); /* the queue goes on */
    take(&d, "w1");
    until(&d, reasons(&d, "stalled") == 1);
}

/* Scripts read several entries at once. */
Test(redis_groups, entries_that_are_done_or_deleted_between_dead_ones_do_not_come_back) {
    enum { JOBS = 40 };
    char *ids[JOBS];
    int done = 0, deleted = 0;
    open_mail(&d, MAIL("retry_times = 5;"));
    for (int i = 0; i < JOBS; i++) ids[i] = add(&d, kept(mem_printf("job%d", i)));
    take(&d, "w1");
    for (int i = 20; i < JOBS; i += 3, done++) redis_ok(d.f.r, "XACK mail workers %s", ids[i]);
    for (int i = 4; i < JOBS; i += 6, deleted++) redis_ok(d.f.r, "XDEL mail %s", ids[i]);
    until(&d, pending(&d) == 0);
    cr_assert_eq(reasons(&d, "unreadable"), deleted);
    cr_assert_eq(reasons(&d, "stalled"), JOBS - done - deleted);
    cr_assert_eq(count(&d, "XLEN mail"), JOBS - deleted);
    for (int i = 0; i < JOBS; i++) cr_assert_eq(entries(&d, "mail", kept(mem_printf("job%d", i))), i % 6 != 4, "job %d", i);
}

/* A copy would reach the other group, too. Promotion goes on: both groups are meant to get each job. */
Test(redis_groups, a_second_group_stops_the_monitor_but_not_the_dispatcher) {
    open_mail(&d, MAIL("retry_times = 1;"));
    add(&d, "job");
    take(&d, "w1");
    redis_ok(d.f.r, "XGROUP CREATE mail audit 0");
    until(&d, fixture_log_count("has 2 groups (\\\"audit\\\", \\\"workers\\\")") > 0);
    redis_ok(d.f.r, "ZADD mail:delayed 1 due");
    until(&d, entries(&d, "mail", "due") == 1);
    driver_run(&d.instance.driver, 300);
    cr_assert_eq(pending(&d), 1);
    cr_assert_eq(records(&d), 0);
    redis_ok(d.f.r, "XGROUP DESTROY mail audit");
    fixture_step_boottime(10000); /* the pause after a refusal */
    until(&d, pending(&d) == 0 && reasons(&d, "stalled") == 1);
}

/* XADD would make a stream without the group, whose next reader may begin behind the job. */
Test(redis_groups, without_the_group_jobs_stay_delayed) {
    open_mail(&d, MAIL_IN("1h", ""));
    add(&d, "job");
    take(&d, "w1");
    redis_ok(d.f.r, "DEL mail");
    redis_ok(d.f.r, "ZADD mail:delayed 1 due");
    until(&d, fixture_log_count("has no group \\\"workers\\\"") > 0 && fixture_log_count("consumer group 'workers'") > 0);
    cr_assert_eq(count(&d, "EXISTS mail"), 0);
    cr_assert_eq(count(&d, "ZCARD mail:delayed"), 1);
    make_group(&d);
    fixture_step_boottime(10000);
    until(&d, entries(&d, "mail", "due") == 1);
    redis_ok(d.f.r, "XGROUP DESTROY mail workers");
    redis_ok(d.f.r, "ZADD mail:delayed 1 next");
    driver_run(&d.instance.driver, 300);
    cr_assert_eq(count(&d, "ZCARD mail:delayed"), 1);
}

Test(redis_groups, a_stream_of_the_wrong_type_loses_nothing) {
    open_mail_with(&d, (fixture_options_t){.config = MAIL_IN("1h", "")});
    redis_ok(d.f.r, "RPUSH mail precious");
    redis_ok(d.f.r, "ZADD mail:delayed 1 due");
    until(&d, fixture_log_count("mail holds a list") > 0);
    driver_run(&d.instance.driver, 300);
    cr_assert_eq(count(&d, "ZCARD mail:delayed") + count(&d, "LLEN mail"), 2);
}

/* Equal entries share a stamp, so none ends while several are overdue. */
Test(redis_groups, equal_entries_are_given_back_and_not_ended) {
    open_mail(&d, MAIL("retry_times = 0;"));
    add(&d, "same");
    add(&d, "same");
    take(&d, "w1");
    until(&d, reasons(&d, "stalled") > 0);
    until(&d, pending(&d) == 0);
    cr_assert_eq(entries(&d, "mail", "same") + reasons(&d, "retries_exhausted"), 2);
}

Test(redis_groups, fields_and_bytes_of_an_entry_survive) {
    open_mail(&d, MAIL("retry_times = 1; id_path = \"/id\";"));
    redis_ok(d.f.r, "XADD mail * data %s %b %b", "{\"id\":\"a1\"}", "\xff\x00k", (size_t)3, "\x00\xfe", (size_t)2);
    take(&d, "w1");
    until(&d, reasons(&d, "stalled") == 1);
    cr_assert_eq(
        redis_int(
            d.f.r, "EVAL %s 1 mail %b %b",
            "local f = redis.call('XRANGE', KEYS[1], '-', '+')[1][2] return #f == 4 and f[3] == ARGV[1] and f[4] == ARGV[2] "
            "and 1 or 0",
            "\xff\x00k", (size_t)3, "\x00\xfe", (size_t)2),
        1);
    expect_value(&d, "retried", "job", "a1");
    take(&d, "w1");
    until(&d, reasons(&d, "retries_exhausted") == 1);
    expect_value(&d, "failed", "payload",
                 "[[\"data\",\"{\\\"id\\\":\\\"a1\\\"}\"],[{\"base64\":\"/wBr\"},{\"base64\":\"AP4=\"}]]");
}

Test(redis_groups, an_oversized_entry_stays_pending) {
    open_mail(&d, MAIL("max_payload = \"1KiB\";"));
    char *big = kept(calloc(1, 2001));
    memset(big, 'x', 2000);
    add(&d, big);
    take(&d, "w1");
    add(&d, "job");
    take(&d, "w1");
    until(&d, entries(&d, "mail", "job") == 1 && reasons(&d, "stalled") == 1);
    passes(&d, 2);
    cr_assert_eq(pending(&d), 1);
    cr_assert_gt(fixture_log_count("left an entry larger than max_payload in the stream"), 0);
}

/* XCLAIM takes any number, also one that Lua rounds. */
Test(redis_groups, an_entry_of_any_number_of_deliveries_ends) {
    static const char *const numbers[] = {"9223372036854775807", "9007199254740993", "0"};
    open_mail(&d, MAIL("retry_times = 1;"));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char *id = add(&d, kept_printf("job%zu", i));
        take(&d, "w1");
        redis_ok(d.f.r, "XCLAIM mail workers w1 0 %s RETRYCOUNT %s JUSTID", id, numbers[i]);
    }
    until(&d, reasons(&d, "retries_exhausted") == 2 && reasons(&d, "stalled") == 1);
    cr_assert_eq(pending(&d), 0);
}

/* A script cannot pass so many names and values on. The entry stays, and is told. */
Test(redis_groups, an_entry_of_too_many_fields_stops_no_other) {
    open_mail(&d, MAIL("retry_times = 1;"));
    add(&d, "first"); /* Redis never undoes part of a script: its copy must not come before an error of the next one */
    redis_ok(d.f.r, "EVAL %s 1 mail",
             "local f = {} for i = 1, 7002 do f[i] = 'f' .. i end return redis.call('XADD', KEYS[1], '*', unpack(f))");
    add(&d, "job");
    take(&d, "w1");
    until(&d, reasons(&d, "stalled") == 2 && fixture_log_count("too many fields to be copied") > 0);
    cr_assert(pending(&d) == 1 && entries(&d, "mail", "first") == 1 && entries(&d, "mail", "job") == 1);
    fixture_step_boottime(10000); /* the pause after a refusal */
    take(&d, "w2");
    until(&d, reasons(&d, "retries_exhausted") == 2);
    cr_assert_eq(pending(&d), 1);
}

/* Each comes back once in the same bytes, and then ends with a payload that a requeue can read. */
Test(redis_groups, any_bytes_come_back_and_end) {
    enum { DEEP = 100000 };
    char *deep = kept(calloc(1, DEEP + 1));
    memset(deep, '[', DEEP);
    const char *const values[] = {"",   "[[",   "[[\"a\",\"b\"]]", "[[\"1-1\"]]", "{\"id\":", "\xff\xfe", "{\"id\":{},\"id\":1}",
                                  deep, "sound"};
    enum { VALUES = sizeof values / sizeof *values };
    open_mail(&d, MAIL("retry_times = 1; id_path = \"/id\";"));
    for (size_t i = 0; i < VALUES; i++) add(&d, values[i]);
    redis_ok(d.f.r, "XADD mail * %s %s", "", "");
    redis_ok(d.f.r, "XADD mail * %b %b", "\0", (size_t)1, "\xff\0", (size_t)2);
    take(&d, "w1");
    until(&d, reasons(&d, "stalled") == VALUES + 2);
    for (size_t i = 0; i < VALUES; i++) cr_assert_eq(entries(&d, "mail", values[i]), i == 0 ? 2 : 1, "%zu", i);
    cr_assert_eq(take(&d, "w2"), VALUES + 2);
    until(&d, reasons(&d, "retries_exhausted") == VALUES + 2);
    cr_assert_eq(count(&d, "XLEN mail") + pending(&d), 0);
}

/* The server knows how long an entry has been pending, also if no sidecar ran meanwhile. */
Test(redis_groups, an_overdue_entry_comes_back_at_first_sight) {
    open_mail(&d, MAIL_IN("1h", ""));
    redis_ok(d.f.r, "XADD mail 1700000000000-0 data job");
    take(&d, "w1");
    redis_ok(d.f.r, "XCLAIM mail workers w1 0 1700000000000-0 IDLE 7200000 RETRYCOUNT 1");
    until(&d, reasons(&d, "stalled") == 1);
    expect_value(&d, "retried", "created", "1700000000000");
    cr_assert_eq(pending(&d), 0);
}
