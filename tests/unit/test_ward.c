/* What the monitor knows of one queue: when it looks, how much it asks for, and what it makes of what a pass met. */
#include "ward.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERVAL = 1000, REDIS_NOW = 5000000 };

static queue_config_t config;
static char empty[] = "";
static metrics_queue_t metrics;
static ward_t ward;
static int64_t now_ms;

static mono_t now(void) { return (mono_t){(1000000 + now_ms) * NS_PER_MS}; }
static int64_t next_ms(void) { return mono_diff(ward_next(&ward), now()) / NS_PER_MS; }

static void begin(void) {
    config = (queue_config_t){.name = "email"};
    config.policy.protected_timeout_ms = 10000;
    config.policy.created_path = empty;
    config.policy.retry_window_ms = 60000;
    metrics = (metrics_queue_t){0};
    now_ms = 0;
    ward_init(&ward, &config, &metrics, INTERVAL);
}

static void end(void) { ward_free(&ward); }

TestSuite(unit_ward, .init = begin, .fini = end);

static digest_t job(int number) { return digest_of(&number, sizeof number); }

static backup_look_t look_of(int64_t entries) {
    return (backup_look_t){.entries = entries, .now = REDIS_NOW + now_ms, .armed = true};
}

static bool look(int64_t entries, int64_t stamps, int64_t reports, bool alone) {
    backup_look_t found = look_of(entries);
    found.stamps = stamps;
    found.reports = reports;
    found.sentinel_alone = alone;
    return ward_begin(&ward, &found, now());
}

static bool look_unarmed(void) {
    backup_look_t found = look_of(0);
    found.armed = false;
    return ward_begin(&ward, &found, now());
}

/* One page of jobs, and a sentinel behind so many of them (-1: none). */
static void page(size_t jobs, int sentinel, size_t bytes) {
    static backup_page_t p;
    p = (backup_page_t){.count = jobs + (sentinel >= 0), .jobs = jobs, .bytes = bytes};
    for (size_t i = 0; i < p.count; i++) p.entries[i].kind = (int)i == sentinel ? ENTRY_SENTINEL : ENTRY_JOB;
    ward_asked(&ward, p.count);
    ward_page(&ward, &p, p.count);
}

/* A whole pass that meets these jobs, and takes 1 ms. */
static void pass(const int *jobs, size_t count) {
    cr_assert(look((int64_t)count + 1, 0, 0, false));
    for (size_t i = 0; i < count; i++) {
        digest_t digest = job(jobs[i]);
        ward_met(&ward, &digest);
    }
    now_ms++;
    ward.now = REDIS_NOW + now_ms;
    ward_met_all(&ward);
    ward_end(&ward, now());
}
#define PASS(...) pass((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

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

static bool copies_of(int number) {
    digest_t digest = job(number);
    return ward_met(&ward, &digest);
}

Test(unit_ward, copies_are_known_in_the_second_pass) {
    PASS(1, 2, 1, 3);
    cr_assert(look(5, 0, 0, false));
    cr_assert_not(copies_of(1));
    cr_assert(copies_of(1), "met twice, and suspect before");
    cr_assert_not(copies_of(2));
    cr_assert_not(copies_of(3));
    ward_end(&ward, now());
    cr_assert(look(5, 0, 0, false));
    cr_assert(copies_of(1), "from then on at the first one");
    ward_end(&ward, now());
    cr_assert(look(5, 0, 0, false)); /* only one was met: the others have gone */
    cr_assert_not(copies_of(1));
    ward_end(&ward, now());
}

Test(unit_ward, what_a_broken_off_pass_met_makes_no_copies) {
    PASS(1, 1);
    cr_assert(look(3, 0, 0, false));
    cr_assert_not(copies_of(1));
    ward_fault(&ward, "no", now());
    cr_assert(look(3, 0, 0, false));
    cr_assert_not(copies_of(1));
    ward_forget(&ward);
    PASS(1);
    cr_assert(look(3, 0, 0, false));
    cr_assert_not(copies_of(1));
    cr_assert_not(copies_of(1), "what was suspect is forgotten with the term");
}

Test(unit_ward, long_lists_are_ended_from_after_two_passes) {
    cr_assert(look(WARD_EXACT_ENTRIES, 0, 0, false));
    cr_assert(ward_sure(&ward));
    for (int i = 0; i < 3; i++) {
        cr_assert(look(WARD_EXACT_ENTRIES + 1, 0, 0, false));
        cr_assert_eq(ward_sure(&ward), i == 2);
        ward_end(&ward, now());
    }
    ward_forget(&ward);
    cr_assert(look(WARD_EXACT_ENTRIES + 1, 0, 0, false));
    cr_assert_not(ward_sure(&ward));
}

static void report(const char *text, const char *sha1, bool ends) {
    ward_report(&ward, &(report_ref_t){.job = slice_text(text), .sha1 = sha1, .ends = ends});
}

static const ward_report_t *report_of(const char *text) {
    digest_t digest = digest_of(text, strlen(text));
    return ward_report_of(&ward, &digest);
}

/* One pass that finds these reports (text, sha1, ...) and meets those jobs. */
static void report_pass(const char *const *reports, const char *const *jobs) {
    cr_assert(look(5, 0, 1, false));
    for (; reports && *reports; reports += 2) report(reports[0], reports[1], reports[0][0] == '!');
    ward_reports_end(&ward);
    for (; jobs && *jobs; jobs++) {
        digest_t digest = digest_of(*jobs, strlen(*jobs));
        ward_met(&ward, &digest);
    }
    ward_end(&ward, now());
}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static char *stray(void) {
    ward_report_t out;
    return ward_stray_report(&ward, &out) ? out.job : NULL;
}

Test(unit_ward, a_report_is_kept_for_two_passes_and_then_is_stray) {
    report_pass(LIST("a", "1", "b", "1", "!c", "2"), LIST("b", "!c"));
    cr_assert(report_of("a") && report_of("!c")->ends && !report_of("b")->ends);
    cr_assert_str_eq(report_of("!c")->sha1, "2");
    cr_assert_null(report_of("d"));
    cr_assert_null(stray());
    report_pass(LIST("a", "1", "b", "1", "!c", "2"), LIST("b"));
    char *gone = stray();
    cr_assert_str_eq(gone, "a");
    free(gone);
    cr_assert_null(stray());
    cr_assert_null(report_of("a"));
    cr_assert(report_of("b") && report_of("!c"), "the others are still found");
    report_pass(LIST("b", "1", "!c", "2"), LIST("!c", "b"));
    cr_assert_null(stray(), "missed twice, but not in a row");
    report_pass(LIST("b", "1", "!c", "2"), LIST("b"));
    cr_assert_null(stray());
}

Test(unit_ward, another_text_begins_anew) {
    report_pass(LIST("a", "1"), NULL);
    report_pass(LIST("a", "2"), NULL);
    cr_assert_null(stray());
    cr_assert_str_eq(report_of("a")->sha1, "2");
    report_pass(LIST("a", "2"), NULL);
    free(stray());
    report_pass(LIST("a", "2"), NULL); /* it could not be removed, or came again */
    cr_assert_not_null(report_of("a"));
    cr_assert_null(stray());
}

Test(unit_ward, reports_that_are_not_in_the_hash_any_more_are_forgotten) {
    report_pass(LIST("a", "1", "b", "1"), NULL);
    report_pass(LIST("b", "1"), LIST("b"));
    cr_assert_null(report_of("a"));
    cr_assert_not_null(report_of("b"));
    report_pass(NULL, NULL);
    cr_assert_eq(ward.report_count, 0);
    cr_assert_eq(ward.report_bytes, 0);
}

Test(unit_ward, reports_do_not_fill_the_memory) {
    char text[16];
    cr_assert(look(5, 0, 1, false));
    for (int i = 0; i < 10001; i++) {
        snprintf(text, sizeof text, "%d", i);
        cr_assert_eq(ward.reports_full, false);
        report(text, "1", false);
    }
    cr_assert(ward.reports_full);
    cr_assert_eq(ward.report_count, 10000);
    ward_forget(&ward);
    cr_assert(look(5, 0, 1, false));
    size_t large = 40 << 20;
    char *bytes = calloc(large, 1);
    for (int i = 0; i < 2; i++) {
        bytes[0] = (char)i;
        ward_report(&ward, &(report_ref_t){.job = {bytes, large}, .sha1 = "1"});
    }
    cr_assert_eq(ward.report_count, 1, "one is noted however large it is");
    cr_assert(ward.reports_full);
    free(bytes);
}

/* A stamp of that job would be kept. */
static bool keeps(int number, stamp_t stamp) {
    digest_t digest = job(number);
    return ward_keeps(&ward, digest.bytes, &stamp);
}

Test(unit_ward, a_stamp_is_kept_until_two_passes_have_not_seen_its_job) {
    stamp_t seen = {.born_us = 1, .seen = 1};
    cr_assert(look(2, 2, 0, false));
    cr_assert(keeps(1, seen), "nobody has seen a whole pass yet");
    ward_end(&ward, now());
    PASS(1, 2);
    cr_assert(look(2, 2, 0, false));
    cr_assert_not(copies_of(2));
    cr_assert(keeps(1, seen));
    ward_end(&ward, now());
    cr_assert(look(2, 2, 0, false));
    cr_assert_not(keeps(1, seen));
    cr_assert(keeps(2, seen));
}

Test(unit_ward, a_stamp_under_way_is_kept_for_the_retry_window) {
    for (int i = 0; i < 3; i++) PASS(1);
    ward.now = REDIS_NOW;
    cr_assert(keeps(7, (stamp_t){.born_us = 1, .retried_at = REDIS_NOW - 60000}));
    cr_assert_not(keeps(7, (stamp_t){.born_us = 1, .retried_at = REDIS_NOW - 60001}));
    cr_assert_not(keeps(7, (stamp_t){.born_us = 1, .seen = 1, .retried_at = REDIS_NOW}));
}

/* Its stamp says that its date no longer counts; elsewhere it says nothing that the next sighting would not. */
Test(unit_ward, a_stamp_of_a_job_put_back_is_kept_where_its_date_would_end_it) {
    stamp_t stamp = {.born_us = 1, .requeued = true, .retried_at = REDIS_NOW - 500000};
    for (int i = 0; i < 3; i++) PASS(1);
    ward.now = REDIS_NOW;
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

Test(unit_ward, stamps_are_swept_when_there_are_more_than_jobs) {
    cr_assert(look(3, 2, 0, false));
    copies_of(1);
    copies_of(2);
    cr_assert_not(ward_met_all(&ward));
    cr_assert_eq(ward.phase, WARD_SWEEP);
    cr_assert(look(3, 3, 0, false));
    copies_of(1);
    copies_of(2);
    cr_assert(ward_met_all(&ward));
}
