/* Dialect stream on every server: what else may happen to a stream while the monitor and the dispatcher work. */
#include "stream_fixture.h"

#include "every_server.h"

static setup_t d;
SUITE_WITHIN(120, redis_groups_servers, , close_setup(&d));

static void open_on(int number, const char *config) {
    const char *binary = every_server_binary(number);
    if (binary) setenv("QS_REDIS_SERVER_BIN", binary, 1);
    open_mail(&d, config);
}

/* Adds an entry, which a consumer gets and leaves; returns its id, kept. */
static char *add_pending(const char *value, const char *consumer) {
    char *id = add(&d, value);
    cr_assert_geq(take(&d, consumer), 1);
    return id;
}

static void mend(void) { fixture_step_boottime(10000); /* the pause after a refusal */ }

ON_EVERY_SERVER(redis_groups_servers, a_late_acknowledgement_does_nothing) {
    open_on(*number, MAIL("retry_times = 1; dlq = \"mail:dead\";"));
    char *first = add_pending("job", "w1");
    until(&d, reasons(&d, "stalled") == 1);
    cr_assert_eq(redis_int(d.f.r, "XACK mail workers %s", first), 0);
    cr_assert_eq(redis_int(d.f.r, "XDEL mail %s", first), 0);
    cr_assert_eq(entries(&d, "mail", "job"), 1);
    cr_assert_eq(take(&d, "w2"), 1, "the copy is read once");
    until(&d, reasons(&d, "retries_exhausted") == 1);
    cr_assert_eq(entries(&d, "mail:dead", "job"), 1);
    cr_assert_eq(count(&d, "XLEN mail") + pending(&d), 0);
}

ON_EVERY_SERVER(redis_groups_servers, a_second_group_stops_retries_until_it_goes) {
    open_on(*number, MAIL("retry_times = 1;"));
    redis_ok(d.f.r, "XGROUP CREATE mail workers2 0");
    add_pending("job", "w1");
    redis_ok(d.f.r, "ZADD mail:delayed 1 due");
    until(&d, fixture_log_count("has 2 groups (\\\"workers\\\", \\\"workers2\\\")") > 0 && entries(&d, "mail", "due") == 1);
    driver_run(&d.instance.driver, 300);
    cr_assert(pending(&d) == 1 && records(&d) == 0);
    redis_ok(d.f.r, "XGROUP DESTROY mail workers2");
    mend();
    until(&d, reasons(&d, "stalled") == 1);
    cr_assert(pending(&d) == 0 && entries(&d, "mail", "job") == 1);
}

ON_EVERY_SERVER(redis_groups_servers, trimmed_entries_end_without_payload) {
    open_on(*number, MAIL("retry_times = 1; dlq = \"mail:dead\";"));
    add_pending("one", "w1");
    add_pending("two", "w1");
    add(&d, "three");
    cr_assert_eq(redis_int(d.f.r, "XTRIM mail MAXLEN = 1"), 2);
    until(&d, reasons(&d, "unreadable") == 2);
    expect_value(&d, "failed", "payload", NULL);
    cr_assert(pending(&d) == 0 && entries(&d, "mail", "three") == 1 && count(&d, "EXISTS mail:dead") == 0);
    cr_assert_eq(take(&d, "w2"), 1);
    until(&d, reasons(&d, "stalled") == 1);
}

/* Delayed jobs wait for the group. The pending entries are lost with it: Redis has forgotten them. */
ON_EVERY_SERVER(redis_groups_servers, without_the_group_or_the_stream_nothing_moves) {
    open_on(*number, MAIL("retry_times = 1;"));
    add(&d, "kept");
    redis_ok(d.f.r, "XGROUP DESTROY mail workers");
    redis_ok(d.f.r, "ZADD mail:delayed 1 due");
    until(&d, fixture_log_count("has no group \\\"workers\\\"") > 0);
    driver_run(&d.instance.driver, 300);
    cr_assert(count(&d, "ZCARD mail:delayed") == 1 && count(&d, "XLEN mail") == 1);
    make_group(&d);
    mend();
    until(&d, entries(&d, "mail", "due") == 1);
    cr_assert_eq(take(&d, "w1"), 2, "a group that begins at 0 reads all");
    until(&d, reasons(&d, "stalled") == 2);
    redis_ok(d.f.r, "DEL mail");
    redis_ok(d.f.r, "ZADD mail:delayed 1 next");
    driver_run(&d.instance.driver, 300);
    cr_assert(count(&d, "ZCARD mail:delayed") == 1 && count(&d, "EXISTS mail") == 0);
    make_group(&d);
    mend();
    until(&d, entries(&d, "mail", "next") == 1);
}

/* Redis forgets the pending entries of a deleted consumer. Those of others go on, and XCLAIM FORCE makes the lost ones pending.
 */
ON_EVERY_SERVER(redis_groups_servers, entries_of_a_deleted_consumer_are_nobodys) {
    open_on(*number, MAIL_IN("2s", "retry_times = 1;"));
    char *lost = add_pending("lost", "w1");
    add_pending("other", "w2");
    cr_assert_eq(redis_int(d.f.r, "XGROUP DELCONSUMER mail workers w1"), 1);
    until(&d, reasons(&d, "stalled") == 1);
    expect_value(&d, "retried", "worker", "w2");
    passes(&d, 3);
    cr_assert(pending(&d) == 0 && records(&d) == 1 && entries(&d, "mail", "lost") == 1 && entries(&d, "mail", "other") == 1);
    cr_assert_eq(take(&d, "w3"), 1, "the copy alone: nobody reads the lost entry");
    redis_ok(d.f.r, "XCLAIM mail workers w3 0 %s IDLE 60000 RETRYCOUNT 1 FORCE", lost);
    until(&d, reasons(&d, "stalled") == 2);
    cr_assert_eq(take(&d, "w3"), 1);
}

/* A long scan_interval: only the report wakes the monitor. */
ON_EVERY_SERVER(redis_groups_servers, a_report_wakes_the_monitor) {
    open_on(*number, MAIL_EVERY("1h", "1h", "retry_times = 1;"));
    for (int i = 0; i < 2; i++) {
        char *id = add_pending("job", "w1");
        driver_settle(&d.instance.driver, d.f.r);
        redis_ok(d.f.r, "HSET mail:errors %s !no", id);
        until(&d, reasons(&d, "reported") == i + 1);
    }
    cr_assert_eq(count(&d, "EXISTS mail:errors") + pending(&d), 0);
}
