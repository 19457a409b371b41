/* Dialect kmqueue with a monitor in a driver. A stalled task goes back to its own list, with two tokens changed and no other
 * byte, or ends. Its unique id stays until the end. Times and heartbeats follow KMQueue. */
#include "kmqueue_fixture.h"

static setup_t d;
SUITE(redis_kmqueue, , close_setup(&d));

Test(redis_kmqueue, a_stalled_task_goes_back_and_then_ends) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("retry_times = 1;")});
    char *first = km_json(d.f.r, (km_t){0}), *again = km_again(first, 0, "normal");
    redis_ok(d.f.r, "LPUSH " SAFE " behind");
    redis_ok(d.f.r, "SADD " UNIQUE " t-1 t-2");
    km_take(&d, first);
    until(&d, in(&d, SAFE, again));
    redis_expect(d.f.r, again, "LINDEX " SAFE " -1"); /* the next worker pops it */
    cr_assert_eq(in(&d, BACKUP, first), 0);
    expect_reason(&d, "retried", "stalled 1 -");
    cr_assert_eq(count(&d, "SCARD " UNIQUE), 2, "a retry must keep the unique id");
    until(&d, count(&d, "HLEN sidecar:email:stamps") == 0);
    redis_ok(d.f.r, "RPOP " SAFE);
    long long exc = redis_ms(d.f.r) - 5000;
    char *from = strstr(again, "\"excTimestamp\":"), *second;
    second = kept_printf("%.*s\"excTimestamp\":%lld%s", (int)(from - again), again, exc, strchr(from, ','));
    km_take(&d, second);
    until(&d, records(&d) == 2);
    expect_reason(&d, "failed", "retries_exhausted 2 -");
    cr_assert_eq(in(&d, BACKUP, second) + count(&d, "LLEN " SAFE) - 1, 0, "the list must hold only the task `behind`");
    cr_assert_eq(count(&d, "SISMEMBER " UNIQUE " t-1"), 0, "the end must remove the unique id");
    cr_assert_eq(count(&d, "SCARD " UNIQUE), 1);
    km_expect(&d, "payload", second);
    cr_assert_eq(count(&d, "EXISTS " PLAIN " sidecar:email:stamps"), 0);
}

Test(redis_kmqueue, a_record_has_the_fields_of_the_task) {
    open_setup(&d, (fixture_options_t){.config = KM("retry_times = 2;")});
    redis_ok(d.f.r, "SET 7\"\xc3\xbc_alive host-9");
    char *bytes = km_json(d.f.r, (km_t){.id = "7\\\"\\u00fc", .retry = 2, .exc = -9000, .gen = -70000});
    km_take(&d, bytes);
    passes(&d, 8); /* past the protected timeout, so that the monitor reads the heartbeat */
    redis_ok(d.f.r, "DEL 7\"\xc3\xbc_alive");
    until(&d, records(&d) == 1);
    km_expect(&d, "dialect", "kmqueue");
    km_expect(&d, "queue", "email");
    km_expect(&d, "job", "7\"\xc3\xbc");
    km_expect(&d, "type", "mail");
    km_expect(&d, "worker", "host-9");
    km_expect(&d, "attempts", "3");
    km_expect(&d, "payload", bytes);
    const char *gen = strstr(bytes, "\"genTimestamp\":") + 15, *exc = strstr(bytes, "\"excTimestamp\":") + 15;
    char *created = kept_printf("%.*s", (int)strcspn(gen, ","), gen), *started = kept_printf("%.*s", (int)strcspn(exc, ","), exc);
    km_expect(&d, "created", created);
    km_expect(&d, "started", started);
}

/* A task may also name a list in mode default: KMQueue's own monitor pushes to any list that a task names. */
Test(redis_kmqueue, a_task_goes_to_the_list_that_it_names) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
    char *bytes = km_json(d.f.r, (km_t){.queue = "worker\\u0031_queue", .state = "", .retry = 1});
    char *again = km_again(bytes, 1, "");
    km_take(&d, bytes);
    until(&d, in(&d, PLAIN, again));
    cr_assert_eq(count(&d, "EXISTS " SAFE " " UNIQUE), 0);
    expect_reason(&d, "retried", "stalled 2 -");
}

Test(redis_kmqueue, removes_a_unique_id_with_its_task_only) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("retry_times = 0;")});
    redis_ok(d.f.r, "SADD " UNIQUE " a b c");
    redis_ok(d.f.r, "SADD " PLAIN "_unique a b c");
    char *one = km_json(d.f.r, (km_t){.id = "a"});
    char *other = km_json(d.f.r, (km_t){.id = "b", .common = true});
    km_take(&d, one);
    km_take(&d, other);
    until(&d, records(&d) == 2);
    cr_assert_eq(count(&d, "SISMEMBER " UNIQUE " a"), 0);
    cr_assert_eq(count(&d, "SCARD " UNIQUE), 2, "the id b belongs to another task, because this task is not unique");
    cr_assert_eq(count(&d, "SCARD " PLAIN "_unique"), 3);
}

Test(redis_kmqueue, a_unique_set_of_another_type_keeps_the_task) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("retry_times = 0;")});
    redis_ok(d.f.r, "SET " UNIQUE " x");
    char *bytes = km_json(d.f.r, (km_t){0});
    km_take(&d, bytes);
    until(&d, metric_get(&of(&d)->faults) > 0);
    cr_assert_eq(in(&d, BACKUP, bytes), 1);
    cr_assert_eq(records(&d), 0);
}

/* Times of a task, and the result. exc, gen: ms from now. */
static const struct {
    const char *what;
    km_t task;
    const char *settings, *reason; /* reason NULL: the task stays in backup */
} times[] = {
    {"executed an hour ago, and in backup for the protected timeout", {.exc = -3600000}, "", "stalled 1 -"},
    {"executed in the future: ignored", {.exc = 3600000}, "", "stalled 1 -"},
    {"never executed", {.exc_is = "0"}, "", "stalled 1 -"},
    {"executed before 1970", {.exc_is = "-1"}, "", "stalled 1 -"},
    {"too old", {.gen = -3600000}, "alive_timeout = \"30m\"; protected_timeout = \"20m\";", "alive_timeout 1 -"},
    {"too old, after retries",
     {.gen = -3600000, .retry = 9},
     "alive_timeout = \"30m\"; protected_timeout = \"20m\";",
     "alive_timeout 10 -"},
    {"not too old", {.gen = -3600000}, "alive_timeout = \"2h\"; protected_timeout = \"20m\";", NULL},
    {"created in the future: ignored", {.gen = 7200000}, "alive_timeout = \"1h\"; protected_timeout = \"30m\";", NULL},
    {"created in January 1970: ignored", {.gen_is = "5"}, "alive_timeout = \"1h\"; protected_timeout = \"30m\";", NULL},
    {"retried as often as retry_times", {.retry = 3}, "", "retries_exhausted 4 -"},
    {"retried once less than retry_times", {.retry = 2}, "", "stalled 3 -"},
    {"retried more often than any retry_times", {.retry = 2147483647}, "", "retries_exhausted 2147483648 -"},
};

Test(redis_kmqueue, times_table, .timeout = 120) {
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        char *queue =
            mem_printf("group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; dialect "
                       "= \"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"]; heartbeat = \"off\"; %s%s } );",
                       strstr(times[i].settings, "protected") ? "" : "protected_timeout = \"100ms\"; ", times[i].settings);
        open_setup(&d, (fixture_options_t){.config = queue});
        char *bytes = km_json(d.f.r, times[i].task);
        km_take(&d, bytes);
        long long began = redis_ms(d.f.r);
        if (times[i].reason) {
            until(&d, records(&d) == 1);
            bool ends = strstr(times[i].reason, "stalled") == NULL;
            expect_reason(&d, ends ? "failed" : "retried", times[i].reason);
            if (!strstr(times[i].reason, "alive")) cr_expect_geq(redis_ms(d.f.r) - began, 100, "%s", times[i].what);
        } else {
            passes(&d, 4);
            cr_expect_eq(in(&d, BACKUP, bytes), 1, "%s", times[i].what);
        }
        free(queue);
        close_setup(&d);
    }
}

/* The worker's clock is ahead by less than the protected timeout. */
Test(redis_kmqueue, a_task_is_protected_from_its_own_begin) {
    open_setup(&d, (fixture_options_t){.config =
                                           "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = "
                                           "\"email\"; dialect = \"kmqueue\"; queues = [\"worker1_queue\", "
                                           "\"worker2_queue:safe\"]; protected_timeout = \"800ms\"; heartbeat = \"off\"; } );"});
    long long began = redis_ms(d.f.r);
    char *bytes = km_json(d.f.r, (km_t){.exc = 600});
    km_take(&d, bytes);
    until(&d, records(&d) == 1);
    cr_assert_geq(redis_ms(d.f.r) - began, 1400);
}

Test(redis_kmqueue, a_blank_heartbeat_counts_as_missing) {
    static const struct {
        const char *value;
        size_t len;
        bool alive;
    } rows[] = {{"", 0, false}, {" \t\r\n\x1f\x01\0", 7, false}, {"x", 1, true}, {"  .", 3, true}, {"\xa0", 1, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_setup(&d, (fixture_options_t){.config = KM("")});
        redis_ok(d.f.r, "SET t-1_alive %b", rows[i].value, rows[i].len);
        char *bytes = km_json(d.f.r, (km_t){0});
        km_take(&d, bytes);
        long long began = redis_ms(d.f.r);
        if (rows[i].alive) {
            until(&d, redis_ms(d.f.r) > began + 500);
            cr_assert_eq(in(&d, BACKUP, bytes), 1, "row %zu", i);
        } else {
            until(&d, records(&d) == 1);
        }
        close_setup(&d);
    }
}

Test(redis_kmqueue, a_heartbeat_of_another_type_counts) {
    open_setup(&d, (fixture_options_t){.config = KM("")});
    char *bytes = km_json(d.f.r, (km_t){0});
    km_take(&d, bytes);
    for_other_types (type, "string") {
        fixture_make_key(d.f.r, "t-1_alive", type);
        long long began = redis_ms(d.f.r);
        until(&d, redis_ms(d.f.r) > began + 300);
        cr_assert_eq(in(&d, BACKUP, bytes), 1, "%s", type);
    }
    redis_ok(d.f.r, "DEL t-1_alive");
    until(&d, records(&d) == 1);
}

/* The proxy drops one request of a scan. Meanwhile the worker finishes the task, as RedisTaskQueue.finishTask does. */
Test(redis_kmqueue, a_worker_may_finish_at_any_step, .timeout = 60) {
    static const char *const steps[] = {"LLEN " BACKUP, "RPOPLPUSH", "HMGET sidecar:email:stamps", "GETRANGE", "retried"};
    open_setup(&d, (fixture_options_t){.proxy = true, .redis = "timeout = \"20s\";", .config = KM("retry_times = 9;")});
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char id[8];
        snprintf(id, sizeof id, "t-%zu", i);
        char *bytes = km_json(d.f.r, (km_t){.id = id});
        redis_ok(d.f.r, "SADD " UNIQUE " %s", id);
        km_take(&d, bytes);
        until(&d, stamp_of(d.f.r, slice_text(bytes)).seen);
        long fired = proxy_fired(d.f.proxy);
        proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = steps[i]});
        until(&d, proxy_fired(d.f.proxy) > fired);
        cr_assert_eq(redis_int(d.f.r, "LREM " BACKUP " 0 %s", bytes), 1, "the entry in backup has changed");
        redis_ok(d.f.r, "SREM " UNIQUE " %s", id);
        until(&d, !stamp_of(d.f.r, slice_text(bytes)).born_us);
        cr_assert_eq(count(&d, "LLEN " SAFE), 0, "a finished task was retried: %s", steps[i]);
    }
    cr_assert_eq(records(&d), 0);
    cr_assert_eq(count(&d, "EXISTS " UNIQUE), 0);
}

/* A worker slower than the protected timeout finds no entry to remove, and the task runs again. KMQueue does the same. */
Test(redis_kmqueue, a_worker_may_finish_after_the_retry) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
    char *bytes = km_json(d.f.r, (km_t){0}), *again = km_again(bytes, 0, "normal");
    km_take(&d, bytes);
    until(&d, in(&d, SAFE, again));
    cr_assert_eq(redis_int(d.f.r, "LREM " BACKUP " 0 %s", bytes), 0);
    driver_run(&d.instance.driver, 200);
    cr_assert_eq(in(&d, SAFE, again), 1);
    cr_assert_eq(records(&d), 1);
}

/* The reply of each script is lost: no task is settled twice. */
Test(redis_kmqueue, lost_replies_double_nothing, .timeout = 60) {
    static const char *const steps[] = {"retried", "failed"};
    open_setup(&d, (fixture_options_t){.proxy = true, .config = KM_DEAF("retry_times = 1;")});
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = steps[i]});
        char *bytes = km_json(d.f.r, (km_t){.retry = (long long)i}), *again = km_again(bytes, (long long)i, "normal");
        redis_ok(d.f.r, "DEL " SAFE);
        redis_ok(d.f.r, "SADD " UNIQUE " t-1");
        km_take(&d, bytes);
        until(&d, records(&d) == (long long)i + 1);
        until(&d, count(&d, "HLEN sidecar:email:stamps") == 0);
        driver_run(&d.instance.driver, 200);
        cr_assert_eq(in(&d, SAFE, again), i == 0);
        cr_assert_eq(in(&d, BACKUP, bytes), 0);
        cr_assert_eq(count(&d, "SCARD " UNIQUE), i == 0);
        cr_assert_eq(records(&d), (long long)i + 1);
    }
}
