/* The reader on a zset whose members are jobs and whose scores are seconds, as Sidekiq's `dead` has them. */
#include "failed_reader.h"
#include "monitor/monitor_call.h"

#define JOB(jid, more)                                                                                                           \
    "{\"retry\":25,\"queue\":\"default\",\"class\":\"Mail\",\"args\":[1.50,\"caf\xc3\xa9\"],\"jid\":\"" jid "\"" more "}"

static void record_job(job_record_t *record, const call_t *call, const hash_job_t *job) {
    job_t read = {.id = "large"};
    if (job->fields[0].len) job_read(&call_queue(call)->config->policy, job->fields[0], &read);
    buffer_str(&record->texts, read.id);
    buffer_str(&record->texts, read.type);
    slice_t id = {record->texts.data, strlen(read.id)}, type = {record->texts.data + id.len, record->texts.len - id.len};
    job_record_begin(record, call, id, type, "worker_failed");
    if (job->fields[0].len) job_record_add_payload(record, call, job->fields[0]);
    buffer_str(&record->error, "Timeout: boom");
    record->event.error = (slice_t){record->error.data, record->error.len};
    record->event.attempts = 26;
}

static bool records = true;

static void *jobs_open(const queue_keys_t *at) {
    static const failed_layout_t layout = {.unit_ms = 1000, .record = record_job, .keeps = 50};
    return failed_open(at, (failed_source_t){.layout = &layout, .key = mem_str("dead"), .records = records});
}

static const side_task_ops_t task = {FAILED_TASK, .open = jobs_open};

static setup_t setup;
SUITE(redis_failed_jobs,
      setup =
          setup_open(&(fixture_options_t){.config = "group = \"app\"; queues = ( { name = \"video\"; id_path = \"/jid\"; "
                                                    "type_path = \"/class\"; trace_path = \"/t\"; max_payload = \"64KiB\"; } );"},
                     &task),
      setup_stop(&setup));

/* A worker lets a job fail for good now, by a clock that is `ahead_ms` ahead of Redis's. */
static void fail_job(const char *job, long long ahead_ms) {
    redis_ok(setup.f.r, "ZADD dead %.6f %s", (double)(redis_ms(setup.f.r) + ahead_ms) / 1000 + 0.000123, job);
}

/* A job whose args have so many bytes. Kept. */
static const char *job_of(const char *jid, size_t bytes) {
    char *args = kept(malloc(bytes + 1));
    memset(args, 'x', bytes);
    args[bytes] = '\0';
    return kept_printf("{\"jid\":\"%s\",\"class\":\"Mail\",\"args\":[\"%s\"]}", jid, args);
}

Test(redis_failed_jobs, a_record_has_the_bytes_of_the_member) {
    redis_t *r = setup.f.r;
    const char *job = JOB("a1", ",\"t\":\"" BULL_TRACE "\"");
    read_failures(&setup);
    fail_job(job, 0);
    read_failures(&setup);
    char *size = kept_printf("%zu", strlen(job));
    const char *const expected[][2] = {{"kind", "failed"},         {"dialect", "list"},
                                       {"queue", "video"},         {"job", "a1"},
                                       {"type", "Mail"},           {"reason", "worker_failed"},
                                       {"error", "Timeout: boom"}, {"attempts", "26"},
                                       {"group", "app"},           {"term", "T"},
                                       {"payload", job},           {"size", size},
                                       {"traceparent", BULL_TRACE}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) expect_records(r, expected[i][0], expected[i][1]);
    char hex[DIGEST_HEX_SIZE];
    digest_t digest = digest_of(job, strlen(job));
    digest_hex(&digest, hex);
    expect_records(r, "sha256", hex);
    cr_expect_eq(redis_int(r, "ZCARD dead"), 1);
}

Test(redis_failed_jobs, each_failure_is_recorded_once_over_several_leaders) {
    fail_job(JOB("before", ""), -1000);
    read_failures(&setup);
    fail_job(JOB("1", ""), 0);
    fail_job(JOB("2", ""), 0);
    for (int leader = 0; leader < 3; leader++) {
        read_failures(&setup);
        forget_state(&setup);
    }
    expect_jobs(&setup, "1 2");
    fail_job(JOB("1", ""), 5); /* the same bytes, again */
    read_failures(&setup);
    expect_jobs(&setup, "1 2 1");
    char *events = bull_records(setup.f.r, "event");
    cr_expect_eq(strlen(events), 3 * 64 + 2);
    cr_expect(strncmp(events, events + 130, 64) != 0, "two failures of one job are two events");
    cr_expect_eq(metric_get(&setup.metrics->queues[0].failed_recorded), 3);
}

/* A failover may lose the mark, so the failure is recorded again. The record has the same event id: the audit log has one row. */
Test(redis_failed_jobs, a_record_made_again_is_the_same_event) {
    read_failures(&setup);
    fail_job(JOB("1", ""), 0);
    read_failures(&setup);
    char *first = bull_records(setup.f.r, "event");
    redis_ok(setup.f.r, "EVAL %s 1 " SIDECAR "recorded",
             "for _, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do if m ~= ':seen' then redis.call('ZREM', KEYS[1], m) "
             "end end");
    redis_ok(setup.f.r, "DEL " SIDECAR "failures");
    forget_state(&setup);
    read_failures(&setup);
    expect_records(setup.f.r, "event", first);
}

Test(redis_failed_jobs, clocks_of_workers_may_be_wrong) {
    read_failures(&setup);
    fail_job(JOB("ahead", ""), 3600000);
    fail_job(JOB("right", ""), 0);
    read_failures(&setup);
    expect_jobs(&setup, "right ahead");
    fail_job(JOB("minutes_behind", ""), -300000);
    fail_job(JOB("an_hour_behind", ""), -3600000);
    read_failures(&setup);
    expect_jobs(&setup, "right ahead");
    forget_state(&setup); /* then the first read covers the last ten minutes */
    read_failures(&setup);
    expect_jobs(&setup, "right ahead minutes_behind");
}

/* Pages of large jobs end early, also where each of them has a record: the read must not end there. */
Test(redis_failed_jobs, a_read_goes_on_behind_large_jobs) {
    enum { COUNT = 40 };
    read_failures(&setup);
    for (int i = 0; i < COUNT; i++) fail_job(job_of(kept_printf("%d", i), 60000), 10 * i);
    read_failures(&setup);
    cr_assert_eq(redis_int(setup.f.r, "XLEN " SIDECAR "failures"), COUNT);
    fail_job(JOB("last", ""), 10 * COUNT);
    forget_state(&setup);
    read_failures(&setup);
    cr_expect_eq(redis_int(setup.f.r, "XLEN " SIDECAR "failures"), COUNT + 1);
}

Test(redis_failed_jobs, a_job_larger_than_max_payload_is_recorded_without_its_bytes) {
    const char *large = job_of("1", 70000);
    read_failures(&setup);
    fail_job(large, 0);
    fail_job(JOB("2", ""), 1);
    for (int i = 0; i < 2; i++) {
        read_failures(&setup);
        forget_state(&setup);
    }
    expect_jobs(&setup, "large 2");
    expect_records(setup.f.r, "payload", JOB("2", ""));
    expect_records(setup.f.r, "size", kept_printf("%zu %zu", strlen(large), strlen(JOB("2", ""))));
    cr_expect_eq(fixture_log_count("larger than max_payload"), 1);
}

/* The first read of a queue with very many failures is short: the sidecar records none of the failures that it has not marked. */
Test(redis_failed_jobs, adoption_reads_a_bounded_part) {
    enum { COUNT = 60 };
    for (int i = 0; i < COUNT; i++) fail_job(job_of(kept_printf("%d", i), 50000), -1000 * i);
    read_failures(&setup);
    long long marks = redis_int(setup.f.r, "ZCARD " SIDECAR "recorded") - 1;
    cr_expect(marks >= 21 && marks < 32, "%lld", marks);
    fail_job(JOB("new", ""), 1);
    forget_state(&setup);
    read_failures(&setup);
    expect_jobs(&setup, "new");
}

/* A worker that lets a job fail keeps 50 failures, and drops the others in the same step. */
static void fail_many(int count) {
    static int number;
    for (int i = 0; i < count; i++) fail_job(job_of(kept_printf("%d", ++number), 10), 0);
    redis_ok(setup.f.r, "ZREMRANGEBYRANK dead 0 -51");
}

Test(redis_failed_jobs, failures_that_workers_dropped_are_logged) {
    fail_many(50);
    read_failures(&setup);
    fail_many(44);
    read_failures(&setup);
    fail_many(44);
    read_failures(&setup);
    cr_expect_eq(fixture_log_count("workers may have dropped failed jobs"), 0);
    fail_many(70);
    read_failures(&setup);
    cr_expect_eq(redis_int(setup.f.r, "XLEN " SIDECAR "failures"), 44 + 44 + 50);
    cr_expect_eq(fixture_log_count("workers may have dropped failed jobs"), 1);
    read_failures(&setup);
    cr_expect_eq(fixture_log_count("workers may have dropped failed jobs"), 1);
}

Test(redis_failed_jobs, failures_while_nothing_is_recorded_are_never_recorded) {
    read_failures(&setup);
    records = false;
    void *off = task.open(&setup.f.keys->queues[0]);
    side_task_call_t call = {
        .redis = fixture_call(&setup.f, "T"), .metrics = &setup.metrics->queues[0], .now = mono_now(), .next = mono_never()};
    cr_assert_eq(task.step(off, &call), OUTCOME_OK, "%s", setup.f.error.text);
    task.close(off);
    fail_job(JOB("1", ""), 0);
    forget_state(&setup);
    read_failures(&setup);
    fail_job(JOB("2", ""), 1);
    read_failures(&setup);
    expect_jobs(&setup, "2");
}

/* The queue has far more failures than a read after a change covers. The cost of a change does not grow with them. */
Test(redis_failed_jobs, a_change_does_not_read_all_failures_again) {
    read_failures(&setup);
    redis_ok(setup.f.r, "EVAL %s 2 dead " SIDECAR "recorded %lld",
             "for i = 1, 5000 do local s = string.format('%.3f', (ARGV[1] - i * 100) / 1000) "
             "redis.call('ZADD', KEYS[1], s, i) s = redis.call('ZSCORE', KEYS[1], i) "
             "redis.call('ZADD', KEYS[2], ARGV[1] - i * 100, redis.sha1hex(i) .. ':' .. s) end",
             redis_ms(setup.f.r));
    fail_job(JOB("new", ""), 0);
    long long before = server_commandstat(setup.f.server, "zscore");
    read_failures(&setup);
    expect_jobs(&setup, "new");
    cr_expect_lt(server_commandstat(setup.f.server, "zscore") - before, 100);
}

/* ---- The scripts. */

/* The sizes of jobs are unknown until they are read. */
Test(redis_failed_jobs, a_page_reads_few_jobs_if_they_are_large) {
    static const char *const sizes[][2] = {{"100000", "8"}, {"1000000", "24"}, {"10000000", "40"}};
    for (int i = 0; i < 40; i++) fail_job(job_of(kept_printf("%d", i), 50000), i);
    redis_ok(setup.f.r, "EVAL %s 2 dead " SIDECAR "recorded",
             "local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') for i = 1, #all, 2 do "
             "redis.call('ZADD', KEYS[2], 1, redis.sha1hex(all[i]) .. ':' .. all[i + 1]) end");
    for (size_t i = 0; i < 3; i++) {
        eval_t call = call_begin(&script_failed_page, "2");
        const char *const words[] = {"dead", SIDECAR "recorded", "", "-inf", "0", "500", "64", sizes[i][0], "65536", "0"};
        for (size_t k = 0; k < sizeof words / sizeof *words; k++) call_text(&call, words[k]);
        redisReply *reply = kept(call_end(&call, setup.f.r));
        cr_assert_eq(reply->type, REDIS_REPLY_ARRAY, "%s", reply->str);
        cr_expect_eq(reply->elements, 4);
        cr_expect_eq(reply->element[1]->integer, atoi(sizes[i][1]), "%lld", reply->element[1]->integer);
    }
}

static long long seen(const char *move) {
    eval_t call = call_begin(&script_failed_seen, "3");
    const char *const words[] = {BULL_LOCK, "dead", SIDECAR "recorded", "T", "600000", "100", move, "1000", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) call_text(&call, words[i]);
    redisReply *reply = kept(call_end(&call, setup.f.r));
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 3, "%s", reply->str);
    return strtoll(reply->element[2]->str, NULL, 10);
}

/* Redis's clock may be set back, which makes the sidecar read old failures again: without their marks it would record them again.
 */
Test(redis_failed_jobs, marks_stay_as_long_as_there_is_a_failure_of_their_time) {
    redis_t *r = setup.f.r;
    long long at = seen(""), old = at / 1000 - 7200;
    redis_ok(r, "ZADD dead %lld.25 first %lld.5 second", old, old + 1);
    redis_ok(r, "ZADD " SIDECAR "recorded %lld250 aa:%lld.25 %lld500 bb:%lld.5 %lld500 gone:%lld.75 %lld249 earlier:%lld.25", old,
             old, old + 1, old + 1, old + 1, old + 1, old, old);
    cr_expect_eq(seen(kept_printf("%lld", at)), at);
    redis_expect(r, kept_printf("aa:%lld.25", old), "EVAL %s 1 " SIDECAR "recorded",
                 "return redis.call('ZRANGE', KEYS[1], 0, 0)[1]");
    cr_expect_eq(redis_int(r, "ZCARD " SIDECAR "recorded"), 3); /* aa, bb, :seen */
}

/* The record has all of the job, so it is right also when the job was retried since it was read. */
Test(redis_failed_jobs, a_job_that_has_left_is_recorded_once) {
    redis_t *r = setup.f.r;
    for (int i = 0; i < 2; i++) {
        eval_t call = call_begin(&script_failed_record, "5");
        const char *const words[] = {
            BULL_LOCK, "dead",  SIDECAR "recorded", SIDECAR "failures", SIDECAR "meta", "T", "aa", "1.5", "1500", "", "999", "",
            "kind",    "failed"};
        for (size_t k = 0; k < sizeof words / sizeof *words; k++) call_text(&call, words[k]);
        expect_word(call_end(&call, r), i ? "changed" : "settled");
    }
    redis_expect(r, "1500", "ZSCORE " SIDECAR "recorded aa:1.5");
}
