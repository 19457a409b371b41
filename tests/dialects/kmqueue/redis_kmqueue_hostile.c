/* An entry that is no task, or that names a list outside the config, stays for the protected timeout and then ends with its
 * reason. The entry stops no scan, and no other key is written. Also: unique ids without a task. */
#include "kmqueue_fixture.h"

#define STATUS       "\"taskStatus\":{\"excTimestamp\":1,\"genTimestamp\":2,\"retry\":0,\"state\":\"normal\"}"
#define NAMES(queue) "{\"id\":\"i\",\"queue\":\"" queue "\"," STATUS ",\"type\":\"t\",\"unique\":true}"

static const struct {
    const char *bytes;
    size_t len; /* 0: strlen(bytes) */
    const char *reason;
} rows[] = {
    {"no task", 0, "unreadable 1"},
    {"\0\xff{", 3, "unreadable 1"},
    {"[]", 0, "unreadable 1"},
    {"{}", 0, "unreadable 1"},
    {"null", 0, "unreadable 1"},
    {"{\"id\":\"i\",\"queue\":\"" SAFE "\",\"unique\":true}", 0, "unreadable 1"},
    {"{\"id\":\"\",\"queue\":\"" SAFE "\"," STATUS ",\"unique\":true}", 0, "unreadable 1"},
    {"{\"id\":\"a\\u0000b\",\"queue\":\"" SAFE "\"," STATUS ",\"unique\":true}", 0, "unreadable 1"},
    {"{\"id\":\"i\",\"queue\":\"" SAFE "\"," STATUS "," STATUS ",\"unique\":true}", 0, "unreadable 1"},
    {"{\"id\":\"i\",\"queue\":\"" SAFE "\",\"taskStatus\":{\"excTimestamp\":1,\"genTimestamp\":2,\"retry\":0,\"\\u0072etry\":9,"
     "\"state\":\"normal\"},\"unique\":true}",
     0, "unreadable 1"},
    {"{\"id\":\"i\",\"queue\":\"" SAFE "\",\"taskStatus\":{\"excTimestamp\":1,\"genTimestamp\":2,\"retry\":-1,\"state\":\"\"},"
     "\"unique\":true}",
     0, "unreadable 1"},
    {NAMES("other_queue"), 0, "invalid_target 1"},
    {NAMES(BACKUP), 0, "invalid_target 1"},
    {NAMES("sidecar:app:lock"), 0, "invalid_target 1"},
    {NAMES("sidecar:email:stamps"), 0, "invalid_target 1"},
    {NAMES(UNIQUE), 0, "invalid_target 1"},
    {NAMES(""), 0, "invalid_target 1"},
    {NAMES("*"), 0, "invalid_target 1"},
    {NAMES(SAFE " "), 0, "invalid_target 1"},
    {NAMES(SAFE "\\u0000"), 0, "invalid_target 1"},
    {NAMES("\\ud800"), 0, "invalid_target 1"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static slice_t row_bytes(size_t i) { return (slice_t){rows[i].bytes, rows[i].len ? rows[i].len : strlen(rows[i].bytes)}; }

/* Returns reason and attempts of the record with this payload; kept. */
static char *reason_for(setup_t *d, slice_t bytes) {
    return redis_str(d->f.r, "EVAL %s 1 sidecar:email:failures %b",
                     "for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do local f = {} "
                     "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                     "if f.kind == 'failed' and f.payload == ARGV[1] then return f.reason .. ' ' .. f.attempts end end",
                     bytes.data, bytes.len);
}

/* Lets Redis refuse each write to a key that is neither the queue's nor the sidecar's. Refusals count as faults. */
static void fence_keys(setup_t *d) {
    redis_ok(d->f.r, "MSET other_queue kept other_queue_unique kept _unique kept * kept");
    redis_ok(d->f.r, "ACL SETUSER default resetkeys ~" PLAIN "* ~" SAFE "* ~" BACKUP " ~sidecar:* ~*_alive");
}

static void unfence_keys(setup_t *d) { redis_ok(d->f.r, "ACL SETUSER default allkeys"); }

static setup_t d;
SUITE(redis_kmqueue_hostile, , close_setup(&d));

Test(redis_kmqueue_hostile, each_ends_with_its_reason, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = KM("retry_times = 2;")});
    char *lock = redis_str(d.f.r, "GET sidecar:app:lock");
    char *good = km_json(d.f.r, (km_t){0}), *again = km_again(good, 0, "normal");
    fence_keys(&d);
    redis_ok(d.f.r, "SADD " UNIQUE " i t-1");
    for (size_t i = 0; i < ROWS; i++) redis_ok(d.f.r, "LPUSH " BACKUP " %b", row_bytes(i).data, row_bytes(i).len);
    km_take(&d, good);
    long long began = redis_ms(d.f.r);
    until(&d, in(&d, SAFE, again));
    cr_assert_geq(redis_ms(d.f.r) - began, 100);
    until(&d, records(&d) == ROWS + 1);
    for (size_t i = 0; i < ROWS; i++) {
        char *reason = reason_for(&d, row_bytes(i));
        cr_expect(reason && strcmp(reason, rows[i].reason) == 0, "row %zu: %s, not %s", i, reason, rows[i].reason);
    }
    cr_assert_eq(count(&d, "LLEN " BACKUP), 1, "backup must hold only the marker");
    cr_assert_eq(count(&d, "LLEN " SAFE), 1);
    cr_assert_eq(count(&d, "EXISTS " PLAIN), 0);
    cr_assert_eq(count(&d, "SCARD " UNIQUE), 2, "an invalid task must not remove a unique id of another list");
    redis_expect(d.f.r, lock, "GET sidecar:app:lock");
    cr_assert_eq(metric_get(&of(&d)->faults), 0, "Redis refused a request");
    unfence_keys(&d);
    redis_expect(d.f.r, "kept", "GET other_queue");
    cr_assert_eq(count(&d, "EXISTS other_queue other_queue_unique _unique *"), 4);
    cr_assert_eq(count(&d, "EXISTS i_alive t-1_alive"), 0);
}

/* The monitor retries stalled duplicates of a valid task. It cannot retry invalid entries, so their duplicates end one by one. */
Test(redis_kmqueue_hostile, ends_duplicates_of_invalid_entries, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
    char *foreign = km_json(d.f.r, (km_t){.queue = "other_queue"});
    for (int i = 0; i < 3; i++) {
        redis_ok(d.f.r, "LPUSH " BACKUP " garbage");
        redis_ok(d.f.r, "LPUSH " BACKUP " %s", foreign);
    }
    until(&d, records(&d) == 6);
    until(&d, in(&d, BACKUP, "garbage") + in(&d, BACKUP, foreign) == 0);
    cr_assert_eq(redis_int(d.f.r, "EVAL %s 1 sidecar:email:failures",
                           "local ids, n = {}, 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
                           "for i = 1, #e[2], 2 do if e[2][i] == 'event' then "
                           "if not ids[e[2][i + 1]] then n = n + 1 end ids[e[2][i + 1]] = true end end end return n"),
                 6, "each entry must have its own event id");
}

/* A task that names another list stays while its worker sends heartbeats. An unreadable entry has no heartbeat. */
Test(redis_kmqueue_hostile, a_living_worker_keeps_a_task_with_an_invalid_target) {
    open_setup(&d, (fixture_options_t){.config = KM("")});
    redis_ok(d.f.r, "SET i_alive me");
    km_take(&d, NAMES("other_queue"));
    km_take(&d, "no task");
    until(&d, records(&d) == 1);
    passes(&d, 4);
    cr_assert_eq(in(&d, BACKUP, NAMES("other_queue")), 1);
    redis_ok(d.f.r, "DEL i_alive");
    until(&d, records(&d) == 2);
    expect_reason(&d, "failed", "invalid_target 1 -");
}

/* Returns a task with about `fill` bytes of data, made of `unit`; kept. */
static char *large_task(size_t fill, const char *unit) {
    buffer_t text = {0};
    buffer_str(&text, "{\"data\":\"");
    while (text.len < fill) buffer_str(&text, unit);
    buffer_str(&text, "\",\"id\":\"t-1\",\"queue\":\"" SAFE "\"," STATUS ",\"type\":\"marker\",\"unique\":true}");
    return kept(text.data);
}

Test(redis_kmqueue_hostile, large_tasks_go_back_byte_for_byte, .timeout = 60) {
    static const size_t sizes[] = {65 * 1024, 5 * 1024 * 1024};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
        char *bytes = large_task(sizes[i], "\\\"retry\\\":0,\\\"state\\\":\\\"normal\\\" \\u00e9\\ud83d\\ude00 ");
        char *again = km_again(bytes, 0, "normal");
        km_take(&d, bytes);
        until(&d, in(&d, SAFE, again));
        cr_assert_eq(in(&d, BACKUP, bytes), 0);
        close_setup(&d);
    }
}

Test(redis_kmqueue_hostile, keeps_oversized_tasks_and_ends_too_deep_tasks, .timeout = 60) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("max_payload = \"1MiB\";")});
    char *large = large_task(1024 * 1024, "0123456789");
    scoped(buffer_free) buffer_t deep = {0};
    buffer_str(&deep, "{\"data\":");
    for (int i = 0; i < 64; i++) buffer_str(&deep, "[");
    for (int i = 0; i < 64; i++) buffer_str(&deep, "]");
    buffer_str(&deep, ",\"id\":\"t-2\",\"queue\":\"" SAFE "\"," STATUS ",\"unique\":true}");
    km_take(&d, large);
    km_take(&d, deep.data);
    until(&d, records(&d) == 1);
    expect_reason(&d, "failed", "unreadable 1 -");
    passes(&d, 3);
    cr_assert_eq(in(&d, BACKUP, large), 1);
    cr_assert_geq(fixture_log_count("larger than max_payload"), 1);
}

static int64_t stale(void) { return metric_get(&of(&d)->stale_unique); }
static int logged(void) { return fixture_log_count("orphaned ids in sets of unique tasks: "); }

/* Steps the clock by a minute, to the monitor's next count of unique ids. */
static void next_count(void) {
    fixture_step_boottime(61000);
    for (int i = 0; i < 30; i++) driver_step(&d.instance.driver, 10);
}

/* Does the same as KMQueueManager.init when a worker starts. */
static void make_backup(void) {
    redis_ok(d.f.r, "LPUSH " BACKUP " %s",
             "{\"id\":\"m\",\"queue\":\"" BACKUP "\",\"taskStatus\":{\"excTimestamp\":0,\"genTimestamp\":2,\"retry\":0,"
             "\"state\":\"normal\"},\"type\":\"marker\",\"unique\":false}");
}

Test(redis_kmqueue_hostile, reports_and_keeps_orphaned_unique_ids) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
    make_backup();
    redis_ok(d.f.r, "SADD " UNIQUE " lost-1 lost-2");
    redis_ok(d.f.r, "SADD " PLAIN "_unique lost-3");
    until(&d, stale() == 3);
    next_count();
    cr_assert_eq(logged(), 1, "the same ids must be logged once");
    cr_assert_eq(fixture_log_count("\"sets\":\"" PLAIN "_unique: 1, " UNIQUE ": 2\",\"ids\":3"), 1);
    cr_assert_eq(fixture_log_count("push the task again only if it has not run"), 1);
    redis_expect(d.f.r, "3", "HGET sidecar:email:meta stale_unique");
    redis_ok(d.f.r, "SREM " UNIQUE " lost-1");
    next_count();
    cr_assert_eq(stale(), 2);
    cr_assert_eq(logged(), 1);
    redis_expect(d.f.r, "2", "HGET sidecar:email:meta stale_unique");
    redis_ok(d.f.r, "SADD " UNIQUE " lost-4");
    next_count();
    cr_assert_eq(stale(), 3);
    cr_assert_eq(logged(), 2);
    redis_ok(d.f.r, "DEL " BACKUP " " UNIQUE " " PLAIN "_unique");
    next_count();
    cr_assert_eq(stale(), 0);
    cr_assert_eq(count(&d, "HEXISTS sidecar:email:meta stale_unique"), 0);
}

/* Workers whose manager has other names keep their tasks in another backup list. */
Test(redis_kmqueue_hostile, no_unique_id_is_orphaned_without_a_backup_list) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
    redis_ok(d.f.r, "SADD " UNIQUE " in-another-list");
    for (int counts = 0; counts < 4; counts++) next_count();
    cr_assert_eq(stale(), 0);
    cr_assert_eq(logged(), 0);
    make_backup();
    for (int counts = 0; counts < 3 && !stale(); counts++) next_count();
    cr_assert_eq(stale(), 1);
}

/* Another leader may have counted ids that an operator has removed since. */
Test(redis_kmqueue_hostile, forgets_orphaned_ids_that_an_earlier_leader_counted) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
    redis_ok(d.f.r, "HSET sidecar:email:meta stale_unique 5 group app");
    until(&d, count(&d, "HEXISTS sidecar:email:meta stale_unique") == 0);
    cr_assert_eq(count(&d, "HEXISTS sidecar:email:meta group"), 1, "only the count goes");
}

/* While a task waits or is in progress, no unique id counts as orphaned. */
Test(redis_kmqueue_hostile, counts_unique_ids_while_there_is_no_task) {
    open_setup(&d,
               (fixture_options_t){.config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = "
                                             "\"email\"; dialect = \"kmqueue\"; queues = [\"worker1_queue\", "
                                             "\"worker2_queue:safe\"]; protected_timeout = \"30m\"; heartbeat = \"off\"; } );"});
    static const struct {
        const char *begin, *end;
    } cases[] = {{"LPUSH " SAFE " task", "DEL " SAFE},
                 {"LPUSH " PLAIN " task", "DEL " PLAIN},
                 {"LPUSH " BACKUP " task", "LREM " BACKUP " 0 task"},
                 {"LPUSH " BACKUP " task task", "LREM " BACKUP " 0 task"}};
    make_backup();
    redis_ok(d.f.r, "SADD " UNIQUE " a");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        redis_ok(d.f.r, cases[i].begin);
        for (int counts = 0; counts < 3; counts++) {
            fixture_step_boottime(1801000);
            for (int n = 0; n < 15; n++) driver_step(&d.instance.driver, 10);
        }
        cr_assert_eq(stale(), 0, "%s", cases[i].begin);
        redis_ok(d.f.r, cases[i].end);
    }
    for (int counts = 0; counts < 3; counts++) {
        next_count();
        cr_assert_eq(stale(), 0, "the task may be on its way between two lists");
    }
    redis_ok(d.f.r, "LPUSH " SAFE " task");
    next_count();
    redis_ok(d.f.r, "DEL " SAFE);
    next_count();
    cr_assert_eq(stale(), 0, "a count from before the task is no proof");
    fixture_step_boottime(1801000);
    until(&d, stale() == 1);
}

/* Workers whose manager has other names fill another backup list. */
Test(redis_kmqueue_hostile, logs_tasks_that_wait_without_a_backup_list) {
    static const char log[] = "tasks wait, but the backup list does not exist";
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
    redis_ok(d.f.r, "LPUSH " PLAIN " task");
    next_count();
    cr_assert_eq(fixture_log_count(log), 0, "the manager may be about to start");
    for (int i = 0; i < 3; i++) next_count();
    cr_assert_eq(fixture_log_count(log), 1);
    cr_assert_eq(fixture_log_count("\"backup\":\"" BACKUP "\""), 1);
    redis_ok(d.f.r, "LPUSH " BACKUP " entry");
    next_count();
    cr_assert_eq(fixture_log_count("the backup list exists again, or no task waits any more"), 1);
}

Test(redis_kmqueue_hostile, a_set_of_another_type_is_a_fault_of_this_queue) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
    redis_ok(d.f.r, "SET " UNIQUE " x");
    until(&d, metric_get(&of(&d)->faults) > 0);
    char *bytes = km_json(d.f.r, (km_t){.queue = PLAIN}), *again = km_again(bytes, 0, "normal");
    km_take(&d, bytes);
    until(&d, in(&d, PLAIN, again));
    cr_assert_geq(fixture_log_count(UNIQUE), 1, "the log must name the key");
}
