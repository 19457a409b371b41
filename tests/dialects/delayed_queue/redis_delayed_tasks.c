/* Quarantined events: the monitor sends them, ends them with a record, or leaves them in quarantine. */
#include "delayed_fixture.h"

#include "queue/quarantine.h"

/* Envelopes that the promote script quarantines, and the same envelopes with the next attempt. */
static const struct {
    const char *first, *second;
} odd[] = {
    {"{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":1,\"logContext\":{\"user\":\"ann\"}}",
     "{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":2,\"logContext\":{\"user\":\"ann\"}}"},
    {"{ \"attempt\" : 9 ,\r\n\t\"payload\" : {\"attempt\":3}, \"type\":\"" PAYMENT "\" } ",
     "{ \"attempt\" : 10 ,\r\n\t\"payload\" : {\"attempt\":3}, \"type\":\"" PAYMENT "\" } "},
    {"{\"\\u0061ttempt\":1,\"type\":\"" PAYMENT "\",\"more\":[1e400,{\"attempt\":5}],\"payload\":{}}",
     "{\"\\u0061ttempt\":2,\"type\":\"" PAYMENT "\",\"more\":[1e400,{\"attempt\":5}],\"payload\":{}}"},
    {ENVELOPE(100000), ENVELOPE(100001)},
};

/* Counts requests to Redis, not ticks: ticks without a request are harmless. */
static void expect_calm(setup_t *d) {
    long long before = server_commandstat(d->f.server, "evalsha");
    driver_run(&d->instance.driver, 300);
    cr_assert_lt(server_commandstat(d->f.server, "evalsha") - before, 60,
                 "the monitor keeps reading events that it leaves in quarantine");
}

static setup_t d;
SUITE(redis_delayed_tasks, , close_setup(&d));

Test(redis_delayed_tasks, sends_envelopes_of_another_shape) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES "retry_attempts = 100;")});
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        de_add(d.f.r, PAYMENT "###1", slice_text(odd[i].first));
        until(&d, count(&d, "LLEN de_paymentcheck") == 1);
        de_expect_popped(d.f.r, "de_paymentcheck", slice_text(odd[i].first));
        until(&d, count(&d, "EXISTS sidecar:email:aside") == 0);
        de_expect_stored(d.f.r, PAYMENT "###1", slice_text(odd[i].second));
        long long delay = strtoll(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###1"), NULL, 10) - redis_ms(d.f.r);
        cr_assert(delay > 5000 && delay <= (i == 0 || i == 2 ? 10000 : 1440000), "%zu: %lld", i, delay);
        redis_ok(d.f.r, "DEL " DELAYED_KEYS);
    }
    cr_assert_eq(metric_get(&of(&d)->promoted), 4);
    cr_assert_eq(records(&d), 0);
}

/* No worker takes the event: it is sent once and stays in quarantine. */
Test(redis_delayed_tasks, does_not_send_another_shape_again_while_it_waits) {
    open_setup(&d, (fixture_options_t){0});
    de_add(d.f.r, PAYMENT "###1", slice_text(odd[0].first));
    until(&d, count(&d, "LLEN de_paymentcheck") == 1 && count(&d, "EXISTS sidecar:email:aside") == 0);
    de_due(d.f.r);
    until(&d, count(&d, "EXISTS sidecar:email:aside") == 1);
    driver_run(&d.instance.driver, 100);
    expect_calm(&d);
    cr_assert_eq(count(&d, "LLEN de_paymentcheck"), 1);
    de_expect_stored(d.f.r, PAYMENT "###1", slice_text(odd[0].second));
    de_expect_popped(d.f.r, "de_paymentcheck", slice_text(odd[0].first));
    fixture_step_boottime(10001);
    until(&d, count(&d, "LLEN de_paymentcheck") == 1);
    de_expect_popped(d.f.r, "de_paymentcheck", slice_text(odd[0].second));
}

/* Held events must not keep dispatcher or monitor busy. */
Test(redis_delayed_tasks, is_calm_while_events_wait_in_their_list) {
    enum { MANY = 1000 };
    open_setup(&d, (fixture_options_t){0});
    redis_ok(d.f.r, "EVAL %s 3 de_events " DELAYED_KEYS " de_paymentcheck %s %s",
             "for i = 1, 1000 do redis.call('HSET', KEYS[1], ARGV[1] .. i, '{\"payload\":{\"id\":' .. i .. '}' .. ARGV[2]) "
             "redis.call('ZADD', KEYS[2], 1, ARGV[1] .. i) end",
             PAYMENT "###", TAIL(1));
    until(&d, count(&d, "LLEN de_paymentcheck") == MANY);
    de_due(d.f.r);
    until(&d, redis_int(d.f.r, "ZCOUNT " DELAYED_KEYS " -inf 1700000000000") == 0);
    expect_calm(&d);
    cr_assert_eq(count(&d, "LLEN de_paymentcheck"), MANY);
    cr_assert_eq(metric_get(&of(&d)->promoted), MANY);
}

Test(redis_delayed_tasks, the_last_push_of_another_shape_is_marked) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES "retry_attempts = 2;")});
    de_add(d.f.r, PAYMENT "###1", slice_text(odd[0].first));
    until(&d, count(&d, "LLEN de_paymentcheck") == 1 && count(&d, "EXISTS sidecar:email:aside") == 0);
    cr_assert_str_eq(strchr(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###1"), '.'), ".5");
    cr_assert_eq(records(&d), 0);
    de_due(d.f.r);
    until(&d, count(&d, "EXISTS sidecar:email:aside") == 1);
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(records(&d), 0, "the event still waits for a worker");
    de_expect_popped(d.f.r, "de_paymentcheck", slice_text(odd[0].first));
    fixture_step_boottime(10001);
    until(&d, records(&d) == 1);
    expect_recorded(&d, "reason", "retries_exhausted");
    expect_recorded(&d, "payload", odd[0].second);
    expect_empty(&d);
}

#define TRACE_TEXT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
/* All attempts, one after the other; then the end with a complete record. */
Test(redis_delayed_tasks, an_unhandled_event_is_ended) {
    open_setup(&d, (fixture_options_t){
                       .config = DE_QUEUE(DE_TYPES "retry_attempts = 4; on_failure = \"told\"; trace_path = \"/payload/t\";")});
    de_add(d.f.r, WELCOME "###a###b",
           slice_text("{\"payload\":{\"t\":\"" TRACE_TEXT "\"},\"type\":\"" WELCOME "\",\"attempt\":1,\"logContext\":{}}"));
    for (int sent = 1; sent <= 3; sent++) {
        until(&d, count(&d, "LLEN de_welcome") == 1);
        cr_assert_eq(records(&d), 0, "the event ended before its last attempt");
        redis_ok(d.f.r, "DEL de_welcome"); /* a worker has taken the event */
        de_due(d.f.r);
    }
    until(&d, records(&d) == 1);
    expect_empty(&d);
    expect_recorded(&d, "kind", "failed");
    expect_recorded(&d, "dialect", "delayed_queue");
    expect_recorded(&d, "queue", "email");
    expect_recorded(&d, "reason", "retries_exhausted");
    expect_recorded(&d, "job", "a###b");
    expect_recorded(&d, "type", WELCOME);
    expect_recorded(&d, "group", "app");
    expect_recorded(&d, "attempts", "3");
    expect_recorded(&d, "payload",
                    "{\"payload\":{\"t\":\"" TRACE_TEXT "\"},\"type\":\"" WELCOME "\",\"attempt\":4,\"logContext\":{}}");
    expect_recorded(&d, "error", NULL);
    expect_recorded(&d, "traceparent", TRACE_TEXT);
    cr_expect_eq(count(&d, "LLEN told"), 1);
    cr_assert_eq(metric_get(&of(&d)->ended_by[REASON_retries_exhausted]), 1);
    cr_assert_eq(fixture_log_count("a job has failed for good"), 1);
    /* meta counts the bytes of the stream. */
    char *counted = redis_str(d.f.r, "HGET sidecar:email:meta bytes");
    long long bytes = redis_int(d.f.r, "EVAL %s 1 sidecar:email:failures",
                                "local n = 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
                                "for i = 2, #e[2], 2 do n = n + #e[2][i] end end return n");
    cr_assert_eq(strtoll(counted, NULL, 10), bytes);
}

/* Workers are late by more than all delays: waiting events have not failed, and the monitor reads them seldom. */
Test(redis_delayed_tasks, does_not_end_an_event_that_waits_in_its_list) {
    enum { MANY = 40 };
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES "retry_attempts = 2;")});
    for (int i = 0; i < MANY; i++) {
        char *member = kept_printf(PAYMENT "###%d", i);
        char *envelope = kept_printf("{\"payload\":{\"id\":%d},\"type\":\"" PAYMENT "\",\"attempt\":1,\"logContext\":{}}", i);
        de_add(d.f.r, member, slice_text(envelope));
    }
    until(&d, count(&d, "LLEN de_paymentcheck") == MANY);
    de_due(d.f.r);
    until(&d, count(&d, "ZCARD sidecar:email:aside") == MANY);
    driver_run(&d.instance.driver, 100);
    expect_calm(&d);
    cr_assert_eq(records(&d), 0);
    for (int i = 0; i < 10; i++) redis_ok(d.f.r, "RPOP de_paymentcheck"); /* workers have taken these events */
    fixture_step_boottime(10001);
    until(&d, records(&d) == 10);
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(records(&d), 10);
    redis_ok(d.f.r, "EVAL %s 1 de_paymentcheck",
             "redis.call('DEL', KEYS[1]) for i = 1, 2001 do redis.call('LPUSH', KEYS[1], 'x') end");
    fixture_step_boottime(10001);
    driver_run(&d.instance.driver, 200);
    cr_assert_eq(records(&d), 10, "no event may end while the list is too long to search");
    redis_ok(d.f.r, "DEL de_paymentcheck");
    fixture_step_boottime(10001);
    until(&d, records(&d) == MANY);
    expect_empty(&d);
}

/* A handler finishes during the last delay, and a producer enqueues again. */
Test(redis_delayed_tasks, does_not_end_finished_or_rescheduled_events) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES "retry_attempts = 2;")});
    for (int i = 1; i <= 3; i++) {
        char *member = kept_printf(PAYMENT "###%d", i);
        de_add(d.f.r, member, slice_text(ENVELOPE(1)));
    }
    until(&d, count(&d, "LLEN de_paymentcheck") == 3);
    redis_ok(d.f.r, "DEL de_paymentcheck"); /* workers have taken the events */
    redis_ok(d.f.r, "HDEL de_events " PAYMENT "###1");
    redis_ok(d.f.r, "ZREM " DELAYED_KEYS " " PAYMENT "###1");
    redis_ok(d.f.r, "HSET de_events " PAYMENT "###2 %s", /* ZADD NX does nothing */
             "{\"payload\":{\"id\":2},\"type\":\"" PAYMENT "\",\"attempt\":1,\"logContext\":{}}");
    de_due(d.f.r);
    until(&d, records(&d) == 1 && count(&d, "LLEN de_paymentcheck") == 1);
    expect_recorded(&d, "job", "3");
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(records(&d), 1);
    cr_assert_eq(count(&d, "ZCARD " DELAYED_KEYS), 1);
}

/* The application schedules quarantined events again: the monitor leaves them, and no event is sent or ended early. */
Test(redis_delayed_tasks, leaves_rescheduled_events_until_they_are_due) {
    open_setup(&d, (fixture_options_t){0});
    driver_run(&d.instance.driver, 50);
    static const char *const scores[] = {"2000000000000", "2000000000000.5"};
    for (size_t i = 0; i < 2; i++) {
        redis_ok(d.f.r, "ZADD " DELAYED_KEYS " %s " PAYMENT "###odd %s " PAYMENT "###bad", scores[i], scores[i]);
        redis_ok(d.f.r, "HSET de_events " PAYMENT "###odd %s " PAYMENT "###bad broken", odd[0].first);
        redis_ok(d.f.r, "ZADD sidecar:email:aside 1 " PAYMENT "###odd 1 " PAYMENT "###bad");
        until(&d, count(&d, "EXISTS sidecar:email:aside") == 0);
        cr_assert_eq(count(&d, "EXISTS de_paymentcheck") + records(&d), 0);
        cr_assert_str_eq(de_score(d.f.r, DELAYED_KEYS, PAYMENT "###odd"), scores[i]);
        de_expect_stored(d.f.r, PAYMENT "###odd", slice_text(odd[0].first));
    }
}

/* Entries that are no events, and the reason of their end. No entry is sent, and no other key changes. */
static const struct {
    const char *member, *envelope, *reason;
} hostile[] = {
    {PAYMENT "###1", "", "unreadable"},
    {PAYMENT "###1", "hello", "unreadable"},
    {PAYMENT "###1", "[]", "unreadable"},
    {PAYMENT "###1", "{}", "unreadable"},
    {PAYMENT "###1", "{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":\"1\",\"logContext\":{}}", "unreadable"},
    {PAYMENT "###1", "{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":null,\"logContext\":{}}", "unreadable"},
    {PAYMENT "###1", "{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":1.5,\"logContext\":{}}", "unreadable"},
    {PAYMENT "###1", "{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":0,\"logContext\":{}}", "unreadable"},
    {PAYMENT "###1", "{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":-1,\"logContext\":{}}", "unreadable"},
    {PAYMENT "###1", "{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":99999999999999999999,\"logContext\":{}}",
     "unreadable"},
    {PAYMENT "###1", "{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":1,\"attempt\":1 }", "unreadable"},
    {PAYMENT "###1", "{\"payload\":[],\"type\":\"" PAYMENT "\",\"attempt\":1 }", "unreadable"},
    {PAYMENT "###1", "{\"payload\":{},\"type\":\"" WELCOME "\",\"attempt\":1,\"logContext\":{}}", "unreadable"},
    {PAYMENT "###1", "{\"payload\":{},\"type\":\"sidecar:app:lock\",\"attempt\":1,\"logContext\":{}}", "unreadable"},
    {"sidecar:app:lock###1", "{\"payload\":{},\"type\":\"sidecar:app:lock\",\"attempt\":3,\"logContext\":{}}", "invalid_target"},
    {"example.Other###1", "{\"payload\":{},\"type\":\"example.Other\",\"attempt\":1,\"logContext\":{}}", "invalid_target"},
    {"example.Other###1", "no JSON", "unreadable"},
    {"no delimiter", ENVELOPE(1), "unreadable"},
    {"###", "{\"payload\":{},\"type\":\"\",\"attempt\":1,\"logContext\":{}}", "invalid_target"},
};

Test(redis_delayed_tasks, ends_invalid_events_with_their_reason, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES " protected_timeout = \"50ms\";")});
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        de_add(d.f.r, hostile[i].member, slice_text(hostile[i].envelope));
        until(&d, records(&d) == (long long)i + 1);
        expect_recorded(&d, "reason", hostile[i].reason);
        if (*hostile[i].envelope) expect_recorded(&d, "payload", hostile[i].envelope);
        expect_empty(&d);
    }
}

/* A digest replaces an id that the audit log cannot store. */
Test(redis_delayed_tasks, replaces_ids_that_the_log_cannot_store) {
    static const struct {
        const char *id;
        size_t len;
        bool kept;
    } rows[] = {{"1", 1, true}, {"\xc3\xbc \"\\:*{}", 9, true}, {"a\0b", 3, false}, {"\xff", 1, false}, {"", 0, false}};
    open_setup(&d, (fixture_options_t){0});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scoped(buffer_free) buffer_t member = {0};
        buffer_str(&member, PAYMENT "###");
        buffer_add(&member, rows[i].id, rows[i].len);
        redis_ok(d.f.r, "HSET de_events %b broken", member.data, member.len);
        redis_ok(d.f.r, "ZADD " DELAYED_KEYS " 1 %b", member.data, member.len);
        until(&d, records(&d) == (long long)i + 1);
        char *job = recorded(&d, "job");
        if (rows[i].kept)
            cr_assert_str_eq(job, rows[i].id);
        else
            cr_assert(strncmp(job, "sha256:", 7) == 0 && strlen(job) == 71, "%s", job);
        expect_recorded(&d, "type", rows[i].kept ? PAYMENT : NULL);
        expect_empty(&d);
    }
}

/* Events of a class that is not in the config stay for protected_timeout. Once the config has the class, they are sent. */
Test(redis_delayed_tasks, sends_events_once_their_class_is_configured) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE("types = [\"" WELCOME "\"];")});
    for (int i = 0; i < 40; i++) {
        char *member = kept_printf(PAYMENT "###%d", i);
        de_add(d.f.r, member, slice_text(ENVELOPE(1)));
    }
    until(&d, fixture_log_count("class is not among") == 1);
    cr_assert_eq(fixture_log_count(PAYMENT), 1);
    redis_expect(d.f.r, " " WELCOME " ", "HGET sidecar:email:meta types");
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(records(&d), 0);
    cr_assert_eq(count(&d, "ZCARD sidecar:email:aside"), 40);
    cr_assert_eq(count(&d, "HLEN de_events"), 40);
    expect_calm(&d);
    instance_stop(&d.instance);
    scoped(config_drop) config_t *config =
        fixture_config("redis = { socket = \"%s\"; }; %s", server_socket(d.f.server), DE_QUEUE(DE_TYPES));
    scoped(keyspace_drop) keyspace_t *keys = keyspace_new(config);
    instance_start(&d.instance, keys, INSTANCE_DISPATCHER | INSTANCE_MONITOR);
    instance_lead(&d.instance, d.f.r);
    de_due(d.f.r);
    until(&d, count(&d, "LLEN de_paymentcheck") == 40);
    redis_expect(d.f.r, " " PAYMENT "  " WELCOME " ", "HGET sidecar:email:meta types");
    until(&d, count(&d, "EXISTS sidecar:email:aside") == 0);
    cr_assert_eq(records(&d), 0);
    instance_stop(&d.instance);
    fixture_stop(&d.f);
}

Test(redis_delayed_tasks, a_full_stream_delays_ends_only) {
    open_setup(&d, (fixture_options_t){0});
    redis_ok(d.f.r, "XADD sidecar:email:failures 1-1 a b");
    redis_ok(d.f.r, "HSET sidecar:email:meta bytes 268435456 entries 1");
    de_add(d.f.r, PAYMENT "###bad", slice_text("broken"));
    de_add(d.f.r, PAYMENT "###1", slice_text(odd[0].first));
    until(&d, fixture_log_count("the failure stream is full") == 1);
    until(&d, count(&d, "LLEN de_paymentcheck") == 1);
    cr_assert_eq(count(&d, "HLEN de_events"), 2);
    cr_assert_eq(records(&d), 1);
    expect_calm(&d);
    redis_ok(d.f.r, "HSET sidecar:email:meta bytes 0");
    until(&d, records(&d) == 2);
    cr_assert_eq(fixture_log_count("the failure stream is full"), 1);
}

/* As many events as the monitor remembers as logged (LOGGED_MAX). */
Test(redis_delayed_tasks, logs_many_large_envelopes_once) {
    char large[2100];
    memset(large, 'x', sizeof large);
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES " max_payload = \"1KiB\";")});
    for (int i = 0; i < 64; i++) {
        char *member = kept_printf(PAYMENT "###%d", i);
        de_add(d.f.r, member, (slice_t){large, sizeof large});
    }
    until(&d, metric_get(&of(&d)->large) == 64);
    driver_run(&d.instance.driver, 50);
    redis_ok(d.f.r, "CLIENT KILL TYPE normal"); /* a new connection reads all of them again */
    driver_run(&d.instance.driver, 500);
    cr_assert_eq(metric_get(&of(&d)->large), 64);
    redis_ok(d.f.r, "DEL de_events");
    fixture_step_boottime(60000); /* the safety poll */
    until(&d, metric_get(&of(&d)->large) == 0);
}

Test(redis_delayed_tasks, leaves_envelopes_larger_than_max_payload_and_logs_them_once) {
    char large[2100];
    memset(large, 'x', sizeof large);
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES " max_payload = \"1KiB\";")});
    de_add(d.f.r, PAYMENT "###1", (slice_t){large, sizeof large});
    until(&d, metric_get(&of(&d)->large) == 1);
    de_due(d.f.r);
    redis_ok(d.f.r, "ZADD sidecar:email:aside 1 gone"); /* a member that is in no other key leaves quarantine */
    until(&d, count(&d, "ZCARD sidecar:email:aside") == 1);
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(metric_get(&of(&d)->large), 1);
    cr_assert_eq(fixture_log_count("larger than max_payload"), 1);
    cr_assert_eq(count(&d, "HLEN de_events"), 1);
    cr_assert_eq(records(&d), 0);
    redis_ok(d.f.r, "HDEL de_events " PAYMENT "###1");
    redis_ok(d.f.r, "ZREM " DELAYED_KEYS " " PAYMENT "###1");
    redis_ok(d.f.r, "ZADD sidecar:email:aside 2 gone");
    until(&d, count(&d, "EXISTS sidecar:email:aside") == 0);
}

/* Several pages; some events stay in quarantine between events that leave it. */
Test(redis_delayed_tasks, settles_many_events_at_once, .timeout = 60) {
    enum { EVENTS = 500 };
    open_setup(&d, (fixture_options_t){0});
    for (int i = 0; i < EVENTS; i++) {
        char *member = kept_printf("%s###%d", i % 5 == 0 ? "example.Other" : PAYMENT, i);
        de_add(d.f.r, member, slice_text(i % 5 == 0 ? ENVELOPE(1) : i % 5 == 1 ? "broken" : odd[0].first));
    }
    until(&d, records(&d) == EVENTS / 5 && count(&d, "LLEN de_paymentcheck") == EVENTS / 5 * 3);
    until(&d, count(&d, "ZCARD sidecar:email:aside") == EVENTS / 5);
    cr_assert_eq(count(&d, "HLEN de_events"), EVENTS / 5 * 4);
    cr_assert_eq(count(&d, "ZCARD " DELAYED_KEYS), EVENTS / 5 * 4);
}

enum { FOREIGN = 30000 };

/* Events of a class that is not configured keep arriving: many events wait, and the quarantine changes at each read. */
Test(redis_delayed_tasks, a_waiting_event_does_not_delay_others, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES)});
    redis_ok(d.f.r, "EVAL %s 2 de_events " DELAYED_KEYS " %d",
             "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], 'a.Foreign###' .. i, '{}') "
             "redis.call('ZADD', KEYS[2], 1, 'a.Foreign###' .. i) end return redis.status_reply('OK')",
             FOREIGN);
    until(&d, count(&d, "ZCARD sidecar:email:aside") == FOREIGN);
    de_add(d.f.r, PAYMENT "###1", slice_text(odd[0].first));
    for (int i = 1; count(&d, "LLEN de_paymentcheck") == 0; i++) {
        char *member = kept_printf("a.Foreign###+%d", i);
        de_add(d.f.r, member, slice_text("{}"));
        until(&d, count(&d, "ZCARD sidecar:email:aside") >= FOREIGN + i);
        cr_assert_lt(i, 100, "changes of the quarantine keep an event from its turn");
    }
}

/* Each request or each reply is lost once: no event is recorded twice, no event is lost. */
Test(redis_delayed_tasks, lost_requests_and_replies_double_nothing, .timeout = 60) {
    static const proxy_action_t actions[] = {PROXY_DROP, PROXY_LOSE};
    static const char *const steps[] = {"EXISTS sidecar:email:aside", "sidecar:email:aside", "push", " end "};
    long long ended = 0;
    open_setup(&d, (fixture_options_t){.proxy = true});
    for (size_t a = 0; a < 2; a++)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            proxy_rule(d.f.proxy, (proxy_rule_t){.action = actions[a], .match = steps[i]});
            de_add(d.f.r, PAYMENT "###bad", slice_text("broken"));
            de_add(d.f.r, PAYMENT "###1", slice_text(odd[0].first));
            until(&d, records(&d) == ended + 1 && count(&d, "LLEN de_paymentcheck") >= 1);
            until(&d, count(&d, "EXISTS sidecar:email:aside") == 0);
            ended++;
            driver_run(&d.instance.driver, 50);
            cr_assert_eq(records(&d), ended);
            cr_assert_eq(count(&d, "LLEN de_paymentcheck"), 1, "%s: the event is sent twice at once", steps[i]);
            de_expect_stored(d.f.r, PAYMENT "###1", slice_text(odd[0].second));
            redis_ok(d.f.r, "DEL de_paymentcheck " DELAYED_KEYS " de_events");
            proxy_pass(d.f.proxy);
        }
}

Test(redis_delayed_tasks, a_lock_that_is_lost_changes_nothing) {
    open_setup(&d, (fixture_options_t){0});
    driver_run(&d.instance.driver, 50);
    redis_ok(d.f.r, "SET sidecar:app:lock another");
    de_add(d.f.r, PAYMENT "###1", slice_text("broken"));
    redis_ok(d.f.r, "ZADD " DELAYED_KEYS " 1800000000000.25 " PAYMENT "###1");
    redis_ok(d.f.r, "ZADD sidecar:email:aside 1 " PAYMENT "###1");
    until(&d, lease_take_suspicion(d.instance.leases, 0));
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(records(&d), 0);
    instance_lead(&d.instance, d.f.r);
    until(&d, records(&d) == 1);
}
