/* Searches that interrupt a scan for the jobs of reports that come meanwhile. */
#include "scan_fixture.h"

TestSuite(unit_scan_interrupt, .init = begin, .fini = end);

static void read_entries(int first, int jobs) {
    scan_requested(&scan, (size_t)jobs);
    for (int i = 0; i < jobs; i++) {
        digest_t digest = job(first + i);
        scan_note_job(&scan, &digest);
    }
}

/* A scan that reports may interrupt, behind two others. */
static void begin_long_scan(void) {
    SCAN_JOBS(1, 2, 3);
    now_ms += INTERVAL;
    cr_assert(begin_scan(LONG, LONG, 0, false));
    cr_assert_eq(scan.phase, SCAN_ROTATE);
    read_entries(100, 1000);
}

static bool interrupt(int64_t reports) {
    backup_status_t found = status_of(LONG);
    found.reports = reports;
    if (!scan_search_interrupts(&scan)) return false;
    scan_interrupt(&scan, &found, now());
    cr_assert(scan.phase == SCAN_SEARCH && !scan.timer.changed);
    return true;
}

Test(unit_scan_interrupt, a_search_interrupts_a_scan) {
    size_t read[2];
    begin_long_scan();
    const int64_t left = scan.progress.left;
    cr_assert_not(interrupt(1), "no report came");
    scan_changed(&scan, true, now());
    cr_assert(interrupt(1));
    search_in_vain(100, read);
    cr_assert(read[0] >= 900 && read[1] == 0, "the scan itself comes to the tail: %zu, %zu", read[0], read[1]);
    now_ms += 10;
    scan_search_end(&scan, now());
    cr_assert(scan.phase == SCAN_ROTATE && scan.progress.jobs == 1000 && scan.progress.left == left);
    scan.timer.changed = true;
    cr_assert_not(interrupt(1), "the scan goes on for a while");
    read_entries(2000, 2100);
    cr_assert(interrupt(1));
    scan_search_end(&scan, now());
    scan_all_read(&scan);
    cr_assert_not(scan_search_interrupts(&scan));
    scan_end(&scan, now());
    cr_assert_eq(mono_diff(scan.timer.search, now()) / NS_PER_MS, SCAN_PAUSE_MIN_MS, "the report waits for the next search");
}

/* Interrupts the scan, and settles so many pages of jobs; of each page all, or so many. */
static void settle_inside(int pages, int each, int took_ms) {
    report_end_t end;
    cr_assert(interrupt(BACKUP_PAGE * pages));
    for (int i = 0; i < pages; i++) cr_assert(search_page(&end, 10, each, 100, false));
    now_ms += took_ms;
    scan_search_end(&scan, now());
    cr_assert_eq(scan.phase, SCAN_ROTATE);
}

/* The scan would bury the jobs that came during the search. */
Test(unit_scan_interrupt, a_search_that_settled_many_is_followed_by_another) {
    size_t read[2];
    begin_long_scan();
    now_ms += 100;
    scan.timer.changed = true;
    settle_inside(30, ALL, 80);
    cr_assert_not(scan.timer.changed);
    settle_inside(2, ALL, 80);
    cr_assert(interrupt(1));
    search_in_vain(100, read);
    cr_assert_leq(read[0], 2 * BACKUP_PAGE, "only jobs at the head are new");
    scan_search_end(&scan, now());
    cr_assert_not(scan_search_interrupts(&scan), "the scan goes on");
    read_entries(2000, 512);
    cr_assert(scan_search_interrupts(&scan), "more reports will come");
}

Test(unit_scan_interrupt, a_search_that_settled_few_is_followed_by_the_scan) {
    begin_long_scan();
    scan.timer.changed = true;
    settle_inside(1, 10, 1);
    scan.timer.changed = true;
    cr_assert_not(scan_search_interrupts(&scan));
}

/* The wake-up of the next report need not have come. */
Test(unit_scan_interrupt, requested_entries_bury_jobs_as_read_ones_do) {
    begin_long_scan();
    scan.timer.changed = true;
    settle_inside(1, 10, 1);
    scan_requested(&scan, 511);
    cr_assert_not(scan_search_interrupts(&scan));
    scan_requested(&scan, 1);
    cr_assert(scan_search_interrupts(&scan));
}

/* None is known when the next search begins, but soon. */
Test(unit_scan_interrupt, reports_that_pause_do_not_end_the_short_distances) {
    begin_long_scan();
    scan.timer.changed = true;
    settle_inside(1, 10, 1);
    for (int i = 0; i < SCAN_FLOWS; i++) {
        read_entries(2000 + 600 * i, 512);
        cr_assert(interrupt(0), "search %d", i);
        scan_search_end(&scan, now());
    }
    read_entries(9000, 512);
    cr_assert_not(scan_search_interrupts(&scan), "no report has come");
    scan.timer.changed = true;
    cr_assert(scan_search_interrupts(&scan));
}

Test(unit_scan_interrupt, reports_that_are_there_interrupt_a_scan_early) {
    SCAN_JOBS(1, 2, 3);
    now_ms += INTERVAL;
    cr_assert(begin_scan(LONG, LONG, 1, false));
    cr_assert_eq(scan.phase, SCAN_ROTATE);
    scan.timer.changed = false;
    scan_requested(&scan, 511);
    cr_assert_not(scan_search_interrupts(&scan));
    scan_requested(&scan, 1);
    cr_assert(scan_search_interrupts(&scan));
}

/* Workers report more jobs than searches settle. */
Test(unit_scan_interrupt, a_scan_has_a_part_of_the_time_in_any_storm) {
    begin_long_scan();
    scan.timer.changed = true;
    now_ms += 10;
    int searches = 0;
    while (scan_search_interrupts(&scan)) {
        settle_inside(30, ALL, 80);
        cr_assert_lt(++searches, 20, "searches take more than 64 times as long as the rest of the scan");
    }
    cr_assert_gt(searches, 5);
    read_entries(2000, 256);
    cr_assert_not(scan_search_interrupts(&scan));
    read_entries(3000, 256);
    cr_assert(scan_search_interrupts(&scan));
}

/* Answers of Redis take their time, and other queues have their turns: that is no time of the scan. */
Test(unit_scan_interrupt, searches_in_a_row_are_few_even_if_they_are_short) {
    begin_long_scan();
    scan.timer.changed = true;
    int searches = 0;
    while (scan_search_interrupts(&scan)) {
        now_ms += 50;
        settle_inside(2, ALL, 1);
        cr_assert_lt(++searches, 30);
    }
    cr_assert_gt(searches, 5);
    read_entries(2000, 512);
    cr_assert(scan_search_interrupts(&scan));
}

Test(unit_scan_interrupt, a_storm_of_reports_does_not_stop_a_scan) {
    report_end_t end;
    int pages = 0;
    begin_long_scan();
    scan.timer.changed = true;
    cr_assert(interrupt(1000000));
    while (search_page(&end, 64, ALL, 100, false)) cr_assert_lt(++pages, 100);
    scan_search_end(&scan, now());
    cr_assert_eq(scan.phase, SCAN_ROTATE);
}

Test(unit_scan_interrupt, nothing_interrupts_a_scan_without_rotation_or_with_large_reports) {
    begin_long_scan();
    scan.timer.changed = scan.progress.read_only = true;
    cr_assert_not(scan_search_interrupts(&scan));
    scan.progress.read_only = false;
    scan.reports.large_bytes = 1;
    cr_assert_not(scan_search_interrupts(&scan));
    scan.reports.large_bytes = 0;
    cr_assert(scan_search_interrupts(&scan));
}

static void next_long_scan(void) {
    now_ms += 60000;
    cr_assert(begin_scan(LONG, LONG, 0, false));
    cr_assert_eq(scan.phase, SCAN_ROTATE);
    read_entries(100, 3000);
    scan.timer.changed = true;
}

Test(unit_scan_interrupt, a_refusal_breaks_off_the_scan_that_was_interrupted) {
    size_t read[2];
    begin_long_scan();
    scan.timer.changed = true;
    cr_assert(interrupt(1));
    scan_refused(&scan, "NOPERM", now());
    cr_assert_eq(scan.phase, SCAN_WAIT);
    now_ms += SCAN_REFUSED_MS;
    cr_assert(begin_scan(LONG, LONG, 0, false));
    cr_assert(scan.phase == SCAN_ROTATE && !scan.progress.inside && scan.progress.jobs == 0);
    read_entries(100, 3000);
    scan.timer.changed = true;
    cr_assert_not(scan_search_interrupts(&scan), "this scan settles the jobs");
    scan_all_read(&scan);
    scan_end(&scan, now());
    now_ms += SCAN_PAUSE_MIN_MS;
    cr_assert(begin_scan(LONG, LONG, 1, false));
    cr_assert_eq(scan.phase, SCAN_SEARCH);
    scan_refused(&scan, "NOPERM", now());
    next_long_scan();
    cr_assert_not(scan_search_interrupts(&scan), "a complete scan does not show that a search may read");
    scan_all_read(&scan);
    scan_end(&scan, now());
    now_ms += SCAN_PAUSE_MIN_MS;
    cr_assert(begin_scan(LONG, LONG, 1, false));
    list_report(1);
    report_table_keep_listed(&scan.reports);
    search_in_vain(100, read);
    scan_search_end(&scan, now());
    next_long_scan();
    cr_assert(scan_search_interrupts(&scan), "the right is there again");
}

Test(unit_scan_interrupt, a_scan_and_later_searches_settle_what_an_interrupting_search_could_not) {
    digest_t digest = job(7);
    begin_long_scan();
    scan.timer.changed = true;
    cr_assert(interrupt(1));
    cr_assert(meet(7));
    const worker_report_t *report = report_table_find(&scan.reports, &digest);
    report_table_tried(&scan.reports, report);
    report_table_note_found(&scan.reports, &digest);
    scan_search_end(&scan, now());
    cr_assert_not(report->tried, "the scan itself may settle the job");
    scan_all_read(&scan);
    scan_end(&scan, now());
    cr_assert(report->missed == 0 && !report->searched && report_table_awaits_scan(&scan.reports));
}
