/* The scan of one queue: its timing, its pages, and its end. */
#include "fixture.h"
#include "scan_fixture.h"

TestSuite(unit_scan, .init = begin, .fini = end);

Test(unit_scan, interval) {
    static const struct {
        int64_t timeout, given, interval;
    } rows[] = {{50, 0, 1000},      {10000, 0, 1000},    {10010, 0, 1001},        {300000, 0, 30000},
                {600000, 0, 60000}, {3600000, 0, 60000}, {3600000, 70000, 70000}, {10, 50, 50}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        config.policy.protected_timeout_ms = rows[i].timeout;
        scan_free(&scan);
        scan_init(&scan, &config, &metrics, rows[i].given, ROTATION);
        cr_assert_eq(scan.interval_ms, rows[i].interval, "row %zu: %d", i, (int)scan.interval_ms);
    }
}

Test(unit_scan, begins_at_once_and_then_every_interval) {
    cr_assert(scan_wants(&scan, now()));
    SCAN_JOBS(1, 2);
    cr_assert_not(scan_wants(&scan, now()));
    cr_assert_eq(next_ms(), INTERVAL);
    cr_assert_eq(metric_get(&metrics.passes), 1);
    cr_assert_eq(metric_get(&metrics.in_progress), 2);
    now_ms += INTERVAL;
    cr_assert(scan_wants(&scan, now()));
}

static void finish(verdict_t verdict) {
    cr_assert(begin_scan(2, 0, 0, false));
    digest_t digest = job(1);
    scan_note_job(&scan, &(entry_t){.digest = digest});
    scan_note_verdict(&scan, &verdict);
    scan_end(&scan, now());
}

Test(unit_scan, comes_back_at_the_nearest_deadline) {
    finish((verdict_t){.kind = VERDICT_LEAVE, .again = REDIS_NOW + 300});
    cr_assert_eq(next_ms(), 300 + 10, "jobs that workers took a few ms later must be settled by the same scan");
    finish((verdict_t){.kind = VERDICT_LEAVE, .again = REDIS_NOW + 5 * INTERVAL});
    cr_assert_eq(next_ms(), INTERVAL);
    finish((verdict_t){.kind = VERDICT_LEAVE, .again = REDIS_NOW - 5});
    cr_assert_eq(next_ms(), SCAN_PAUSE_MIN_MS);
    finish((verdict_t){.kind = VERDICT_LEAVE, .again = INT64_MAX});
    cr_assert_eq(next_ms(), INTERVAL);
    config.policy.protected_timeout_ms = 200;
    finish((verdict_t){.kind = VERDICT_STAMP});
    cr_assert_eq(next_ms(), 200 + 10);
    finish((verdict_t){.kind = VERDICT_SEEN});
    cr_assert_eq(next_ms(), 200 + 10);
    finish((verdict_t){.kind = VERDICT_PRESENT, .again = REDIS_NOW + 90});
    cr_assert_eq(next_ms(), 90 + 10);
}

/* A failover may have lost heartbeats. A list without jobs needs no scan to be complete. */
Test(unit_scan, a_heartbeat_is_missing_only_after_a_complete_scan_and_an_interval) {
    scan.server_since = now();
    now_ms += 3 * INTERVAL;
    cr_assert(begin_scan(2, 0, 0, false));
    cr_assert_eq(scan.clock.certain_at, INT64_MAX);
    scan_end(&scan, now());
    cr_assert(begin_scan(2, 0, 0, false));
    cr_assert_eq(scan.clock.certain_at, 0);
    scan.server_since = now();
    SCAN_JOBS(1);
    cr_assert(begin_scan(2, 0, 0, false));
    cr_assert_eq(scan.clock.certain_at, scan.status.now + 1 + INTERVAL - 1, "the scan took 1 ms");
}

Test(unit_scan, pauses_as_long_as_a_scan_took) {
    cr_assert(begin_scan(2, 0, 0, false));
    digest_t digest = job(1);
    scan_note_job(&scan, &(entry_t){.digest = digest});
    scan_note_verdict(&scan, &(verdict_t){.kind = VERDICT_LEAVE, .again = REDIS_NOW + 1});
    now_ms += 3000;
    scan_end(&scan, now());
    cr_assert_eq(next_ms(), 3000);
    scan_changed(&scan, true, now());
    cr_assert_eq(mono_diff(scan.timer.next, now()) / NS_PER_MS, 3000, "a report must not begin the next scan sooner");
    cr_assert_eq(next_ms(), SCAN_PAUSE_MIN_MS, "a report must begin a search");
}

Test(unit_scan, a_rescan_begins_soon) {
    cr_assert(begin_scan(2, 0, 0, false));
    digest_t digest = job(1);
    scan_note_job(&scan, &(entry_t){.digest = digest});
    scan.timer.rescan = true;
    scan_end(&scan, now());
    cr_assert_eq(next_ms(), SCAN_PAUSE_MIN_MS);
    SCAN_JOBS(1);
    cr_assert_eq(next_ms(), INTERVAL, "only one rescan must follow");
}

Test(unit_scan, an_empty_queue_waits_for_a_change) {
    cr_assert_not(begin_scan(0, 0, 0, false));
    cr_assert(scan_next(&scan).ns == mono_never().ns);
    now_ms += 10 * INTERVAL;
    cr_assert_not(scan_wants(&scan, now()));
    scan_changed(&scan, false, now());
    cr_assert(scan_wants(&scan, now()));
    SCAN_JOBS(1);
    scan_changed(&scan, false, now()); /* a list in use changes all the time */
    cr_assert_eq(next_ms(), INTERVAL);
    scan_changed(&scan, true, now());
    cr_assert_eq(next_ms(), SCAN_PAUSE_MIN_MS);
}

Test(unit_scan, short_jobs_cost_one_scan_an_interval) {
    cr_assert_not(begin_scan(0, 0, 0, false));
    now_ms += 5;
    scan_changed(&scan, false, now());
    cr_assert_eq(next_ms(), INTERVAL - 5);
    scan_changed(&scan, true, now());
    cr_assert_eq(next_ms(), 0, "a report must begin a scan at once");
}

Test(unit_scan, without_tracking_an_idle_queue_is_polled_every_interval) {
    cr_assert_not(begin_scan_unarmed());
    cr_assert_eq(next_ms(), INTERVAL);
    now_ms += INTERVAL;
    cr_assert(scan_wants(&scan, now()));
}

Test(unit_scan, a_lone_sentinel_is_scanned_once_more) {
    SCAN_JOBS(1);
    now_ms += INTERVAL;
    cr_assert(begin_scan(1, 1, 0, true), "left stamps must begin a scan");
    cr_assert(scan_pass(&scan)->saw_marker, "or it would push another one");
    cr_assert_eq(scan_entries_wanted(&scan), 0);
    cr_assert(scan_all_read(&scan));
    scan_end(&scan, now());
    cr_assert_eq(next_ms(), SCAN_PAUSE_MIN_MS);
    cr_assert_not(begin_scan(1, 0, 0, true));
    cr_assert(scan_next(&scan).ns == mono_never().ns);
    cr_assert_eq(metric_get(&metrics.in_progress), 0);
}

Test(unit_scan, stamps_of_retried_jobs_keep_no_queue_awake) {
    cr_assert(begin_scan(1, 5, 0, true));
    scan_end(&scan, now());
    cr_assert(begin_scan(1, 5, 0, true), "a second scan must prove that these stamps have no jobs");
    scan_end(&scan, now());
    cr_assert_not(begin_scan(1, 5, 0, true), "the third scan in a row must not begin");
    cr_assert(scan_next(&scan).ns == mono_never().ns);
    scan_safety(&scan, now());
    cr_assert(scan_wants(&scan, now()));
    cr_assert(begin_scan(1, 5, 0, true), "the safety poll must prune again");
}

Test(unit_scan, a_list_without_jobs_is_not_scanned_without_pause) {
    for (int i = 0; i < 5; i++) {
        cr_assert(begin_scan(2, 0, 0, false));
        add_page(0, 0, 0);
        scan_end(&scan, now());
        cr_assert_eq(next_ms(), i < 2 ? SCAN_PAUSE_MIN_MS : INTERVAL);
        now_ms += INTERVAL;
    }
}

Test(unit_scan, the_safety_poll_scans_idle_queues_only) {
    SCAN_JOBS(1);
    scan_safety(&scan, now());
    cr_assert_eq(next_ms(), INTERVAL);
    cr_assert_not(begin_scan(0, 0, 0, false));
    scan_safety(&scan, now());
    cr_assert_eq(next_ms(), 0);
}

Test(unit_scan, a_refusal_blocks_the_queue_for_a_while) {
    fixture_capture_log();
    scan_refused(&scan, &(redis_error_t){.text = "no"}, now());
    cr_assert_eq(metric_get(&metrics.faults), 1);
    cr_assert_eq(next_ms(), SCAN_REFUSED_MS);
    scan_changed(&scan, true, now());
    cr_assert_eq(next_ms(), SCAN_REFUSED_MS);
    now_ms += SCAN_REFUSED_MS - 1;
    cr_assert_not(scan_wants(&scan, now()));
    now_ms += 1;
    cr_assert(scan_wants(&scan, now()));
    scan_refused(&scan, &(redis_error_t){.text = "no"}, now());
    scan_reset(&scan);
    cr_assert(scan_wants(&scan, now()), "a new connection may have other rights");
}

Test(unit_scan, a_report_during_a_scan_starts_another_scan) {
    cr_assert(begin_scan(5, 0, 0, false));
    cr_assert_eq(scan_next(&scan).ns, 0);
    scan_changed(&scan, true, now());
    digest_t digest = job(1);
    scan_note_job(&scan, &(entry_t){.digest = digest});
    scan_end(&scan, now());
    cr_assert_eq(next_ms(), SCAN_PAUSE_MIN_MS, "a report during a scan must begin another scan soon");
}

Test(unit_scan, pages_grow_with_the_list) {
    cr_assert(begin_scan(1000000, 0, 0, false));
    static const size_t pages[] = {8, 32, 128, 256, 256};
    for (size_t i = 0; i < 5; i++) {
        cr_assert_eq(scan_entries_wanted(&scan), pages[i]);
        add_page(pages[i], -1, pages[i] * 100);
    }
    add_page(256, -1, (size_t)64 << 20); /* 256 KiB each */
    cr_assert_eq(scan_entries_wanted(&scan), 3);
    add_page(3, -1, (size_t)48 << 20); /* 16 MiB each */
    cr_assert_eq(scan_entries_wanted(&scan), 1);
    add_page(1, -1, 10);
    cr_assert_eq(scan_entries_wanted(&scan), 4);
    add_page(0, -1, 0);
    cr_assert_geq(scan_entries_wanted(&scan), 1);
}

Test(unit_scan, a_scan_ends_at_the_sentinel_or_at_the_end_of_the_list) {
    cr_assert(begin_scan(20, 0, 0, false));
    add_page(8, -1, 800);
    cr_assert_eq(scan_entries_wanted(&scan), 12);
    add_page(7, 3, 700);
    cr_assert_eq(scan_entries_wanted(&scan), 0);
    cr_assert(scan_pass(&scan)->saw_marker);
    cr_assert(begin_scan(10, 0, 0, false));
    add_page(8, -1, 800);
    cr_assert_eq(scan_entries_wanted(&scan), 2);
    add_page(2, -1, 200);
    cr_assert_eq(scan_entries_wanted(&scan), 0);
    cr_assert_not(scan_pass(&scan)->saw_marker);
    cr_assert(begin_scan(100, 0, 0, false));
    static backup_page_t p;
    p = (backup_page_t){.ended = true};
    scan_requested(&scan, 0);
    scan_read_page(&scan, &p, 0, 0);
    cr_assert_eq(scan_entries_wanted(&scan), 0);
}

/* If the number of entries is unknown, the scan ends with the page that is marked as the last. */
Test(unit_scan, a_scan_of_unknown_length_ends_with_the_last_page) {
    static backup_page_t p;
    backup_status_t open = {.entries = 256, .open = true};
    scan.rotation = 10;
    cr_assert(begin_with(&open));
    cr_assert(scan_pass(&scan)->in_place);
    for (int i = 0; i < 20; i++) {
        size_t wanted = scan_entries_wanted(&scan);
        cr_assert(wanted > 0 && wanted <= BACKUP_PAGE, "page %d: %zu", i, wanted);
        p = (backup_page_t){.count = wanted / 2, .jobs = wanted / 2, .vacant = wanted - wanted / 2, .in_place = true};
        scan_requested(&scan, wanted);
        scan_read_page(&scan, &p, wanted, scan_pass(&scan)->place.next);
    }
    p = (backup_page_t){.ended = true, .in_place = true};
    size_t wanted = scan_entries_wanted(&scan);
    scan_requested(&scan, wanted);
    scan_read_page(&scan, &p, wanted, scan_pass(&scan)->place.next);
    cr_assert_eq(scan_entries_wanted(&scan), 0);
}

Test(unit_scan, a_sentinel_does_not_end_a_scan_without_rotation) {
    static backup_page_t p;
    cr_assert(begin_scan(300, 0, 0, false));
    add_page(8, -1, 800); /* rotated, before redis was full */
    scan_pass(&scan)->in_place = true;
    add_page(5, -1, 500); /* these entries were rotated before the refusal, so they are at the head now */
    cr_assert_eq(scan_pass(&scan)->place.next, 0);
    p = (backup_page_t){.count = 20, .jobs = 19, .bytes = 1900, .in_place = true};
    for (size_t i = 0; i < p.count; i++) p.entries[i].kind = i == 4 ? ENTRY_MARKER : ENTRY_JOB;
    scan_requested(&scan, p.count);
    cr_assert_eq(scan_entries_wanted(&scan), 0, "the start of the next page is not known yet");
    scan_read_page(&scan, &p, p.count, 0);
    cr_assert_eq(scan_pass(&scan)->place.next, 20);
    cr_assert_gt(scan_entries_wanted(&scan), 0);
}

/* A list at the border does not change its way at each scan. */
Test(unit_scan, a_long_list_is_read_in_place_until_half_of_it_is_left) {
    static const struct {
        int64_t entries;
        bool in_place;
    } scans[] = {{ROTATION, false},     {ROTATION + 1, true},  {ROTATION, true},    {ROTATION / 2 + 1, true},
                 {ROTATION / 2, false}, {ROTATION - 1, false}, {2 * ROTATION, true}};
    for (size_t i = 0; i < sizeof scans / sizeof *scans; i++) {
        cr_assert(begin_scan(scans[i].entries, 0, 0, false));
        cr_assert_eq(scan_pass(&scan)->in_place, scans[i].in_place, "scan %zu, of %d entries", i, (int)scans[i].entries);
    }
    backup_status_t with_marker = status_of(ROTATION + 1);
    with_marker.n = 1;
    scan_reset(&scan);
    scan.is_long = false;
    cr_assert(begin_with(&with_marker));
    cr_assert_not(scan_pass(&scan)->in_place, "the marker is no job");
    scan.rotation = 0;
    cr_assert(begin_scan(1, 0, 0, false));
    cr_assert(scan_pass(&scan)->in_place, "rotation = 0: no list is rotated");
}

static size_t job_bytes; /* of each job of read_in_place */

static void read_in_place(const int *jobs, size_t count, size_t skip) {
    static backup_page_t p;
    p = (backup_page_t){.count = count, .jobs = count, .bytes = count * job_bytes, .in_place = true};
    for (size_t i = 0; i < count; i++)
        p.entries[i] = (entry_t){.kind = ENTRY_JOB, .digest = job(jobs[i]), .bytes.len = job_bytes};
    scan_requested(&scan, count);
    scan_read_page(&scan, &p, count, skip);
    for (size_t i = 0; i < p.count; i++) scan_note_job(&scan, &p.entries[i]);
}

/* All jobs that the scan has met were moved away from their places, and it meets them again. */
Test(unit_scan, a_scan_that_begins_again_counts_no_job_twice) {
    static const int first[] = {1, 2, 3, 4, 5, 6, 7, 8}, moved[] = {9, 10, 11, 12, 13, 14, 15, 16};
    scan.rotation = 0;
    cr_assert(begin_scan(24, 0, 0, false));
    read_in_place(first, 8, 0);
    scan_pass(&scan)->oversized = scan_pass(&scan)->endless_heartbeats = scan_pass(&scan)->undated = 2;
    read_in_place(moved, 8, 0);
    const scan_pass_t *pass = scan_pass(&scan);
    cr_assert(!pass->oversized && !pass->endless_heartbeats && !pass->undated, "the scan meets these jobs once more");
    read_in_place((const int[]){16, 1, 2, 3, 4, 5, 6, 7, 8}, 9, 7);
    cr_assert_eq(scan_pass(&scan)->jobs, 16);
    scan_end(&scan, now());
    digest_t one = job(1);
    cr_assert_not(duplicates_uncounted(&scan.duplicates, &one), "the filter takes it for a duplicate");
}

/* Workers have finished so many jobs that the list is shorter than what the scan has read: jobs that it has not met are nearer to
 * the tail now. */
Test(unit_scan, a_page_behind_the_end_of_a_list_that_moved_does_not_end_the_scan) {
    int jobs[64];
    for (int i = 0; i < 64; i++) jobs[i] = i;
    scan.rotation = 0;
    cr_assert(begin_scan(1000, 0, 0, false));
    scan.page_size.entries = 64;
    read_in_place(jobs, 64, 0);
    static backup_page_t p;
    p = (backup_page_t){.in_place = true, .ended = true};
    scan.page_size.entries = 64;
    scan_requested(&scan, 64);
    scan_read_page(&scan, &p, 64, 56);
    cr_assert_not(scan_pass(&scan)->ended);
    cr_assert_gt(scan_entries_wanted(&scan), 0);
}

/* Such a list has few entries, so a rotation costs little, and pages of one entry could not overlap. */
Test(unit_scan, a_list_of_large_jobs_is_rotated_at_any_length) {
    static backup_page_t p;
    for (int large = 0; large < 2; large++) {
        cr_assert(begin_scan(2 * ROTATION, 0, 0, false));
        cr_assert(scan_pass(&scan)->in_place);
        p = (backup_page_t){.count = 2, .jobs = 2, .bytes = large ? 40000 : 20000, .in_place = true};
        for (size_t i = 0; i < 2; i++) p.entries[i] = (entry_t){.bytes.len = p.bytes / 2, .digest = job((int)i)};
        scan_requested(&scan, 2);
        scan_read_page(&scan, &p, 2, 0);
        for (size_t i = 0; i < 2; i++) scan_note_job(&scan, &p.entries[i]);
        scan_end(&scan, now());
        cr_assert(begin_scan(2 * ROTATION, 0, 0, false));
        cr_assert_eq(scan_pass(&scan)->in_place, !large);
        scan_enter(&scan, SCAN_WAIT);
    }
}

/* list_page.lua limits the bytes of a page that is read in place. Pages of few entries would hardly overlap. */
Test(unit_scan, a_large_job_in_a_long_list_costs_the_scan_its_place_in_no_other_page) {
    static const int first[] = {1, 2, 3, 4, 5, 6, 7, 8}, moved[] = {50, 51, 52, 53};
    scan.rotation = 0;
    cr_assert(begin_scan(1000, 0, 0, false));
    job_bytes = (size_t)20 << 20;
    read_in_place(first, 1, 0);
    cr_assert_eq(scan_entries_wanted(&scan), PLACE_KNOWN);
    job_bytes = 200;
    read_in_place(first, 8, 0);
    read_in_place(moved, 4, 7);
    cr_assert_not(scan_pass(&scan)->incomplete, "it goes back");
}

/* A page that lacks jobs proves nothing about jobs that it did not meet, nor about their stamps. */
Test(unit_scan, a_scan_that_may_have_missed_jobs_is_not_complete) {
    static const int first[] = {1, 2, 3, 4, 5, 6, 7, 8}, moved[] = {9, 10, 11, 12};
    scan.rotation = 0;
    for (int lost = 0; lost < 2; lost++) {
        unsigned before = scan.completed;
        cr_assert(begin_scan(24, 100, 0, false));
        job_bytes = 100000;
        read_in_place(first, 8, 0);
        read_in_place(lost ? moved : &first[7], lost ? 4 : 1, 7);
        cr_assert_eq(scan_all_read(&scan), !lost, "whether it prunes");
        scan_end(&scan, now());
        cr_assert_eq(scan.completed, before + !lost);
    }
}

/* 20 jobs of 4 MiB: 80 MiB at 4 MiB/s. */
Test(unit_scan, scans_of_large_jobs_are_farther_apart) {
    static backup_page_t p;
    enum { JOBS = 20, BYTES = 4 << 20 };
    cr_assert(begin_scan(JOBS, 0, 0, false));
    p = (backup_page_t){.count = JOBS, .jobs = JOBS, .bytes = (size_t)JOBS * BYTES};
    for (size_t i = 0; i < JOBS; i++) p.entries[i].bytes.len = BYTES;
    scan_requested(&scan, JOBS);
    scan_read_page(&scan, &p, JOBS, 0);
    scan_note_verdict(&scan, &(verdict_t){.kind = VERDICT_LEAVE, .again = REDIS_NOW + 1});
    scan_end(&scan, now());
    cr_assert(next_ms() >= 19000 && next_ms() <= 21000, "%d ms", (int)next_ms());
    SCAN_JOBS(1);
    cr_assert_eq(next_ms(), INTERVAL);
}

/* Adds a page of eight entries; the last has `large` bytes. */
static void page_with_large(size_t large) {
    static backup_page_t p;
    p = (backup_page_t){.count = 8, .jobs = 8, .bytes = 700 + large};
    p.entries[7].bytes.len = large;
    scan_requested(&scan, p.count);
    scan_read_page(&scan, &p, p.count, 0);
}

/* The next scan reads small entries first as well. A full page of the large entries after them would have hundreds of MiB. */
Test(unit_scan, the_next_scan_remembers_a_large_entry) {
    cr_assert(begin_scan(1000, 0, 0, false));
    page_with_large((size_t)1 << 20);
    scan_end(&scan, now());
    for (int later = 0; later < 2; later++) {
        cr_assert(begin_scan(1000, 0, 0, false));
        for (int i = 0; i < 5; i++) add_page(8, -1, 800);
        cr_assert_eq(scan_entries_wanted(&scan), later ? 256 : 3, "%zu", scan_entries_wanted(&scan));
        scan_end(&scan, now());
    }
}

Test(unit_scan, entries_that_a_full_redis_refused_are_requested_again) {
    static backup_page_t p;
    cr_assert(begin_scan(30, 0, 0, false));
    scan_requested(&scan, 8);
    cr_assert_eq(scan_entries_wanted(&scan), 0, "a page must come before the next request, to show the size of entries");
    p = (backup_page_t){.count = 8, .jobs = 8, .bytes = 800};
    scan_read_page(&scan, &p, 8, 0);
    cr_assert_eq(scan_entries_wanted(&scan), 22);
    scan_requested(&scan, 20);
    p = (backup_page_t){.count = 5, .jobs = 5, .bytes = 500}; /* Redis was full after five entries */
    scan_read_page(&scan, &p, 20, 0);
    cr_assert_eq(scan_entries_wanted(&scan), 17);
}
