/* base/remote_clock: the difference of two clocks, from requests and replies. */
#include "base/remote_clock.h"
#include "suite.h"

enum { MS = 1000000 };

/* The server's clock is 1,000 s ahead. Notes a reply whose time was read `at_ms` after the start of the test. */
static int64_t note(remote_clock_t *clock, int64_t at_ms, int64_t sent_ms, int64_t arrived_ms) {
    int64_t us = (1000000 + at_ms) * 1000;
    return remote_clock_note(clock, us, (mono_t){sent_ms * MS}, (mono_t){arrived_ms * MS}).ns / MS;
}

Test(unit_remote_clock, a_slow_reply_changes_nothing) {
    remote_clock_t clock = {0};
    cr_assert_eq(note(&clock, 11, 10, 12), 11);
    cr_assert_eq(note(&clock, 21, 20, 500), 21, "a reply that arrived late");
    cr_assert_eq(note(&clock, 900, 520, 901), 900, "a request that waited");
}

Test(unit_remote_clock, a_fast_reply_corrects_the_estimate) {
    remote_clock_t clock = {0};
    cr_assert_eq(note(&clock, 250, 10, 500), 11, "a first slow reply");
    cr_assert_eq(note(&clock, 510, 510, 511), 510);
    cr_assert_eq(note(&clock, 520, 519, 900), 520);
    clock.offset_ns += 100 * (int64_t)MS;
    cr_assert_eq(note(&clock, 600, 599, 601), 601, "an estimate that was too late");
}

Test(unit_remote_clock, a_slow_reply_after_some_drift_shifts_little) {
    remote_clock_t clock = {0};
    note(&clock, 11, 10, 12);
    cr_assert_eq(note(&clock, 20, 21, 900), 22, "the server's clock is 1 ms behind");
}

Test(unit_remote_clock, follows_a_clock_that_steps) {
    remote_clock_t clock = {0};
    cr_assert_eq(note(&clock, 11, 10, 12), 11);
    cr_assert_eq(note(&clock, 3600000 + 21, 20, 22), 22, "an hour ahead");
    cr_assert_eq(note(&clock, 3600000 + 31, 30, 32), 32);
    cr_assert_eq(note(&clock, 41, 40, 42), 41, "and back");
    cr_assert_eq(note(&clock, 51, 50, 52), 51);
}

Test(unit_remote_clock, a_time_beyond_all_years_is_not_believed) {
    remote_clock_t clock = {0};
    cr_assert_eq(remote_clock_note(&clock, INT64_MAX, (mono_t){1}, (mono_t){7}).ns, 7);
    cr_assert_eq(remote_clock_note(&clock, -1, (mono_t){1}, (mono_t){7}).ns, 7);
    cr_assert_not(clock.known);
}
