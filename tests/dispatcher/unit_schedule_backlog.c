/* The schedule of one queue during a backlog and with oversized entries, without Redis. */
#include "schedule_fixture.h"

#include <math.h>

static setup_t setup;
SUITE(unit_schedule_backlog, , setup_close(&setup));

Test(unit_schedule_backlog, a_full_batch_means_a_backlog) {
    setup = setup_open("");
    schedule_t *schedule = &setup.schedule;
    see_next_due(schedule, 1);
    cr_assert(schedule_wants_promote(schedule, NOW));
    schedule_request_t ask = schedule_sent_promote(schedule, SLICE_US, NOW);
    cr_assert(ask.reads_next_due);
    cr_assert_not(schedule_wants_promote(schedule, NOW), "it is not known yet whether more jobs are due");
    promote_reply_t full = moved(BATCH), part = moved(BATCH - 1);
    read_promote(schedule, &full, &ask, NOW);
    cr_assert(schedule->backlog && schedule_wants_promote(schedule, NOW));
    schedule_request_t second = schedule_sent_promote(schedule, SLICE_US, NOW);
    cr_assert_not(second.reads_next_due, "more jobs are due, so the next due time does not matter");
    cr_assert_not(schedule_wants_promote(schedule, NOW), "only one promote of a queue may be in flight");
    read_promote(schedule, &full, &second, NOW);
    schedule_request_t third = schedule_sent_promote(schedule, SLICE_US, NOW);
    cr_assert_not(schedule_wants_read(schedule, NOW), "a promote is in flight");
    read_promote(schedule, &part, &third, NOW);
    cr_assert_not(schedule_wants_promote(schedule, NOW), "the next due time is unknown");
    cr_assert(schedule_wants_read(schedule, NOW), "the head must be read at once");
    cr_assert(mono_reached(schedule_next(schedule), NOW));
    cr_assert_eq(metric_get(&schedule->metrics->promoted), 3 * BATCH - 1);
    cr_assert_eq(metric_get(&schedule->metrics->batches), 3);
}

Test(unit_schedule_backlog, a_change_during_a_backlog_is_not_forgotten) {
    setup = setup_open("");
    schedule_t *schedule = &setup.schedule;
    see_next_due(schedule, 1);
    promote_reply_t full = moved(BATCH);
    promote(schedule, full, NOW);
    schedule_changed(schedule);
    schedule_request_t ask = schedule_sent_promote(schedule, SLICE_US, NOW);
    cr_assert(schedule->next_due.changed, "promotes of a backlog do not read the head");
    read_promote(schedule, &full, &ask, NOW);
    cr_assert(schedule_wants_read(schedule, at(1000)));
    schedule_sent_read(schedule, at(1000));
    schedule_replied(schedule);
    see_next_due(schedule, 2);
    cr_assert(schedule_wants_promote(schedule, NOW));
}

Test(unit_schedule_backlog, the_first_read_follows_the_size_of_the_last_jobs) {
    static const struct {
        int64_t jobs, bytes, oversized, first;
    } rows[] = {
        {1, 100, 0, 2},          {BATCH, BATCH * 100, 0, BATCH},  {1, 0, 0, 2},   {5, 5 * 16384, 0, 3},
        {2, 2 * 10000000, 0, 2}, {BATCH, INT64_C(1) << 40, 0, 2}, {5, 500, 1, 2}, {20, 2000, 0, 40},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setup = setup_open("");
        see_next_due(&setup.schedule, 1);
        schedule_request_t ask = schedule_sent_promote(&setup.schedule, SLICE_US, NOW);
        cr_assert_eq(ask.first, 2, "the size of entries is unknown");
        promote_reply_t reply = moved(rows[i].jobs);
        reply.bytes = rows[i].bytes;
        reply.large = rows[i].oversized;
        read_promote(&setup.schedule, &reply, &ask, NOW);
        cr_assert_eq(schedule_sent_promote(&setup.schedule, SLICE_US, NOW).first, rows[i].first, "row %zu", i);
        setup_close(&setup);
    }
}

/* The request of a promote whose reply is lost. */
static schedule_request_t unanswered(schedule_t *schedule, int64_t time_us) {
    schedule_request_t ask = schedule_sent_promote(schedule, time_us, NOW);
    schedule_replied(schedule);
    return ask;
}

/* A script of 50 us of which 20 are fixed, and a job takes 3 us. The dialect's script does not look at the clock. */
Test(unit_schedule_backlog, a_part_of_the_slice_moves_a_part_of_the_batch) {
    setup = setup_open("dialect = \"bull\";");
    schedule_t *schedule = &setup.schedule;
    see_next_due(schedule, 1);
    int64_t unknown_us = schedule_least_us(schedule);
    cr_assert(unknown_us > 0 && unknown_us < SLICE_US, "%lld us", (long long)unknown_us);
    schedule_request_t ask = schedule_sent_promote(schedule, SLICE_US / 10, NOW);
    cr_assert_eq(ask.batch, BATCH / 10);
    cr_assert_eq(ask.bytes, PROMOTE_BYTES / 10);
    for (int i = 0; i < 2; i++) {
        promote_reply_t reply = moved(10);
        reply.took_us = 50;
        reply.fixed_us = 20;
        read_promote(schedule, &reply, &ask, NOW);
        ask = schedule_sent_promote(schedule, SLICE_US, NOW);
    }
    schedule_replied(schedule);
    cr_assert_eq(schedule_least_us(schedule), 40, "the fixed part, and as long for jobs");
    cr_assert_eq(unanswered(schedule, 40).batch, 6);
    cr_assert_eq(unanswered(schedule, 80).batch, 20);
    cr_assert_eq(unanswered(schedule, 0).batch, 6, "the least time is not divided");
    cr_assert_eq(unanswered(schedule, 2 * SLICE_US).bytes, PROMOTE_BYTES);
}

/* The script looks at the clock itself, so every queue of a request may move its whole batch. */
Test(unit_schedule_backlog, a_script_of_many_queues_gets_the_whole_batch) {
    setup = setup_open("");
    schedule_t *schedule = &setup.schedule;
    see_next_due(schedule, 1);
    cr_assert_eq(schedule_least_us(schedule), 0);
    schedule_request_t ask = schedule_sent_promote(schedule, SLICE_US / 10, NOW);
    cr_assert_eq(ask.batch, BATCH);
    promote_reply_t more = moved(3), later = {.later = true};
    more.more = true;
    read_promote(schedule, &more, &ask, NOW);
    cr_assert(schedule->backlog && schedule_wants_promote(schedule, NOW), "the time was over, so more jobs are due");
    cr_assert_not(schedule_wants_own_request(schedule));
    ask = schedule_sent_promote(schedule, SLICE_US, NOW);
    cr_assert_not(ask.reads_next_due);
    read_promote(schedule, &later, &ask, NOW);
    cr_assert(schedule->backlog && schedule_wants_promote(schedule, NOW), "its turn did not come");
    cr_assert_eq(metric_get(&schedule->metrics->empty), 0);
}

Test(unit_schedule_backlog, an_expensive_read_is_not_repeated_at_once) {
    setup = setup_open("");
    schedule_t *schedule = &setup.schedule;
    see_next_due(schedule, INFINITY);
    schedule_expensive(schedule, 20 * NS_PER_MS, NOW);
    schedule_changed(schedule);
    cr_assert(schedule->isolated, "its cost must not delay reads of other queues");
    cr_assert_not(schedule_wants_read(schedule, mono_add(NOW, 199 * NS_PER_MS)));
    cr_assert(schedule_wants_read(schedule, mono_add(NOW, 200 * NS_PER_MS)));
    cr_assert_eq(schedule_next(schedule).ns, mono_add(NOW, 200 * NS_PER_MS).ns);
}

Test(unit_schedule_backlog, a_change_while_a_promote_is_in_flight_forgets_oversized_entries) {
    setup = setup_open("max_payload = \"1KiB\";");
    schedule_t *schedule = &setup.schedule;
    promote_reply_t reply = moved(1);
    reply.large = 3;
    promote(schedule, reply, NOW);
    cr_assert_eq(schedule->oversized.skip, 3);
    schedule_request_t ask = schedule_sent_promote(schedule, SLICE_US, NOW);
    schedule_changed(schedule);
    read_promote(schedule, &reply, &ask, NOW);
    cr_assert_eq(schedule->oversized.skip, 0, "other entries may be at the head");
}

Test(unit_schedule_backlog, oversized_entries_are_skipped_until_a_change) {
    setup = setup_open("max_payload = \"1KiB\";");
    schedule_t *schedule = &setup.schedule;
    see_next_due(schedule, 1);
    promote_reply_t reply = moved(5);
    reply.large = 2;
    reply.large_bytes = 99999;
    strcpy(reply.large_sha1, "0123456789012345678901234567890123456789");
    promote(schedule, reply, NOW);
    cr_assert_eq(schedule->oversized.skip, 2);
    cr_assert(schedule->next_due.changed, "the next due time behind them is unknown");
    cr_assert_eq(metric_get(&schedule->metrics->large), 0, "more of them may be due");
    see_none(schedule);
    cr_assert_eq(metric_get(&schedule->metrics->large), 2);
    cr_assert_eq(fixture_log_count("\"bytes\":99999"), 1);
    cr_assert_eq(fixture_log_count("0123456789012345678901234567890123456789"), 1);
    reply.moved = BATCH - 3;
    reply.large = 3;
    promote(schedule, reply, NOW);
    cr_assert_eq(schedule->oversized.skip, 5);
    cr_assert(schedule->backlog, "moved and oversized entries together fill the batch");
    schedule_changed(schedule);
    cr_assert_eq(schedule->oversized.skip, 0);
    promote(schedule, reply, NOW);
    see_none(schedule);
    cr_assert_eq(metric_get(&schedule->metrics->large), 3, "what the last look saw");
    schedule_reset(schedule);
    cr_assert_eq(schedule->oversized.skip, 0);
    cr_assert_eq(metric_get(&schedule->metrics->large), 0);
}

Test(unit_schedule_backlog, expensive_oversized_entries_are_read_again_after_a_cooldown) {
    setup = setup_open("max_payload = \"1KiB\";");
    schedule_t *schedule = &setup.schedule;
    promote_reply_t reply = moved(1);
    reply.large = 2;
    promote(schedule, reply, NOW);
    schedule_expensive(schedule, 100 * NS_PER_MS, NOW);
    schedule_changed(schedule);
    cr_assert_eq(schedule->oversized.skip, 2);
    cr_assert(schedule_wants_read(schedule, at(1000)), "a read behind the skipped entries is cheap");
    schedule_sent_read(schedule, at(1000));
    schedule_replied(schedule);
    see_none(schedule);
    cr_assert_eq(schedule_next(schedule).ns, at(1000000).ns,
                 "after the cooldown the head is read again: other entries may be there");
    schedule_sent_read(schedule, at(1000000));
    schedule_replied(schedule);
    cr_assert(schedule->oversized.skip == 0 && schedule->oversized.cooldown_until.ns == 0);
    for (int i = 0; i < 100; i++) {
        promote(schedule, reply, NOW);
        schedule_expensive(schedule, 500 * NS_PER_MS, NOW);
    }
    cr_assert_eq(schedule->oversized.cooldown_until.ns, at(10000000).ns, "the cooldown has an upper limit");
    schedule_flushed(schedule);
    cr_assert(schedule->oversized.skip == 0 && schedule->oversized.cooldown_until.ns == 0,
              "after FLUSHALL there are no oversized entries");
}
