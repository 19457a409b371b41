/* The state that scans keep: duplicates, reports, stamps. */
#include "fixture.h"
#include "scan_fixture.h"

TestSuite(unit_scan_memory, .init = begin, .fini = end);

static bool note_duplicate(int number) {
    digest_t digest = job(number);
    return scan_note_job(&scan, &(entry_t){.digest = digest});
}

Test(unit_scan_memory, duplicates_are_known_in_the_second_scan) {
    SCAN_JOBS(1, 2, 1, 3);
    cr_assert(begin_scan(5, 0, 0, false));
    cr_assert_not(note_duplicate(1));
    cr_assert(note_duplicate(1), "a job read twice in two scans is a duplicate");
    cr_assert_not(note_duplicate(2));
    cr_assert_not(note_duplicate(3));
    scan_end(&scan, now());
    cr_assert(begin_scan(5, 0, 0, false));
    cr_assert(note_duplicate(1), "a known duplicate must be found at its first entry");
    scan_end(&scan, now());
    cr_assert(begin_scan(5, 0, 0, false)); /* the last scan read only one entry */
    cr_assert_not(note_duplicate(1));
    scan_end(&scan, now());
}

/* Scans `count` jobs in the same order as before. Returns how many may not end, because the filter takes them for duplicates. */
static int uncounted_of(int count) {
    int uncounted = 0;
    cr_assert(begin_scan(count, 0, 0, false));
    for (int i = 0; i < count; i++) {
        digest_t digest = job(i);
        cr_assert_not(note_duplicate(i));
        uncounted += duplicates_uncounted(&scan.duplicates, &digest);
    }
    scan_end(&scan, now());
    return uncounted;
}

Test(unit_scan_memory, jobs_that_a_scan_has_counted_once_may_end) {
    enum { JOBS = 32000 };
    cr_assert_gt(uncounted_of(JOBS), 0, "the filter is never wrong, so this test tests nothing");
    uncounted_of(JOBS); /* counts them */
    cr_assert_eq(uncounted_of(JOBS), 0, "a storm would leave these jobs to a scan of their own");
    cr_assert_eq(uncounted_of(JOBS), 0);
}

Test(unit_scan_memory, a_job_counted_once_and_then_twice_is_a_duplicate) {
    digest_t digest = job(1);
    SCAN_JOBS(1, 1);
    SCAN_JOBS(1); /* the scan before saw it twice; this one counts one */
    cr_assert(begin_scan(3, 0, 0, false));
    cr_assert_not(note_duplicate(1));
    cr_assert_not(duplicates_uncounted(&scan.duplicates, &digest));
    cr_assert(note_duplicate(1));
    cr_assert_not(duplicates_uncounted(&scan.duplicates, &digest));
    scan_end(&scan, now());
    cr_assert(begin_scan(3, 0, 0, false));
    cr_assert(note_duplicate(1), "the scan before saw it twice");
}

/* A worker that fails at once takes the retried job again while the scan goes on. */
Test(unit_scan_memory, a_job_that_comes_back_during_each_scan_is_no_duplicate) {
    digest_t digest = job(1);
    for (int i = 0; i < 4; i++) {
        cr_assert(begin_scan(3, 0, 0, false));
        cr_assert_not(note_duplicate(1), "scan %d", i);
        duplicates_retried(&scan.duplicates, &digest);
        cr_assert_not(note_duplicate(1), "scan %d", i);
        scan_end(&scan, now());
    }
    SCAN_JOBS(1);
    cr_assert(begin_scan(3, 0, 0, false));
    cr_assert_not(note_duplicate(1));
    cr_assert_not(duplicates_uncounted(&scan.duplicates, &digest), "a scan has counted one");
}

/* Behind the marker a rotation meets the same jobs once more. */
Test(unit_scan_memory, a_job_behind_the_marker_is_no_duplicate) {
    const entry_t behind = {.digest = job(1), .behind = true};
    for (int i = 0; i < 3; i++) {
        cr_assert(begin_scan(3, 0, 0, false));
        cr_assert_not(note_duplicate(1), "scan %d", i);
        cr_assert_not(scan_note_job(&scan, &behind), "scan %d", i);
        scan_end(&scan, now());
    }
    SCAN_JOBS(1, 1);
    SCAN_JOBS(1, 1);
    cr_assert(begin_scan(3, 0, 0, false));
    cr_assert(scan_note_job(&scan, &behind), "two scans have counted two");
}

Test(unit_scan_memory, a_duplicate_that_is_retried_in_each_scan_stays_known) {
    digest_t digest = job(1);
    SCAN_JOBS(1, 1);
    SCAN_JOBS(1, 1);
    for (int i = 0; i < 3; i++) {
        cr_assert(begin_scan(3, 0, 0, false));
        cr_assert(note_duplicate(1), "scan %d", i);
        duplicates_retried(&scan.duplicates, &digest);
        scan_end(&scan, now());
    }
}

Test(unit_scan_memory, a_stopped_scan_that_saw_a_job_twice_ends_none_of_its_copies) {
    fixture_capture_log();
    digest_t digest = job(1);
    SCAN_JOBS(1, 1);
    SCAN_JOBS(1);
    cr_assert(begin_scan(3, 0, 0, false));
    cr_assert_not(note_duplicate(1));
    cr_assert(note_duplicate(1));
    scan_refused(&scan, &(redis_error_t){.text = "no"}, now());
    cr_assert(begin_scan(3, 0, 0, false));
    note_duplicate(1);
    cr_assert(duplicates_uncounted(&scan.duplicates, &digest));
}

Test(unit_scan_memory, a_duplicate_that_a_search_finds_during_a_scan_is_known_to_the_next_scan) {
    for (int before = 0; before < 2; before++) {
        digest_t digest = job(7);
        cr_assert(begin_scan(3, 0, 0, false));
        if (before) note_duplicate(7);
        duplicates_found(&scan.duplicates, &digest);
        if (!before) note_duplicate(7);
        scan_end(&scan, now());
        cr_assert(begin_scan(3, 0, 0, false));
        cr_assert(note_duplicate(7), "met %s the search", before ? "before" : "after");
        scan_reset(&scan);
    }
}

Test(unit_scan_memory, a_stopped_scan_finds_no_duplicates) {
    fixture_capture_log();
    SCAN_JOBS(1, 1);
    cr_assert(begin_scan(3, 0, 0, false));
    cr_assert_not(note_duplicate(1));
    scan_refused(&scan, &(redis_error_t){.text = "no"}, now());
    cr_assert(begin_scan(3, 0, 0, false));
    cr_assert_not(note_duplicate(1));
    scan_reset(&scan);
    SCAN_JOBS(1);
    cr_assert(begin_scan(3, 0, 0, false));
    cr_assert_not(note_duplicate(1));
    cr_assert_not(note_duplicate(1), "a new term must forget earlier duplicates");
}

Test(unit_scan_memory, jobs_of_long_lists_end_after_two_scans) {
    cr_assert(begin_scan(SETTLE_EXACT_ENTRIES, 0, 0, false));
    cr_assert(scan_may_end(&scan));
    for (int i = 0; i < 3; i++) {
        cr_assert(begin_scan(SETTLE_EXACT_ENTRIES + 1, 0, 0, false));
        cr_assert_eq(scan_may_end(&scan), i == 2);
        scan_end(&scan, now());
    }
    scan_reset(&scan);
    cr_assert(begin_scan(SETTLE_EXACT_ENTRIES + 1, 0, 0, false));
    cr_assert_not(scan_may_end(&scan));
}

static void report(const char *text, const char *id, bool ends) {
    report_table_add(&scan.reports, &(report_ref_t){.job = slice_text(text), .id = id, .ends = ends});
}

static const worker_report_t *report_of(const char *text) {
    digest_t digest = digest_of(text, strlen(text));
    return report_table_find(&scan.reports, &digest);
}

/* Runs a scan over these reports (text, id, ...; "!" ends the job) and these jobs. */
static void report_scan(const char *const *reports, const char *const *jobs) {
    cr_assert(begin_scan(5, 0, 1, false));
    for (; reports && *reports; reports += 2) report(reports[0], reports[1], reports[0][0] == '!');
    report_table_keep_listed(&scan.reports);
    for (; jobs && *jobs; jobs++) {
        digest_t digest = digest_of(*jobs, strlen(*jobs));
        scan_note_job(&scan, &(entry_t){.digest = digest});
    }
    scan_end(&scan, now());
}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const worker_report_t *orphan_of(const char *text) {
    digest_t digest = digest_of(text, strlen(text));
    return report_table_find_orphan(&scan.reports, &digest);
}

/* Returns which of the reports "a", "b" and "!c" is an orphan; "" = none. */
static const char *orphan(void) {
    const char *found = "";
    for (const char *const *text = LIST("a", "b", "!c"); *text; text++)
        if (orphan_of(*text)) found = *text;
    cr_assert_eq(report_table_has_orphans(&scan.reports), *found != '\0');
    return found;
}

static void drop_orphan(void) { report_table_remove(&scan.reports, orphan_of(orphan())); }

Test(unit_scan_memory, a_report_without_its_job_is_an_orphan_after_two_scans) {
    report_scan(LIST("a", "1", "b", "1", "!c", "2"), LIST("b", "!c"));
    cr_assert(report_of("a") && report_of("!c")->ends && !report_of("b")->ends);
    cr_assert_str_eq(report_of("!c")->id, "2");
    cr_assert_null(report_of("d"));
    cr_assert_str_empty(orphan());
    report_scan(LIST("a", "1", "b", "1", "!c", "2"), LIST("b"));
    cr_assert_str_eq(orphan(), "a");
    drop_orphan();
    cr_assert_str_empty(orphan());
    cr_assert_null(report_of("a"));
    cr_assert(report_of("b") && report_of("!c"), "the other reports must stay");
    report_scan(LIST("b", "1", "!c", "2"), LIST("!c", "b"));
    cr_assert_str_empty(orphan(), "two scans missed the job, but not in a row");
    report_scan(LIST("b", "1", "!c", "2"), LIST("b"));
    cr_assert_str_empty(orphan());
}

Test(unit_scan_memory, a_report_with_another_text_starts_over) {
    report_scan(LIST("a", "1"), NULL);
    report_scan(LIST("a", "2"), NULL);
    cr_assert_str_empty(orphan());
    cr_assert_str_eq(report_of("a")->id, "2");
    report_scan(LIST("a", "2"), NULL);
    cr_assert_str_eq(orphan(), "a");
    report_scan(LIST("a", "2"), NULL); /* the report could not be removed */
    cr_assert_str_eq(orphan(), "a");
    drop_orphan();
    report_scan(LIST("a", "2"), NULL); /* the same report came again */
    cr_assert_not_null(report_of("a"));
    cr_assert_str_empty(orphan());
}

Test(unit_scan_memory, removed_reports_are_forgotten) {
    report_scan(LIST("a", "1", "b", "1"), NULL);
    report_scan(LIST("b", "1"), LIST("b"));
    cr_assert_null(report_of("a"));
    cr_assert_not_null(report_of("b"));
    report_scan(NULL, NULL);
    cr_assert_eq(scan.reports.count, 0);
}

Test(unit_scan_memory, the_report_table_is_bounded) {
    char text[16];
    cr_assert(begin_scan(5, 0, 1, false));
    for (int i = 0; i < 10001; i++) {
        snprintf(text, sizeof text, "%d", i);
        cr_assert_eq(scan.reports.full, false);
        report(text, "1", false);
    }
    report("1", "1", false);
    cr_assert(scan.reports.full, "a known report is no sign of room");
    cr_assert_eq(scan.reports.count, 10000);
}

/* Whether prune keeps this stamp of a job. */
static bool keeps(int number, stamp_t stamp) {
    digest_t digest = job(number);
    stamp.born_us = 1;
    return scan_keeps_stamp(&scan, digest.bytes, &stamp);
}

Test(unit_scan_memory, a_stamp_is_kept_until_two_scans_miss_its_job) {
    stamp_t seen = {.born_us = 1, .seen = 1};
    cr_assert(begin_scan(2, 2, 0, false));
    cr_assert(keeps(1, seen), "before the first whole scan each stamp must stay");
    scan_end(&scan, now());
    SCAN_JOBS(1, 2);
    cr_assert(begin_scan(2, 2, 0, false));
    cr_assert_not(note_duplicate(2));
    cr_assert(keeps(1, seen));
    scan_end(&scan, now());
    cr_assert(begin_scan(2, 2, 0, false));
    cr_assert_not(keeps(1, seen));
    cr_assert(keeps(2, seen));
}

Test(unit_scan_memory, a_stamp_of_a_retried_job_is_kept_for_retry_window) {
    for (int i = 0; i < 3; i++) SCAN_JOBS(1);
    scan.clock.now = REDIS_NOW;
    cr_assert(keeps(7, (stamp_t){.born_us = 1, .retried_at = REDIS_NOW - 60000}));
    cr_assert_not(keeps(7, (stamp_t){.born_us = 1, .retried_at = REDIS_NOW - 60001}));
}

/* Nothing else proves that the job is finished: its worker may hand it back, or a list may be renamed for a while. */
Test(unit_scan_memory, a_stamp_of_a_retried_job_outlives_its_absence) {
    stamp_t stamp = {.born_us = 1, .seen = 5, .missing = 6, .retries = 1, .retried_at = REDIS_NOW - 60000};
    digest_t digest = job(7);
    SCAN_JOBS(7);
    cr_assert(begin_scan(2, 2, 0, false));
    scan.clock.now = REDIS_NOW;
    cr_assert(scan_keeps_stamp(&scan, digest.bytes, &stamp));
    cr_assert(stamp.seen == 5 && stamp.missing == 6, "one scan has missed the job");
    scan_end(&scan, now());
    cr_assert(begin_scan(2, 2, 0, false));
    scan.clock.now = REDIS_NOW;
    cr_assert(scan_keeps_stamp(&scan, digest.bytes, &stamp));
    cr_assert(stamp.retries == 1 && !stamp.seen && !stamp.missing, "the next observation must begin an execution");
    scan.clock.now++;
    cr_assert_not(scan_keeps_stamp(&scan, digest.bytes, &stamp), "the retries are forgotten after retry_window");
}

/* The stamp of a requeued job says that the job's date no longer counts. Without alive_timeout and a date the stamp is not
 * needed. */
Test(unit_scan_memory, a_stamp_of_a_requeued_job_is_kept_while_its_date_would_end_it) {
    stamp_t stamp = {.born_us = 1, .requeued = true, .retried_at = REDIS_NOW - 500000};
    for (int i = 0; i < 3; i++) SCAN_JOBS(1);
    scan.clock.now = REDIS_NOW;
    cr_assert_not(keeps(7, stamp));
    config.policy.alive_timeout_ms = 500000;
    cr_assert_not(keeps(7, stamp));
    config.policy.created_path = (char[]){"/at"};
    cr_assert(keeps(7, stamp));
    stamp.retried_at--;
    cr_assert_not(keeps(7, stamp));
    stamp.retries = 1; /* after a retry the stamp is kept for retry_window, as any other */
    stamp.retried_at = REDIS_NOW - 60000;
    cr_assert(keeps(7, stamp));
    stamp.retried_at--;
    cr_assert_not(keeps(7, stamp));
}

/* A clock that was ahead must not keep stamps until it would have come to their times. */
Test(unit_scan_memory, a_stamp_with_a_time_of_the_future_is_corrected) {
    stamp_t stamp = {.born_us = REDIS_NOW * INT64_C(2000), .retries = 2, .retried_at = REDIS_NOW + 60001};
    for (int i = 0; i < 3; i++) SCAN_JOBS(1);
    scan.clock.now = REDIS_NOW;
    digest_t digest = job(7);
    cr_assert(scan_keeps_stamp(&scan, digest.bytes, &stamp));
    cr_assert_eq(stamp.retried_at, REDIS_NOW);
    cr_assert_eq(stamp.born_us, 0, "a new life must begin");
    cr_assert_eq(stamp.retries, 2);
}

Test(unit_scan_memory, stamps_are_pruned_when_they_outnumber_jobs) {
    cr_assert(begin_scan(3, 2, 0, false));
    note_duplicate(1);
    note_duplicate(2);
    cr_assert_not(scan_all_read(&scan));
    cr_assert_eq(scan.state, SCAN_PRUNE);
    cr_assert(begin_scan(3, 3, 0, false));
    note_duplicate(1);
    note_duplicate(2);
    cr_assert(scan_all_read(&scan));
}
