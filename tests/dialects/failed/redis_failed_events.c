/* The reader with a stream of events, as BullMQ's: its entries are those that BullMQ 5.81.5 and 6.7.0 add
 * (src/commands/moveToFinished-14.lua). Jobs are in hashes with Bull's fields. */
#include "dialects/bull/job.h"
#include "failed_reader.h"
#include "monitor/monitor_call.h"

static void record_job(job_record_t *record, const call_t *call, const hash_job_t *job) {
    bull_record_make(record, call, job, "worker_failed");
}

static bool records = true;

static void *events_open(const queue_keys_t *at) {
    static const failed_stream_t stream = {
        .job = "jobId", .error = "failedReason", .tells = {{"event", "failed"}, {"prev", "active"}}};
    static const failed_layout_t layout = {
        .unit_ms = 1, .fields = &bull_fields, .error = BULL_FAILED_REASON, .record = record_job, .stream = &stream};
    return failed_open(at, (failed_source_t){.layout = &layout,
                                             .key = mem_str(BULL "failed"),
                                             .prefix = mem_str(BULL),
                                             .events = mem_str(BULL "events"),
                                             .records = records});
}

static const side_task_ops_t task = {FAILED_TASK, .open = events_open};

static setup_t setup_events(void) {
    fixture_hold_boottime();
    return setup_open(&(fixture_options_t){.config = "group = \"app\"; stream = { max_bytes = \"1MiB\"; }; queues = ( { name = "
                                                     "\"video\"; } );"},
                      &task);
}

static setup_t setup;
SUITE(redis_failed_events, setup = setup_events(), setup_stop(&setup));

/* Runs the steps of the next second. */
static outcome_t run_second(bool changed) {
    mono_t next;
    outcome_t outcome;
    fixture_step_boottime(1001);
    do {
        outcome = step(&setup, changed, &next);
        changed = false;
    } while (outcome == OUTCOME_OK && mono_reached(next, mono_now()));
    return outcome;
}

static void read_second(bool changed) { cr_assert_eq(run_second(changed), OUTCOME_OK, "%s", setup.f.error.text); }

/* A worker lets a job fail for good and removes it in the same step. No job fails twice in one ms. */
static void fail_and_remove(const char *id) {
    long long now = redis_ms(setup.f.r);
    cr_assert(wait_for(redis_ms(setup.f.r) > now, 5000));
    redis_ok(setup.f.r, "XADD " BULL "events MAXLEN ~ 10000 * event active jobId %s prev waiting", id);
    redis_ok(setup.f.r, "XADD " BULL "events MAXLEN ~ 10000 * event failed jobId %s failedReason boom prev active", id);
    redis_ok(setup.f.r, "XADD " BULL "events MAXLEN ~ 10000 * event retries-exhausted jobId %s attemptsMade 1", id);
}

/* A worker lets a job fail for good and keeps it. */
static void fail_and_keep(const char *id) {
    bull_fail(setup.f.r, id, kept_printf("%lld", redis_ms(setup.f.r)), "boom");
    fail_and_remove(id);
}

Test(redis_failed_events, the_first_read_begins_at_the_end_of_the_stream) {
    fail_and_remove("before");
    read_second(true);
    expect_jobs(&setup, "");
    fail_and_remove("7");
    mono_t next;
    fixture_step_boottime(999);
    cr_assert_eq(step(&setup, false, &next), OUTCOME_OK);
    cr_expect_eq(mono_diff(next, mono_now()), NS_PER_MS);
    expect_jobs(&setup, "");
    fixture_step_boottime(1);
    for (int i = 0; i < 2; i++) cr_assert_eq(step(&setup, false, &next), OUTCOME_OK); /* reads the stream, then the job */
    cr_expect_eq(mono_diff(next, mono_now()), NS_PER_S);
    expect_jobs(&setup, "7");
    expect_records(setup.f.r, "error", "boom");
    expect_records(setup.f.r, "payload", "");
    cr_expect_eq(metric_get(&setup.metrics->queues[0].failed_recorded), 1);
}

Test(redis_failed_events, the_first_read_of_an_absent_or_empty_stream_misses_nothing_later) {
    read_second(true);
    fail_and_remove("1");
    read_second(false);
    redis_ok(setup.f.r, "HDEL " SIDECAR "meta failed_cursor");
    redis_ok(setup.f.r, "XTRIM " BULL "events MAXLEN 0");
    forget_state(&setup);
    read_second(false);
    fail_and_remove("2");
    read_second(false);
    expect_jobs(&setup, "1 2");
    cr_expect_eq(
        redis_int(setup.f.r, "EVAL %s 2 " SIDECAR "meta " BULL "events",
                  "return redis.call('HGET', KEYS[1], 'failed_cursor') == redis.call('XINFO', 'STREAM', KEYS[2])[8] and 1 or 0"),
        0, "the cursor is stored when the failures are recorded, with the next read");
    read_second(false);
    cr_expect_eq(
        redis_int(setup.f.r, "EVAL %s 2 " SIDECAR "meta " BULL "events",
                  "return redis.call('HGET', KEYS[1], 'failed_cursor') == redis.call('XINFO', 'STREAM', KEYS[2])[8] and 1 or 0"),
        1);
}

Test(redis_failed_events, each_failure_is_recorded_once_over_several_leaders) {
    read_second(true);
    fail_and_remove("1");
    for (int leader = 0; leader < 3; leader++) {
        read_second(true);
        forget_state(&setup);
    }
    fail_and_remove("2"); /* while nobody leads */
    fail_and_remove("1"); /* a new job with the id of the first */
    read_second(true);
    expect_jobs(&setup, "1 2 1");
}

/* The leader died before it stored the cursor. */
Test(redis_failed_events, entries_that_are_read_again_are_no_second_failure) {
    read_second(true);
    fail_and_remove("1");
    read_second(false);
    read_second(false);
    char *first = bull_records(setup.f.r, "event");
    redis_ok(setup.f.r, "HSET " SIDECAR "meta failed_cursor 0-1");
    forget_state(&setup);
    read_second(false);
    expect_jobs(&setup, "1");
    redis_ok(setup.f.r, "HSET " SIDECAR "meta failed_cursor 0-1"); /* a failover has lost the mark, too */
    redis_ok(setup.f.r, "DEL " SIDECAR "recorded");
    forget_state(&setup);
    read_second(false);
    expect_records(setup.f.r, "event", kept_printf("%s %s", first, first)); /* one row in the audit log */
}

Test(redis_failed_events, only_final_failures_count) {
    static const char *const entries[] = {"event failed jobId 1 failedReason boom prev waiting",
                                          "event failed jobId 2 failedReason boom",
                                          "event failed failedReason boom prev active",
                                          "event completed jobId 3 returnvalue failed prev active",
                                          "event delayed jobId 4 delay 5",
                                          "active failed event prev jobId 5",
                                          "event waiting jobId 6 prev failed"};
    read_second(true);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        redis_ok(setup.f.r, kept_printf("XADD " BULL "events * %s", entries[i]));
    redis_ok(setup.f.r, "XADD " BULL "events * prev active jobId 7 event failed"); /* another order, and no error */
    redis_ok(setup.f.r, "HSET " BULL "8 name n");                                  /* retried meanwhile */
    fail_and_remove("8");
    read_second(false);
    read_second(false);
    expect_jobs(&setup, "7");
}

Test(redis_failed_events, a_failure_that_is_kept_has_one_record_with_its_payload) {
    read_second(true);
    fail_and_keep("1");
    read_second(true);
    fail_and_keep("2");
    read_second(false); /* the entry comes before the change of the zset */
    read_second(true);
    expect_jobs(&setup, "1 2");
    cr_expect(strstr(bull_records(setup.f.r, "payload"), "{\"id\":\"2\""));
}

/* removeOnFail: 1: the job is removed when the next job fails, before the reader has come to the entry of the first. */
Test(redis_failed_events, the_entry_of_a_recorded_failure_is_no_second_failure) {
    mono_t next;
    read_second(true);
    fail_and_keep("1");
    cr_assert_eq(step(&setup, true, &next), OUTCOME_OK); /* reads the zset: the second is not over */
    expect_jobs(&setup, "1");
    redis_ok(setup.f.r, "DEL " BULL "1 " BULL "failed");
    read_second(false);
    expect_jobs(&setup, "1");
    fail_and_remove("1"); /* a new job */
    read_second(false);
    expect_jobs(&setup, "1 1");
}

Test(redis_failed_events, a_burst_is_read_at_once_and_in_parts) {
    enum { COUNT = 2500 };
    read_second(true);
    redis_ok(setup.f.r, "EVAL %s 1 " BULL "events %d",
             "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'event', 'active', 'jobId', i) "
             "redis.call('XADD', KEYS[1], '*', 'event', 'failed', 'jobId', i, 'failedReason', 'boom', 'prev', 'active') end",
             COUNT);
    long long before = server_commandstat(setup.f.server, "xrange");
    read_second(false);
    cr_expect_eq(redis_int(setup.f.r, "XLEN " SIDECAR "failures"), COUNT);
    cr_expect_gt(server_commandstat(setup.f.server, "xrange") - before, 2 * COUNT / 32);
    cr_expect_eq(fixture_log_count("was trimmed before it was read"), 0);
}

/* The sizes of entries are unknown until they are read. */
Test(redis_failed_events, large_entries_are_read_a_few_at_a_time) {
    enum { LARGE = 300000, COUNT = 50 };
    char *large = kept(malloc(LARGE + 1));
    memset(large, 'x', LARGE);
    large[LARGE] = '\0';
    read_second(true);
    for (int i = 0; i < COUNT; i++)
        redis_ok(setup.f.r, "XADD " BULL "events * event completed jobId 1 returnvalue %s prev active", large);
    redis_ok(setup.f.r, "XADD " BULL "events * event failed jobId 7 failedReason %s prev active", large);
    long long scripts = server_commandstat(setup.f.server, "evalsha");
    read_second(false);
    cr_expect_geq(server_commandstat(setup.f.server, "evalsha") - scripts, 4, "two reads of the stream, a page, a record");
    expect_jobs(&setup, "7");
    cr_expect_eq(strlen(bull_records(setup.f.r, "error")), 65536);
}

Test(redis_failed_events, failures_while_nothing_is_recorded_are_never_recorded) {
    read_second(true);
    records = false;
    void *off = task.open(&setup.f.keys->queues[0]);
    side_task_call_t call = {
        .redis = fixture_call(&setup.f, "T"), .metrics = &setup.metrics->queues[0], .now = mono_now(), .next = mono_never()};
    cr_assert_eq(task.step(off, &call), OUTCOME_OK, "%s", setup.f.error.text);
    task.close(off);
    redis_expect(setup.f.r, "", "HGET " SIDECAR "meta failed_cursor");
    fail_and_remove("1");
    forget_state(&setup);
    read_second(true);
    fail_and_remove("2");
    read_second(false);
    expect_jobs(&setup, "2");
}

Test(redis_failed_events, a_full_stream_of_records_loses_no_failure) {
    read_second(true);
    redis_ok(setup.f.r, "HSET " SIDECAR "meta bytes 1048576");
    for (int i = 0; i < 100; i++) fail_and_remove(kept_printf("%d", i));
    for (int i = 0; i < 3; i++) read_second(false);
    forget_state(&setup); /* the next leader goes on */
    read_second(true);
    cr_expect_eq(redis_int(setup.f.r, "EXISTS " SIDECAR "failures"), 0);
    redis_ok(setup.f.r, "HSET " SIDECAR "meta bytes 0");
    for (int i = 0; i < 2; i++) read_second(false);
    cr_expect_eq(redis_int(setup.f.r, "XLEN " SIDECAR "failures"), 100);
}

Test(redis_failed_events, a_stream_that_is_trimmed_too_early_is_logged_once) {
    read_second(true);
    fail_and_remove("1");
    read_second(false);
    redis_ok(setup.f.r, "XTRIM " BULL "events MAXLEN 0");
    read_second(false);
    cr_expect_eq(fixture_log_count("was trimmed before it was read"), 0);
    for (int i = 0; i < 2; i++) {
        fail_and_remove("lost");
        fail_and_remove("2");
        redis_ok(setup.f.r, "XTRIM " BULL "events MAXLEN 3");
        read_second(false);
    }
    expect_jobs(&setup, "1 2 2");
    cr_expect_eq(fixture_log_count("was trimmed before it was read"), 1, "%s", fixture_log());
}

Test(redis_failed_events, a_key_of_the_wrong_type_stops_only_the_stream) {
    fixture_make_key(setup.f.r, BULL "events", "list");
    cr_expect_eq(run_second(true), OUTCOME_REFUSED);
    cr_expect(strstr(setup.f.error.text, "events holds a list"), "%s", setup.f.error.text);
    read_second(true);
    bull_fail(setup.f.r, "1", kept_printf("%lld", redis_ms(setup.f.r)), "boom");
    read_second(true);
    expect_jobs(&setup, "1");
    redis_ok(setup.f.r, "DEL " BULL "events");
    fixture_step_boottime(60000);
    read_second(false);
    fail_and_remove("2");
    read_second(false);
    expect_jobs(&setup, "1 2");
}

/* ---- The script. */

static redisReply *ask_events(const char *token, const char *done) {
    eval_t call = call_begin(&script_failed_events, "3");
    const char *const words[] = {BULL_LOCK, BULL "events", SIDECAR "meta", token,   done,    "9",
                                 "999999",  "jobId",       "failedReason", "event", "failed"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) call_text(&call, words[i]);
    return kept(call_end(&call, setup.f.r));
}

Test(redis_failed_events, a_former_leader_moves_no_cursor) {
    redisReply *reply = ask_events("other", "5-0");
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 1, "%s", reply->str);
    cr_expect_str_eq(reply->element[0]->str, "fenced");
    cr_expect_eq(redis_int(setup.f.r, "EXISTS " SIDECAR "meta"), 0);
    read_second(true);
    fail_and_remove("1");
    redis_ok(setup.f.r, "SET " BULL_LOCK " other");
    cr_expect_eq(run_second(false), OUTCOME_FENCED);
    expect_jobs(&setup, "");
}

Test(redis_failed_events, a_reply_has_the_head_of_an_error) {
    char *large = kept(malloc(70001));
    memset(large, 'x', 70000);
    large[70000] = '\0';
    redis_ok(setup.f.r, "XADD " BULL "events 7-5 event failed jobId 1 failedReason %s", large);
    redisReply *reply = ask_events("T", "7-4");
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 7, "%s", reply->str);
    static const char *const head[] = {"events", "7-5", "0", "0", "7", "1"};
    for (size_t i = 0; i < 6; i++)
        if (i != 2) cr_expect_str_eq(reply->element[i]->str, head[i]);
    cr_expect_eq(reply->element[6]->len, 65536);
    redis_expect(setup.f.r, "7-4", "HGET " SIDECAR "meta failed_cursor");
}
