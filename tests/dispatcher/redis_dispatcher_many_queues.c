/* The dispatcher with many refused queues and with entries that are expensive to read: its log lines, its share of Redis, and
 * its delays. */
#include "base/log.h"
#include "dispatcher_fixture.h"

enum { QUEUES = 999, ROUNDS = 4, LINE_WINDOW_MS = 10000, HOLD_MS = 5001, LINES = 20 };

/* A config of the largest number of queues. Only `email`, in the middle, stays without errors. Owned. */
static char *many_config(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fputs("group = \"app\"; dispatcher = { safety_poll = \"24h\"; }; queues = (", out);
    for (int i = 0; i < QUEUES; i++)
        fprintf(out, "%s{ name = \"q%d\"; }%s", i ? ", " : "", i, i == QUEUES / 2 ? ", { name = \"email\"; }" : "");
    fputs(");", out);
    fclose(out);
    return text;
}

static setup_t d;

static int64_t all_faults(void) {
    int64_t sum = 0;
    for (size_t i = 0; i < d.f.keys->queue_count; i++) sum += metric_get(&d.instance.metrics->queues[i].faults);
    return sum;
}

static int64_t all_promoted(void) {
    int64_t sum = 0;
    for (size_t i = 0; i < d.f.keys->queue_count; i++) sum += metric_get(&d.instance.metrics->queues[i].promoted);
    return sum;
}

/* The log writes at most twenty lines of one message in ten seconds, and then one line that counts the others. */
static void expect_few_lines(const char *break_all, const char *message) {
    char *config = many_config();
    setup_begin(&d, (fixture_options_t){.config = config});
    redis_ok(d.f.r, "EVAL %s 0 %d", break_all, QUEUES);
    mono_t start = mono_now();
    for (int round = 1; round <= ROUNDS; round++) {
        redis_ok(d.f.r, "ZADD email:delayed 1 job%d", round);
        expect_ready(&d, round);
        cr_assert(driver_until(&d.instance.driver, all_faults() >= (int64_t)round * QUEUES, 20000), "%lld faults in round %d",
                  (long long)all_faults(), round);
        fixture_step_boottime(HOLD_MS);
    }
    fixture_step_boottime(LINE_WINDOW_MS);
    log_flush_suppressed();
    int64_t windows = mono_diff(mono_now(), start) / (LINE_WINDOW_MS * NS_PER_MS) + 1;
    int lines = fixture_log_count(message);
    cr_assert_geq(lines, LINES + 1);
    cr_assert_leq(lines, windows * (LINES + 1), "%d lines", lines);
    cr_assert_leq(fixture_log_count(""), windows * (LINES + 1) + 10, "too many lines of other messages");
    cr_assert_geq(fixture_log_count("\"more\":979,"), 1, "the log lacks the number of suppressed lines");
    cr_assert_eq(metric_get(&of(&d, QUEUES / 2 + 1)->faults), 0);
    free(config);
}

SUITE(redis_dispatcher_many_queues, , setup_end(&d));

Test(redis_dispatcher_many_queues, a_thousand_keys_of_the_wrong_type_flood_no_log, .timeout = 120) {
    expect_few_lines("for i = 0, ARGV[1] - 1 do redis.call('SET', 'q' .. i .. ':delayed', 'x') end", "redis refuses to promote");
}

Test(redis_dispatcher_many_queues, a_thousand_queues_of_another_group_flood_no_log, .timeout = 120) {
    expect_few_lines("for i = 0, ARGV[1] - 1 do redis.call('ZADD', 'q' .. i .. ':delayed', 1, 'x') "
                     "redis.call('HSET', 'sidecar:q' .. i .. ':meta', 'group', 'others') end",
                     "redis refuses to promote");
}

/* A script promotes many queues, and one read of heads follows. */
Test(redis_dispatcher_many_queues, a_backlog_of_many_queues_takes_few_scripts, .timeout = 120) {
    enum { EACH = 100, MOST = 300 };
    char *config = many_config();
    setup_begin(&d, (fixture_options_t){.config = config, .redis = "slice = \"100ms\";"});
    settle(&d);
    redis_ok(d.f.r, "CONFIG RESETSTAT");
    redis_ok(d.f.r, "EVAL %s 0 %d %d",
             "for q = 0, ARGV[1] - 1 do for i = 1, ARGV[2] do redis.call('ZADD', 'q' .. q .. ':delayed', i, i) end end return 1",
             QUEUES, EACH);
    int64_t wanted = (int64_t)QUEUES * EACH, sum = 0;
    cr_assert(driver_until(&d.instance.driver, (sum = all_promoted()) == wanted, 60000), "%lld jobs", (long long)sum);
    long long scripts = server_commandstat(d.f.server, "evalsha");
    cr_assert_leq(scripts, MOST, "%lld scripts", scripts);
    free(config);
}

enum { HUGE = 3, HUGE_BYTES = 15 << 20, PACED_MS = 6000, MIN_PACED = 20 };

#define HUGE_ONES                                                                                                                \
    "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], i, string.rep('x', ARGV[2]) .. i) end return redis.call('ZCARD', "        \
    "KEYS[1])"

/* Processor time of Redis in us; elapsed time would include other processes. */
static int64_t redis_cpu_us(void) {
    static const char *const names[] = {"used_cpu_sys:", "used_cpu_user:"};
    char *info = server_info(d.f.server, "cpu");
    double seconds = 0;
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(info, names[i]);
        if (at) seconds += strtod(at + strlen(names[i]), NULL);
    }
    free(info);
    return (int64_t)(seconds * 1e6);
}

/* Each add causes a read of an expensive head. These reads may take a tenth of Redis's time. */
Test(redis_dispatcher_many_queues, expensive_entries_do_not_slow_other_clients, .timeout = 240) {
    setup_begin(&d, (fixture_options_t){.config = ALONE("max_payload = \"1MiB\";")});
    cr_assert_eq(redis_int(d.f.r, "EVAL %s 1 email:delayed %d %d", HUGE_ONES, HUGE, HUGE_BYTES), HUGE);
    int64_t start = wait_now_us(), before = redis_cpu_us();
    long long jobs = 0;
    while (wait_now_us() - start < INT64_C(1000) * PACED_MS || jobs < MIN_PACED) {
        redis_ok(d.f.r, "ZADD email:delayed 10 job%lld", ++jobs);
        driver_step(&d.instance.driver, 2);
    }
    int64_t spent = redis_cpu_us() - before, elapsed = wait_now_us() - start;
    cr_assert_gt(spent, 0);
    cr_assert_lt(spent, elapsed / 2, "redis worked for %lld of %lld us", (long long)spent, (long long)elapsed);
    cr_assert_gt(ready(&d), jobs / 2, "of %lld small jobs %lld are ready", jobs, ready(&d));
    cr_assert(driver_until(&d.instance.driver, ready(&d) == jobs, 10000), "%lld of %lld", ready(&d), jobs);
    cr_assert_eq(delayed(&d), HUGE);
}

#define BUSY_FOR                                                                                                                 \
    "local t = redis.call('TIME') local till = t[1] * 1000000 + t[2] + ARGV[1] * 1000 repeat t = redis.call('TIME') "            \
    "until t[1] * 1000000 + t[2] >= till return 1"

/* A read that waited for another client's slow command cost Redis nothing, so the next job does not wait for a cooldown. */
Test(redis_dispatcher_many_queues, a_slow_command_of_another_client_causes_no_cooldown) {
    enum { BUSY_MS = 700 };
    setup_begin(&d, (fixture_options_t){0});
    settle(&d);
    redis_ok(d.f.r, "ZADD email:delayed 9e15 later");
    cr_assert_eq(redisAppendCommand(d.f.r, "EVAL %s 0 %d", BUSY_FOR, BUSY_MS), REDIS_OK);
    for (int done = 0; !done;) cr_assert_eq(redisBufferWrite(d.f.r, &done), REDIS_OK);
    int64_t start = wait_now_us();
    while (wait_now_us() - start < INT64_C(1000) * BUSY_MS)
        driver_step(&d.instance.driver, 5); /* a read of the head is in flight meanwhile */
    redisReply *reply = NULL;
    cr_assert_eq(redisGetReply(d.f.r, (void **)&reply), REDIS_OK);
    freeReplyObject(reply);
    settle(&d);
    redis_ok(d.f.r, "ZADD email:delayed 1 now");
    cr_assert(driver_until(&d.instance.driver, ready(&d) == 1, 2000), "a due job waits for more than two seconds");
}

/* A moved job is never read again, so its size causes no cooldown. */
Test(redis_dispatcher_many_queues, a_moved_large_job_causes_no_cooldown) {
    enum { LARGE_BYTES = 16000000, SOON_MS = 800 }; /* a cooldown would take ten times the cost: 1600 ms */
    setup_begin(&d, (fixture_options_t){0});
    settle(&d);
    redis_ok(d.f.r, "EVAL %s 1 email:delayed %d", "return redis.call('ZADD', KEYS[1], 1, string.rep('x', ARGV[1]))", LARGE_BYTES);
    expect_ready(&d, 1);
    redis_ok(d.f.r, "ZADD email:delayed 1 small");
    cr_assert(driver_until(&d.instance.driver, ready(&d) == 2, SOON_MS));
}

/* The script gets the expected size of entries: it reads many small ones at once, and few huge ones. */
Test(redis_dispatcher_many_queues, a_promote_reads_as_many_entries_as_the_last_one_suggests) {
    enum { BATCH = 100, SMALL = 1000, FIRST_STEPS = 3, LARGE = 8, LARGE_BYTES = 3 << 19 };
    static const char fill[] = "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], i, string.rep('x', ARGV[2]) .. i) end return 1";
    setup_begin(&d,
                (fixture_options_t){.config = "group = \"app\"; dispatcher = { safety_poll = \"24h\"; batch = 100; }; queues = ( "
                                              "{ name = \"email\"; } );"});
    settle(&d);
    redis_ok(d.f.r, "CONFIG RESETSTAT");
    redis_ok(d.f.r, "EVAL %s 1 email:delayed %d 10", fill, SMALL);
    expect_ready(&d, SMALL);
    settle(&d);
    long long scripts = server_commandstat(d.f.server, "evalsha"), reads = server_commandstat(d.f.server, "zrangebyscore");
    cr_assert_geq(scripts, SMALL / BATCH); /* more, if redis.slice was over before the batch */
    cr_assert(reads < scripts + FIRST_STEPS, "%lld reads in %lld scripts", reads, scripts);
    setup_end(&d);
    setup_begin(&d, (fixture_options_t){0});
    settle(&d);
    redis_ok(d.f.r, "EVAL %s 1 email:delayed %d %d", fill, LARGE, LARGE_BYTES);
    expect_ready(&d, LARGE);
    cr_assert_geq(metric_get(&of(&d, 0)->batches), LARGE / 2, "a script must read at most two of these entries");
}
