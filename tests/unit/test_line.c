/* What the dispatcher knows of one queue, and what follows from each reply: no Redis. */
#include "fixture.h"
#include "line.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 100 };

#define NOW_US INT64_C(1800000000123456) /* by Redis */

static const mono_t NOW = {.ns = 77 * INT64_C(1000000000)};

typedef struct {
    config_t *config;
    metrics_t *metrics;
    line_t line;
} desk_t;

static desk_t desk_open(const char *settings) {
    desk_t desk = {.config = fixture_config("group = \"app\"; queues = ( { name = \"email\"; %s } );", settings)};
    desk.metrics = metrics_new(1);
    line_init(&desk.line, &desk.config->queues[0], &desk.metrics->queues[0], BATCH);
    fixture_capture_log();
    return desk;
}

static void desk_close(desk_t *desk) {
    metrics_free(desk->metrics);
    config_free(desk->config);
}

static mono_t at(int64_t us) { return mono_add(NOW, us * NS_PER_US); }

static void see_head(line_t *line, double score) { line_head(line, &(head_t){.exists = true, .score = score}, NOW_US, NOW); }

static void see_none(line_t *line) { line_head(line, &(head_t){0}, NOW_US, NOW); }

static promote_reply_t moved(int64_t jobs) {
    return (promote_reply_t){.kind = PROMOTED_MOVED, .moved = jobs, .now_us = NOW_US, .bytes = jobs * 10};
}

/* Sends one promote and answers it. */
static bool promote(line_t *line, promote_reply_t reply, mono_t now) {
    line_ask_t ask = line_sent_promote(line, now);
    return line_promoted(line, &reply, &ask, now);
}

TestSuite(unit_line);

Test(unit_line, begins_with_a_look) {
    desk_t desk = desk_open("");
    cr_assert(line_wants_read(&desk.line, NOW));
    cr_assert_not(line_wants_promote(&desk.line, NOW, 2));
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
        cr_assert_eq(line_wants_promote(&desk.line, NOW, 1), rows[i].in_us == 0);
        if (rows[i].in_us > 0 && rows[i].in_us < INT64_MAX) {
            cr_assert_not(line_wants_promote(&desk.line, mono_add(due, -1), 1), "row %zu: early", i);
            cr_assert(line_wants_promote(&desk.line, due, 1));
        }
        desk_close(&desk);
        free(unit);
    }
}

Test(unit_line, due_times_are_rounded_up_and_saturate) {
    desk_t desk = desk_open("");
    const queue_config_t *queue = desk.line.config;
    cr_assert_eq(dialect_list.due_us(queue, 0.0001), 1);
    cr_assert_eq(dialect_list.due_us(queue, 1.5), 1500);
    cr_assert_eq(dialect_list.due_us(queue, -1.5), -1500);
    cr_assert_eq(dialect_list.due_us(queue, INFINITY), INT64_MAX);
    cr_assert_eq(dialect_list.due_us(queue, -INFINITY), INT64_MIN);
    cr_assert_eq(dialect_list.due_us(queue, 1e300), INT64_MAX);
    cr_assert_eq(dialect_list.due_us(queue, -1e300), INT64_MIN);
    desk_close(&desk);
}

Test(unit_line, infinite_scores) {
    desk_t desk = desk_open("");
    see_head(&desk.line, -INFINITY);
    cr_assert(line_wants_promote(&desk.line, NOW, 1));
    see_head(&desk.line, INFINITY);
    cr_assert_not(line_wants_promote(&desk.line, mono_add(NOW, INT64_C(1) << 60), 1));
    cr_assert_not(line_differs(&desk.line, &(head_t){0}), "never, as without a head");
    desk_close(&desk);
}

Test(unit_line, a_full_batch_means_that_there_is_more) {
    desk_t desk = desk_open("");
    line_t *line = &desk.line;
    see_head(line, 1);
    cr_assert(line_wants_promote(line, NOW, 2));
    line_ask_t ask = line_sent_promote(line, NOW);
    cr_assert(ask.looks);
    cr_assert_not(line_wants_promote(line, NOW, 2), "nobody knows yet whether there is more");
    promote_reply_t full = moved(BATCH), part = moved(BATCH - 1);
    cr_assert(line_promoted(line, &full, &ask, NOW));
    cr_assert(line->backlog && line_wants_promote(line, NOW, 2));
    line_ask_t second = line_sent_promote(line, NOW);
    cr_assert_not(second.looks, "there is more for certain");
    cr_assert(line_wants_promote(line, NOW, 2));
    line_sent_promote(line, NOW);
    cr_assert_not(line_wants_promote(line, NOW, 2), "the window is full");
    cr_assert(line_promoted(line, &part, &second, NOW));
    cr_assert_not(line_wants_promote(line, NOW, 2));
    cr_assert_not(line_wants_read(line, NOW), "the other one is under way");
    cr_assert(line_promoted(line, &part, &second, NOW));
    cr_assert_not(line_wants_promote(line, NOW, 2), "what is due now nobody knows");
    cr_assert(line_wants_read(line, NOW), "so the head is looked at, at once");
    cr_assert(mono_reached(line_next(line), NOW));
    cr_assert_eq(metric_get(&line->metrics->promoted), 3 * BATCH - 2);
    cr_assert_eq(metric_get(&line->metrics->batches), 3);
    desk_close(&desk);
}

Test(unit_line, news_that_came_in_a_backlog_is_not_forgotten) {
    desk_t desk = desk_open("");
    line_t *line = &desk.line;
    see_head(line, 1);
    promote_reply_t full = moved(BATCH), none = moved(0);
    promote(line, full, NOW);
    line_changed(line);
    line_ask_t first = line_sent_promote(line, NOW), second = line_sent_promote(line, NOW);
    cr_assert(line->changed, "these do not look");
    line_promoted(line, &none, &first, NOW);
    line_promoted(line, &full, &second, NOW); /* producers were quick in between */
    cr_assert(line_wants_read(line, NOW));
    line_sent_look(line, NOW);
    line->flying--;
    see_head(line, 2);
    cr_assert(line_wants_promote(line, NOW, 2));
    desk_close(&desk);
}

Test(unit_line, as_many_are_read_at_once_as_the_last_jobs_allow) {
    static const struct {
        int64_t jobs, bytes, large, first;
    } rows[] = {
        {1, 100, 0, BATCH},      {BATCH, BATCH * 100, 0, BATCH},  {1, 0, 0, BATCH}, {5, 5 * 65536, 0, 3},
        {2, 2 * 10000000, 0, 2}, {BATCH, INT64_C(1) << 40, 0, 2}, {5, 500, 1, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        desk_t desk = desk_open("");
        see_head(&desk.line, 1);
        line_ask_t ask = line_sent_promote(&desk.line, NOW);
        cr_assert_eq(ask.first, 2, "nothing is known");
        promote_reply_t reply = moved(rows[i].jobs);
        reply.bytes = rows[i].bytes;
        reply.large = rows[i].large;
        line_promoted(&desk.line, &reply, &ask, NOW);
        cr_assert_eq(line_sent_promote(&desk.line, NOW).first, rows[i].first, "row %zu", i);
        desk_close(&desk);
    }
}

Test(unit_line, batches_of_a_backlog_are_sent_apart) {
    desk_t desk = desk_open("");
    line_t *line = &desk.line;
    cr_assert_eq(line_apart_ns(line), 0, "nothing is known");
    line_cost(line, 500000);
    cr_assert_eq(line_apart_ns(line), 300000);
    for (int i = 0; i < 100; i++) line_cost(line, 100000);
    cr_assert(line_apart_ns(line) >= 60000 && line_apart_ns(line) < 62000, "it follows what is usual now");
    for (int i = 0; i < 100; i++) line_cost(line, 50 * NS_PER_MS);
    cr_assert_eq(line_apart_ns(line), NS_PER_MS, "others who wait for us do not wait for long");
    line_forget(line);
    cr_assert_eq(line_apart_ns(line), 0);
    desk_close(&desk);
}

Test(unit_line, a_dear_look_is_not_repeated_at_once) {
    desk_t desk = desk_open("");
    line_t *line = &desk.line;
    see_head(line, INFINITY);
    line_dear(line, 20 * NS_PER_MS, NOW);
    line_changed(line);
    cr_assert(line->alone, "its cost harms no other look");
    cr_assert_not(line_wants_read(line, mono_add(NOW, 199 * NS_PER_MS)));
    cr_assert(line_wants_read(line, mono_add(NOW, 200 * NS_PER_MS)));
    cr_assert_eq(line_next(line).ns, mono_add(NOW, 200 * NS_PER_MS).ns);
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
    cr_assert_not(line_wants_promote(line, at(249000), 2));
    cr_assert_not(line_wants_read(line, at(249000)), "a change makes no more room");
    cr_assert_eq(line_next(line).ns, at(250000).ns);
    cr_assert(line_wants_promote(line, at(250000), 2));
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

Test(unit_line, two_requests_under_way_count_large_entries_once) {
    desk_t desk = desk_open("max_payload = \"1KiB\";");
    line_t *line = &desk.line;
    see_head(line, 1);
    promote_reply_t reply = moved(BATCH - 2);
    reply.large = 2;
    line_ask_t one = line_sent_promote(line, NOW), two = line_sent_promote(line, NOW);
    cr_assert(line_promoted(line, &reply, &one, NOW));
    reply.large = 3; // the second began where the first did, and met its two again
    cr_assert(line_promoted(line, &reply, &two, NOW));
    cr_assert_eq(line->skip, 3);
    cr_assert_eq(metric_get(&line->metrics->large), 3);
    line_ask_t three = line_sent_promote(line, NOW);
    line_changed(line);
    cr_assert(line_promoted(line, &reply, &three, NOW));
    cr_assert_eq(line->skip, 0, "what stood there then may have gone since");
    desk_close(&desk);
}

Test(unit_line, entries_too_large_are_passed_over_until_something_changes) {
    desk_t desk = desk_open("max_payload = \"1KiB\";");
    line_t *line = &desk.line;
    see_head(line, 1);
    promote_reply_t reply = moved(5);
    reply.large = 2;
    reply.large_bytes = 99999;
    strcpy(reply.large_sha1, "0123456789012345678901234567890123456789");
    cr_assert(promote(line, reply, NOW));
    cr_assert_eq(line->skip, 2);
    cr_assert(line->changed, "what comes behind them is not known");
    cr_assert_eq(metric_get(&line->metrics->large), 2);
    cr_assert_eq(fixture_log_count("\"bytes\":99999"), 1);
    cr_assert_eq(fixture_log_count("0123456789012345678901234567890123456789"), 1);
    reply.moved = BATCH - 3;
    reply.large = 3;
    cr_assert(promote(line, reply, NOW));
    cr_assert_eq(line->skip, 5);
    cr_assert(line->backlog, "moved and passed over make a full batch");
    line_changed(line);
    cr_assert_eq(line->skip, 0);
    promote(line, reply, NOW);
    line_forget(line);
    cr_assert_eq(line->skip, 0);
    desk_close(&desk);
}

Test(unit_line, large_entries_that_were_dear_are_read_again_at_leisure) {
    desk_t desk = desk_open("max_payload = \"1KiB\";");
    line_t *line = &desk.line;
    promote_reply_t reply = moved(1);
    reply.large = 2;
    promote(line, reply, NOW);
    line_dear(line, 100 * NS_PER_MS, NOW);
    line_changed(line);
    cr_assert_eq(line->skip, 2);
    cr_assert(line_wants_read(line, at(1000)), "what is behind them is no dearer than ever");
    line_sent_look(line, at(1000));
    line->flying--;
    see_none(line);
    cr_assert_eq(line_next(line).ns, at(1000000).ns, "the entries at the head may be others by now");
    line_sent_look(line, at(1000000));
    cr_assert(line->skip == 0 && line->rest.ns == 0);
    for (int i = 0; i < 100; i++) {
        promote(line, reply, NOW);
        line_dear(line, 500 * NS_PER_MS, NOW);
    }
    cr_assert_eq(line->rest.ns, at(10000000).ns, "small jobs in front of them do not wait for ever");
    line_flushed(line);
    cr_assert(line->skip == 0 && line->rest.ns == 0, "after FLUSHALL there are none");
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
    cr_assert(line_wants_promote(line, NOW, 1));
    cr_assert(mono_reached(line_next(line), NOW));
    desk_close(&desk);
}

Test(unit_line, patience_with_empty_promotes_ends) {
    desk_t desk = desk_open("");
    line_t *line = &desk.line;
    for (int i = 0; i < 3; i++) {
        see_head(line, 1);
        promote(line, moved(0), NOW);
        cr_assert(line_wants_promote(line, NOW, 1), "a small difference of clocks is normal");
    }
    promote(line, moved(0), NOW);
    cr_assert_not(line_wants_promote(line, at(999), 1));
    cr_assert(line_wants_promote(line, at(1000), 1));
    promote(line, moved(1), at(1000));
    promote(line, moved(0), at(1000));
    cr_assert(line_wants_promote(line, at(1000), 1), "a job moved ends the series");
    cr_assert_eq(metric_get(&line->metrics->empty), 5);
    desk_close(&desk);
}

static void expect_hold(desk_t *desk) {
    line_t *line = &desk->line;
    see_head(line, 1);
    line_changed(line);
    int64_t hold_us = INT64_C(1000) * LINE_FAULT_HOLD_MS;
    cr_assert_not(line_wants_promote(line, at(hold_us - 1), 2));
    cr_assert_not(line_wants_read(line, at(hold_us - 1)));
    cr_assert_eq(line_next(line).ns, at(hold_us).ns);
    cr_assert(line_wants_promote(line, at(hold_us), 2));
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
    cr_assert_not(line_wants_promote(line, NOW, 2));
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
