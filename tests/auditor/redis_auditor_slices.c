/* A reply to XREAD takes Redis about redis.slice. The auditor writes the entries of several replies in one transaction. */
#include "auditor_fixture.h"

#include "auditor/internal.h"

#define TRIMMED_GAPS "SELECT count(*) FROM events WHERE kind = 'gap' AND reason = 'trimmed'"
#define ACKNOWLEDGES "sidecar:email:auditors sidecar:email:failures"

/* The largest COUNT of all XREADs. */
static long largest_count(setup_t *d) {
    static const char XREAD[] = "XREAD COUNT ";
    long most = 0;
    char *log = proxy_log(d->f.proxy);
    for (const char *at = strstr(log, XREAD); at; at = strstr(at + 1, XREAD)) {
        long count = strtol(at + strlen(XREAD), NULL, 10);
        if (count > most) most = count;
    }
    free(log);
    return most;
}

Test(redis_auditor_slices, a_reply_has_as_many_entries_as_a_fourth_of_the_slice_allows) {
    enum { RECORDS = 6000 };
    for (int slice_us = 50; slice_us <= 500; slice_us *= 10) {
        setup_t d = {0};
        open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
        d.f.config->redis.slice_us = slice_us;
        audit_log_feed(d.f.r, "email", 0, RECORDS, NULL);
        expect_rows(&d, RECORDS);
        long count = largest_count(&d), reads = proxy_requests(d.f.proxy, "XREAD COUNT");
        long acknowledged = proxy_requests(d.f.proxy, ACKNOWLEDGES);
        cr_assert(count >= slice_us / 10 && count <= slice_us / 4, "%d us: XREAD COUNT %ld", slice_us, count);
        if (slice_us == 50) cr_assert_lt(2 * acknowledged, reads, "%ld transactions for %ld replies", acknowledged, reads);
        close_auditor(&d);
    }
}

/* The lost reply is the fifth after the start: entries of replies before it are in an open transaction. */
Test(redis_auditor_slices, a_lost_reply_takes_no_entry_with_it) {
    enum { RECORDS = 3000 };
    for (int nth = 1; nth <= 12; nth++) {
        setup_t d = {0};
        open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", NULL);
        d.f.config->redis.slice_us = 200;
        audit_log_feed(d.f.r, "email", 0, RECORDS, "1");
        proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = "XREAD COUNT", .nth = nth});
        cr_assert(driver_until(&d.instance.driver, proxy_fired(d.f.proxy) == 1, 10000), "reply %d", nth);
        fixture_step_boottime(3000); /* the back-off */
        expect_rows(&d, RECORDS);
        settle(&d);
        audit_log_expect(d.path, "email", 0, RECORDS);
        cr_assert_eq(audit_log_int(d.path, TRIMMED_GAPS), 0);
        close_auditor(&d);
    }
}

/* `position`: that of the log, `copied`: last entry in the open transaction, `first`: of the next reply, `trimmed`: from the
 * stream meanwhile. */
static void expect_gap(setup_t *d, const char *position, const char *copied, const char *trimmed, const char *first, int gaps) {
    auditor_t *a = d->auditor;
    stream_id_set(a->cursors[0].logged_id, position);
    stream_id_set(a->cursors[0].read_id, position);
    stream_id_set(a->copied.ends[0], copied);
    a->copied.entries = *copied ? 1 : 0;
    stream_id_set(a->reply.firsts[0], first);
    redis_ok(d->f.r, "HSET sidecar:email:meta trimmed %s", trimmed);
    cr_assert(auditor_check_reply(a));
    cr_assert_eq(a->writer->transaction.open, gaps > 0, "%s %s %s %s", position, copied, trimmed, first);
    auditor_drop_copied(a);
}

/* Others may trim what is copied and not yet committed: the log lacks nothing. */
Test(redis_auditor_slices, a_trim_within_the_open_transaction_is_no_gap) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 1, 30, "5");
    expect_rows(&d, 30);
    settle(&d);
    conn_close(d.auditor->redis.conn); /* ends the XREAD that waits */
    d.auditor->read.in_flight = false;
    redis_error_t error;
    cr_assert_eq(conn_open(d.auditor->redis.conn, &error), OUTCOME_OK);
    expect_gap(&d, "5-10", "5-20", "5-15", "5-21", 0);
    expect_gap(&d, "5-10", "5-20", "5-20", "5-21", 0);
    expect_gap(&d, "5-10", "5-20", "5-25", "5-26", 1);
    expect_gap(&d, "5-10", "", "5-15", "5-16", 1);
    expect_gap(&d, "5-10", "5-5", "5-15", "5-16", 1); /* it reads earlier entries again */
    close_auditor(&d);
}
