/* The auditor compares many streams in turns, some each minute, while its connection lasts. */
#include "auditor_fixture.h"
#include "base/buffer.h"

enum { QUEUES = 25, PART = 10 }; /* streams, and those that one comparison reads */

static setup_t d;

static void open_queues(void) {
    scoped(buffer_free) buffer_t queues = {0};
    for (int i = 0; i < QUEUES; i++) buffer_printf(&queues, "%s{ name = \"q%d\"; }", i ? ", " : "", i);
    open_auditor(&d, (fixture_options_t){0}, "", "", buffer_text(&queues));
}

/* Adds a new record to the streams of the queues from `first` up to `end`. */
static void add_records(int first, int end) {
    redis_ok(d.f.r, "EVAL %s 0 %d %d",
             "local time = redis.call('TIME') for i = ARGV[1], ARGV[2] - 1 do "
             "local event = redis.sha1hex(i .. time[1] .. time[2]) .. string.rep('0', 24) "
             "redis.call('XADD', 'sidecar:q' .. i .. ':failures', '*', 'event', event, 'kind', 'failed', 'queue', 'q' .. i, "
             "'job', i, 'at', time[1] .. '000') end",
             first, end);
}

static void delete_streams(void) {
    for (int i = 1; i < QUEUES; i++) redis_ok(d.f.r, "DEL sidecar:q%d:failures", i);
}

/* A new record of the first queue ends the XREAD, which waits by the server's clock. */
static void after_a_minute(void) {
    fixture_step_boottime(60000);
    add_records(0, 1);
    settle(&d);
}

static void copy_one_of_each(void) {
    open_queues();
    settle(&d);
    add_records(0, QUEUES);
    expect_rows(&d, QUEUES);
    settle(&d);
    delete_streams();
}

SUITE(redis_auditor_turns, , close_auditor(&d));

Test(redis_auditor_turns, each_stream_is_compared_within_minutes) {
    copy_one_of_each();
    for (int minute = 1; minute < 3; minute++) {
        after_a_minute();
        cr_expect_leq(gaps(&d), minute * PART, "%lld gaps after %d minutes", gaps(&d), minute);
        cr_expect_geq(gaps(&d), minute * PART - PART / 2, "%lld gaps after %d minutes", gaps(&d), minute);
    }
    after_a_minute();
    cr_assert_eq(gaps(&d), QUEUES - 1);
    cr_assert_eq(metric_get(&metrics_of(&d)->reconnects), 0);
}

Test(redis_auditor_turns, a_new_connection_compares_all_streams) {
    copy_one_of_each();
    after_a_minute();
    cr_assert_leq(gaps(&d), PART);
    redis_ok(d.f.r, "CLIENT KILL TYPE NORMAL SKIPME yes");
    cr_assert(driver_until(&d.instance.driver, gaps(&d) == QUEUES - 1, 10000), "%lld gaps", gaps(&d));
}

/* Streams of wrong types. Each is of another part. */
Test(redis_auditor_turns, all_streams_are_compared_while_one_is_unreadable) {
    open_queues();
    settle(&d);
    for (int i = 0; i < 3; i++) redis_ok(d.f.r, "LPUSH sidecar:q%d:failures x", 1 + i * PART);
    after_a_minute();
    cr_assert_eq(fixture_log_count("cannot read failure stream"), 3);
    for (int i = 0; i < 3; i++) redis_ok(d.f.r, "DEL sidecar:q%d:failures", 1 + i * PART);
    after_a_minute();
    cr_assert_eq(fixture_log_count("failure stream can be read again"), 3);
}
