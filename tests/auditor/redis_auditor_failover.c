/* The auditor after a failover to a replica that has lost the end of a failure stream. */
#include "auditor_fixture.h"
#include "replica.h"
#include "wait.h"

#include <unistd.h>

/* A replica has the first `replicated` of ten records, 5-0 to 5-9, then it leads. The auditor has copied all ten. */
static server_t *lose_suffix(setup_t *d, int replicated) {
    open_auditor(d, (fixture_options_t){.proxy = true, .tcp = true}, "", "", NULL);
    audit_log_feed(d->f.r, "email", 0, replicated, "5");
    server_t *replica = replica_start(d->f.server, NULL);
    replica_promote(replica);
    audit_log_feed(d->f.r, "email", replicated, 10 - replicated, "5");
    expect_rows(d, 10);
    expect_acknowledged(d, "email", "5-9 ");
    return replica;
}

/* From now on everything is about the new primary. */
static void fail_over(setup_t *d, server_t *replica) {
    redis_close(d->f.r);
    d->f.r = redis_open(replica);
    proxy_lead_to(d->f.proxy, server_socket(replica));
}

static void end(setup_t *d, server_t *replica) {
    close_auditor(d);
    server_free(replica);
}

/* A record of its own with the given id. */
static void feed_other(server_t *server, const char *id, int job) {
    scoped(redis_drop) redis_t *r = redis_open(server);
    redis_ok(r, "EVAL %s 1 sidecar:email:failures %s %d",
             "return redis.call('XADD', KEYS[1], ARGV[1], 'event', redis.sha1hex(ARGV[2]) .. string.rep('f', 24), 'kind', "
             "'failed', 'dialect', 'list', 'queue', 'email', 'job', ARGV[2], 'at', '1700000003000')",
             id, job);
}

static void expect_other_jobs(setup_t *d, long long jobs) {
    cr_assert_eq(audit_log_int(d->path, "SELECT count(*) FROM events WHERE kind = 'failed' AND job >= '900' AND length(job) = 3"),
                 jobs);
}

/* The new primary has given the ids of lost records to others, and its last id is not below that of the log. */
Test(redis_auditor_failover, other_records_with_the_ids_of_lost_ones_are_copied) {
    static const char *const ends[] = {"5-9", "5-10", "9000-0"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        setup_t d = {0};
        server_t *replica = lose_suffix(&d, 6);
        feed_other(replica, "5-7", 901);
        feed_other(replica, "5-8", 902);
        feed_other(replica, ends[i], 903);
        fail_over(&d, replica);
        expect_rows(&d, 13);
        expect_other_jobs(&d, 3);
        expect_acknowledged(&d, "email", ends[i]);
        feed_other(replica, "9001-0", 904);
        expect_rows(&d, 14);
        cr_assert_eq(gaps(&d), 0);
        end(&d, replica);
    }
}

/* The jobs of lost records fail again, with the same event ids: one row for each event. */
Test(redis_auditor_failover, a_lost_record_that_is_written_again_is_one_row) {
    setup_t d = {0};
    server_t *replica = lose_suffix(&d, 6);
    redis_t *r = redis_open(replica);
    audit_log_feed(r, "email", 6, 6, "7");
    redis_close(r);
    fail_over(&d, replica);
    expect_acknowledged(&d, "email", "7-11 ");
    audit_log_expect(d.path, "email", 0, 12);
    cr_assert_eq(audit_log_int(d.path, "SELECT count(*) FROM events"), 12);
    end(&d, replica);
}

/* The last id is below that of the log. */
Test(redis_auditor_failover, ids_restart_lower) {
    setup_t d = {0};
    server_t *replica = lose_suffix(&d, 6);
    feed_other(replica, "5-6", 901);
    fail_over(&d, replica);
    expect_rows(&d, 11);
    expect_acknowledged(&d, "email", "5-6 ");
    feed_other(replica, "5-7", 902);
    expect_rows(&d, 12);
    cr_assert_eq(gaps(&d), 0);
    end(&d, replica);
}

static void expect_read_again(bool again) {
    setup_t d = {0};
    server_t *replica = lose_suffix(&d, again ? 9 : 10);
    long before = proxy_requests(d.f.proxy, "STREAMS sidecar:email:failures 0-0");
    redis_t *r = redis_open(replica);
    audit_log_feed(r, "email", 10, 1, "5");
    redis_close(r);
    fail_over(&d, replica);
    expect_rows(&d, 11);
    cr_assert_eq(proxy_requests(d.f.proxy, "STREAMS sidecar:email:failures 0-0") - before, again);
    cr_assert_eq(fixture_log_count("last copied record is gone"), again);
    end(&d, replica);
}

Test(redis_auditor_failover, a_stream_that_has_lost_its_end_is_read_again) { expect_read_again(true); }
Test(redis_auditor_failover, a_stream_that_has_the_last_copied_record_is_not_read_again) { expect_read_again(false); }

static void expect_reason(const char *reason) {
    static const char *const all[] = {"its last copied record is gone", "its last copied record was trimmed",
                                      "the connection ended before the first acknowledgement"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cr_expect_eq(fixture_log_count(all[i]), strcmp(all[i], reason) == 0, "%s in %s", all[i], fixture_log());
}

/* The sidecar itself has trimmed the record: nobody else is accused. */
Test(redis_auditor_failover, a_trimmed_last_record_is_not_called_gone) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 10, "5");
    expect_rows(&d, 10);
    expect_acknowledged(&d, "email", "5-9 ");
    redis_ok(d.f.r, "XTRIM sidecar:email:failures MAXLEN 0");
    redis_ok(d.f.r, "HSET sidecar:email:meta trimmed %s", "5-9");
    proxy_disconnect(d.f.proxy);
    audit_log_feed(d.f.r, "email", 10, 1, "7");
    expect_rows(&d, 11);
    expect_reason("its last copied record was trimmed");
    cr_assert_eq(gaps(&d), 0);
    close_auditor(&d);
}

Test(redis_auditor_failover, a_connection_lost_before_the_first_acknowledgement_accuses_nobody) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
    settle(&d);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = "sidecar:email:auditors sidecar:email:failures"});
    audit_log_feed(d.f.r, "email", 0, 10, "5");
    expect_rows(&d, 10);
    expect_acknowledged(&d, "email", "5-9 ");
    expect_reason("the connection ended before the first acknowledgement");
    close_auditor(&d);
}

/* A failover of a large stream: an entry without an event proves as much as a record does, or each reconnect reads all again. */
Test(redis_auditor_failover, a_malformed_last_entry_proves_the_stream) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 10, "5");
    redis_ok(d.f.r, "XADD sidecar:email:failures 6-0 kind failed");
    expect_acknowledged(&d, "email", "6-0 ");
    long before = proxy_requests(d.f.proxy, "STREAMS sidecar:email:failures 0-0");
    proxy_disconnect(d.f.proxy);
    audit_log_feed(d.f.r, "email", 10, 1, "7");
    expect_rows(&d, 11);
    cr_assert_eq(proxy_requests(d.f.proxy, "STREAMS sidecar:email:failures 0-0"), before);
    close_auditor(&d);
}

/* `trimmed` is left from a stream with higher ids. As the log's position it would be above each id of the new stream. */
Test(redis_auditor_failover, a_trim_of_an_earlier_stream_is_no_position) {
    setup_t d = {0};
    const char *from_the_beginning = "STREAMS sidecar:email:failures 0-0";
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 5, "9");
    expect_acknowledged(&d, "email", "9-4 ");
    redis_ok(d.f.r, "DEL sidecar:email:failures");
    redis_ok(d.f.r, "HSET sidecar:email:meta trimmed 9-4");
    audit_log_feed(d.f.r, "email", 5, 5, "5");
    proxy_disconnect(d.f.proxy);
    expect_rows(&d, 10);
    expect_acknowledged(&d, "email", "5-9 ");
    long before = proxy_requests(d.f.proxy, from_the_beginning);
    proxy_disconnect(d.f.proxy);
    audit_log_feed(d.f.r, "email", 10, 1, "5");
    expect_rows(&d, 11);
    cr_assert_eq(proxy_requests(d.f.proxy, from_the_beginning), before);
    cr_assert_eq(fixture_log_count("\"reason\":\"it was reset\""), 1);
    close_auditor(&d);
}

/* The watcher logs the change. */
Test(redis_auditor_failover, another_address_of_the_primary_is_no_fault) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.tcp = true}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 1, "1");
    expect_rows(&d, 1);
    settle(&d);
    shard_move(d.instance.shard, "localhost", server_product_port(d.f.server)); /* with QS_TLS=1 it was 127.0.0.1 before */
    audit_log_feed(d.f.r, "email", 1, 1, "2");
    expect_rows(&d, 2);
    cr_assert_eq(fixture_log_count("cannot reach redis"), 0);
    close_auditor(&d);
}

/* Jobs go by the new clock. Each step is told once. */
Test(redis_auditor_failover, another_clock_is_told) {
    static const int64_t steps_ms[] = {30000, -30000};
    for (size_t i = 0; i < 2; i++) {
        setup_t d = {0};
        open_auditor(&d, (fixture_options_t){.proxy = true, .tcp = true}, "", "", NULL);
        audit_log_feed(d.f.r, "email", 0, 3, "5");
        expect_rows(&d, 3);
        proxy_disconnect(d.f.proxy);
        settle(&d);
        cr_assert_eq(metric_get(&metrics_of(&d)->redis_clock_step_ms), 0, "the clock is the same");
        server_t *replica = replica_start(d.f.server, &(server_options_t){.preload = "shim_clock"});
        server_step_clock(replica, steps_ms[i]);
        replica_promote(replica);
        fail_over(&d, replica);
        cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->redis_clock_step_ms), 10000));
        cr_assert_leq(llabs(metric_get(&metrics_of(&d)->redis_clock_step_ms) - steps_ms[i]), 1000);
        metric_set(&metrics_of(&d)->redis_clock_step_ms, 0);
        proxy_disconnect(d.f.proxy);
        settle(&d);
        cr_assert_eq(metric_get(&metrics_of(&d)->redis_clock_step_ms), 0, "once");
        cr_assert_geq(fixture_log_count("clock has stepped"), 1); /* repeated lines are suppressed for a while */
        end(&d, replica);
    }
}

/* The last acknowledged record is of the log before. It must not prove that the new log has the records up to it. */
Test(redis_auditor_failover, a_lost_acknowledgement_of_a_new_log_loses_no_record) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 50, "1");
    expect_rows(&d, 50);
    audit_log_feed(d.f.r, "email", 50, 1, "1"); /* after a reply of one record the next transaction has few */
    expect_rows(&d, 51);
    expect_acknowledged(&d, "email", "1-50 ");
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = " 3 sidecar:email:auditors sidecar:email:failures"});
    for (size_t i = 0; i < 3; i++) {
        char *file = mem_printf("%s%s", d.path, (const char *const[]){"", "-wal", "-shm"}[i]);
        cr_assert_eq(unlink(file), 0);
        free(file);
    }
    cr_assert(driver_until(&d.instance.driver, proxy_fired(d.f.proxy) == 1, 15000), "%s", fixture_log());
    expect_rows(&d, 51);
    expect_acknowledged(&d, "email", "1-50 ");
    audit_log_expect(d.path, "email", 0, 51);
    close_auditor(&d);
}

/* The log has records of a primary that was being replaced. Their ids belong to other records now. */
Test(redis_auditor_failover, records_without_an_acknowledgement_are_read_again) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){.proxy = true, .tcp = true}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 5, "5");
    expect_rows(&d, 5);
    expect_acknowledged(&d, "email", "5-4 ");
    server_t *replica = replica_start(d.f.server, NULL);
    replica_promote(replica);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = " 3 sidecar:email:auditors sidecar:email:failures"});
    proxy_refuse_new(d.f.proxy, true);
    audit_log_feed(d.f.r, "email", 5, 1, "5");
    cr_assert(driver_until(&d.instance.driver, proxy_fired(d.f.proxy) == 1, 15000));
    expect_rows(&d, 6);
    feed_other(replica, "5-5", 905);
    feed_other(replica, "5-6", 906);
    fail_over(&d, replica);
    proxy_refuse_new(d.f.proxy, false);
    expect_rows(&d, 8);
    expect_other_jobs(&d, 2);
    end(&d, replica);
}

/* The new primary lacks the last record, but has the last acknowledged one. The auditor reads the stream from the beginning, and
 * may not skip its rest after another lost acknowledgement. */
Test(redis_auditor_failover, a_stream_that_is_read_again_is_read_to_its_end) {
    setup_t d = {0};
    const char *acknowledge = " 3 sidecar:email:auditors sidecar:email:failures";
    open_auditor(&d, (fixture_options_t){.proxy = true, .tcp = true}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 9, "5");
    expect_rows(&d, 9);
    expect_acknowledged(&d, "email", "5-8 ");
    server_t *replica = replica_start(d.f.server, NULL);
    replica_promote(replica);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = acknowledge});
    proxy_refuse_new(d.f.proxy, true);
    audit_log_feed(d.f.r, "email", 9, 1, "5");
    cr_assert(driver_until(&d.instance.driver, proxy_fired(d.f.proxy) == 1, 15000));
    expect_rows(&d, 10);
    fail_over(&d, replica);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = acknowledge, .nth = 2});
    proxy_refuse_new(d.f.proxy, false);
    cr_assert(driver_until(&d.instance.driver, proxy_fired(d.f.proxy) == 2, 15000));
    expect_acknowledged(&d, "email", "5-8 ");
    feed_other(replica, "5-9", 909);
    expect_rows(&d, 11);
    expect_other_jobs(&d, 1);
    end(&d, replica);
}
