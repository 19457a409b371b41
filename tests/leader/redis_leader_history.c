/* The history of queues: the leader writes it once a minute of Redis's clock, people read it. */
#include "leader_fixture.h"
#include "operate/history/history.h"
#include "queue/scripts.h"

enum { MINUTE = 60000, INTO_MS = 10000 };
#define LONG_TTL "group = \"app\"; lock = { ttl = \"10m\"; }; monitor = { scan_interval = \"1h\"; }; "
#define ONE      LONG_TTL "queues = ( { name = \"email\"; heartbeat = \"off\"; } );"
#define TWO      LONG_TTL "queues = ( { name = \"email\"; heartbeat = \"off\"; }, { name = \"sms\"; heartbeat = \"off\"; } );"

static fixture_t f;
static instance_t one, two;

static void stop(void) {
    instance_stop(&one);
    instance_stop(&two);
    fixture_stop(&f);
}

SUITE(redis_leader_history, , stop());

/* Starts the server ten seconds into a minute of its clock, and an instance that leads. */
static void start(const char *config, int roles) {
    f = fixture_start(&(fixture_options_t){.config = config, .preload = "shim_clock", .proxy = true});
    step_clocks(&f, 2 * MINUTE + INTO_MS - redis_ms(f.r) % MINUTE);
    instance_start(&one, f.keys, INSTANCE_LEADER | roles);
    cr_leads(&one);
    driver_settle(&one.driver, f.r);
}

/* A text that only requests of the script have. */
static const char *request_of(const script_t *script) {
    return kept_printf("EVALSHA %s", script_sha1(script, server_major(f.server) >= 7));
}

static long stores(void) { return proxy_requests(f.proxy, request_of(&script_history)); }

static long counts(void) { return proxy_requests(f.proxy, request_of(&script_sizes)); }

/* Reads the history of a queue; freed by the caller. */
static history_t history_of(size_t queue, int64_t since_ms) {
    history_t history;
    const call_t call = {.conn = f.conn, .keys = f.keys, .queue = queue, .error = &f.error};
    cr_assert_eq(history_read(&call, since_ms, &history), OUTCOME_OK, "%s", f.error.text);
    return history;
}

/* The slot of the minute that ended so many whole minutes ago. */
static history_slot_t slot_of(size_t queue, int minutes_ago) {
    history_t history = history_of(queue, 0);
    int64_t step_ms = history.step * INT64_C(60000), last = redis_ms(f.r) / step_ms - 1 - minutes_ago / history.step;
    int64_t index = last - history.from_ms / step_ms;
    history_slot_t slot = {0};
    if (index >= 0 && index < (int64_t)history.count) slot = history.slots[index];
    history_clear(&history);
    return slot;
}

/* A minute passes; the instance does what is due then. */
static void minute(instance_t *instance) {
    step_clocks(&f, MINUTE);
    driver_settle(&instance->driver, f.r);
}

/* The same, and its end is stored for the queue. */
static void stored_minute(instance_t *instance, size_t queue) {
    step_clocks(&f, MINUTE);
    cr_assert(driver_until(&instance->driver, slot_of(queue, 0).written, 8000), "%s", fixture_log());
}

static void expect_sample(size_t queue, int minutes_ago, history_sample_t wanted) {
    history_slot_t slot = slot_of(queue, minutes_ago);
    cr_assert(slot.written, "nothing is stored of %d minutes ago", minutes_ago);
    cr_assert_eq(slot.sample.ready, wanted.ready);
    cr_assert_eq(slot.sample.delayed, wanted.delayed);
    cr_assert_eq(slot.sample.in_progress, wanted.in_progress);
    cr_assert_eq(slot.sample.failures, wanted.failures, "%lld", (long long)slot.sample.failures);
    if (wanted.late_ms >= 0) cr_assert_eq(slot.sample.late_ms, wanted.late_ms, "%lld", (long long)slot.sample.late_ms);
}

static metrics_queue_t *metrics_of(instance_t *instance) { return &instance->metrics->queues[0]; }

Test(redis_leader_history, minute_has_what_the_leader_counted) {
    start(ONE, 0);
    redis_ok(f.r, "ZADD email:delayed 9000000000000 a 9000000000001 b");
    redis_ok(f.r, "RPUSH email 1 2 3");
    redis_ok(f.r, "RPUSH email:backup x y z z");
    metrics_end(metrics_of(&one), "reported", 3);
    metrics_end(metrics_of(&one), "unreadable", 2);
    metrics_lateness(metrics_of(&one), 12345678, 1);
    metrics_lateness(metrics_of(&one), 1000, 1);
    stored_minute(&one, 0);
    expect_sample(0, 0, (history_sample_t){.ready = 3, .delayed = 2, .in_progress = 4, .failures = 5, .late_ms = 12345});
    redis_ok(f.r, "DEL email:delayed email:backup email");
    metrics_end(metrics_of(&one), "reported", 1);
    stored_minute(&one, 0);
    expect_sample(0, 0, (history_sample_t){.failures = 1});
    expect_sample(0, 1, (history_sample_t){.ready = 3, .delayed = 2, .in_progress = 4, .failures = 5, .late_ms = 12345});
    cr_assert_not(slot_of(0, 2).written, "of the time before this leader");
    /* A job that has been due for an hour. */
    redis_ok(f.r, "EVAL %s 1 email:delayed", "redis.call('ZADD', KEYS[1], (redis.call('TIME')[1] - 3600) * 1000, 'a')");
    stored_minute(&one, 0);
    int64_t late_ms = slot_of(0, 0).sample.late_ms;
    cr_assert(late_ms >= 3600000 && late_ms < 3600000 + MINUTE + wait_scaled_ms(20000), "%lld", (long long)late_ms);
    cr_assert_eq(redis_int(f.r, "STRLEN sidecar:email:history"), 31680);
    int64_t lives_ms = redis_int(f.r, "PTTL sidecar:email:history");
    cr_assert(lives_ms > 86000000 && lives_ms <= 86400000, "%lld", (long long)lives_ms);
}

/* Numbers of a private list, of a list of another type, and very large ones. */
Test(redis_leader_history, numbers_that_do_not_fit_are_cut_and_unknown_ones_are_null) {
    start(LONG_TTL "queues = ( { name = \"fights\"; dialect = \"private_queues\"; main = \"m\"; private = \"queue-*\"; "
                   "heartbeat = \"off\"; } );",
          0);
    metrics_end(metrics_of(&one), "reported", 70000);
    stored_minute(&one, 0);
    expect_sample(0, 0, (history_sample_t){.delayed = -1, .in_progress = -1, .failures = 65534, .late_ms = -1});
    cr_assert_eq(slot_of(0, 0).sample.late_ms, -1);
    history_entry_t entry = {.sample = {.ready = 5000000000, .delayed = 4294967294, .in_progress = 4294967293, .late_ms = -1}};
    call_t call = fixture_call(&f, redis_str(f.r, "GET sidecar:app:lock"));
    history_append(&call, 1, redis_ms(f.r) / MINUTE - 1, &entry, 1);
    cr_assert_eq(history_read_stored(&call, &entry, 1), OUTCOME_OK, "%s", f.error.text);
    expect_sample(0, 0, (history_sample_t){.ready = 4294967294, .delayed = 4294967294, .in_progress = 4294967293, .late_ms = -1});
}

Test(redis_leader_history, one_count_and_one_request_a_minute_are_enough) {
    start(TWO, 0);
    long long records = server_commandstat(f.server, "xlen"); /* by the preflight */
    for (int i = 1; i <= 4; i++) {
        stored_minute(&one, 1);
        for (int later = 0; later < 4; later++) {
            step_clocks(&f, MINUTE / 6);
            driver_settle(&one.driver, f.r);
        }
        step_clocks(&f, -4 * MINUTE / 6);
        cr_assert_eq(stores(), i);
        cr_assert_eq(counts(), i + 1);
        cr_assert_eq(server_commandstat(f.server, "xlen"), records, "nobody wants to know how many records there are");
    }
    /* /metrics wants the sizes every five seconds. */
    for (int i = 0; i < 12; i++) {
        metrics_scraped(one.metrics, mono_now());
        step_clocks(&f, MINUTE / 12);
        driver_settle(&one.driver, f.r);
    }
    cr_assert_eq(stores(), 5);
    cr_assert(slot_of(0, 0).written && slot_of(1, 0).written);
}

/* Later, and the numbers would not be those of the end of the minute. */
Test(redis_leader_history, minute_is_stored_within_three_seconds) {
    start(ONE, 0);
    for (int i = 0; i < 3; i++) {
        int64_t into_ms = redis_ms(f.r) % MINUTE;
        step_clocks(&f, MINUTE + 3000 - into_ms);
        driver_settle(&one.driver, f.r);
        cr_assert(slot_of(0, 0).written, "%s", fixture_log());
    }
}

/* It led until its lock was taken from it, and does not know that yet. */
Test(redis_leader_history, former_leader_writes_nothing) {
    start(ONE, 0);
    stored_minute(&one, 0);
    redis_ok(f.r, "SET sidecar:app:lock another PX 600000");
    char *before = redis_str(f.r, "GET sidecar:email:history");
    step_clocks(&f, MINUTE);
    cr_assert(driver_until(&one.driver, stores() == 2, 8000));
    cr_assert_not(slot_of(0, 0).written);
    cr_assert(slot_of(0, 1).written);
    redis_expect(f.r, before, "GET sidecar:email:history");
    cr_assert_eq(fixture_log_count("cannot store the history"), 0);
}

Test(redis_leader_history, takeover_within_a_minute_leaves_no_hole) {
    start(ONE, 0);
    stored_minute(&one, 0);
    metrics_end(metrics_of(&one), "reported", 7); /* this instance does not store them any more */
    leader_finish(one.leader);
    instance_start(&two, f.keys, INSTANCE_LEADER);
    cr_leads(&two);
    driver_settle(&two.driver, f.r);
    cr_assert_eq(stores(), 1, "the minute that ended before the term is not this leader's");
    metrics_end(metrics_of(&two), "reported", 2);
    stored_minute(&two, 0);
    expect_sample(0, 0, (history_sample_t){.failures = 2});
    cr_assert(slot_of(0, 1).written);
}

/* Another instance led in between. */
Test(redis_leader_history, failures_of_an_earlier_term_are_not_stored) {
    start(ONE, 0);
    stored_minute(&one, 0);
    metrics_end(metrics_of(&one), "reported", 7);
    metrics_lateness(metrics_of(&one), 7000000, 1);
    redis_ok(f.r, "SET sidecar:app:lock another-600000 PX 600000");
    step_clocks(&f, 4 * MINUTE);
    cr_assert(driver_until(&one.driver, !leads(&one), 8000));
    redis_ok(f.r, "DEL sidecar:app:lock");
    step_clocks(&f, 11 * MINUTE);
    cr_leads(&one);
    driver_settle(&one.driver, f.r);
    metrics_end(metrics_of(&one), "reported", 1);
    stored_minute(&one, 0);
    expect_sample(0, 0, (history_sample_t){.failures = 1});
    for (int i = 1; i < 12; i++) cr_assert_not(slot_of(0, i).written, "%d minutes ago", i);
}

Test(redis_leader_history, minutes_of_a_frozen_leader_stay_empty) {
    start(ONE, 0);
    redis_ok(f.r, "RPUSH email 1");
    stored_minute(&one, 0);
    step_clocks(&f, 3 * MINUTE);
    stored_minute(&one, 0);
    cr_assert(slot_of(0, 4).written);
    for (int i = 1; i < 4; i++) cr_assert_not(slot_of(0, i).written, "%d minutes ago", i);
    /* A day later the ring still has these slots, and none is of the last day. */
    redis_ok(f.r, "PERSIST sidecar:email:history");
    step_clocks(&f, INT64_C(1440) * MINUTE);
    history_t history = history_of(0, 0);
    cr_assert_eq(history.count, 1439, "%zu", history.count);
    for (size_t i = 0; i < history.count; i++) cr_assert_not(history.slots[i].written, "%zu", i);
    history_clear(&history);
}

/* The leader was frozen between its count and its request. */
Test(redis_leader_history, numbers_that_are_too_old_are_not_stored) {
    start(ONE, 0);
    history_entry_t entry = {0};
    call_t call = fixture_call(&f, redis_str(f.r, "GET sidecar:app:lock"));
    int64_t now = redis_ms(f.r) / MINUTE;
    for (int64_t number = now - 3; number <= now + 1; number++) {
        history_append(&call, 1, number, &entry, 1);
        cr_assert_eq(history_read_stored(&call, &entry, 1), OUTCOME_OK, "%s", f.error.text);
        cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:history"), number >= now - 1, "%lld", (long long)(number - now));
        for (int i = 1; i < 3; i++) cr_assert_not(slot_of(0, i).written);
    }
}

Test(redis_leader_history, redis_clock_names_the_minutes) {
    start(ONE, 0);
    stored_minute(&one, 0);
    server_step_clock(f.server, -3600000); /* as after a failover to a server with another clock */
    cr_assert_not(slot_of(0, 0).written, "a minute of the future is not of the last day");
    minute(&one);
    minute(&one);
    cr_assert(slot_of(0, 0).written);
    server_step_clock(f.server, 7200000);
    minute(&one);
    minute(&one);
    cr_assert(slot_of(0, 0).written);
    cr_assert_not(slot_of(0, 30).written);
}

Test(redis_leader_history, since_leaves_out_older_minutes) {
    start(ONE, 0);
    for (int i = 0; i < 3; i++) stored_minute(&one, 0);
    int64_t begin = redis_ms(f.r) / MINUTE * MINUTE;
    history_t history = history_of(0, begin - 3 * MINUTE + 1);
    cr_assert_eq(history.count, 2);
    cr_assert_eq(history.from_ms, begin - 2 * MINUTE);
    history_clear(&history);
    history = history_of(0, begin + MINUTE);
    cr_assert_eq(history.count, 0);
    history_clear(&history);
    history = history_of(0, 0);
    cr_assert_eq(history.count, 1440);
    cr_assert_eq(history.from_ms, begin - 1440 * MINUTE);
    history_clear(&history);
}

Test(redis_leader_history, history_of_other_steps_begins_anew) {
    start(ONE, 0);
    stored_minute(&one, 0);
    history_entry_t entry = {.sample = {.ready = 8}};
    call_t call = fixture_call(&f, redis_str(f.r, "GET sidecar:app:lock"));
    history_append(&call, 5, redis_ms(f.r) / MINUTE / 5 - 1, &entry, 1);
    cr_assert_eq(history_read_stored(&call, &entry, 1), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(redis_int(f.r, "STRLEN sidecar:email:history"), 6336);
    expect_sample(0, 0, (history_sample_t){.ready = 8});
    history_t history = history_of(0, 0);
    cr_assert(history.step == 5 && history.count == 288 && history.from_ms % (5 * MINUTE) == 0);
    history_clear(&history);
    step_clocks(&f, MINUTE);
    cr_assert(driver_until(&one.driver, redis_int(f.r, "STRLEN sidecar:email:history") == 31680, 8000), "%s", fixture_log());
    expect_sample(0, 0, (history_sample_t){0});
}

Test(redis_leader_history, key_of_something_else_is_named_and_left_alone) {
    start(TWO, 0);
    for_other_types (type, "string") {
        fixture_make_key(f.r, "sidecar:email:history", type);
        char *before = fixture_digest(f.r);
        redis_ok(f.r, "DEL sidecar:sms:history");
        int logged = fixture_log_count("sidecar:email:history: WRONGTYPE");
        minute(&one);
        minute(&one);
        cr_assert(slot_of(1, 0).written && slot_of(1, 1).written, "%s", type);
        redis_ok(f.r, "DEL sidecar:sms:history");
        cr_assert_str_eq(fixture_digest(f.r), before, "%s", type);
        cr_assert_leq(fixture_log_count("sidecar:email:history: WRONGTYPE"), logged + 1);
    }
    redis_ok(f.r, "SET sidecar:email:history mine");
    minute(&one);
    redis_expect(f.r, "mine", "GET sidecar:email:history");
    cr_assert_eq(fixture_log_count("sidecar:email:history: holds 4 bytes that are no history"), 1, "%s", fixture_log());
    history_t history;
    const call_t call = {.conn = f.conn, .keys = f.keys, .error = &f.error};
    cr_assert_eq(history_read(&call, 0, &history), OUTCOME_REFUSED);
    cr_assert(strstr(f.error.text, "sidecar:email:history holds 4 bytes"), "%s", f.error.text);
    redis_ok(f.r, "DEL sidecar:email:history");
    stored_minute(&one, 0);
    cr_assert_eq(fixture_log_count("the history of all queues is stored again"), 1);
    cr_assert_eq(metric_get(&one.metrics->terms), 1);
}

/* A full Redis goes without the history first, and promotes on. */
Test(redis_leader_history, full_redis_gets_no_history) {
    start(ONE, INSTANCE_DISPATCHER);
    stored_minute(&one, 0);
    redis_ok(f.r, "ZADD email:delayed 1000 a");
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    for (int i = 0; i < 3; i++) minute(&one);
    cr_assert_eq(stores(), 4);
    cr_assert_not(slot_of(0, 0).written);
    cr_assert_eq(fixture_log_count("cannot store the history of some queues"), 1, "%s", fixture_log());
    cr_assert_eq(fixture_log_count("redis is not ready"), 0, "%s", fixture_log());
    if (server_major(f.server) >= 7)
        cr_assert(driver_until(&one.driver, redis_int(f.r, "LLEN email") == 1, 8000), "the full Redis does not promote");
    redis_ok(f.r, "CONFIG SET maxmemory 0");
    stored_minute(&one, 0);
    cr_assert_eq(fixture_log_count("the history of all queues is stored again"), 1);
}

Test(redis_leader_history, refused_request_ends_no_term) {
    start(ONE, 0);
    for (const char *const *error = (const char *const[]){"-NOPERM no", "-ERR what", NULL}; *error; error++) {
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = request_of(&script_history), .error = *error});
        minute(&one);
        cr_assert_eq(fixture_log_count(*error + 1), 1, "%s", fixture_log());
        proxy_pass(f.proxy);
        stored_minute(&one, 0);
    }
    cr_assert_eq(metric_get(&one.metrics->terms), 1);
    cr_assert_eq(metric_get(&one.metrics->reconnects), 0);
}

Test(redis_leader_history, lost_reply_ends_no_term) {
    start(ONE, 0);
    stored_minute(&one, 0);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = request_of(&script_history)});
    minute(&one);
    proxy_pass(f.proxy);
    for (int i = 0; i < 4; i++) minute(&one); /* the next renewal connects again */
    stored_minute(&one, 0);
    cr_assert_eq(metric_get(&one.metrics->terms), 1);
}

/* The key of the first queue is a history, that of the second is not. */
Test(redis_leader_history, off_removes_histories_and_stores_none) {
    start(TWO, 0);
    stored_minute(&one, 0);
    redis_ok(f.r, "SET sidecar:sms:history mine");
    leader_finish(one.leader);
    f.config->history = HISTORY_OFF;
    instance_start(&two, f.keys, INSTANCE_LEADER);
    cr_leads(&two);
    long long delayed = server_commandstat(f.server, "zcard");
    minute(&two);
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:history"), 0);
    redis_expect(f.r, "mine", "GET sidecar:sms:history");
    cr_assert_eq(stores(), 2);
    for (int i = 0; i < 3; i++) minute(&two);
    cr_assert_eq(stores(), 2, "asked again");
    cr_assert_eq(server_commandstat(f.server, "zcard"), delayed, "counted what nobody wants");
    history_t history = history_of(0, 0);
    cr_assert(history.step == 0 && history.count == 0);
    history_clear(&history);
}

Test(redis_leader_history, each_lock_has_a_request_of_its_own) {
    start("group = \"app\"; lock = { scope = \"queue\"; ttl = \"10m\"; }; queues = ( { name = \"{a}x\"; }, { name = \"{b}\"; }, "
          "{ name = \"{a}y\"; } );",
          0);
    cr_assert(driver_until(&one.driver, metric_get(&one.metrics->leading) == 2, 8000));
    redis_ok(f.r, "RPUSH {a}y 1 2");
    minute(&one);
    stored_minute(&one, 2);
    cr_assert_eq(stores() % 2, 0);
    for (size_t i = 0; i < 3; i++) expect_sample(i, 0, (history_sample_t){.ready = i == 2 ? 2 : 0});
}

/* Above 256 queues a slot has five minutes. */
Test(redis_leader_history, many_queues_are_stored_every_five_minutes, .timeout = 120) {
    scoped(buffer_free) buffer_t config = {0};
    buffer_str(&config, LONG_TTL "queues = (");
    for (int i = 0; i < 300; i++) buffer_printf(&config, "%s{ name = \"q%d\"; heartbeat = \"off\"; }", i ? ", " : "", i);
    buffer_str(&config, ");");
    start(config.data, 0);
    redis_ok(f.r, "RPUSH q299 job");
    long long before = server_commandstat(f.server, "zcard");
    for (int i = 0; i < 5; i++) minute(&one);
    cr_assert(driver_until(&one.driver, slot_of(299, 0).written, 20000), "%s", fixture_log());
    cr_assert_eq(stores(), 4, "%ld", stores());
    cr_assert_eq(server_commandstat(f.server, "zcard"), before + 300);
    for (size_t i = 0; i < 300; i += 13) cr_assert(slot_of(i, 0).written);
    expect_sample(299, 0, (history_sample_t){.ready = 1});
    cr_assert_eq(redis_int(f.r, "STRLEN sidecar:q7:history"), 6336);
    f.config->redis.slice_us = 60; /* ten queues a request */
    for (int i = 0; i < 5; i++) minute(&one);
    cr_assert(driver_until(&one.driver, slot_of(299, 0).written, 20000), "%s", fixture_log());
    cr_assert_eq(stores(), 34, "%ld", stores());
}
