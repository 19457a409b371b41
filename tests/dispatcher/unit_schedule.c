/* What the dispatcher knows of one queue, and what follows from each reply: no Redis. Backlogs and large entries are in
 * test_line_backlog.c. */
#include "schedule_fixture.h"

#include <math.h>

TestSuite(unit_line);

Test(unit_line, begins_with_a_look) {
    desk_t desk = desk_open("");
    cr_assert(line_wants_read(&desk.line, NOW));
    cr_assert_not(line_wants_promote(&desk.line, NOW));
    cr_assert(mono_reached(line_next(&desk.line), NOW));
    line_sent_look(&desk.line, NOW);
    cr_assert_not(line_wants_read(&desk.line, at(5000)), "one is under way");
    desk.line.flying--;
    see_none(&desk.line);
    cr_assert_not(line_wants_read(&desk.line, at(1000000)));
    cr_assert_eq(line_next(&desk.line).ns, mono_never().ns);
    desk_close(&desk);
}

Test(unit_line, a_head_falls_due_by_the_clock_of_redis) {
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
        {"ms", 8.9e15, INT64_MAX}, /* 280,000 years: as far as nanoseconds do not reach */
        {"s", 1800000000, 0},
        {"s", 1800000001, 876544},
        {"s", 1800000000.5, 376544},
        {"s", 1800003600, 3599876544},
        {"s", 9e12, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *unit = mem_printf("score_unit = \"%s\";", rows[i].unit);
        desk_t desk = desk_open(unit);
        line_sent_look(&desk.line, NOW);
        desk.line.flying--;
        see_head(&desk.line, rows[i].score);
        mono_t due = rows[i].in_us == INT64_MAX ? mono_never() : at(rows[i].in_us);
        cr_assert_eq(line_next(&desk.line).ns, due.ns, "row %zu: %lld us off", i,
                     (long long)((line_next(&desk.line).ns - due.ns) / 1000));
        cr_assert_eq(line_wants_promote(&desk.line, NOW), rows[i].in_us == 0);
        if (rows[i].in_us > 0 && rows[i].in_us < INT64_MAX) {
            cr_assert_not(line_wants_promote(&desk.line, mono_add(due, -1)), "row %zu: early", i);
            cr_assert(line_wants_promote(&desk.line, due));
        }
        desk_close(&desk);
        free(unit);
    }
}

Test(unit_line, due_times_are_rounded_up_and_saturate) {
    desk_t desk = desk_open("");
    const queue_config_t *queue = desk.line.config;
    cr_assert_eq(dialect_list.promote->due_us(queue, 0.0001), 1);
    cr_assert_eq(dialect_list.promote->due_us(queue, 1.5), 1500);
    cr_assert_eq(dialect_list.promote->due_us(queue, -1.5), -1500);
    cr_assert_eq(dialect_list.promote->due_us(queue, INFINITY), INT64_MAX);
    cr_assert_eq(dialect_list.promote->due_us(queue, -INFINITY), INT64_MIN);
    cr_assert_eq(dialect_list.promote->due_us(queue, 1e300), INT64_MAX);
    cr_assert_eq(dialect_list.promote->due_us(queue, -1e300), INT64_MIN);
    desk_close(&desk);
}

Test(unit_line, infinite_scores) {
    desk_t desk = desk_open("");
    see_head(&desk.line, -INFINITY);
    cr_assert(line_wants_promote(&desk.line, NOW));
    see_head(&desk.line, INFINITY);
    cr_assert_not(line_wants_promote(&desk.line, mono_add(NOW, INT64_C(1) << 60)));
    cr_assert_not(line_differs(&desk.line, &(head_t){0}), "never, as without a head");
    desk_close(&desk);
}

Test(unit_line, ready_at_its_limit_is_looked_at_again_at_leisure) {
    desk_t desk = desk_open("ready_limit = 10;");
    line_t *line = &desk.line;
    see_head(line, 1);
    promote_reply_t full = {.kind = PROMOTED_FULL, .now_us = NOW_US};
    cr_assert(promote(line, full, NOW));
    see_head(line, 1);
    line_changed(line);
    cr_assert_not(line_wants_promote(line, at(249000)));
    cr_assert_not(line_wants_read(line, at(249000)), "a change makes no more room");
    cr_assert_eq(line_next(line).ns, at(250000).ns);
    cr_assert(line_wants_promote(line, at(250000)));
    full.now_us += 250000;
    cr_assert(promote(line, full, at(250000)));
    cr_assert_eq(metric_get(&line->metrics->full_us), 250000);
    cr_assert_eq(fixture_log_count("ready_limit"), 1);
    promote_reply_t some = moved(3);
    some.now_us = NOW_US + 500000;
    cr_assert(promote(line, some, at(500000)));
    cr_assert_eq(metric_get(&line->metrics->full_us), 500000);
    cr_assert_eq(line->full_since_us, 0);
    desk_close(&desk);
}

Test(unit_line, waiting_for_room_is_no_lateness) {
    desk_t desk = desk_open("ready_limit = 10;");
    line_t *line = &desk.line;
    promote_reply_t full = {.kind = PROMOTED_FULL, .now_us = NOW_US};
    promote_reply_t late = moved(2);
    late.has_oldest = true;
    late.oldest = (double)(NOW_US / 1000) - 10000; /* due 10 s ago */
    promote(line, late, NOW);
    cr_assert_eq(metric_get(&line->metrics->lateness_max_us), 10000456);
    cr_assert_eq(metric_get(&line->metrics->lateness_us), 2 * 10000456);
    metric_set(&line->metrics->lateness_max_us, 0);
    promote(line, full, NOW);
    late.now_us = NOW_US + 250000;
    promote(line, late, at(250000));
    cr_assert_eq(metric_get(&line->metrics->lateness_max_us), 250000, "from the last look that found no room");
    metric_set(&line->metrics->lateness_max_us, 0);
    promote(line, late, at(250000));
    cr_assert_eq(metric_get(&line->metrics->lateness_max_us), 10250456, "that is over with the first move");
    desk_close(&desk);
}

Test(unit_line, scores_that_are_no_dates_have_no_lateness) {
    static const double scores[] = {0, -1, 1, 1e10, -INFINITY, INFINITY};
    desk_t desk = desk_open("");
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        promote_reply_t reply = moved(1);
        reply.has_oldest = true;
        reply.oldest = scores[i];
        promote(&desk.line, reply, NOW);
    }
    promote(&desk.line, moved(1), NOW);
    cr_assert_eq(metrics_lateness_quantile(desk.line.metrics, 1), 0);
    desk_close(&desk);
    desk = desk_open("score_unit = \"s\";");
    promote_reply_t reply = moved(1);
    reply.has_oldest = true;
    reply.oldest = (double)(NOW_US / 1000000 - 3);
    promote(&desk.line, reply, NOW);
    cr_assert_eq(metric_get(&desk.line.metrics->lateness_max_us), 3123456);
    desk_close(&desk);
}

Test(unit_line, changes_are_read_at_most_once_a_millisecond) {
    desk_t desk = desk_open("");
    line_t *line = &desk.line;
    line_sent_look(line, NOW);
    line->flying--;
    see_none(line);
    line_changed(line);
    cr_assert_not(line_wants_read(line, at(999)));
    cr_assert_eq(line_next(line).ns, at(1000).ns);
    cr_assert(line_wants_read(line, at(1000)));
    desk_close(&desk);
}

Test(unit_line, a_change_does_not_put_off_what_is_due) {
    desk_t desk = desk_open("");
    line_t *line = &desk.line;
    line_sent_look(line, NOW);
    line->flying--;
    see_head(line, 1);
    line_changed(line);
    cr_assert(line_wants_promote(line, NOW));
    cr_assert(mono_reached(line_next(line), NOW));
    desk_close(&desk);
}

Test(unit_line, patience_with_empty_promotes_ends) {
    desk_t desk = desk_open("");
    line_t *line = &desk.line;
    for (int i = 0; i < 3; i++) {
        see_head(line, 1);
        promote(line, moved(0), NOW);
        cr_assert(line_wants_promote(line, NOW), "a small difference of clocks is normal");
    }
    promote(line, moved(0), NOW);
    cr_assert_not(line_wants_promote(line, at(999)));
    cr_assert(line_wants_promote(line, at(1000)));
    promote(line, moved(1), at(1000));
    promote(line, moved(0), at(1000));
    cr_assert(line_wants_promote(line, at(1000)), "a job moved ends the series");
    cr_assert_eq(metric_get(&line->metrics->empty), 5);
    desk_close(&desk);
}

static void expect_hold(desk_t *desk) {
    line_t *line = &desk->line;
    see_head(line, 1);
    line_changed(line);
    int64_t hold_us = INT64_C(1000) * LINE_FAULT_HOLD_MS;
    cr_assert_not(line_wants_promote(line, at(hold_us - 1)));
    cr_assert_not(line_wants_read(line, at(hold_us - 1)));
    cr_assert_eq(line_next(line).ns, at(hold_us).ns);
    cr_assert(line_wants_promote(line, at(hold_us)));
    cr_assert_eq(metric_get(&line->metrics->faults), 1);
    cr_assert_eq(line->flying, 0);
}

Test(unit_line, faults_hold_the_queue) {
    desk_t desk = desk_open("");
    promote_reply_t type = {.kind = PROMOTED_TYPE, .who = "ready", .what = "stream"};
    cr_assert(promote(&desk.line, type, NOW));
    cr_assert_eq(fixture_log_count("\"key\":\"ready\",\"holds\":\"stream\""), 1);
    expect_hold(&desk);
    desk_close(&desk);
    desk = desk_open("");
    promote_reply_t owner = {.kind = PROMOTED_OWNER, .who = "others"};
    cr_assert(promote(&desk.line, owner, NOW));
    cr_assert_eq(fixture_log_count("\"group\":\"others\""), 1);
    expect_hold(&desk);
    desk_close(&desk);
    desk = desk_open("");
    line_fault(&desk.line, "NOPERM x", NOW);
    cr_assert_eq(fixture_log_count("\"reason\":\"NOPERM x\""), 1);
    expect_hold(&desk);
    desk_close(&desk);
    desk = desk_open("");
    line_head(&desk.line, &(head_t){.error = "WRONGTYPE y"}, NOW_US, NOW);
    cr_assert_eq(fixture_log_count("\"reason\":\"WRONGTYPE y\""), 1);
    expect_hold(&desk);
    desk_close(&desk);
}

Test(unit_line, fenced_is_no_fault) {
    desk_t desk = desk_open("");
    see_head(&desk.line, 1);
    cr_assert_not(promote(&desk.line, (promote_reply_t){.kind = PROMOTED_FENCED}, NOW));
    cr_assert_eq(metric_get(&desk.line.metrics->faults), 0);
    cr_assert_eq(desk.line.flying, 0);
    desk_close(&desk);
}

Test(unit_line, forgets_all_but_its_configuration) {
    desk_t desk = desk_open("");
    line_t *line = &desk.line;
    see_head(line, 1);
    line_sent_promote(line, NOW);
    line_fault(line, "x", NOW);
    line_forget(line);
    cr_assert(line_wants_read(line, NOW));
    cr_assert_not(line_wants_promote(line, NOW));
    cr_assert_eq(line->flying, 0);
    cr_assert_eq(line->batch, BATCH);
    desk_close(&desk);
}

Test(unit_line, tells_a_head_that_nobody_announced) {
    desk_t desk = desk_open("");
    line_t *line = &desk.line;
    cr_assert_not(line_differs(line, &(head_t){0}));
    cr_assert(line_differs(line, &(head_t){.exists = true, .score = 5}));
    cr_assert(line_differs(line, &(head_t){.error = "x"}));
    see_head(line, 5);
    cr_assert_not(line_differs(line, &(head_t){.exists = true, .score = 5}));
    cr_assert(line_differs(line, &(head_t){.exists = true, .score = 6}));
    cr_assert(line_differs(line, &(head_t){0}));
    desk_close(&desk);
}

static int unit_warnings(const char *unit, double score) {
    char *settings = mem_printf("score_unit = \"%s\";", unit);
    desk_t desk = desk_open(settings);
    int before = fixture_log_count("looks like");
    fixture_step_boottime(11000); /* past the limit on repeats */
    see_head(&desk.line, score);
    desk_close(&desk);
    free(settings);
    return fixture_log_count("looks like") - before;
}

Test(unit_line, warns_of_scores_in_the_wrong_unit) {
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
