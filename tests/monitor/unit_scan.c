/* What the monitor knows of one queue: when it looks, how much it asks for, and what it makes of what a pass met. */
#include "scan_fixture.h"

TestSuite(unit_ward, .init = begin, .fini = end);

Test(unit_ward, interval) {
    static const struct {
        int64_t timeout, given, interval;
    } rows[] = {{50, 0, 1000},      {10000, 0, 1000},    {10010, 0, 1001},        {300000, 0, 30000},
                {600000, 0, 60000}, {3600000, 0, 60000}, {3600000, 70000, 70000}, {10, 50, 50}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        config.policy.protected_timeout_ms = rows[i].timeout;
        ward_free(&ward);
        ward_init(&ward, &config, &metrics, rows[i].given);
        cr_assert_eq(ward.interval_ms, rows[i].interval, "row %zu: %d", i, (int)ward.interval_ms);
    }
}

Test(unit_ward, begins_at_once_and_then_every_interval) {
    cr_assert(ward_wants(&ward, now()));
    PASS(1, 2);
    cr_assert_not(ward_wants(&ward, now()));
    cr_assert_eq(next_ms(), INTERVAL);
    cr_assert_eq(metric_get(&metrics.passes), 1);
    cr_assert_eq(metric_get(&metrics.in_progress), 2);
    now_ms += INTERVAL;
    cr_assert(ward_wants(&ward, now()));
}

static void finish(verdict_t verdict) {
    cr_assert(look(2, 0, 0, false));
    digest_t digest = job(1);
    ward_met(&ward, &digest);
    ward_verdict(&ward, &verdict);
    ward_end(&ward, now());
}

Test(unit_ward, comes_back_at_the_nearest_deadline) {
    finish((verdict_t){.kind = VERDICT_LEAVE, .again = REDIS_NOW + 300});
    cr_assert_eq(next_ms(), 301, "a timeout is over when it is exceeded: %d", (int)next_ms());
    finish((verdict_t){.kind = VERDICT_LEAVE, .again = REDIS_NOW + 5 * INTERVAL});
    cr_assert_eq(next_ms(), INTERVAL);
    finish((verdict_t){.kind = VERDICT_LEAVE, .again = REDIS_NOW - 5});
    cr_assert_eq(next_ms(), WARD_LEAST_MS);
    finish((verdict_t){.kind = VERDICT_LEAVE, .again = INT64_MAX});
    cr_assert_eq(next_ms(), INTERVAL);
    config.policy.protected_timeout_ms = 200;
    finish((verdict_t){.kind = VERDICT_STAMP});
    cr_assert_eq(next_ms(), 201);
    finish((verdict_t){.kind = VERDICT_SEEN});
    cr_assert_eq(next_ms(), 201);
    finish((verdict_t){.kind = VERDICT_PRESENT, .again = REDIS_NOW + 90});
    cr_assert_eq(next_ms(), 91);
}

Test(unit_ward, pauses_as_long_as_a_pass_took) {
    cr_assert(look(2, 0, 0, false));
    digest_t digest = job(1);
    ward_met(&ward, &digest);
    ward_verdict(&ward, &(verdict_t){.kind = VERDICT_LEAVE, .again = REDIS_NOW + 1});
    now_ms += 3000;
    ward_end(&ward, now());
    cr_assert_eq(next_ms(), 3000);
    ward_changed(&ward, true, now());
    cr_assert_eq(next_ms(), 3000, "not even a report begins it sooner");
}

Test(unit_ward, what_is_unsettled_is_looked_at_again_at_once) {
    cr_assert(look(2, 0, 0, false));
    digest_t digest = job(1);
    ward_met(&ward, &digest);
    ward.unsettled = true;
    ward_end(&ward, now());
    cr_assert_eq(next_ms(), WARD_LEAST_MS);
    PASS(1);
    cr_assert_eq(next_ms(), INTERVAL, "once");
}

Test(unit_ward, an_empty_queue_is_quiet_until_something_changes) {
    cr_assert_not(look(0, 0, 0, false));
    cr_assert(ward_next(&ward).ns == mono_never().ns);
    now_ms += 10 * INTERVAL;
    cr_assert_not(ward_wants(&ward, now()));
    ward_changed(&ward, false, now());
    cr_assert(ward_wants(&ward, now()));
    PASS(1);
    ward_changed(&ward, false, now()); /* a list in use changes all the time */
    cr_assert_eq(next_ms(), INTERVAL);
    ward_changed(&ward, true, now());
    cr_assert_eq(next_ms(), WARD_LEAST_MS);
}

Test(unit_ward, jobs_that_come_and_go_cost_one_look_an_interval) {
    cr_assert_not(look(0, 0, 0, false));
    now_ms += 5;
    ward_changed(&ward, false, now());
    cr_assert_eq(next_ms(), INTERVAL - 5);
    ward_changed(&ward, true, now());
    cr_assert_eq(next_ms(), 0, "but a report does not wait");
}

Test(unit_ward, without_wake_ups_an_idle_queue_is_looked_at_every_interval) {
    cr_assert_not(look_unarmed());
    cr_assert_eq(next_ms(), INTERVAL);
    now_ms += INTERVAL;
    cr_assert(ward_wants(&ward, now()));
}

Test(unit_ward, the_sentinel_alone_makes_one_more_look_and_then_silence) {
    PASS(1);
    now_ms += INTERVAL;
    cr_assert(look(1, 1, 0, true), "its stamps are left");
    cr_assert_eq(ward_wanted(&ward), 0);
    cr_assert(ward_met_all(&ward));
    ward_end(&ward, now());
    cr_assert_eq(next_ms(), WARD_LEAST_MS);
    cr_assert_not(look(1, 0, 0, true));
    cr_assert(ward_next(&ward).ns == mono_never().ns);
    cr_assert_eq(metric_get(&metrics.in_progress), 0);
}

Test(unit_ward, stamps_of_jobs_under_way_keep_nobody_awake) {
    cr_assert(look(1, 5, 0, true));
    ward_end(&ward, now());
    cr_assert(look(1, 5, 0, true), "the last pass may have seen their jobs");
    ward_end(&ward, now());
    cr_assert_not(look(1, 5, 0, true), "the third look in a row");
    cr_assert(ward_next(&ward).ns == mono_never().ns);
    ward_safety(&ward, now());
    cr_assert(ward_wants(&ward, now()));
    cr_assert(look(1, 5, 0, true), "the safety look sweeps again");
}

Test(unit_ward, a_list_that_holds_no_job_and_yet_something_is_no_reason_to_spin) {
    for (int i = 0; i < 5; i++) {
        cr_assert(look(2, 0, 0, false));
        page(0, 0, 0);
        ward_end(&ward, now());
        cr_assert_eq(next_ms(), i < 2 ? WARD_LEAST_MS : INTERVAL);
        now_ms += INTERVAL;
    }
}

Test(unit_ward, safety_looks_at_quiet_queues_only) {
    PASS(1);
    ward_safety(&ward, now());
    cr_assert_eq(next_ms(), INTERVAL);
    cr_assert_not(look(0, 0, 0, false));
    ward_safety(&ward, now());
    cr_assert_eq(next_ms(), 0);
}

Test(unit_ward, a_fault_holds_it_and_nothing_wakes_it_before) {
    ward_fault(&ward, "no", now());
    cr_assert_eq(metric_get(&metrics.faults), 1);
    cr_assert_eq(next_ms(), WARD_FAULT_HOLD_MS);
    ward_changed(&ward, true, now());
    cr_assert_eq(next_ms(), WARD_FAULT_HOLD_MS);
    now_ms += WARD_FAULT_HOLD_MS - 1;
    cr_assert_not(ward_wants(&ward, now()));
    now_ms += 1;
    cr_assert(ward_wants(&ward, now()));
    ward_fault(&ward, "no", now());
    ward_forget(&ward);
    cr_assert(ward_wants(&ward, now()), "a new connection may have other rights");
}

Test(unit_ward, a_pass_under_way_is_not_begun_again) {
    cr_assert(look(5, 0, 0, false));
    cr_assert_eq(ward_next(&ward).ns, 0);
    ward_changed(&ward, true, now());
    digest_t digest = job(1);
    ward_met(&ward, &digest);
    ward_end(&ward, now());
    cr_assert_eq(next_ms(), WARD_LEAST_MS, "but a report that came meanwhile is not forgotten");
}

Test(unit_ward, pages_grow_with_what_they_hold) {
    cr_assert(look(1000000, 0, 0, false));
    static const size_t pages[] = {8, 32, 128, 256, 256};
    for (size_t i = 0; i < 5; i++) {
        cr_assert_eq(ward_wanted(&ward), pages[i]);
        page(pages[i], -1, pages[i] * 100);
    }
    page(256, -1, (size_t)64 << 20); /* 256 KiB each */
    cr_assert_eq(ward_wanted(&ward), 3);
    page(3, -1, (size_t)48 << 20); /* 16 MiB each */
    cr_assert_eq(ward_wanted(&ward), 1);
    page(1, -1, 10);
    cr_assert_eq(ward_wanted(&ward), 4);
    page(0, -1, 0);
    cr_assert_geq(ward_wanted(&ward), 1);
}

Test(unit_ward, a_pass_ends_behind_the_sentinel_or_where_the_list_ended) {
    cr_assert(look(20, 0, 0, false));
    page(8, -1, 800);
    cr_assert_eq(ward_wanted(&ward), 12);
    page(7, 3, 700);
    cr_assert_eq(ward_wanted(&ward), 0);
    cr_assert(ward.met_sentinel);
    cr_assert(look(10, 0, 0, false));
    page(8, -1, 800);
    cr_assert_eq(ward_wanted(&ward), 2);
    page(2, -1, 200);
    cr_assert_eq(ward_wanted(&ward), 0);
    cr_assert_not(ward.met_sentinel);
    cr_assert(look(100, 0, 0, false));
    ward_page(&ward, &(backup_page_t){.ended = true}, 0);
    cr_assert_eq(ward_wanted(&ward), 0);
}

/* Where nobody knows how many there are, pages go on until one was the last. */
Test(unit_ward, an_open_look_ends_with_a_page_that_says_so) {
    static backup_page_t p;
    backup_look_t open = {.entries = 256, .open = true};
    cr_assert(ward_begin(&ward, &open, now()));
    ward.reads_only = true;
    for (int i = 0; i < 20; i++) {
        size_t wanted = ward_wanted(&ward);
        cr_assert(wanted > 0 && wanted <= BACKUP_PAGE, "page %d: %zu", i, wanted);
        p = (backup_page_t){.count = wanted / 2, .jobs = wanted / 2, .vacant = wanted - wanted / 2, .standing = true};
        ward_asked(&ward, wanted);
        ward_page(&ward, &p, wanted);
    }
    p = (backup_page_t){.ended = true, .standing = true};
    size_t wanted = ward_wanted(&ward);
    ward_asked(&ward, wanted);
    ward_page(&ward, &p, wanted);
    cr_assert_eq(ward_wanted(&ward), 0);
}

Test(unit_ward, read_from_the_tail_the_sentinel_ends_nothing) {
    static backup_page_t p;
    cr_assert(look(300, 0, 0, false));
    page(8, -1, 800); /* rotated, before redis was full */
    ward.reads_only = true;
    page(5, -1, 500); /* what was rotated before the refusal stands at the head now */
    cr_assert_eq(ward.read, 0);
    p = (backup_page_t){.count = 20, .jobs = 19, .bytes = 1900, .standing = true};
    for (size_t i = 0; i < p.count; i++) p.entries[i].kind = i == 4 ? ENTRY_SENTINEL : ENTRY_JOB;
    ward_asked(&ward, p.count);
    cr_assert_eq(ward_wanted(&ward), 0, "where the next one begins is not known yet");
    ward_page(&ward, &p, p.count);
    cr_assert_eq(ward.read, 20);
    cr_assert_gt(ward_wanted(&ward), 0);
}

/* One page of eight, the last of which is so large. */
static void page_with_large(size_t large) {
    static backup_page_t p;
    p = (backup_page_t){.count = 8, .jobs = 8, .bytes = 700 + large};
    p.entries[7].bytes.len = large;
    ward_asked(&ward, p.count);
    ward_page(&ward, &p, p.count);
}

/* Those that are met first are small in the next pass, too, and a page of large ones behind them would be hundreds of MiB. */
Test(unit_ward, a_large_entry_is_remembered_for_the_next_pass) {
    cr_assert(look(1000, 0, 0, false));
    page_with_large((size_t)1 << 20);
    ward_end(&ward, now());
    for (int later = 0; later < 2; later++) {
        cr_assert(look(1000, 0, 0, false));
        for (int i = 0; i < 5; i++) page(8, -1, 800);
        cr_assert_eq(ward_wanted(&ward), later ? 256 : 3, "%zu", ward_wanted(&ward));
        ward_end(&ward, now());
    }
}

/* Asked for, and not come yet. */
Test(unit_ward, pages_are_asked_for_ahead_but_no_more_than_there_are_entries) {
    static backup_page_t p;
    cr_assert(look(30, 0, 0, false));
    ward_asked(&ward, 8);
    cr_assert_eq(ward_wanted(&ward), 0, "the first one tells how large entries are");
    p = (backup_page_t){.count = 8, .jobs = 8, .bytes = 800};
    ward_page(&ward, &p, 8);
    cr_assert_eq(ward_wanted(&ward), 22);
    ward_asked(&ward, 20);
    cr_assert_eq(ward_wanted(&ward), 2);
    ward_asked(&ward, 2);
    cr_assert_eq(ward_wanted(&ward), 0);
    p = (backup_page_t){.count = 5, .jobs = 5, .bytes = 500}; /* then Redis was full */
    ward_page(&ward, &p, 20);
    cr_assert_eq(ward_wanted(&ward), 15);
}
