/* The marker of KMQueue's backup list: the monitor uses the manager's marker, adds a marker if there is none, and keeps one of
 * several. No task counts as a marker. */
#include "kmqueue_fixture.h"

#define MARKER(id, queue, more, type)                                                                                            \
    "{" more "\"id\":\"" id "\",\"queue\":\"" queue "\",\"taskStatus\":{\"excTimestamp\":0,\"genTimestamp\":1700000000000,"      \
    "\"retry\":0,\"state\":\"normal\"},\"type\":\"" type "\",\"unique\":false}"

/* With this config no task stalls. */
static const char CALM[] = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; dialect = "
                           "\"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"]; heartbeat = \"off\"; "
                           "protected_timeout = \"1h\"; } );";

/* Acts as KMQueueManager.init when a worker starts (RedisBackupQueue.java, initQueue). False: backup exists already. */
static bool manager_starts(setup_t *d, const char *id) {
    if (count(d, "EXISTS " BACKUP)) return false;
    char *marker = kept_printf("{\"id\":\"%s\",\"queue\":\"" BACKUP "\",\"taskStatus\":{\"excTimestamp\":0,\"genTimestamp\":%lld,"
                               "\"retry\":0,\"state\":\"normal\"},\"type\":\"marker\",\"unique\":false}",
                               id, redis_ms(d->f.r));
    redis_ok(d->f.r, "LPUSH " BACKUP " %s", marker);
    return true;
}

static char *a_task(setup_t *d, const char *id) { return km_json(d->f.r, (km_t){.id = id, .common = true}); }

static long long entries(setup_t *d) { return count(d, "LLEN " BACKUP); }
static int64_t pushed(setup_t *d) { return metric_get(&of(d)->sentinels); }
static int64_t removed(setup_t *d) { return metric_get(&of(d)->old_sentinels); }

static setup_t d;
SUITE(redis_kmqueue_marker, , close_setup(&d));

Test(redis_kmqueue_marker, uses_the_managers_marker) {
    open_setup(&d, (fixture_options_t){.config = CALM});
    cr_assert(manager_starts(&d, "m"));
    char *marker = redis_str(d.f.r, "LINDEX " BACKUP " 0"), *task = a_task(&d, "1");
    km_take(&d, task);
    passes(&d, 10);
    cr_assert_eq(pushed(&d) + removed(&d), 0);
    cr_assert_eq(entries(&d), 2);
    cr_assert_eq(in(&d, BACKUP, marker), 1);
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), 1, "the marker got a stamp, as a task does");
}

Test(redis_kmqueue_marker, pushes_a_marker_if_there_is_none) {
    open_setup(&d, (fixture_options_t){.config = CALM});
    char *task = a_task(&d, "1");
    km_take(&d, task);
    until(&d, pushed(&d) == 1);
    passes(&d, 10);
    cr_assert_eq(pushed(&d), 1);
    cr_assert_eq(removed(&d), 0);
    cr_assert_eq(entries(&d), 2);
    cr_assert_not(manager_starts(&d, "m"), "KMQueue must not add a second marker");
    char *found = redis_str(d.f.r, "EVAL %s 1 " BACKUP,
                            "for _, e in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do local t = cjson.decode(e) "
                            "if t.type == 'marker' then return t.queue .. ' ' .. #t.id .. ' ' .. t.taskStatus.state .. ' ' .. "
                            "tostring(t.unique) end end");
    cr_assert_str_eq(found, BACKUP " 36 normal false");
}

Test(redis_kmqueue_marker, keeps_one_of_two_markers) {
    open_setup(&d, (fixture_options_t){.config = CALM});
    for (int i = 0; i < 600; i++) { /* several pages, so that no page has both markers */
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        char *task = a_task(&d, id);
        if (i % 300 == 150)
            redis_ok(d.f.r, "LPUSH " BACKUP " %s",
                     i < 300 ? MARKER("m1", BACKUP, "", "marker") : MARKER("m2", BACKUP, "", "marker"));
        km_take(&d, task);
    }
    until(&d, entries(&d) == 601);
    passes(&d, 10);
    cr_assert_eq(entries(&d), 601);
    cr_assert_eq(removed(&d), 1);
    cr_assert_eq(pushed(&d), 0);
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), 600);
}

/* The marker is deleted together with its list. A few scans later, scans add and remove no further marker. */
Test(redis_kmqueue_marker, a_lost_marker_is_replaced_once) {
    open_setup(&d, (fixture_options_t){.config = CALM});
    char *task = a_task(&d, "1");
    manager_starts(&d, "before");
    km_take(&d, task);
    passes(&d, 3);
    for (int round = 0; round < 2; round++) {
        redis_ok(d.f.r, "DEL " BACKUP);
        if (round) manager_starts(&d, "after");
        km_take(&d, task);
        passes(&d, 5);
        int64_t pushes = pushed(&d), removals = removed(&d);
        passes(&d, 10);
        cr_assert_eq(pushed(&d), pushes, "round %d", round);
        cr_assert_eq(removed(&d), removals, "round %d", round);
        cr_assert_leq(removals, 1);
        cr_assert_leq(pushes, 2);
        cr_assert_eq(entries(&d), 2);
    }
}

/* While backup holds only the marker, the monitor sends no request. A worker's push wakes the monitor. */
Test(redis_kmqueue_marker, a_marker_alone_causes_no_requests) {
    open_setup(&d, (fixture_options_t){.config = CALM, .proxy = true});
    manager_starts(&d, "m");
    char *task = a_task(&d, "1");
    km_take(&d, task);
    for (int round = 0; round < 2; round++) {
        passes(&d, 1);
        redis_ok(d.f.r, "LREM " BACKUP " 0 %s", task);
        until(&d, count(&d, "HLEN sidecar:email:stamps") == 0);
        driver_run(&d.instance.driver, 400);
        long before = proxy_requests(d.f.proxy, NULL);
        driver_run(&d.instance.driver, 500);
        cr_assert_eq(proxy_requests(d.f.proxy, NULL), before);
        km_take(&d, task);
        until(&d, stamp_of(d.f.r, slice_text(task)).seen);
    }
}

/* Each of these tasks ends a scan of KMQueue's own monitor, which then never reads the tasks behind it. */
Test(redis_kmqueue_marker, no_task_counts_as_a_marker, .timeout = 60) {
    static const char *const forged[] = {
        MARKER("1", SAFE, "", "marker"),
        MARKER("1", BACKUP, "", "mail"),
        MARKER("1", BACKUP, "\"data\":\"x\",", "marker"),
        "{\"id\":\"1\",\"queue\":\"" BACKUP "\",\"taskStatus\":{\"excTimestamp\":1700000000000,\"genTimestamp\":1700000000000,"
        "\"retry\":0,\"state\":\"normal\"},\"type\":\"marker\",\"unique\":false}",
    };
    static const char *const reasons[] = {"retries_exhausted 1 -", "invalid_target 1 -", "invalid_target 1 -",
                                          "invalid_target 1 -"};
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        open_setup(&d, (fixture_options_t){.config = i ? KM_DEAF("") : KM_DEAF("retry_times = 0;")});
        char *task = km_json(d.f.r, (km_t){0}), *again = km_again(task, 0, "normal");
        km_take(&d, task);
        km_take(&d, forged[i]);
        manager_starts(&d, "m");
        until(&d, in(&d, BACKUP, task) + in(&d, BACKUP, forged[i]) == 0);
        cr_assert_eq(records(&d), 2);
        cr_assert_eq(in(&d, SAFE, again), i > 0);
        char *reason =
            redis_str(d.f.r, "EVAL %s 1 sidecar:email:failures %s",
                      "for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do local f = {} "
                      "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                      "if f.payload == ARGV[1] then return f.reason .. ' ' .. f.attempts .. ' ' .. (f.error or '-') end end",
                      forged[i]);
        cr_assert_str_eq(reason, reasons[i]);
        free(reason);
        close_setup(&d);
    }
}

Test(redis_kmqueue_marker, a_full_redis_keeps_all_markers) {
    open_setup(&d, (fixture_options_t){.config = KM_DEAF("")});
    manager_starts(&d, "m");
    char *task = km_json(d.f.r, (km_t){0}), *again = km_again(task, 0, "normal");
    km_take(&d, task);
    redis_ok(d.f.r, "LPUSH " BACKUP " %s", MARKER("m2", BACKUP, "", "marker"));
    redis_ok(d.f.r, "CONFIG SET maxmemory 1");
    until(&d, in(&d, SAFE, again));
    cr_assert_eq(entries(&d), 2);
    redis_ok(d.f.r, "CONFIG SET maxmemory 0");
    until(&d, entries(&d) == 1);
}
