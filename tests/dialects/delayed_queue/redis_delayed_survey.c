/* Warnings of `check --redis` and `status` about a delayed_queue: events that cannot be sent, and the library's own scheduler. */
#include "delayed_fixture.h"
#include "inspect/survey.h"

static void add_result(void *self, preflight_level_t level, const char *queue, const char *text) {
    buffer_printf(self, "%s %s: %s\n", level == PREFLIGHT_WARNING ? "warning" : "note", queue, text);
}

/* Returns one line for each result; kept. */
static char *results(fixture_t *f) {
    buffer_t said = {0};
    scoped(conn_drop) conn_t *conn = conn_new(f->shard, "test", NULL);
    cr_assert_eq(conn_open(conn, &f->error), OUTCOME_OK, "%s", f->error.text);
    cr_assert_eq(survey(&(preflight_call_t){conn, f->keys, add_result, &said, &f->error}), OUTCOME_OK, "%s", f->error.text);
    return kept(said.len ? said.data : strdup(""));
}

static void expect_said(fixture_t *f, const char *expected) {
    char *said = results(f);
    cr_assert(expected ? strstr(said, expected) != NULL : !*said, "%s instead of: %s", said, expected);
}

#define NESTED "example.Letters.Welcome"

static setup_t d;
SUITE(redis_delayed_survey, , close_setup(&d));

Test(redis_delayed_survey, names_classes_that_are_not_configured) {
    static const struct {
        const char *types, *member, *said;
    } rows[] = {
        {DE_TYPES, PAYMENT "###1", NULL},
        {DE_TYPES, WELCOME "###1", NULL},
        {DE_TYPES, "no delimiter", NULL},
        {DE_TYPES, "a.Other###1", "warning email: events of the class \"a.Other\" wait, and `types` does not have it: add it; "},
        {DE_TYPES, "a.\"\n###1", "the class \"a.\\\"\\u000a\" wait"},
        {"types = [\"" NESTED "\"];", WELCOME "###1", "write it instead of \"" NESTED "\" (Class.getName writes $"},
        {"types = [\"" NESTED "\"];", WELCOME "s###1", "add it"},
        {"types = [\"" NESTED "\"];", "example.Letters$Welcom###1", "add it"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int quarantined = 0; quarantined < 2; quarantined++) {
            char *config = kept_printf(DE_QUEUE("%s"), rows[i].types);
            scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = config});
            redis_ok(f.r, "ZADD " DELAYED_KEYS " 9000000000000 " PAYMENT "###known");
            redis_ok(f.r, "ZADD %s 9000000000000 %s", quarantined ? "sidecar:email:aside" : DELAYED_KEYS, rows[i].member);
            expect_said(&f, rows[i].said);
        }
}

Test(redis_delayed_survey, names_each_class_once_and_not_too_many) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = DE_QUEUE(DE_TYPES)});
    for (int i = 0; i < 40; i++) redis_ok(f.r, "ZADD " DELAYED_KEYS " 1 a.C%d###%d", i % 20, i);
    redis_ok(f.r, "ZADD sidecar:email:aside 1 a.C3###3");
    char *said = results(&f);
    int lines = 0, third = 0;
    for (const char *at = said; (at = strchr(at, '\n')); at++) lines++;
    for (const char *at = said; (at = strstr(at, "\"a.C3\"")); at++) third++;
    cr_assert(lines == 8 && third == 1, "%s", said);
}

/* Other programs write the members, so their size is unknown. */
Test(redis_delayed_survey, a_member_larger_than_other_replies_is_read) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = DE_QUEUE(DE_TYPES)});
    redis_ok(f.r, "EVAL %s 1 " DELAYED_KEYS, "redis.call('ZADD', KEYS[1], 1, 'a.Big###' .. string.rep('x', 2^24))");
    expect_said(&f, "events of the class \"a.Big\" wait");
}

/* The library sets its lock at each run, reads the events, and deletes the lock. The monitor looks while the lock is there. */
static void run_library_at(const char *maxmemory) {
    long long looks = server_commandstat(d.f.server, "exists");
    redis_ok(d.f.r, "SET de_delayed_events_lock value EX 2000000 NX");
    redis_ok(d.f.r, "CONFIG SET maxmemory %s", maxmemory);
    cr_assert(driver_until(&d.instance.driver, server_commandstat(d.f.server, "exists") > looks, 5000), "nothing looked");
    redis_ok(d.f.r, "DEL de_delayed_events_lock");
}

static void run_library(void) { run_library_at("0"); }

Test(redis_delayed_survey, warns_of_the_scheduler_of_the_library) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES)});
    redis_ok(d.f.r, "HSET de_events x y"); /* so that the application is known */
    driver_run(&d.instance.driver, 100);
    run_library();
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(fixture_log_count("the scheduler of delayedQueue runs too"), 0, "one change is no proof");
    expect_said(&d.f, NULL);
    for (int i = 0; i < 3; i++) {
        fixture_step_boottime(10001);
        driver_run(&d.instance.driver, 100);
        run_library();
        until(&d, count(&d, "HEXISTS sidecar:email:meta scheduler") == 1);
    }
    cr_assert_eq(fixture_log_count("the scheduler of delayedQueue runs too"), 1);
    expect_said(&d.f, "warning email: the scheduler of delayedQueue runs too");
    redis_ok(d.f.r, "HSET sidecar:email:meta scheduler %lld", redis_ms(d.f.r) - 6 * 60 * 1000);
    expect_said(&d.f, NULL); /* it was put off meanwhile */
}

/* Client tracking names no database: the scheduler of another one changes a key of the same name. */
Test(redis_delayed_survey, the_scheduler_of_another_database_is_none_of_this_one) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES)});
    driver_run(&d.instance.driver, 100);
    redis_ok(d.f.r, "SELECT 1");
    for (int i = 0; i < 4; i++) {
        run_library();
        fixture_step_boottime(10001);
        driver_run(&d.instance.driver, 100);
    }
    redis_ok(d.f.r, "SELECT 0");
    cr_assert_eq(fixture_log_count("the scheduler of delayedQueue runs too"), 0);
    cr_assert_eq(redis_int(d.f.r, "HEXISTS sidecar:email:meta scheduler"), 0);
}

/* Refused keys must not stop the work on the queue. */
Test(redis_delayed_survey, a_refused_look_at_the_lock_stops_nothing) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES)});
    redis_ok(d.f.r, "ACL SETUSER default resetkeys ~de_* ~sidecar:*");
    redis_ok(d.f.r, "SET de_delayed_events_lock value");
    de_add(d.f.r, PAYMENT "###1", slice_text("broken"));
    until(&d, records(&d) == 1);
    redis_ok(d.f.r, "ACL SETUSER default resetkeys ~de_delayed_events ~de_events ~de_paymentcheck ~de_welcome ~sidecar:*");
    redis_ok(d.f.r, "CLIENT KILL TYPE normal");
    de_add(d.f.r, PAYMENT "###1", slice_text("broken"));
    until(&d, records(&d) == 2);
    cr_assert_eq(fixture_log_count("redis refuses the monitor"), 0, "%s", fixture_log());
}

/* The field for `status` is refused at maxmemory. The monitor must not back off and begin its scans anew. */
Test(redis_delayed_survey, a_full_redis_does_not_stop_the_monitor) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES)});
    driver_run(&d.instance.driver, 100);
    for (int i = 0; i < 4; i++) {
        redis_ok(d.f.r, "CONFIG SET maxmemory 0");
        run_library_at("1");
        driver_run(&d.instance.driver, 100);
        fixture_step_boottime(10001);
        driver_run(&d.instance.driver, 100);
    }
    cr_assert_eq(fixture_log_count("the scheduler of delayedQueue runs too"), 1);
    cr_assert_eq(fixture_log_count("redis is not ready"), 0, "%s", fixture_log());
}

Test(redis_delayed_survey, without_tracking_the_monitor_does_not_spin) {
    open_setup(&d, (fixture_options_t){.config = DE_QUEUE(DE_TYPES), .proxy = true});
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "CLIENT TRACKING", .error = "-NOPERM no", .times = -1});
    until(&d, proxy_fired(d.f.proxy) > 1); /* dispatcher and monitor */
    driver_run(&d.instance.driver, 100);
    long long before = server_commandstat(d.f.server, "evalsha");
    driver_run(&d.instance.driver, 500);
    cr_assert_lt(server_commandstat(d.f.server, "evalsha") - before, 50);
}
