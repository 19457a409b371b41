/* Searches for the jobs of reports: when they begin, how much they read, and when a scan must follow. */
#include "scan_fixture.h"

TestSuite(unit_scan_search, .init = begin, .fini = end);

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
    cr_assert_eq(scan.state, SCAN_SEARCH);
    list_report(1);
    report_table_keep_listed(&scan.reports);
    scan.timer.reports_read = now();
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
    report_end_t end;
    begin_search();
    for (int i = 0; i < 100; i++) {
        cr_assert(search_page(&end, 10, i ? ALL : 16, 100, false));
        cr_assert_eq(scan_search(&scan)->place, 2, "the next page begins where the settled jobs were");
    }
    report_table_remove(&scan.reports, found(1));
    cr_assert_not(scan_search_wanted(&scan, &end), "all reports are settled");
}

Test(unit_scan_search, the_end_of_the_list_ends_a_search) {
    report_end_t end;
    begin_search();
    cr_assert(search_page(&end, 0, 0, 100, true));
    cr_assert_not(scan_search_wanted(&scan, &end));
}

Test(unit_scan_search, counts_no_job) {
    digest_t one = job(1);
    begin_search();
    for (int i = 0; i < 3; i++) cr_assert_not(scan_note_job(&scan, &(entry_t){.digest = one}));
    scan_search_end(&scan, now());
    cr_assert_eq(metric_get(&metrics.passes), 1);
    cr_assert_eq(metric_get(&metrics.in_progress), 3);
    now_ms += INTERVAL;
    cr_assert(begin_scan(3, 0, 0, false));
    cr_assert_not(scan_note_job(&scan, &(entry_t){.digest = one}), "a job of a search is no duplicate in a scan");
}

Test(unit_scan_search, knows_the_duplicates_of_scans) {
    digest_t one = job(1), two = job(2);
    for (int i = 0; i < 3; i++) SCAN_JOBS(1, 1, 2);
    begin_search(); /* a further scan, without duplicates, forgets them */
    cr_assert_not(scan_note_job(&scan, &(entry_t){.digest = one}));
    scan_reset(&scan);
    for (int i = 0; i < 3; i++) SCAN_JOBS(1, 1, 2);
    scan_enter(&scan, SCAN_SEARCH);
    cr_assert(scan_note_job(&scan, &(entry_t){.digest = one}));
    cr_assert_not(scan_note_job(&scan, &(entry_t){.digest = two}));
    duplicates_found(&scan.duplicates, &two);
    cr_assert(scan_note_job(&scan, &(entry_t){.digest = two}), "the settle has found another one");
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
    cr_assert_eq(scan.state, SCAN_READ);
    list_report(1);
    report_table_keep_listed(&scan.reports);
    now_ms += 800;
    scan_end(&scan, now());
    cr_assert_not(found(1)->searched, "the scan may have moved the job to an end: search again");
    cr_assert_eq(next_ms(), SCAN_PAUSE_MIN_MS);
    now_ms += SCAN_PAUSE_MIN_MS;
    cr_assert(begin_scan(LONG, LONG, 1, false));
    cr_assert_eq(scan.state, SCAN_SEARCH);
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
    list_report(1);
    report_table_keep_listed(&scan.reports);
    scan_note_job(&scan, &(entry_t){.digest = one});
    scan_end(&scan, now());
    cr_assert(found(1)->met && found(1)->searched);
    cr_assert_eq(next_ms(), INTERVAL);
    scan_changed(&scan, true, now());
    now_ms += SCAN_PAUSE_MIN_MS;
    cr_assert(begin_scan(LONG, LONG, 1, false));
    report_end_t end;
    list_report(1);
    cr_assert_not(scan_search_wanted(&scan, &end), "the same report again");
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

/* A search with so many reports in the hash that it does not read them. */
static void begin_search_of_ends(int64_t reports) {
    begin_search();
    scan_search_end(&scan, now());
    scan_changed(&scan, true, now());
    scan.timer.next = mono_never();
    now_ms += SCAN_PAUSE_MIN_MS;
    cr_assert(begin_scan(LONG, LONG, reports, false));
    cr_assert(scan.state == SCAN_SEARCH && !scan_search(&scan)->knows_all);
}

Test(unit_scan_search, reads_all_reports_if_they_are_few_or_large_or_from_time_to_time) {
    begin_search_of_ends(1000);
    cr_assert_not(scan_search_reads_all(&scan, 1000, now()));
    cr_assert(scan_search_reads_all(&scan, 16, now()), "few");
    cr_assert(scan_search_reads_all(&scan, 1000, scan.timer.read_all_from), "from time to time");
    cr_assert_leq(mono_diff(scan.timer.read_all_from, now()) / NS_PER_MS, 1000);
    scan.reports.large_bytes = 1;
    cr_assert(scan_search_reads_all(&scan, 1000, now()), "large");
    scan.reports.large_bytes = 0;
    for (int i = 2; i <= 1000; i++) cr_assert(meet(i));
    cr_assert(scan_search_reads_all(&scan, 1000, now()), "one of the known reports has changed");
    cr_assert_not(scan_search_reads_all(&scan, 1001, now()));
}

Test(unit_scan_search, long_walks_are_rare) {
    begin_search();
    now_ms += 500;
    scan.timer.reports_read = now();
    scan_search_end(&scan, now());
    cr_assert_geq(mono_diff(scan.timer.read_all_from, now()) / NS_PER_MS, 10 * 500);
}

Test(unit_scan_search, reports_that_were_not_met_make_the_next_search_read_all) {
    size_t read[2];
    begin_search_of_ends(1000);
    search_in_vain(100, read);
    cr_assert(read[0] >= 900 && read[1] >= 900);
    scan_search_end(&scan, now());
    cr_assert_eq(scan.timer.search.ns, scan.timer.read_all_from.ns);
    cr_assert_geq(scan.timer.read_all_from.ns, scan.timer.earliest.ns);
}

Test(unit_scan_search, goes_on_while_pages_have_reported_jobs) {
    report_end_t end;
    begin_search_of_ends(17);
    for (int i = 0; i < 20; i++) cr_assert(search_page(&end, 10, ALL, 100, false), "page %d", i);
    cr_assert(scan_search(&scan)->sought < 0, "reports have come since it began, and their jobs are nearer to the end");
    cr_assert(search_page(&end, 0, 0, 100, false));
    cr_assert_not(scan_search_wanted(&scan, &end));
    scan_search_end(&scan, now());
    cr_assert_eq(scan.timer.search.ns, mono_never().ns);
}

Test(unit_scan_search, a_job_without_a_settle_waits_for_a_scan) {
    begin_search_of_ends(1000);
    cr_assert(meet(5));
    cr_assert(meet(5), "a second copy");
    report_table_tried(&scan.reports, found(5));
    cr_assert_not(meet(5), "a settle has used the report");
    scan_search_end(&scan, now());
    cr_assert(found(5)->searched && scan.timer.next.ns < mono_never().ns);
    scan_changed(&scan, true, now());
    scan.timer.next = mono_never();
    now_ms += SCAN_PAUSE_MIN_MS;
    cr_assert(begin_scan(LONG, LONG, 1000, false));
    cr_assert_eq(scan_search(&scan)->sought, 998, "two reports are known");
    cr_assert_not(meet(5), "a later search does not settle it");
}

/* Otherwise no scan would begin, and nobody would notice stalled jobs. */
Test(unit_scan_search, a_storm_of_reports_does_not_keep_off_scans) {
    report_end_t end;
    int pages = 0;
    begin_search();
    while (search_page(&end, 64, ALL, 100, false)) cr_assert_lt(++pages, 1000);
    cr_assert_lt(pages, 1000);
    scan.timer.changed = true;
    scan.timer.next = mono_never();
    scan_search_end(&scan, now());
    cr_assert_not(found(1)->searched, "the next search goes on");
    cr_assert_eq(scan.timer.next.ns, mono_never().ns);
    cr_assert_eq(scan.timer.search.ns, scan.timer.earliest.ns);
}

Test(unit_scan_search, the_table_has_room_for_reports_that_are_met) {
    begin_search_of_ends(100000);
    int added = 2;
    while (meet(added)) cr_assert_leq(++added, REPORTS_MAX + REPORTS_ROOM + 1);
    cr_assert_eq(scan.reports.count, REPORTS_MAX + REPORTS_ROOM);
    for (int i = 2; i < 300; i++) report_table_remove(&scan.reports, found(i));
    report_table_make_room(&scan.reports);
    for (int i = 0; i < BACKUP_PAGE; i++) cr_assert(meet(added + i));
    cr_assert(found(300) && !found(2));
    scan_search_end(&scan, now());
    scan_changed(&scan, true, now());
    scan.timer.next = scan.timer.read_all_from = mono_never();
    now_ms += 1000;
    cr_assert(begin_scan(LONG, LONG, 100000, false));
    cr_assert(meet(2), "a new report of a job that was settled");
}

Test(unit_scan_search, a_full_table_has_room_again_for_the_next_reports) {
    begin_search();
    for (int i = 2; i <= REPORTS_MAX + 1; i++) list_report(i);
    report_table_keep_listed(&scan.reports);
    cr_assert(scan.reports.full && scan.reports.count == REPORTS_MAX);
    for (int i = 1; i <= REPORTS_MAX; i++) report_table_remove(&scan.reports, found(i));
    scan.timer.changed = true;
    scan_search_end(&scan, now());
    scan.timer.next = mono_never();
    scan.timer.read_all_from = now();
    now_ms += SCAN_PAUSE_MIN_MS;
    cr_assert(begin_scan(LONG, LONG, REPORTS_MAX, false));
    cr_assert(scan_search(&scan)->knows_all);
    list_report(REPORTS_MAX + 1);
    cr_assert_not(scan.reports.full);
    cr_assert(found(REPORTS_MAX + 1));
}
