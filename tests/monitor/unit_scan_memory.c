/* The memory of scans: duplicates, reports, stamps. */
#include "scan_fixture.h"

TestSuite(unit_scan_memory, .init = begin, .fini = end);

static bool copies_of(int number) {
    digest_t digest = job(number);
    return scan_note_job(&scan, &digest);
}

Test(unit_scan_memory, duplicates_are_known_in_the_second_scan) {
    PASS(1, 2, 1, 3);
    cr_assert(look(5, 0, 0, false));
    cr_assert_not(copies_of(1));
    cr_assert(copies_of(1), "met twice, and suspect before");
    cr_assert_not(copies_of(2));
    cr_assert_not(copies_of(3));
    scan_end(&scan, now());
    cr_assert(look(5, 0, 0, false));
    cr_assert(copies_of(1), "from then on at the first one");
    scan_end(&scan, now());
    cr_assert(look(5, 0, 0, false)); /* only one was met: the others have gone */
    cr_assert_not(copies_of(1));
    scan_end(&scan, now());
}

Test(unit_scan_memory, a_broken_off_scan_finds_no_duplicates) {
    PASS(1, 1);
    cr_assert(look(3, 0, 0, false));
    cr_assert_not(copies_of(1));
    scan_refused(&scan, "no", now());
    cr_assert(look(3, 0, 0, false));
    cr_assert_not(copies_of(1));
    scan_reset(&scan);
    PASS(1);
    cr_assert(look(3, 0, 0, false));
    cr_assert_not(copies_of(1));
    cr_assert_not(copies_of(1), "what was suspect is forgotten with the term");
}

Test(unit_scan_memory, jobs_of_long_lists_end_after_two_scans) {
    cr_assert(look(SCAN_EXACT_ENTRIES, 0, 0, false));
    cr_assert(scan_may_end(&scan));
    for (int i = 0; i < 3; i++) {
        cr_assert(look(SCAN_EXACT_ENTRIES + 1, 0, 0, false));
        cr_assert_eq(scan_may_end(&scan), i == 2);
        scan_end(&scan, now());
    }
    scan_reset(&scan);
    cr_assert(look(SCAN_EXACT_ENTRIES + 1, 0, 0, false));
    cr_assert_not(scan_may_end(&scan));
}

static void report(const char *text, const char *sha1, bool ends) {
    report_table_add(&scan.reports, &(report_ref_t){.job = slice_text(text), .sha1 = sha1, .ends = ends});
}

static const worker_report_t *report_of(const char *text) {
    digest_t digest = digest_of(text, strlen(text));
    return report_table_find(&scan.reports, &digest);
}

/* One scan that finds these reports (text, sha1, ...) and meets those jobs. */
static void report_pass(const char *const *reports, const char *const *jobs) {
    cr_assert(look(5, 0, 1, false));
    for (; reports && *reports; reports += 2) report(reports[0], reports[1], reports[0][0] == '!');
    report_table_keep_listed(&scan.reports);
    for (; jobs && *jobs; jobs++) {
        digest_t digest = digest_of(*jobs, strlen(*jobs));
        scan_note_job(&scan, &digest);
    }
    scan_end(&scan, now());
}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const worker_report_t *stray_of(const char *text) {
    digest_t digest = digest_of(text, strlen(text));
    return report_table_find_orphan(&scan.reports, &digest);
}

/* Of "a", "b" and "!c"; "" = none is. */
static const char *stray(void) {
    const char *found = "";
    for (const char *const *text = LIST("a", "b", "!c"); *text; text++)
        if (stray_of(*text)) found = *text;
    cr_assert_eq(report_table_has_orphans(&scan.reports), *found != '\0');
    return found;
}

static void drop_stray(void) { report_table_remove(&scan.reports, stray_of(stray())); }

Test(unit_scan_memory, a_report_without_its_job_is_an_orphan_after_two_scans) {
    report_pass(LIST("a", "1", "b", "1", "!c", "2"), LIST("b", "!c"));
    cr_assert(report_of("a") && report_of("!c")->ends && !report_of("b")->ends);
    cr_assert_str_eq(report_of("!c")->sha1, "2");
    cr_assert_null(report_of("d"));
    cr_assert_str_empty(stray());
    report_pass(LIST("a", "1", "b", "1", "!c", "2"), LIST("b"));
    cr_assert_str_eq(stray(), "a");
    drop_stray();
    cr_assert_str_empty(stray());
    cr_assert_null(report_of("a"));
    cr_assert(report_of("b") && report_of("!c"), "the others are still found");
    report_pass(LIST("b", "1", "!c", "2"), LIST("!c", "b"));
    cr_assert_str_empty(stray(), "missed twice, but not in a row");
    report_pass(LIST("b", "1", "!c", "2"), LIST("b"));
    cr_assert_str_empty(stray());
}

Test(unit_scan_memory, a_report_with_another_text_starts_over) {
    report_pass(LIST("a", "1"), NULL);
    report_pass(LIST("a", "2"), NULL);
    cr_assert_str_empty(stray());
    cr_assert_str_eq(report_of("a")->sha1, "2");
    report_pass(LIST("a", "2"), NULL);
    cr_assert_str_eq(stray(), "a");
    report_pass(LIST("a", "2"), NULL); /* it could not be removed */
    cr_assert_str_eq(stray(), "a");
    drop_stray();
    report_pass(LIST("a", "2"), NULL); /* it came again */
    cr_assert_not_null(report_of("a"));
    cr_assert_str_empty(stray());
}

Test(unit_scan_memory, removed_reports_are_forgotten) {
    report_pass(LIST("a", "1", "b", "1"), NULL);
    report_pass(LIST("b", "1"), LIST("b"));
    cr_assert_null(report_of("a"));
    cr_assert_not_null(report_of("b"));
    report_pass(NULL, NULL);
    cr_assert_eq(scan.reports.count, 0);
}

Test(unit_scan_memory, the_report_table_is_bounded) {
    char text[16];
    cr_assert(look(5, 0, 1, false));
    for (int i = 0; i < 10001; i++) {
        snprintf(text, sizeof text, "%d", i);
        cr_assert_eq(scan.reports.full, false);
        report(text, "1", false);
    }
    cr_assert(scan.reports.full);
    cr_assert_eq(scan.reports.count, 10000);
}

/* A stamp of that job would be kept. */
static bool keeps(int number, stamp_t stamp) {
    digest_t digest = job(number);
    stamp.born_us = 1;
    stamp_raw_t raw = stamp_pack(&stamp);
    return scan_keeps_stamp(&scan, (slice_t){(const char *)digest.bytes, STAMP_FIELD_BYTES},
                            (slice_t){(const char *)raw.bytes, raw.len});
}

Test(unit_scan_memory, a_stamp_is_kept_until_two_scans_miss_its_job) {
    stamp_t seen = {.born_us = 1, .seen = 1};
    cr_assert(look(2, 2, 0, false));
    cr_assert(keeps(1, seen), "nobody has seen a whole pass yet");
    cr_assert_not(scan_keeps_stamp(&scan, slice_text("0123456789abcdef"), slice_text("junk")), "no stamp");
    cr_assert_not(scan_keeps_stamp(&scan, slice_text("short"), slice_text("0123456789012345678901234567")), "no stamp's field");
    scan_end(&scan, now());
    PASS(1, 2);
    cr_assert(look(2, 2, 0, false));
    cr_assert_not(copies_of(2));
    cr_assert(keeps(1, seen));
    scan_end(&scan, now());
    cr_assert(look(2, 2, 0, false));
    cr_assert_not(keeps(1, seen));
    cr_assert(keeps(2, seen));
}

Test(unit_scan_memory, a_stamp_of_a_retried_job_is_kept_for_retry_window) {
    for (int i = 0; i < 3; i++) PASS(1);
    scan.progress.now = REDIS_NOW;
    cr_assert(keeps(7, (stamp_t){.born_us = 1, .retried_at = REDIS_NOW - 60000}));
    cr_assert_not(keeps(7, (stamp_t){.born_us = 1, .retried_at = REDIS_NOW - 60001}));
    cr_assert_not(keeps(7, (stamp_t){.born_us = 1, .seen = 1, .retried_at = REDIS_NOW}));
}

/* Its stamp says that its date no longer counts; elsewhere it says nothing that the next sighting would not. */
Test(unit_scan_memory, a_stamp_of_a_requeued_job_is_kept_while_its_date_would_end_it) {
    stamp_t stamp = {.born_us = 1, .requeued = true, .retried_at = REDIS_NOW - 500000};
    for (int i = 0; i < 3; i++) PASS(1);
    scan.progress.now = REDIS_NOW;
    cr_assert_not(keeps(7, stamp));
    config.policy.alive_timeout_ms = 500000;
    cr_assert_not(keeps(7, stamp));
    config.policy.created_path = (char[]){"/at"};
    cr_assert(keeps(7, stamp));
    stamp.retried_at--;
    cr_assert_not(keeps(7, stamp));
    stamp.retries = 1; /* once retried it is like any other */
    stamp.retried_at = REDIS_NOW - 60000;
    cr_assert(keeps(7, stamp));
    stamp.retried_at--;
    cr_assert_not(keeps(7, stamp));
}

Test(unit_scan_memory, stamps_are_pruned_when_they_outnumber_jobs) {
    cr_assert(look(3, 2, 0, false));
    copies_of(1);
    copies_of(2);
    cr_assert_not(scan_all_read(&scan));
    cr_assert_eq(scan.phase, SCAN_PRUNE);
    cr_assert(look(3, 3, 0, false));
    copies_of(1);
    copies_of(2);
    cr_assert(scan_all_read(&scan));
}
