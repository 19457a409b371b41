/* The auditor skips records that no sidecar wrote. */
#include "auditor_fixture.h"
#include "base/buffer.h"

#define HEX64      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEX64_TAIL "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OWN        "event 1" HEX64_TAIL " kind failed queue email job j"

static setup_t d;
SUITE(redis_auditor_check, open_auditor(&d, (fixture_options_t){0}, "", "", NULL), close_auditor(&d));

Test(redis_auditor_check, malformed_entries_are_skipped) {
    redis_ok(d.f.r, "XADD sidecar:email:failures 1-0 hello world");
    redis_ok(d.f.r, "XADD sidecar:email:failures 1-1 event short kind failed");
    audit_log_feed(d.f.r, "email", 2, 2, "1");
    redis_ok(d.f.r, "XADD sidecar:email:failures 1-4 hello world");
    expect_rows(&d, 2);
    expect_acknowledged(&d, "email", "1-4 ");
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_faults), 3);
}

/* Each record has one fault. The last record but one is an answer to a failure of another job. */
Test(redis_auditor_check, records_that_fail_the_check_are_skipped_with_a_reason) {
    static const struct {
        const char *fields, *reason;
    } rows[] = {
        {OWN " at -9223372036854775808", "at is not a time"},
        {OWN " at 9223372036854775807", "at is not a time"},
        {OWN " at -1", "at is not a time"},
        {OWN " at 5000000000000", "at is more than two years ahead"},
        {OWN " size -1", "size is less than 0"},
        {OWN " sha256 abc", "sha256 is not 64 hex digits"},
        {OWN " payload x sha256 " HEX64, "the payload does not match its sha256"},
        {"event " HEX64, "is of the unknown kind ``"},
        {"event " HEX64 " kind exploded", "is of the unknown kind `exploded`"},
        {"event " HEX64 " kind gap job 0-0..9-9", "is of a kind that only an audit log has"},
        {"event " HEX64 " kind filled answers " HEX64, "is of a kind that only an audit log has"},
        {"event " HEX64 " kind requeued at 1763690400000 answers x", "answers is not an event id"},
        {"event " HEX64 " kind requeued at 1763690400000", "answers is not an event id"},
        {"event " HEX64 " kind requeued queue email job other at 1763690400000 answers 2" HEX64_TAIL, EVENT_ANSWERS_OTHER},
        {"event " HEX64 " kind discarded queue other job j at 1763690400000 answers 2" HEX64_TAIL, EVENT_ANSWERS_OTHER},
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    redis_ok(d.f.r, "XADD sidecar:email:failures * event 2" HEX64_TAIL " kind failed queue email job j at 1763690400000");
    for (int i = 0; i < ROWS; i++) {
        char *command = kept_printf("XADD sidecar:email:failures * %s", rows[i].fields);
        redis_ok(d.f.r, command);
    }
    redis_ok(d.f.r, "XADD sidecar:email:failures * event 3" HEX64_TAIL
                    " kind discarded queue email job j at 1763690400001 answers 2" HEX64_TAIL);
    cr_assert(driver_until(&d.instance.driver, audit_log_int(d.path, "SELECT count(*) FROM events WHERE kind = 'discarded'") == 1,
                           10000));
    cr_expect_eq(audit_log_int(d.path, "SELECT count(*) FROM events"), 2);
    cr_expect_eq(metric_get(&metrics_of(&d)->audit_faults), ROWS);
    for (int i = 0; i < ROWS; i++) cr_expect_geq(fixture_log_count(rows[i].reason), 1, "%s", rows[i].fields);
}

/* Dates and counts that a job claims for itself do not prevent its record. */
Test(redis_auditor_check, impossible_claims_of_a_job_are_unknown_in_its_record) {
    char worker[5001] = "";
    memset(worker, 'w', sizeof worker - 1);
    redis_ok(d.f.r,
             "XADD sidecar:email:failures * event " HEX64 " kind failed job j at 1763690400000 created -9223372036854775808 "
             "started 9223372036854775807 attempts 2147483648 worker %s",
             worker);
    expect_rows(&d, 1);
    cr_expect_eq(audit_log_int(d.path, "SELECT count(*) FROM events WHERE created = 0 AND started = 0 AND attempts = 0 AND "
                                       "length(worker) = 4096 AND at = 1763690400000"),
                 1);
}

/* A clock that was ahead by three years gave these times to honest records. */
Test(redis_auditor_check, records_of_a_clock_far_ahead_are_kept) {
    long long ahead = (redis_int(d.f.r, "EVAL %s 0", "return redis.call('TIME')[1] * 1000") / 1000 + 3 * 366 * 24 * 3600) * 1000;
    redis_ok(d.f.r, "XADD sidecar:email:failures %lld-1 event " HEX64 " kind failed job j at %lld", ahead, ahead);
    expect_rows(&d, 1);
}

/* 0.1.0 wrote such a row. Its age must not overflow, and retention removes the row. */
Test(redis_auditor_check, a_row_before_1970_expires) {
    audit_log_feed(d.f.r, "email", 0, 2, NULL);
    expect_rows(&d, 2);
    cr_assert_eq(audit_log_int(d.path, "UPDATE events SET at = -9223372036854775807 - 1 WHERE job = '1' RETURNING 1"), 1);
    restart(&d);
    expect_rows(&d, 1);
    cr_expect_eq(fixture_log_count("oldest rows of the audit log reach audit.retain"), 1);
    cr_expect(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->audit_oldest_ms) == 1700000002000, 10000));
}
