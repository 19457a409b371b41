/* The auditor copies every record of a failure stream into the audit log exactly once, also after faults of Redis, of the stream
 * and of the disk. The tests call the ticks of the auditor. */
#include "auditor_fixture.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void disconnect_auditor(setup_t *d) {
    redis_ok(d->f.r, "CLIENT KILL TYPE normal SKIPME yes");
    (void)d;
}

Test(redis_auditor, existing_and_new_records_are_copied) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", "{ name = \"email\"; }, { name = \"sms\"; }");
    audit_log_feed(d.f.r, "email", 0, 5, "1");
    expect_rows(&d, 5);
    expect_acknowledged(&d, "email", "1-4 ");
    audit_log_feed(d.f.r, "sms", 0, 1, "2");
    expect_rows(&d, 6);
    expect_acknowledged(&d, "sms", "2-0 ");
    audit_log_expect(d.path, "email", 0, 5);
    cr_assert_eq(audit_log_int(d.path,
                               "SELECT count(*) FROM events WHERE job = '3' AND length(payload) = 100 AND attempts = 4 AND "
                               "at = 1700000002003 AND reason = 'reported'"),
                 1);
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_rows), 6);
    cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->audit_lacks_ns) == 0, 5000));
    settle(&d);
    long before = proxy_requests(d.f.proxy, NULL), steps = driver_run(&d.instance.driver, 500);
    cr_assert_eq(proxy_requests(d.f.proxy, NULL), before, "an idle auditor sends requests");
    cr_assert_leq(steps, 3 + wait_scaled_ms(500) / 1000, "a step waits for a second: %ld", steps);
    cr_assert_eq(proxy_connections_total(d.f.proxy), 1);
    close_auditor(&d);
}

Test(redis_auditor, the_same_stream_gives_the_same_rows) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 3000, NULL);
    expect_rows(&d, 3000);
    char *first = audit_log_text(d.path);
    redis_ok(d.f.r, "DEL sidecar:email:auditors");
    restart(&d);
    cr_assert(driver_until(&d.instance.driver,
                           metric_get(&metrics_of(&d)->audit_rows) == 0 && redis_int(d.f.r, "HLEN sidecar:email:auditors"),
                           5000));
    settle(&d);
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_rows), 0);
    char *with = audit_log_text(d.path);
    cr_assert_str_eq(first, with);
    stop(&d);
    unlink(d.path); /* a new log copies all records again */
    char *wal = mem_printf("%s-wal", d.path), *shm = mem_printf("%s-shm", d.path);
    unlink(wal), unlink(shm);
    start(&d);
    expect_rows(&d, 3000);
    char *other = audit_log_text(d.path);
    cr_assert_str_eq(with, other);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "HLEN sidecar:email:auditors") == 1, 5000));
    cr_assert_eq(gaps(&d), 1); /* the lost log may have had more rows */
    free(first), free(with), free(other), free(wal), free(shm);
    close_auditor(&d);
}

Test(redis_auditor, redis_restarts_empty) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 10, NULL);
    expect_rows(&d, 10);
    redis_ok(d.f.r, "FLUSHALL");
    audit_log_feed(d.f.r, "email", 10, 10, NULL);
    expect_rows(&d, 20);
    server_restart(d.f.server, SERVER_LOSE_DATA);
    redis_close(d.f.r);
    d.f.r = redis_open(d.f.server);
    audit_log_feed(d.f.r, "email", 20, 10, NULL);
    expect_rows(&d, 30);
    audit_log_expect(d.path, "email", 0, 30);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "HLEN sidecar:email:auditors") == 1, 5000));
    cr_assert_leq(gaps(&d), 2); /* one for each loss of the last records of the stream */
    close_auditor(&d);
}

/* Others trimmed or deleted the stream while this auditor was away. */
Test(redis_auditor, a_stream_trimmed_by_others_is_a_gap) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 10, "5");
    expect_rows(&d, 10);
    expect_acknowledged(&d, "email", "5-9 ");
    stop(&d);
    redis_ok(d.f.r, "XTRIM sidecar:email:failures MAXLEN 3"); /* the log has the removed records: no gap */
    start(&d);
    settle(&d);
    cr_assert_eq(gaps(&d), 0);
    stop(&d);
    audit_log_feed(d.f.r, "email", 10, 10, "5");
    redis_ok(d.f.r, "XTRIM sidecar:email:failures MAXLEN 3");
    start(&d);
    expect_rows(&d, 13);
    cr_assert_eq(audit_log_int(d.path, "SELECT count(*) FROM events WHERE kind = 'gap' AND reason = 'removed_by_others' AND "
                                       "job = '5-9..5-17'"),
                 1);
    stop(&d);
    redis_ok(d.f.r, "DEL sidecar:email:failures");
    audit_log_feed(d.f.r, "email", 30, 2, "5");
    start(&d);
    expect_rows(&d, 15);
    cr_assert_eq(gaps(&d), 2);
    restart(&d);
    settle(&d);
    disconnect_auditor(&d);
    settle(&d);
    cr_assert_eq(gaps(&d), 2);
    cr_assert_geq(fixture_log_count("trimmed or deleted by others"), 1); /* repeated lines are suppressed for a while */
    close_auditor(&d);
}

Test(redis_auditor, a_deleted_stream_is_a_gap) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", "{ name = \"email\"; }, { name = \"sms\"; }");
    audit_log_feed(d.f.r, "email", 0, 10, "5");
    expect_rows(&d, 10);
    stop(&d);
    audit_log_feed(d.f.r, "email", 10, 10, "5");
    redis_ok(d.f.r, "DEL sidecar:email:failures");
    start(&d);
    cr_assert(driver_until(&d.instance.driver, gaps(&d) == 1, 5000), "%lld gaps", gaps(&d));
    cr_assert_eq(audit_log_int(d.path,
                               "SELECT count(*) FROM events WHERE kind = 'gap' AND reason = 'removed_by_others' AND queue = "
                               "'email' AND job = '5-9..' || at || '-0'"),
                 1);
    restart(&d);
    settle(&d);
    audit_log_feed(d.f.r, "email", 20, 10, NULL);
    expect_rows(&d, 20);
    restart(&d);
    settle(&d);
    cr_assert_eq(gaps(&d), 1);
    close_auditor(&d);
}

/* A reset stream counts as copied once it is read, not once the reset is noticed. */
Test(redis_auditor, a_reset_stream_is_read_from_the_beginning) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 10, "500");
    expect_rows(&d, 10);
    stop(&d);
    redis_ok(d.f.r, "DEL sidecar:email:failures");
    audit_log_feed(d.f.r, "email", 10, 10, "400");
    proxy_rule(d.f.proxy,
               (proxy_rule_t){.action = PROXY_REFUSE, .match = "XREAD COUNT", .error = "-LOADING a while", .times = -1});
    start(&d);
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("was reset") == 1, 5000));
    settle(&d);
    stop(&d);
    redis_ok(d.f.r, "XTRIM sidecar:email:failures MAXLEN 4"); /* by another instance, which leads */
    redis_ok(d.f.r, "HSET sidecar:email:meta trimmed %s", "400-15");
    proxy_pass(d.f.proxy);
    start(&d);
    expect_rows(&d, 14);
    cr_assert_eq(audit_log_int(d.path, "SELECT count(*) FROM events WHERE kind = 'gap' AND job = '0-0..400-15'"), 1);
    close_auditor(&d);
}

/* A reply that took longer than redis.timeout would time out again if it were as large. */
Test(redis_auditor, a_reply_that_times_out_is_requested_in_smaller_batches) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 40, NULL);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = "XREAD COUNT 16 "});
    cr_assert(driver_until(&d.instance.driver, proxy_fired(d.f.proxy) == 1, 5000));
    fixture_step_boottime(70000);
    cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->reconnects) == 1, 5000));
    fixture_step_boottime(3000);
    expect_rows(&d, 40);
    cr_assert_eq(proxy_requests(d.f.proxy, "XREAD COUNT 4 "), 2); /* while the batches grow, and after the timeout */
    close_auditor(&d);
}

/* No stream id can be higher. The auditor copies the stream as usual, and again after a reset. */
Test(redis_auditor, a_stream_at_the_highest_possible_id) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 3, "18446744073709551615");
    expect_rows(&d, 3);
    redis_ok(
        d.f.r, "EVAL %s 1 sidecar:email:failures",
        "return redis.call('XADD', KEYS[1], '18446744073709551615-18446744073709551615', 'event', string.rep('ab', 32), 'kind', "
        "'failed', 'job', '3', 'at', '1700000003000')");
    expect_rows(&d, 4);
    expect_acknowledged(&d, "email", "18446744073709551615-18446744073709551615 ");
    settle(&d);
    redis_ok(d.f.r, "HSET sidecar:email:auditors other %s", "18446744073709551615-18446744073709551615 1700000000000");
    redis_ok(d.f.r, "DEL sidecar:email:failures");
    disconnect_auditor(&d);
    cr_assert(driver_until(&d.instance.driver, gaps(&d) == 1, 5000));
    expect_acknowledged(&d, "email", "0-0 ");
    cr_assert_eq(redis_int(d.f.r, "HEXISTS sidecar:email:auditors other"), 0, "no log has records of the new stream");
    audit_log_feed(d.f.r, "email", 10, 3, "7");
    expect_rows(&d, 7);
    expect_acknowledged(&d, "email", "7-12 ");
    close_auditor(&d);
}

/* Ids go backwards after a failover to a lagging replica, or after a step of the clock. */
Test(redis_auditor, stream_ids_go_backwards) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 10, "500");
    expect_rows(&d, 10);
    redis_ok(d.f.r, "DEL sidecar:email:failures");
    audit_log_feed(d.f.r, "email", 5, 10, "400"); /* five records a second time */
    disconnect_auditor(&d);
    expect_rows(&d, 15);
    audit_log_expect(d.path, "email", 0, 15);
    cr_assert_eq(fixture_log_count("was reset"), 1);
    audit_log_feed(d.f.r, "email", 15, 1, "400");
    expect_rows(&d, 16);
    restart(&d);
    audit_log_feed(d.f.r, "email", 16, 1, "400");
    expect_rows(&d, 17);
    cr_assert_eq(fixture_log_count("was reset"), 1);
    /* A primary with the same ids for other records: only its replication id differs. */
    server_restart(d.f.server, SERVER_LOSE_DATA);
    redis_close(d.f.r);
    d.f.r = redis_open(d.f.server);
    audit_log_feed(d.f.r, "email", 100, 20, "400");
    expect_rows(&d, 37);
    redis_ok(d.f.r, "CONFIG SET save %s", "");
    redis_ok(d.f.r, "DEL sidecar:email:failures");
    for (int i = 0; i < 5; i++) {
        char low[4];
        snprintf(low, sizeof low, "%d", i + 1);
        audit_log_feed(d.f.r, "email", 200 + i, 1, low);
    }
    audit_log_feed(d.f.r, "email", 300, 1, "9000"); /* the last id is not lower than before */
    redis_ok(d.f.r, "DEBUG CHANGE-REPL-ID");
    disconnect_auditor(&d);
    expect_rows(&d, 43);
    cr_assert_eq(gaps(&d), 1, "one, where Redis lost the records after the last row");
    close_auditor(&d);
}

Test(redis_auditor, a_gap_is_one_row) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 10, "5");
    redis_ok(d.f.r, "XTRIM sidecar:email:failures MAXLEN 4");
    redis_ok(d.f.r, "HSET sidecar:email:meta trimmed %s", "5-5");
    expect_rows(&d, 4);
    cr_assert_eq(gaps(&d), 1);
    cr_assert_eq(audit_log_int(d.path, "SELECT count(*) FROM events WHERE kind = 'gap' AND queue = 'email' AND job = '0-0..5-5' "
                                       "AND at > 1700000000000"),
                 1);
    cr_assert_eq(metric_get(&metrics_of(&d)->gaps), 1);
    restart(&d);
    settle(&d);
    disconnect_auditor(&d);
    audit_log_feed(d.f.r, "email", 10, 1, "5");
    expect_rows(&d, 5);
    cr_assert_eq(gaps(&d), 1);
    stop(&d); /* the auditor is away until the next records are trimmed */
    audit_log_feed(d.f.r, "email", 11, 5, "5");
    redis_ok(d.f.r, "XTRIM sidecar:email:failures MAXLEN 2");
    redis_ok(d.f.r, "HSET sidecar:email:meta trimmed %s", "5-13");
    start(&d);
    expect_rows(&d, 7);
    cr_assert_eq(gaps(&d), 2);
    redis_ok(d.f.r, "HSET sidecar:email:meta trimmed %s", "5-15"); /* the log has the removed records: no gap */
    disconnect_auditor(&d);
    settle(&d);
    redis_ok(d.f.r, "DEL sidecar:email:failures"); /* `trimmed` is about the deleted stream */
    audit_log_feed(d.f.r, "email", 20, 1, "4");
    disconnect_auditor(&d);
    expect_rows(&d, 8);
    cr_assert_eq(gaps(&d), 2);
    close_auditor(&d);
}

Test(redis_auditor, a_stream_of_the_wrong_type_blocks_no_other) {
    enum { QUEUES = 50 };
    buffer_t queues = {0};
    for (int i = 0; i < QUEUES; i++) buffer_printf(&queues, "%s{ name = \"q%d\"; }", i ? ", " : "", i);
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", buffer_text(&queues));
    for (int i = 0; i < QUEUES; i++) {
        char name[8];
        snprintf(name, sizeof name, "q%d", i);
        audit_log_feed(d.f.r, name, 0, 10, NULL);
    }
    redis_ok(d.f.r, "RENAME sidecar:q17:failures aside");
    redis_ok(d.f.r, "LPUSH sidecar:q17:failures x");
    expect_rows(&d, 10 * (QUEUES - 1));
    redis_ok(d.f.r, "DEL sidecar:q30:failures");
    redis_ok(d.f.r, "SET sidecar:q30:failures x"); /* while it is read */
    audit_log_feed(d.f.r, "q31", 10, 1, NULL);
    expect_rows(&d, 10 * (QUEUES - 1) + 1);
    audit_log_feed(d.f.r, "q31", 11, 1, NULL);
    expect_rows(&d, 10 * (QUEUES - 1) + 2);
    settle(&d);
    cr_assert_eq(fixture_log_count("cannot read failure stream"), 2);
    cr_assert_eq(fixture_log_count("\"queue\":\"q17\""), 1);
    cr_assert_leq(proxy_requests(d.f.proxy, "XREAD"), QUEUES + 40,
                  "the auditor spins"); /* it reads the streams one by one at first */
    redis_ok(d.f.r, "RENAME aside sidecar:q17:failures");
    fixture_step_boottime(31000);
    audit_log_feed(d.f.r, "q31", 12, 1, NULL);
    expect_rows(&d, 10 * QUEUES + 3);
    cr_assert_eq(fixture_log_count("can be read again"), 1);
    cr_assert_eq(metric_get(&metrics_of(&d)->reconnects), 0);
    buffer_free(&queues);
    close_auditor(&d);
}

/* The lag grows with the clock, also while writes fail. */
static void expect_lag_grows(setup_t *d) {
    for (int i = 0; i < 2; i++) {
        metrics_grow(metrics_of(d), mono_now());
        int64_t before_ms = metric_get(&metrics_of(d)->audit_lag_ms), began_us = wait_now_us();
        cr_assert(driver_until(&d->instance.driver, wait_now_us() - began_us > 300000, 5000));
        metrics_grow(metrics_of(d), mono_now());
        cr_assert_geq(metric_get(&metrics_of(d)->audit_lag_ms), before_ms + 300);
    }
}

static sqlite3 *lock_database(const char *path) {
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    cr_assert_eq(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

Test(redis_auditor, a_log_locked_by_another_writer_is_retried, .timeout = 60) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 5, "1");
    expect_rows(&d, 5);
    sqlite3 *db = lock_database(d.path);
    audit_log_feed(d.f.r, "email", 5, 5, "1");
    cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->audit_faults) >= 2, 40000));
    cr_assert_eq(fixture_log_count("no record is copied"), 1);
    cr_assert_gt(metric_get(&metrics_of(&d)->audit_lacks_ns), 0);
    expect_lag_grows(&d);
    expect_acknowledged(&d, "email", "1-4 ");
    cr_assert_leq(proxy_requests(d.f.proxy, "XREAD"), 12, "the auditor spins");
    sqlite3_close(db);
    expect_rows(&d, 10);
    expect_acknowledged(&d, "email", "1-9 ");
    cr_assert_eq(fixture_log_count("audit log is writable again"), 1);
    cr_assert_eq(gaps(&d), 0);
    close_auditor(&d);
}

Test(redis_auditor, a_log_that_cannot_be_created_is_retried) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "not/yet/", "", NULL);
    char *parent = mem_printf("%s/not", d.dir), *child = mem_printf("%s/not/yet", d.dir);
    FILE *file = fopen(parent, "w"); /* root may write everywhere, except below a file */
    fclose(file);
    audit_log_feed(d.f.r, "email", 0, 5, NULL);
    cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->audit_faults) >= 3, 10000));
    cr_assert_eq(fixture_log_count("no record is copied"), 1);
    cr_assert_eq(proxy_connections_total(d.f.proxy), 0);
    expect_lag_grows(&d);
    unlink(parent);
    cr_assert(mkdir(parent, 0700) == 0 && mkdir(child, 0700) == 0);
    expect_rows(&d, 5);
    cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->audit_lacks_ns) == 0, 5000));
    free(parent);
    free(child);
    close_auditor(&d);
}

Test(redis_auditor, only_the_leader_trims_and_only_copied_records) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "stream = { retain = \"1m\"; min_records = 3; min_copies = 2; };", NULL);
    audit_log_feed(d.f.r, "email", 0, 4000, "5");
    expect_rows(&d, 4000);
    fixture_step_boottime(301000);
    settle(&d);
    cr_assert_eq(redis_int(d.f.r, "XLEN sidecar:email:failures"), 4000, "only the leader may trim");
    instance_lead(&d.instance, d.f.r);
    fixture_step_boottime(301000);
    disconnect_auditor(&d);
    settle(&d);
    cr_assert_eq(redis_int(d.f.r, "XLEN sidecar:email:failures"), 4000, "one copy is not enough");
    redis_ok(d.f.r, "EVAL %s 1 sidecar:email:auditors",
             "redis.call('HSET', KEYS[1], 'other', '5-1999 ' .. redis.call('TIME')[1] .. '000')");
    fixture_step_boottime(301000);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "XLEN sidecar:email:failures") == 2000, 10000), "%lld",
              redis_int(d.f.r, "XLEN sidecar:email:failures"));
    redis_ok(d.f.r, "EVAL %s 1 sidecar:email:auditors",
             "redis.call('HSET', KEYS[1], 'other', '5-3999 ' .. redis.call('TIME')[1] .. '000')");
    fixture_step_boottime(301000);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "XLEN sidecar:email:failures") == 3, 10000));
    cr_assert_eq(redis_int(d.f.r, "EVAL %s 2 sidecar:email:failures sidecar:email:meta",
                           "local sum = 0 for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
                           "for i = 2, #entry[2], 2 do sum = sum + #entry[2][i] end end "
                           "return sum - redis.call('HGET', KEYS[2], 'bytes')"),
                 0, "the count of bytes is wrong");
    redis_expect(d.f.r, "5-3996", "HGET sidecar:email:meta trimmed");
    restart(&d);
    settle(&d);
    cr_assert_eq(gaps(&d), 0);
    redis_ok(d.f.r, "SET sidecar:app:lock another"); /* fenced */
    instance_lead(&d.instance, d.f.r);
    redis_ok(d.f.r, "SET sidecar:app:lock another");
    audit_log_feed(d.f.r, "email", 4000, 5, "5");
    expect_rows(&d, 4005);
    settle(&d);
    cr_assert_eq(redis_int(d.f.r, "XLEN sidecar:email:failures"), 8);
    close_auditor(&d);
}

/* Ends each new back-off at once. */
static bool copied_after_losses(setup_t *d, long long rows, int64_t *reconnects) {
    int64_t now = metric_get(&metrics_of(d)->reconnects);
    if (now != *reconnects) fixture_step_boottime(2100);
    *reconnects = now;
    return audit_log_rows(d->path) == rows;
}

/* The connection is lost at every request in turn, before or after Redis has received the request. */
Test(redis_auditor, lost_replies_lose_and_duplicate_no_row, .timeout = 240) {
    static const proxy_action_t actions[] = {PROXY_LOSE, PROXY_DROP};
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
    int fed = 0;
    int64_t reconnects = 0;
    for (size_t a = 0; a < 2; a++) {
        for (int nth = 1; nth <= 24; nth++) {
            proxy_disconnect(d.f.proxy);
            proxy_rule(d.f.proxy, (proxy_rule_t){.action = actions[a], .nth = nth});
            long fired = proxy_fired(d.f.proxy);
            do {
                audit_log_feed(d.f.r, "email", fed, 7, "7");
                fed += 7;
                cr_assert(driver_until(&d.instance.driver, copied_after_losses(&d, fed, &reconnects), 30000), "%s",
                          fixture_log());
            } while (proxy_fired(d.f.proxy) == fired);
            char position[32];
            snprintf(position, sizeof position, "7-%d ", fed - 1);
            proxy_pass(d.f.proxy);
            fixture_step_boottime(2100); /* ends the back-off */
            expect_acknowledged(&d, "email", position);
        }
    }
    audit_log_expect(d.path, "email", 0, fed);
    close_auditor(&d);
}

/* In a Cluster one XREAD may not name streams of several slots. */
Test(redis_auditor, streams_in_different_slots_are_read_one_by_one) {
    static const char *const args[] = {"--cluster-enabled", "yes", NULL};
    setup_t d = {0};
    /* With .tcp, the cluster bus also gets a free port. Otherwise it uses port 10000 in every test. */
    open_auditor(&d, (fixture_options_t){.args = args, .tcp = true}, "", "lock = { scope = \"queue\"; };",
                 "{ name = \"{a}\"; }, { name = \"{b}\"; }, { name = \"{c}\"; }");
    server_serve_all_slots(d.f.server);
    char *info = NULL;
    cr_assert(wait_for((free(info), info = redis_str(d.f.r, "CLUSTER INFO"), strstr(info, "cluster_state:ok")), 10000));
    free(info);
    audit_log_feed(d.f.r, "{b}", 0, 50, NULL);
    expect_rows(&d, 50);
    audit_log_feed(d.f.r, "{c}", 0, 5, NULL);
    audit_log_feed(d.f.r, "{a}", 0, 5, NULL);
    expect_rows(&d, 60);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "HLEN sidecar:{a}:auditors") == 1, 5000));
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_faults), 0);
    close_auditor(&d);
}

/* An acknowledgement stops counting if it is not renewed, also for an idle stream. */
Test(redis_auditor, acknowledgements_are_renewed_every_hour) {
    enum { STEP_S = 30, STEPS = 3600 / STEP_S };
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.redis = "timeout = \"60s\";"}, "", "", "{ name = \"email\"; }, { name = \"sms\"; }");
    audit_log_feed(d.f.r, "email", 0, 1, "1");
    expect_acknowledged(&d, "email", "1-0 ");
    redis_ok(d.f.r, "DEL sidecar:email:auditors");
    for (int i = 0; i <= STEPS; i++) { /* each step is shorter than the timeout of the request in flight */
        if (i < STEPS - 1) cr_assert_eq(redis_int(d.f.r, "HLEN sidecar:email:auditors"), 0, "renewed after %d s", i * STEP_S);
        fixture_step_boottime(STEP_S * 1000);
        audit_log_feed(d.f.r, "sms", i, 1, NULL);
        expect_rows(&d, i + 2);
    }
    expect_acknowledged(&d, "email", "1-0 ");
    cr_assert_eq(metric_get(&metrics_of(&d)->reconnects), 0);
    close_auditor(&d);
}
