/* delayed_promote.lua: events whose last push still waits in its list. */
#include "delayed_call.h"

static void de_fill(redis_t *r, int count, const char *text) {
    redis_ok(r, "EVAL %s 1 de_paymentcheck %d %s",
             "redis.call('DEL', KEYS[1]) for i = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], ARGV[2]) end", count, text);
}

static fixture_t f;
SUITE(redis_delayed_waiting, f = fixture_start_locked(), fixture_stop(&f));

/* No worker takes events for six delays: each event is sent once and keeps its attempts. */
Test(redis_delayed_waiting, does_not_send_again_what_waits_in_its_list) {
    enum { EVENTS = 200 };
    for (int i = 0; i < EVENTS; i++) {
        char *member = kept_printf(PAYMENT "###%d", i), *envelope = kept_printf("{\"payload\":{\"id\":\"%d\"}" TAIL(1), i);
        de_add(f.r, member, slice_text(envelope));
    }
    cr_assert_eq(de_moved(f.r, de_new()), EVENTS);
    for (int i = 0; i < 6; i++) {
        de_due(f.r);
        cr_assert_eq(de_moved(f.r, de_new()), 0);
    }
    cr_assert_eq(redis_int(f.r, "LLEN de_paymentcheck"), EVENTS);
    cr_assert_eq(redis_int(f.r, "ZCARD sidecar:email:aside"), 0);
    de_expect_stored(f.r, PAYMENT "###0", slice_text("{\"payload\":{\"id\":\"0\"}" TAIL(2)));
    long long delay = de_delay(f.r, PAYMENT "###0");
    cr_assert(delay > 5000 && delay <= 10000, "%lld", delay);
    for (int i = 0; i < 3; i++) redis_ok(f.r, "RPOP de_paymentcheck"); /* workers have taken these events */
    de_due(f.r);
    cr_assert_eq(de_moved(f.r, de_new()), 3);
}

Test(redis_delayed_waiting, sends_again_what_its_list_does_not_hold) {
    static const struct {
        const char *waits, *envelope;
        int sent;
    } rows[] = {
        {ENVELOPE(1), ENVELOPE(2), 0},     {ENVELOPE(99998), ENVELOPE(99999), 0},
        {ENVELOPE(1), ENVELOPE(1), 1}, /* enqueued again: no push of this event is known */
        {ENVELOPE(2), ENVELOPE(2), 1}, /* a push whose attempt was not written */
        {ENVELOPE(1), ENVELOPE(3), 1},     {ENVELOPE(3), ENVELOPE(2), 1},
        {ENVELOPE(1) " ", ENVELOPE(2), 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(f.r, "DEL " DELAYED_KEYS " de_events de_paymentcheck");
        redis_ok(f.r, "RPUSH de_paymentcheck a b %s c", rows[i].waits);
        de_add(f.r, PAYMENT "###1", slice_text(rows[i].envelope));
        de_ask_t ask = de_new();
        ask.attempts = 1000000;
        cr_assert_eq(de_moved(f.r, ask), rows[i].sent, "row %zu", i);
    }
}

/* A list that is too long to read may hold every event that was sent before. */
Test(redis_delayed_waiting, a_long_list_delays_only_events_that_were_sent_before) {
    static const struct {
        int count;
        long long bytes; /* ARGV[5] */
        int sent;
    } rows[] = {{2000, 1 << 30, 3}, {2001, 1 << 30, 1}, {2000, 15000, 1}, {2000, 20000, 3}, {1, 10, 3}, {1, 9, 3}, {2, 9, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(f.r, "DEL " DELAYED_KEYS " de_events");
        de_fill(f.r, rows[i].count, "0123456789");
        de_add(f.r, PAYMENT "###1", slice_text(ENVELOPE(1)));
        de_add(f.r, PAYMENT "###2", slice_text(ENVELOPE(2)));
        de_add(f.r, PAYMENT "###3", slice_text(ENVELOPE(3)));
        de_ask_t ask = de_new();
        ask.bytes = rows[i].bytes;
        int sent = (int)de_moved(f.r, ask);
        cr_assert_eq(sent, rows[i].sent, "row %zu: %d", i, sent);
    }
}
