/* Redis's clock is ahead by minutes or a year while events are sent, and is set back. */
#include "delayed_fixture.h"

static const int64_t STEPS[] = {INT64_C(300000), INT64_C(31536000000)};
static const char SLOW[] = "{\"attempt\":1,\"payload\":{},\"type\":\"" PAYMENT "\"}";

enum { STEP_COUNT = sizeof STEPS / sizeof *STEPS, SHORT_MS = 10000, MANY = 350 };

static void open_stepped(setup_t *d, const char *config, int64_t ahead) {
    open_setup(d, (fixture_options_t){.preload = "shim_clock", .config = config});
    server_step_clock(d->f.server, ahead);
    instance_lead(&d->instance, d->f.r);
}

/* The term goes on. The monitor looks at the clock again after 10 s. */
static void set_back(setup_t *d, int64_t ms) {
    server_step_clock(d->f.server, -ms);
    fixture_step_boottime(SHORT_MS + 1);
}

static void schedule(setup_t *d, const char *member, const char *envelope, const char *score) {
    redis_ok(d->f.r, "HSET de_events %s %s", member, envelope);
    redis_ok(d->f.r, "ZADD " DELAYED_KEYS " %s %s", score, member);
}

static void take(setup_t *d, long long events) {
    until(d, count(d, "LLEN de_paymentcheck") == events);
    redis_ok(d->f.r, "DEL de_paymentcheck");
}

static setup_t d;
SUITE(redis_delayed_clock, , close_setup(&d));

/* A handler takes an event and dies. The event is due again after its delay. */
Test(redis_delayed_clock, an_event_sent_while_the_clock_was_ahead_is_sent_again) {
    for (int i = 0; i < STEP_COUNT; i++) {
        open_stepped(&d, NULL, STEPS[i]);
        de_add(d.f.r, PAYMENT "###1", slice_text(ENVELOPE(1)));
        de_add(d.f.r, PAYMENT "###2", slice_text(SLOW));
        take(&d, 2);
        set_back(&d, STEPS[i]);
        until(&d, de_delay(d.f.r, PAYMENT "###1") <= SHORT_MS);
        until(&d, de_delay(d.f.r, PAYMENT "###2") <= 1440000);
        cr_assert_geq(de_delay(d.f.r, PAYMENT "###1"), SHORT_MS / 2, "its handler may still run");
        server_step_clock(d.f.server, SHORT_MS);
        instance_lead(&d.instance, d.f.r);
        until(&d, count(&d, "LLEN de_paymentcheck") >= 1);
        de_expect_popped(d.f.r, "de_paymentcheck", slice_text(ENVELOPE(2)));
        close_setup(&d);
    }
}

/* An application may schedule an event for any time. A send of any version shows in the attempt. */
Test(redis_delayed_clock, an_event_that_was_never_sent_keeps_its_time) {
    open_stepped(&d, NULL, STEPS[1]);
    schedule(&d, PAYMENT "###1", ENVELOPE(1), "4102444800000");
    schedule(&d, PAYMENT "###2", SLOW, "4102444800001");
    schedule(&d, PAYMENT "###3", "{\"payload\":{\"attempt\":9}" TAIL(1), "+inf");
    schedule(&d, "example.Other###4", "{\"payload\":{},\"type\":\"example.Other\",\"attempt\":1,\"logContext\":{}}",
             "4102444800002");
    schedule(&d, PAYMENT "###5", "broken", "4102444800003");
    schedule(&d, PAYMENT "###sent", ENVELOPE(7), "4102444800004");
    redis_ok(d.f.r, "ZADD " DELAYED_KEYS " 4102444800005 none");
    de_add(d.f.r, PAYMENT "###6", slice_text(ENVELOPE(1)));
    take(&d, 1);
    set_back(&d, STEPS[1]);
    until(&d, de_delay(d.f.r, PAYMENT "###6") <= SHORT_MS && de_delay(d.f.r, PAYMENT "###sent") <= SHORT_MS);
    cr_assert_str_eq(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###1"), "4102444800000");
    cr_assert_str_eq(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###2"), "4102444800001");
    cr_assert_str_eq(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###3"), "inf");
    cr_assert_str_eq(de_score(d.f.r, DELAYED_KEYS, "example.Other###4"), "4102444800002");
    cr_assert_str_eq(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###5"), "4102444800003");
    cr_assert_str_eq(de_score(d.f.r, DELAYED_KEYS, "none"), "4102444800005");
    cr_assert_eq(count(&d, "LLEN de_paymentcheck"), 0);
}

/* Its wait began before the clock was ahead: it is due sooner than if it were sent now. */
Test(redis_delayed_clock, an_event_that_is_due_within_its_delay_keeps_its_time) {
    open_stepped(&d, NULL, STEPS[0]);
    const char *soon = kept_printf("%lld", redis_ms(d.f.r) - (long long)STEPS[0] + 600000);
    schedule(&d, PAYMENT "###2", ENVELOPE(50), soon); /* its delay is 1440 s */
    de_add(d.f.r, PAYMENT "###1", slice_text(ENVELOPE(1)));
    take(&d, 1);
    set_back(&d, STEPS[0]);
    until(&d, de_delay(d.f.r, PAYMENT "###1") <= SHORT_MS);
    cr_assert_str_eq(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###2"), soon);
}

/* Each attempt has its own delay; the last push keeps its mark. */
Test(redis_delayed_clock, each_event_gets_the_delay_of_its_attempt) {
    open_stepped(&d, DE_QUEUE(DE_TYPES "retry_attempts = 13;"), STEPS[1]);
    de_add(d.f.r, PAYMENT "###1", slice_text(ENVELOPE(11)));
    de_add(d.f.r, PAYMENT "###2", slice_text("{\"payload\":{\"id\":\"2\"}" TAIL(12)));
    take(&d, 2);
    cr_assert_str_eq(strchr(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###2"), '.'), ".5");
    set_back(&d, STEPS[1]);
    until(&d, de_delay(d.f.r, PAYMENT "###1") <= 60000 && de_delay(d.f.r, PAYMENT "###2") <= 60000);
    cr_assert_geq(de_delay(d.f.r, PAYMENT "###1"), 50000);
    cr_assert_str_eq(strchr(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###2"), '.'), ".5");
    cr_assert_eq(records(&d), 0);
    server_step_clock(d.f.server, 60000);
    instance_lead(&d.instance, d.f.r);
    until(&d, records(&d) == 1);
    expect_recorded(&d, "attempts", "12");
}

/* `since` is a time of Redis's clock, too. */
Test(redis_delayed_clock, an_unknown_class_ends_after_protected_timeout) {
    for (int i = 0; i < STEP_COUNT; i++) {
        open_stepped(&d, DE_QUEUE("types = [\"" WELCOME "\"]; protected_timeout = \"2s\";"), STEPS[i]);
        de_add(d.f.r, PAYMENT "###1", slice_text(ENVELOPE(1)));
        until(&d, count(&d, "ZCARD sidecar:email:aside") == 1);
        set_back(&d, STEPS[i]);
        until(&d, strtoll(de_score(d.f.r, "sidecar:email:aside", PAYMENT "###1"), NULL, 10) <= redis_ms(d.f.r));
        cr_assert_leq(de_delay(d.f.r, PAYMENT "###1"), SHORT_MS);
        cr_assert_str_eq(strchr(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###1"), '.'), ".25");
        cr_assert_eq(records(&d), 0);
        until(&d, records(&d) == 1);
        expect_recorded(&d, "reason", "invalid_target");
        close_setup(&d);
    }
}

/* Ends a pass that began when `sent` was this. Returns what `sent` is then. */
static char *end_pass(const char *began) {
    size_t len;
    const char *text = fixture_script(&script_delayed_reschedule, &len);
    redis_ok(d.f.r,
             "EVAL %b 5 sidecar:app:lock " DELAYED_KEYS
             " de_events sidecar:email:meta sidecar:email:aside T %s %s 0 9 99 9 10 1000",
             text, len, began, "");
    return redis_str(d.f.r, "HGET sidecar:email:meta sent");
}

/* Then another pass must follow. */
Test(redis_delayed_clock, a_pass_does_not_forget_that_the_clock_was_ahead_again) {
    open_setup(&d, (fixture_options_t){0});
    redis_ok(d.f.r, "SET sidecar:app:lock T");
    redis_ok(d.f.r, "HSET sidecar:email:meta sent 4102444800001");
    cr_assert_str_eq(end_pass("after 4102444800000"), "4102444800001");
    cr_assert_str_neq(end_pass("after 4102444800001"), "4102444800001");
}

/* Many pages, of members with equal scores, some of which keep their time. */
Test(redis_delayed_clock, a_pass_reads_every_event) {
    open_stepped(&d, NULL, STEPS[0]);
    redis_ok(d.f.r, "HSET sidecar:email:meta sent 4102444800000");
    redis_ok(d.f.r, "EVAL %s 2 de_events " DELAYED_KEYS " %s %s %s %d",
             "for i = 1, ARGV[4] do redis.call('HSET', KEYS[1], ARGV[1] .. i, '{\"payload\":{}' .. ARGV[i % 3 == 0 and 3 or 2]) "
             "redis.call('ZADD', KEYS[2], i % 2 == 0 and 4102444800000 or 4102444800000 + i, ARGV[1] .. i) end",
             PAYMENT "###", TAIL(1), TAIL(5), MANY);
    set_back(&d, STEPS[0]);
    until(&d, fixture_log_count("the clock of Redis was set back") == 1);
    cr_assert_eq(count(&d, "ZCOUNT " DELAYED_KEYS " 4102444800000 +inf"), MANY - MANY / 3);
    char *sent = redis_str(d.f.r, "HGET sidecar:email:meta sent");
    cr_assert_leq(strtoll(sent, NULL, 10), redis_ms(d.f.r));
}

/* While the clock is not set back, nothing is read. */
Test(redis_delayed_clock, an_ordinary_look_reads_no_event) {
    open_setup(&d, (fixture_options_t){0});
    de_add(d.f.r, PAYMENT "###1", slice_text(ENVELOPE(1)));
    take(&d, 1);
    until(&d, count(&d, "HEXISTS sidecar:email:meta sent") == 1);
    schedule(&d, PAYMENT "###1", ENVELOPE(7), "4102444800000");
    driver_run(&d.instance.driver, 100);
    long long before = server_commandstat(d.f.server, "zrangebyscore");
    for (int look = 0; look < 3; look++) {
        fixture_step_boottime(SHORT_MS + 1);
        driver_run(&d.instance.driver, 100);
    }
    cr_assert_lt(server_commandstat(d.f.server, "zrangebyscore") - before, 60);
    cr_assert_str_eq(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###1"), "4102444800000");
    cr_assert_eq(fixture_log_count("the clock of Redis was set back"), 0);
}

/* An old leader must not write: another one may have sent these events meanwhile. */
Test(redis_delayed_clock, a_fenced_leader_changes_nothing) {
    scoped(fixture_stop) fixture_t f = fixture_start_locked();
    redis_ok(f.r, "ZADD " DELAYED_KEYS " 4102444800000 " PAYMENT "###1");
    redis_ok(f.r, "HSET de_events " PAYMENT "###1 %s", ENVELOPE(7));
    redis_ok(f.r, "ZADD sidecar:email:aside 4102444800000 " PAYMENT "###1");
    redis_ok(f.r, "HSET sidecar:email:meta sent 4102444800000");
    for (int own = 0; own < 2; own++) {
        eval_t call = call_begin(&script_delayed_reschedule, "5");
        static const char *const rest[] = {"sidecar:app:lock", DELAYED_KEYS, "de_events", "sidecar:email:meta",
                                           "sidecar:email:aside"};
        for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) call_text(&call, rest[i]);
        call_text(&call, own ? "T" : "another");
        static const char *const numbers[] = {"", "", "0", "100", "1000000", "10000", "9", "10000"};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) call_text(&call, numbers[i]);
        redisReply *reply = kept(call_end(&call, f.r));
        cr_assert_str_eq(reply->element[0]->str, own ? "settled" : "fenced");
        cr_assert_eq(strcmp(de_score(f.r, DELAYED_KEYS, PAYMENT "###1"), "4102444800000") != 0, own);
        cr_assert_eq(strcmp(de_score(f.r, "sidecar:email:aside", PAYMENT "###1"), "4102444800000") != 0, own);
    }
}
