/* What the dispatcher knows of one queue while there is more to promote than one batch, or entries are too large: no Redis. */
#include "schedule_fixture.h"

#include <math.h>

TestSuite(unit_line_backlog);

Test(unit_line_backlog, a_full_batch_means_that_there_is_more) {
    setup_t setup = setup_open("");
    line_t *line = &setup.line;
    see_head(line, 1);
    cr_assert(line_wants_promote(line, NOW));
    line_ask_t ask = line_sent_promote(line, NOW);
    cr_assert(ask.looks);
    cr_assert_not(line_wants_promote(line, NOW), "nobody knows yet whether there is more");
    promote_reply_t full = moved(BATCH), part = moved(BATCH - 1);
    cr_assert(line_promoted(line, &full, &ask, NOW));
    cr_assert(line->backlog && line_wants_promote(line, NOW));
    line_ask_t second = line_sent_promote(line, NOW);
    cr_assert_not(second.looks, "there is more for certain");
    cr_assert_not(line_wants_promote(line, NOW), "one at a time");
    cr_assert(line_promoted(line, &full, &second, NOW));
    line_ask_t third = line_sent_promote(line, NOW);
    cr_assert_not(line_wants_read(line, NOW), "it is under way");
    cr_assert(line_promoted(line, &part, &third, NOW));
    cr_assert_not(line_wants_promote(line, NOW), "what is due now nobody knows");
    cr_assert(line_wants_read(line, NOW), "so the head is looked at, at once");
    cr_assert(mono_reached(line_next(line), NOW));
    cr_assert_eq(metric_get(&line->metrics->promoted), 3 * BATCH - 1);
    cr_assert_eq(metric_get(&line->metrics->batches), 3);
    setup_close(&setup);
}

Test(unit_line_backlog, news_that_came_in_a_backlog_is_not_forgotten) {
    setup_t setup = setup_open("");
    line_t *line = &setup.line;
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
    cr_assert(line_wants_promote(line, NOW));
    setup_close(&setup);
}

Test(unit_line_backlog, as_many_are_read_at_once_as_the_last_jobs_allow) {
    static const struct {
        int64_t jobs, bytes, large, first;
    } rows[] = {
        {1, 100, 0, BATCH},      {BATCH, BATCH * 100, 0, BATCH},  {1, 0, 0, BATCH}, {5, 5 * 65536, 0, 3},
        {2, 2 * 10000000, 0, 2}, {BATCH, INT64_C(1) << 40, 0, 2}, {5, 500, 1, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setup_t setup = setup_open("");
        see_head(&setup.line, 1);
        line_ask_t ask = line_sent_promote(&setup.line, NOW);
        cr_assert_eq(ask.first, 2, "nothing is known");
        promote_reply_t reply = moved(rows[i].jobs);
        reply.bytes = rows[i].bytes;
        reply.large = rows[i].large;
        line_promoted(&setup.line, &reply, &ask, NOW);
        cr_assert_eq(line_sent_promote(&setup.line, NOW).first, rows[i].first, "row %zu", i);
        setup_close(&setup);
    }
}

Test(unit_line_backlog, a_dear_look_is_not_repeated_at_once) {
    setup_t setup = setup_open("");
    line_t *line = &setup.line;
    see_head(line, INFINITY);
    line_dear(line, 20 * NS_PER_MS, NOW);
    line_changed(line);
    cr_assert(line->alone, "its cost harms no other look");
    cr_assert_not(line_wants_read(line, mono_add(NOW, 199 * NS_PER_MS)));
    cr_assert(line_wants_read(line, mono_add(NOW, 200 * NS_PER_MS)));
    cr_assert_eq(line_next(line).ns, mono_add(NOW, 200 * NS_PER_MS).ns);
    setup_close(&setup);
}

Test(unit_line_backlog, two_requests_under_way_count_large_entries_once) {
    setup_t setup = setup_open("max_payload = \"1KiB\";");
    line_t *line = &setup.line;
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
    setup_close(&setup);
}

Test(unit_line_backlog, entries_too_large_are_passed_over_until_something_changes) {
    setup_t setup = setup_open("max_payload = \"1KiB\";");
    line_t *line = &setup.line;
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
    setup_close(&setup);
}

Test(unit_line_backlog, large_entries_that_were_dear_are_read_again_at_leisure) {
    setup_t setup = setup_open("max_payload = \"1KiB\";");
    line_t *line = &setup.line;
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
    setup_close(&setup);
}
