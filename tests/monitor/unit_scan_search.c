/* Searches for the jobs of reports: when they begin, how much they read, and when a scan must follow. */
#include "scan_fixture.h"

TestSuite(unit_scan_search, .init = begin, .fini = end);

enum { LONG = 100000 };

static void report(int number) {
    static char id[] = "0123456789012345678901234567890123456789";
    report_table_add(&scan.reports, &(report_ref_t){.job = {(const char *)&number, sizeof number}, .id = id});
}

static const worker_report_t *found(int number) {
    digest_t digest = job(number);
    return report_table_find(&scan.reports, &digest);
}

/* Two scans of a long list, and then the wake-up of a report. */
static void begin_search(void) {
    SCAN_JOBS(1, 2, 3);
    now_ms += SCAN_PAUSE_MIN_MS;
    scan_changed(&scan, true, now());
    cr_assert_eq(next_ms(), 0);
    cr_assert(begin_scan(LONG, LONG, 1, false));
    cr_assert_eq(scan.phase, SCAN_SEARCH);
    report(1);
    report_table_keep_listed(&scan.reports);
    scan.timer.reports_read = now();
}

/* Reads both ends in vain. */
static void search_in_vain(size_t bytes, size_t read[2]) {
    static backup_page_t p;
    size_t count;
    read[0] = read[1] = 0;
    while ((count = scan_search_wanted(&scan)) > 0) {
        p = (backup_page_t){.count = count, .jobs = count, .bytes = count * bytes, .in_place = true};
        cr_assert_eq(scan.progress.read, read[scan.progress.tail], "each page begins behind the last one");
        scan_requested(&scan, count);
        scan_read_page(&scan, &p, count);
        scan_search_found(&scan, p.bytes, 0);
        read[scan.progress.tail] += count;
    }
}

Test(unit_scan_search, reads_a_bounded_part_of_both_ends) {
    size_t read[2];
    begin_search();
    search_in_vain(100, read);
    for (int i = 0; i < 2; i++)
        cr_assert(read[i] >= 900 && read[i] <= SCAN_SEARCH_ENTRIES + BACKUP_PAGE, "end %d: %zu", i, read[i]);
}

Test(unit_scan_search, reads_fewer_large_entries) {
    size_t read[2];
    begin_search();
    search_in_vain(100000, read);
    cr_assert(read[0] <= 100 && read[1] <= 100, "%zu, %zu", read[0], read[1]);
}

Test(unit_scan_search, settled_jobs_cost_nothing) {
    static backup_page_t p;
    begin_search();
    for (int i = 0; i < 100; i++) {
        size_t count = scan_search_wanted(&scan);
        cr_assert_gt(count, 0);
        p = (backup_page_t){.count = count, .jobs = count, .bytes = 100 * count, .in_place = true};
        scan_requested(&scan, count);
        scan_read_page(&scan, &p, count);
        scan_search_found(&scan, 0, count);
        cr_assert_eq(scan.progress.read, 0, "the next page begins where the settled jobs were");
    }
    report_table_remove(&scan.reports, found(1));
    cr_assert_eq(scan_search_wanted(&scan), 0, "all reports are settled");
}

Test(unit_scan_search, the_end_of_the_list_ends_a_search) {
    static backup_page_t p = {.ended = true, .in_place = true};
    begin_search();
    scan_requested(&scan, 8);
    scan_read_page(&scan, &p, 8);
    cr_assert_eq(scan_search_wanted(&scan), 0);
}

Test(unit_scan_search, counts_no_job) {
    digest_t one = job(1);
    begin_search();
    for (int i = 0; i < 3; i++) cr_assert_not(scan_note_job(&scan, &one));
    cr_assert_eq(scan.progress.jobs, 0);
    scan_search_end(&scan, now());
    cr_assert_eq(metric_get(&metrics.passes), 1);
    cr_assert_eq(metric_get(&metrics.in_progress), 3);
    now_ms += INTERVAL;
    cr_assert(begin_scan(3, 0, 0, false));
    cr_assert_not(scan_note_job(&scan, &one), "a job of a search is no duplicate in a scan");
}

Test(unit_scan_search, knows_the_duplicates_of_scans) {
    digest_t one = job(1), two = job(2);
    for (int i = 0; i < 3; i++) SCAN_JOBS(1, 1, 2);
    begin_search(); /* a further scan, without duplicates, forgets them */
    cr_assert_not(scan_note_job(&scan, &one));
    scan_reset(&scan);
    for (int i = 0; i < 3; i++) SCAN_JOBS(1, 1, 2);
    scan.phase = SCAN_SEARCH;
    cr_assert(scan_note_job(&scan, &one));
    cr_assert_not(scan_note_job(&scan, &two));
    duplicates_found(&scan.duplicates, &two);
    cr_assert(scan_note_job(&scan, &two), "the settle has found another one");
}

Test(unit_scan_search, a_job_that_was_not_found_needs_a_scan) {
    begin_search();
    now_ms += 50;
    scan_search_end(&scan, now());
    cr_assert(found(1)->searched && !found(1)->tried);
    cr_assert_eq(mono_diff(scan.timer.next, scan.timer.began) / NS_PER_MS, INTERVAL, "scans for reports are %d ms apart",
                 INTERVAL);
    cr_assert(scan.timer.search.ns == mono_never().ns);
    now_ms += INTERVAL;
    cr_assert(begin_scan(LONG, LONG, 1, false));
    cr_assert_eq(scan.phase, SCAN_ROTATE);
    report(1);
    report_table_keep_listed(&scan.reports);
    now_ms += 800;
    scan_end(&scan, now());
    cr_assert_not(found(1)->searched, "the scan may have moved the job to an end: search again");
    cr_assert_eq(next_ms(), SCAN_PAUSE_MIN_MS);
    now_ms += SCAN_PAUSE_MIN_MS;
    cr_assert(begin_scan(LONG, LONG, 1, false));
    cr_assert_eq(scan.phase, SCAN_SEARCH);
    scan_search_end(&scan, now());
    cr_assert_gt(mono_diff(scan.timer.report_scan, now()) / NS_PER_MS, 2 * 800, "long scans leave redis time for others");
}

Test(unit_scan_search, a_full_table_is_scanned_soon) {
    begin_search();
    scan.reports.full = true;
    scan_search_end(&scan, now());
    cr_assert_eq(mono_diff(scan.timer.next, now()) / NS_PER_MS, SCAN_PAUSE_MIN_MS);
}

Test(unit_scan_search, a_job_that_a_scan_has_met_needs_no_further_scan) {
    digest_t one = job(1);
    begin_search();
    scan_search_end(&scan, now());
    now_ms += INTERVAL;
    cr_assert(begin_scan(LONG, LONG, 1, false));
    report(1);
    report_table_keep_listed(&scan.reports);
    scan_note_job(&scan, &one);
    scan_end(&scan, now());
    cr_assert(found(1)->met && found(1)->searched);
    cr_assert_eq(next_ms(), INTERVAL);
    scan_changed(&scan, true, now());
    now_ms += SCAN_PAUSE_MIN_MS;
    cr_assert(begin_scan(LONG, LONG, 1, false));
    report(1);
    cr_assert_eq(scan_search_wanted(&scan), 0, "the same report again");
    scan_search_end(&scan, now());
    cr_assert_gt(next_ms(), INTERVAL / 2);
}

Test(unit_scan_search, the_next_search_follows_after_a_pause) {
    begin_search();
    now_ms += 30;
    scan.timer.reports_read = now();
    now_ms += 500;
    scan.timer.changed = true; /* a settle has removed a report, or another one came */
    report_table_remove(&scan.reports, found(1));
    scan_search_end(&scan, now());
    cr_assert_eq(mono_diff(scan.timer.search, now()) / NS_PER_MS, 30, "the pause is as long as the reports took to read");
    now_ms += 30;
    cr_assert_not(begin_scan(LONG, LONG, 0, false), "no report is left");
    cr_assert(scan.timer.search.ns == mono_never().ns);
}

Test(unit_scan_search, an_empty_list_is_scanned_soon) {
    SCAN_JOBS(1);
    now_ms += INTERVAL / 2;
    scan_changed(&scan, true, now());
    cr_assert_not(begin_scan(1, 1, 0, true));
    cr_assert(next_ms() > 0 && next_ms() < INTERVAL / 2, "the queue must become idle: %d", (int)next_ms());
}

Test(unit_scan_search, large_reports_delay_searches) {
    SCAN_JOBS(1);
    scan.reports.large_bytes = 300 * 1024;
    scan.timer.reports_read = now();
    now_ms += 100;
    scan_changed(&scan, true, now());
    cr_assert_not(begin_scan(LONG, LONG, 2, false));
    cr_assert_eq(mono_diff(scan.timer.search, now()) / NS_PER_MS, 200);
}
