/* The schedule of one queue, without Redis. unit_schedule_backlog.c tests backlogs and oversized entries. */
#include "dialects/registry.h"
#include "schedule_fixture.h"

#include <math.h>
#include <signal.h>

static setup_t setup;
SUITE(unit_schedule, , setup_close(&setup));

Test(unit_schedule, a_second_request_in_flight_ends_the_process, .signal = SIGABRT) {
    setup = setup_open("");
    schedule_sent_read(&setup.schedule, NOW);
    cr_assert_not(schedule_wants_promote(&setup.schedule, NOW));
    schedule_sent_promote(&setup.schedule, SLICE_US, NOW);
}

Test(unit_schedule, a_reply_without_a_request_ends_the_process, .signal = SIGABRT) {
    setup = setup_open("");
    cr_assert(schedule_wants_read(&setup.schedule, NOW), "none is in flight");
    schedule_replied(&setup.schedule);
}

Test(unit_schedule, begins_with_a_read_of_the_head) {
    setup = setup_open("");
    cr_assert(schedule_wants_read(&setup.schedule, NOW));
    cr_assert_not(schedule_wants_promote(&setup.schedule, NOW));
    cr_assert(mono_reached(schedule_next(&setup.schedule), NOW));
    schedule_sent_read(&setup.schedule, NOW);
    cr_assert_not(schedule_wants_read(&setup.schedule, at(5000)), "a read is in flight");
    schedule_replied(&setup.schedule);
    see_none(&setup.schedule);
    cr_assert_not(schedule_wants_read(&setup.schedule, at(1000000)));
    cr_assert_eq(schedule_next(&setup.schedule).ns, mono_never().ns);
}

Test(unit_schedule, a_head_is_due_by_the_redis_clock) {
    static const struct {
        const char *unit;
        double score;
        int64_t in_us; /* from now; INT64_MAX: never */
    } rows[] = {
        {"ms", 1800000000123, 0},
        {"ms", 1800000000124, 544},
        {"ms", 1800000001123, 999544},
        {"ms", 1800000000123.75, 294},
        {"ms", 0, 0},
        {"ms", -5, 0},
        {"ms", 1.7976931348623157e308, INT64_MAX},
        {"ms", -1.7976931348623157e308, 0},
        {"ms", 8.9e15, INT64_MAX}, /* 280,000 years: too far for int64_t nanoseconds */
        {"s", 1800000000, 0},
        {"s", 1800000001, 876544},
        {"s", 1800000000.5, 376544},
        {"s", 1800003600, 3599876544},
        {"s", 9e12, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *unit = kept_printf("score_unit = \"%s\";", rows[i].unit);
        setup = setup_open(unit);
        schedule_sent_read(&setup.schedule, NOW);
        schedule_replied(&setup.schedule);
        see_next_due(&setup.schedule, rows[i].score);
        mono_t due = rows[i].in_us == INT64_MAX ? mono_never() : at(rows[i].in_us);
        cr_assert_eq(schedule_next(&setup.schedule).ns, due.ns, "row %zu: %lld us off", i,
                     (long long)((schedule_next(&setup.schedule).ns - due.ns) / 1000));
        cr_assert_eq(schedule_wants_promote(&setup.schedule, NOW), rows[i].in_us == 0);
        if (rows[i].in_us > 0 && rows[i].in_us < INT64_MAX) {
            cr_assert_not(schedule_wants_promote(&setup.schedule, mono_add(due, -1)), "row %zu: early", i);
            cr_assert(schedule_wants_promote(&setup.schedule, due));
        }
        setup_close(&setup);
    }
}

Test(unit_schedule, due_times_are_rounded_up_and_saturate) {
    setup = setup_open("");
    const queue_config_t *queue = setup.schedule.config;
    cr_assert_eq(dialect_list.promote->due_us(queue, 0.0001), 1);
    cr_assert_eq(dialect_list.promote->due_us(queue, 1.5), 1500);
    cr_assert_eq(dialect_list.promote->due_us(queue, -1.5), -1500);
    cr_assert_eq(dialect_list.promote->due_us(queue, INFINITY), INT64_MAX);
    cr_assert_eq(dialect_list.promote->due_us(queue, -INFINITY), INT64_MIN);
    cr_assert_eq(dialect_list.promote->due_us(queue, 1e300), INT64_MAX);
    cr_assert_eq(dialect_list.promote->due_us(queue, -1e300), INT64_MIN);
}

Test(unit_schedule, infinite_scores) {
    setup = setup_open("");
    see_next_due(&setup.schedule, -INFINITY);
    cr_assert(schedule_wants_promote(&setup.schedule, NOW));
    see_next_due(&setup.schedule, INFINITY);
    cr_assert_not(schedule_wants_promote(&setup.schedule, mono_add(NOW, INT64_C(1) << 60)));
    cr_assert_not(schedule_differs(&setup.schedule, &(next_due_t){0}), "an infinite score is never due, like an empty zset");
}

Test(unit_schedule, a_full_ready_list_is_tried_again_later) {
    setup = setup_open("ready_limit = 10;");
    schedule_t *schedule = &setup.schedule;
    see_next_due(schedule, 1);
    promote_reply_t full = {.full = true, .now_us = NOW_US};
    promote(schedule, full, NOW);
    see_next_due(schedule, 1);
    schedule_changed(schedule);
    cr_assert_not(schedule_wants_promote(schedule, at(249000)));
    cr_assert_not(schedule_wants_read(schedule, at(249000)), "a change of delayed makes no room in ready");
    cr_assert_eq(schedule_next(schedule).ns, at(250000).ns);
    cr_assert(schedule_wants_promote(schedule, at(250000)));
    full.now_us += 250000;
    promote(schedule, full, at(250000));
    cr_assert_eq(metric_get(&schedule->metrics->full_us), 250000);
    cr_assert_eq(fixture_log_count("ready_limit"), 1);
    promote_reply_t some = moved(3);
    some.now_us = NOW_US + 500000;
    promote(schedule, some, at(500000));
    cr_assert_eq(metric_get(&schedule->metrics->full_us), 500000);
    cr_assert_eq(schedule->full_at_us, 0);
}

Test(unit_schedule, waiting_for_room_does_not_count_as_lateness) {
    setup = setup_open("ready_limit = 10;");
    schedule_t *schedule = &setup.schedule;
    promote_reply_t full = {.full = true, .now_us = NOW_US};
    promote_reply_t late = moved(2);
    late.has_oldest = true;
    late.oldest = (double)(NOW_US / 1000) - 10000; /* due 10 s ago */
    promote(schedule, late, NOW);
    cr_assert_eq(metric_get(&schedule->metrics->lateness_max_us), 10000456);
    cr_assert_eq(metric_get(&schedule->metrics->lateness_us), 2 * 10000456);
    metric_set(&schedule->metrics->lateness_max_us, 0);
    promote(schedule, full, NOW);
    late.now_us = NOW_US + 250000;
    promote(schedule, late, at(250000));
    cr_assert_eq(metric_get(&schedule->metrics->lateness_max_us), 250000,
                 "lateness counts from the last reply that found ready full");
    metric_set(&schedule->metrics->lateness_max_us, 0);
    promote(schedule, late, at(250000));
    cr_assert_eq(metric_get(&schedule->metrics->lateness_max_us), 10250456,
                 "after the first move lateness counts from the due time again");
}

Test(unit_schedule, scores_that_are_no_dates_have_no_lateness) {
    static const double scores[] = {0, -1, 1, 1e10, -INFINITY, INFINITY};
    setup = setup_open("");
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        promote_reply_t reply = moved(1);
        reply.has_oldest = true;
        reply.oldest = scores[i];
        promote(&setup.schedule, reply, NOW);
    }
    promote(&setup.schedule, moved(1), NOW);
    for (size_t i = 0; i < METRICS_LATENESS_BUCKETS; i++) cr_assert_eq(metric_get(&setup.schedule.metrics->lateness[i]), 0);
    setup_close(&setup);
    setup = setup_open("score_unit = \"s\";");
    promote_reply_t reply = moved(1);
    reply.has_oldest = true;
    reply.oldest = (double)(NOW_US / 1000000 - 3);
    promote(&setup.schedule, reply, NOW);
    cr_assert_eq(metric_get(&setup.schedule.metrics->lateness_max_us), 3123456);
}

Test(unit_schedule, changes_are_read_at_most_once_a_millisecond) {
    setup = setup_open("");
    schedule_t *schedule = &setup.schedule;
    schedule_sent_read(schedule, NOW);
    schedule_replied(schedule);
    see_none(schedule);
    schedule_changed(schedule);
    cr_assert_not(schedule_wants_read(schedule, at(999)));
    cr_assert_eq(schedule_next(schedule).ns, at(1000).ns);
    cr_assert(schedule_wants_read(schedule, at(1000)));
}

Test(unit_schedule, a_change_does_not_delay_a_due_job) {
    setup = setup_open("");
    schedule_t *schedule = &setup.schedule;
    schedule_sent_read(schedule, NOW);
    schedule_replied(schedule);
    see_next_due(schedule, 1);
    schedule_changed(schedule);
    cr_assert(schedule_wants_promote(schedule, NOW));
    cr_assert(mono_reached(schedule_next(schedule), NOW));
}

Test(unit_schedule, many_empty_promotes_in_a_row_pause) {
    setup = setup_open("");
    schedule_t *schedule = &setup.schedule;
    for (int i = 0; i < 3; i++) {
        see_next_due(schedule, 1);
        promote(schedule, moved(0), NOW);
        cr_assert(schedule_wants_promote(schedule, NOW), "a small difference of clocks is normal");
    }
    promote(schedule, moved(0), NOW);
    cr_assert_not(schedule_wants_promote(schedule, at(999)));
    cr_assert(schedule_wants_promote(schedule, at(1000)));
    promote(schedule, moved(1), at(1000));
    promote(schedule, moved(0), at(1000));
    cr_assert(schedule_wants_promote(schedule, at(1000)), "a job moved ends the series");
    cr_assert_eq(metric_get(&schedule->metrics->empty), 5);
}

static void expect_blocked(void) {
    schedule_t *schedule = &setup.schedule;
    see_next_due(schedule, 1);
    schedule_changed(schedule);
    int64_t pause_us = INT64_C(1000) * SCHEDULE_REFUSED_MS;
    cr_assert_not(schedule_wants_promote(schedule, at(pause_us - 1)));
    cr_assert_not(schedule_wants_read(schedule, at(pause_us - 1)));
    cr_assert_eq(schedule_next(schedule).ns, at(pause_us).ns);
    cr_assert(schedule_wants_promote(schedule, at(pause_us)));
    cr_assert_eq(metric_get(&schedule->metrics->faults), 1);
    cr_assert_not(schedule->in_flight);
}

Test(unit_schedule, refusals_block_the_queue) {
    setup = setup_open("");
    schedule_refused(&setup.schedule, &(redis_error_t){.text = "NOPERM x"}, NOW);
    cr_assert_eq(fixture_log_count("\"reason\":\"NOPERM x\""), 1);
    expect_blocked();
    setup_close(&setup);
    setup = setup_open("");
    schedule_read_next_due(&setup.schedule, &(next_due_t){.error = "WRONGTYPE y"}, NOW_US, NOW);
    cr_assert_eq(fixture_log_count("\"reason\":\"email:delayed: WRONGTYPE y\""), 1);
    expect_blocked();
}

Test(unit_schedule, a_refusal_is_reported_once_until_a_promote_works) {
    setup = setup_open("");
    for (int i = 0; i < 3; i++) schedule_refused(&setup.schedule, &(redis_error_t){.text = "NOPERM x"}, NOW);
    cr_assert_eq(fixture_log_count("redis refuses to promote\""), 1);
    schedule_refused(&setup.schedule, &(redis_error_t){.text = "WRONGTYPE y"}, NOW);
    cr_assert_eq(fixture_log_count("redis refuses to promote\""), 2, "another reason");
    promote(&setup.schedule, moved(1), NOW);
    promote(&setup.schedule, moved(1), NOW);
    cr_assert_eq(fixture_log_count("redis accepts promotion again"), 1);
}

Test(unit_schedule, fenced_is_not_counted_as_refused) {
    setup = setup_open("");
    see_next_due(&setup.schedule, 1);
    (void)schedule_sent_promote(&setup.schedule, SLICE_US, NOW);
    schedule_replied(&setup.schedule);
    schedule_fenced(&setup.schedule);
    cr_assert_eq(metric_get(&setup.schedule.metrics->faults), 0);
    cr_assert_not(setup.schedule.in_flight);
}

Test(unit_schedule, a_reset_forgets_all_but_the_configuration) {
    setup = setup_open("");
    schedule_t *schedule = &setup.schedule;
    see_next_due(schedule, 1);
    schedule_sent_promote(schedule, SLICE_US, NOW);
    schedule_refused(schedule, &(redis_error_t){.text = "x"}, NOW);
    schedule_reset(schedule);
    cr_assert(schedule_wants_read(schedule, NOW));
    cr_assert_not(schedule_wants_promote(schedule, NOW));
    cr_assert_not(schedule->in_flight);
    cr_assert_eq(schedule->batch, BATCH);
}

Test(unit_schedule, a_head_without_wake_up_is_detected) {
    setup = setup_open("");
    schedule_t *schedule = &setup.schedule;
    cr_assert_not(schedule_differs(schedule, &(next_due_t){0}));
    cr_assert(schedule_differs(schedule, &(next_due_t){.exists = true, .score = 5}));
    cr_assert(schedule_differs(schedule, &(next_due_t){.error = "x"}));
    see_next_due(schedule, 5);
    cr_assert_not(schedule_differs(schedule, &(next_due_t){.exists = true, .score = 5}));
    cr_assert(schedule_differs(schedule, &(next_due_t){.exists = true, .score = 6}));
    cr_assert(schedule_differs(schedule, &(next_due_t){0}));
}

static int unit_warnings(const char *unit, double score) {
    char *settings = kept_printf("score_unit = \"%s\";", unit);
    setup = setup_open(settings);
    int before = fixture_log_count("looks like");
    fixture_step_boottime(11000); /* the log suppresses repeated lines for 10 s */
    see_next_due(&setup.schedule, score);
    setup_close(&setup);
    return fixture_log_count("looks like") - before;
}

Test(unit_schedule, warns_of_scores_in_the_wrong_unit) {
    cr_assert_eq(unit_warnings("ms", 1800000000), 1);
    cr_assert_eq(unit_warnings("ms", 1800000000000), 0);
    cr_assert_eq(unit_warnings("ms", 0), 0);
    cr_assert_eq(unit_warnings("ms", -1800000000), 0);
    cr_assert_eq(unit_warnings("ms", INFINITY), 0);
    cr_assert_eq(unit_warnings("s", 1800000000000), 1);
    cr_assert_eq(unit_warnings("s", 1800000000), 0);
    cr_assert_eq(unit_warnings("s", INFINITY), 0);
    cr_assert_eq(unit_warnings("s", -INFINITY), 0);
}
