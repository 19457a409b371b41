/* The jobs of processes whose beat has ended come back once. Time is scaled by the expiry of keys. */
#include "base/json/json.h"
#include "dialects/failed/failed_reader.h"
#include "dialects/registry.h"
#include "dialects/sidekiq/internal.h"
#include "dialects/sidekiq/scripts.h"
#include "sidekiq_jobs.h"

#define CONFIG                                                                                                                   \
    "group = \"app\"; queues = ( { name = \"video\"; dialect = \"sidekiq\"; queues = [\"default\", \"mailers\"]; "               \
    "max_payload = \"1KiB\"; recoveries = 2; } );"
#define BEAT 1700000100.5

static setup_t setup;
static redis_t *r;
SUITE(redis_sidekiq_processes, setup = setup_open(&(fixture_options_t){.config = CONFIG}, &sidekiq_processes_task);
      r = setup.f.r, setup_stop(&setup));

static char *job(const char *jid) {
    return kept_printf("{\"queue\":\"default\",\"class\":\"Mail\",\"args\":[\"\\\"\\n\xc3\xa9\"],\"jid\":\"%s\"}", jid);
}

/* A job in progress for `age` s at the last beat. The payload is a JSON string of the bytes, as Sidekiq writes it. */
static void work_on(const char *process, const char *key, const char *tid, const char *queue, const char *bytes, int age) {
    scoped(buffer_free) buffer_t value = {0};
    buffer_printf(&value, "{\"queue\":\"%s\",\"payload\":", queue);
    json_write_string(&value, slice_text(bytes));
    buffer_printf(&value, ",\"run_at\":%lld}", (long long)BEAT - age);
    redis_ok(r, "HSET %s:%s %s %s", process, key, tid, buffer_text(&value));
}

/* A process with `left` ms until its keys expire; more than 10 s = it lives. */
static void process(const char *name, const char *labels, int left) {
    redis_ok(r, "SADD processes %s", name);
    redis_ok(r, "HSET %s beat %.6f info %s rtt_us 9", name, BEAT, kept_printf("{\"pid\":1,\"labels\":[%s]}", labels));
    redis_ok(r, "PEXPIRE %s %d", name, left);
    redis_do(r, "PEXPIRE %s:work %d", name, left);
    redis_do(r, "PEXPIRE %s:workers %d", name, left);
}

/* Forgets when processes are due, as a new leader, and runs until nothing is due at once. */
static void look(void) {
    forget_state(&setup);
    cr_assert_eq(run_steps(&setup), OUTCOME_OK, "%s", setup.f.error.text);
}

/* Some steps, although jobs stay that would be tried again. */
static void look_a_while(void) {
    mono_t next;
    forget_state(&setup);
    for (int i = 0; i < 12; i++) cr_assert_eq(step(&setup, false, &next), OUTCOME_OK, "%s", setup.f.error.text);
}

static void expect_list(const char *list, int count) { cr_expect_eq(redis_int(r, "LLEN %s", list), count, "%s", list); }

Test(redis_sidekiq_processes, jobs_of_a_dead_process_come_back_once_as_they_were) {
    redis_ok(r, "LPUSH queue:default waiting");
    work_on("h:1:a", "work", "t1", "default", job("j1"), 30);
    work_on("h:1:a", "work", "t2", "mailers", JOB_8("j2", ""), 30);
    process("h:1:a", "", 9000);
    work_on("h:2:b", "work", "t1", "default", job("j3"), 30); /* the same host */
    process("h:2:b", "", 55000);
    look();
    expect_list("queue:default", 2);
    redis_expect(r, job("j1"), "LINDEX queue:default -1"); /* workers take it next */
    redis_expect(r, JOB_8("j2", ""), "LINDEX queue:mailers 0");
    cr_expect_eq(redis_int(r, "EXISTS h:1:a:work"), 0);
    cr_expect_eq(redis_int(r, "HLEN h:2:b:work"), 1);
    cr_expect_eq(redis_int(r, "SISMEMBER queues mailers"), 1);
    look();
    expect_list("queue:default", 2);
    expect_records(r, "kind", "retried retried");
    expect_records(r, "reason", "stalled stalled");
    expect_records(r, "payload", "");
    cr_expect_eq(metric_get(&setup.metrics->queues[0].retried), 2);
}

/* Sidekiq Pro pauses queues. */
Test(redis_sidekiq_processes, a_paused_queue_takes_jobs_that_come_back) {
    redis_ok(r, "SADD paused default");
    work_on("h:1:a", "work", "t1", "default", job("j1"), 30);
    process("h:1:a", "", 9000);
    look();
    expect_list("queue:default", 1);
    cr_expect_eq(redis_int(r, "SISMEMBER paused default"), 1);
}

Test(redis_sidekiq_processes, the_older_key_is_read_too) {
    work_on("h:1:a", "workers", "t1", "default", job("j1"), 30);
    process("h:1:a", "", 9000);
    look();
    redis_expect(r, job("j1"), "LINDEX queue:default 0");
}

/* From min_run on at the last beat. */
Test(redis_sidekiq_processes, jobs_that_ran_for_less_than_min_run_stay) {
    for (int age = 1; age <= 30; age++)
        work_on("h:1:a", "work", kept_printf("t%d", age), "default", job(kept_printf("j%d", age)), age);
    process("h:1:a", "", 9000);
    look();
    expect_list("queue:default", 21); /* ages 10 to 30; the beat is half a second later */
    cr_expect_eq(redis_int(r, "HLEN h:1:a:work"), 9);
}

/* A beat writes the jobs before the hash. The kill came between them, 5 s after `beat`. */
Test(redis_sidekiq_processes, jobs_that_are_newer_than_the_hash_count_from_when_they_were_written) {
    for (int age = 1; age <= 30; age++)
        work_on("h:1:a", "work", kept_printf("t%d", age), "default", job(kept_printf("j%d", age)), age);
    process("h:1:a", "", 4000);
    redis_ok(r, "PEXPIRE h:1:a:work 9000");
    look();
    expect_list("queue:default", 26); /* ages 5 to 30 */
}

Test(redis_sidekiq_processes, processes_with_other_times_left_keep_their_jobs) {
    static const int lefts[] = {10001 + 400, 50000, 60000};
    for (size_t i = 0; i < sizeof lefts / sizeof *lefts; i++) {
        char *name = kept_printf("h:%zu:a", i);
        work_on(name, "work", "t", "default", job("j"), 30);
        process(name, "", lefts[i]);
    }
    work_on("h:9:a", "work", "t", "default", job("j"), 30);
    process("h:9:a", "", 9000);
    redis_ok(r, "PERSIST h:9:a");
    work_on("h:8:a", "work", "t", "default", job("j"), 30);
    process("h:8:a", "", 9000);
    redis_ok(r, "PEXPIRE h:8:a:work 60000"); /* it came back, and writes its jobs before its hash */
    work_on("h:7:a", "work", "t", "default", job("j"), 30);
    process("h:7:a", "\"reliable\"", 9000); /* super_fetch of Pro */
    mono_t next;
    forget_state(&setup);
    cr_assert_eq(step(&setup, true, &next), OUTCOME_OK, "%s", setup.f.error.text);
    expect_list("queue:default", 0);
    cr_expect_leq(mono_diff(next, mono_now()), NS_PER_S, "the first process is due first");
}

Test(redis_sidekiq_processes, entries_that_are_no_jobs_of_the_config_stay) {
    static const char *const values[] = {"x",
                                         "{}",
                                         "[]",
                                         "{\"queue\":\"default\"}",
                                         "{\"queue\":\"default\",\"payload\":{}}",
                                         "{\"queue\":\"default\",\"queue\":\"mailers\",\"payload\":\"{}\"}",
                                         "{\"queue\":\"default\",\"payload\":\"\\ud800\",\"run_at\":1}",
                                         "{\"queue\":\"other\",\"payload\":\"{}\",\"run_at\":1}"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        redis_ok(r, "HSET h:1:a:work %s %s", kept_printf("t%zu", i), values[i]);
    redis_ok(r, "HSET h:1:a:work large %s", kept_printf("{\"queue\":\"default\",\"payload\":\"%01100d\",\"run_at\":1}", 0));
    work_on("h:1:a", "work", "good", "default", job("j1"), 30);
    process("h:1:a", "", 9000);
    look();
    expect_list("queue:default", 1);
    cr_expect_eq(redis_int(r, "HLEN h:1:a:work"), 9);
    cr_expect_eq(fixture_log_count("left jobs of a process that is gone"), 1);
    cr_expect_eq(redis_int(r, "EXISTS queue:other"), 0);
}

/* Names come from the set of processes: keys of another type or of the sidecar change nothing, and delay nobody. */
Test(redis_sidekiq_processes, hostile_names_and_keys_delay_nobody) {
    redis_ok(r, "SADD processes sidecar:app:lock h:1:a h:2:a h:3:a");
    redis_ok(r, "SET h:2:a x PX 9000");
    redis_ok(r, "HSET h:3:a beat %.6f", BEAT);
    redis_ok(r, "PEXPIRE h:3:a 9000");
    redis_ok(r, "SET h:3:a:work x PX 9000");
    work_on("h:4:a", "work", "t", "mailers", job("j2"), 30);
    process("h:4:a", "", 9000);
    redis_ok(r, "SET queue:mailers x");
    work_on("h:5:a", "work", "t", "default", job("j1"), 30);
    process("h:5:a", "", 9000);
    look_a_while();
    redis_expect(r, job("j1"), "LINDEX queue:default 0");
    cr_expect_eq(redis_int(r, "HLEN h:4:a:work"), 1);
    redis_ok(r, "DEL queue:mailers");
    look_a_while();
    expect_list("queue:mailers", 1);
}

/* After SIGTERM a process pushes its jobs back by itself, and may be killed before it removes them from its work. */
Test(redis_sidekiq_processes, a_job_that_waits_is_not_pushed_again) {
    redis_ok(r, "RPUSH queue:default before %s after", job("j1"));
    work_on("h:1:a", "work", "t", "default", job("j1"), 30);
    process("h:1:a", "", 9000);
    look();
    expect_list("queue:default", 3);
    cr_expect_eq(redis_int(r, "EXISTS h:1:a:work"), 0);
    expect_records(r, "kind", "");
}

/* Counted by jid, although the bytes change when a job fails in between. */
Test(redis_sidekiq_processes, a_job_ends_after_as_many_recoveries) {
    setup_t of_dead = setup;
    of_dead.task = &sidekiq_dead_task;
    of_dead.reader = sidekiq_dead_task.open(&setup.f.keys->queues[0]);
    read_failures(&of_dead);
    for (int run = 0; run < 3; run++) {
        char *bytes = kept_printf("{\"class\":\"Mail\",\"jid\":\"j1\",\"retry_count\":%d}", run);
        work_on("h:1:a", "work", "t", "default", bytes, 30);
        process("h:1:a", "", 9000);
        look();
        redis_ok(r, "DEL h:1:a");
    }
    expect_list("queue:default", 2);
    cr_expect_eq(redis_int(r, "ZCARD dead"), 1);
    expect_records(r, "kind", "retried retried failed");
    expect_records(r, "attempts", "1 2 3");
    expect_records(r, "payload", "{\"class\":\"Mail\",\"jid\":\"j1\",\"retry_count\":2}");
    cr_expect_eq(redis_int(r, "HLEN " SIDECAR "stamps"), 0);
    /* The reader of dead jobs does not record it again. */
    read_failures(&of_dead);
    sidekiq_dead_task.close(of_dead.reader);
    expect_records(r, "kind", "retried retried failed");
}

Test(redis_sidekiq_processes, the_window_forgets_recoveries) {
    redis_ok(r, "HSET " SIDECAR "stamps x y");
    for (int run = 0; run < 3; run++) {
        work_on("h:1:a", "work", "t", "default", job("j1"), 30);
        process("h:1:a", "", 9000);
        look();
        redis_ok(r, "EVAL %s 1 " SIDECAR "stamps",
                 "local f = redis.call('HKEYS', KEYS[1]) for _, k in ipairs(f) do local v = redis.call('HGET', KEYS[1], k) "
                 "if #v == 28 then redis.call('HSET', KEYS[1], k, string.sub(v, 1, 22) .. struct.pack('>I6', 1000)) end end");
        redis_ok(r, "DEL h:1:a queue:default");
    }
    cr_expect_eq(redis_int(r, "ZCARD dead"), 0);
    expect_records(r, "attempts", "1 1 1");
}

Test(redis_sidekiq_processes, a_full_stream_ends_nothing_and_holds_no_retry) {
    config_t *config = (config_t *)(uintptr_t)setup.f.keys->config;
    config->stream.max_bytes = 1;
    work_on("h:1:a", "work", "t", "default", job("j1"), 30);
    process("h:1:a", "", 9000);
    look();
    expect_list("queue:default", 1);
    expect_records(r, "kind", "");
    cr_expect_eq(metric_get(&setup.metrics->queues[0].retried_unrecorded), 1);
}

Test(redis_sidekiq_processes, a_lost_lock_changes_nothing) {
    work_on("h:1:a", "work", "t", "default", job("j1"), 30);
    process("h:1:a", "", 9000);
    redis_ok(r, "SET " BULL_LOCK " other");
    forget_state(&setup);
    cr_expect_eq(run_steps(&setup), OUTCOME_FENCED);
    expect_list("queue:default", 0);
    cr_expect_eq(redis_int(r, "HLEN h:1:a:work"), 1);
}

/* 100 processes with 25 jobs each. */
Test(redis_sidekiq_processes, many_dead_processes_at_once, .timeout = 60) {
    for (int p = 0; p < 100; p++) {
        char *name = kept_printf("host-%d:%d:abcdef", p / 4, p);
        for (int t = 0; t < 25; t++)
            work_on(name, "work", kept_printf("t%d", t), "default", job(kept_printf("j%d-%d", p, t)), 30);
        process(name, "", 9500);
    }
    look();
    expect_list("queue:default", 2500);
    cr_expect_eq(redis_int(r, "EVAL %s 1 queue:default",
                           "local seen, n = {}, 0 for _, j in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do "
                           "if not seen[j] then n = n + 1 end seen[j] = true end return n"),
                 2500);
}

/* More than one read returns; each second one stays, because it is too young. */
Test(redis_sidekiq_processes, a_process_with_many_jobs_is_read_in_pages) {
    enum { MANY = 1200 };
    for (int t = 0; t < MANY; t++)
        work_on("h:1:a", "work", kept_printf("t%d", t), "default", job(kept_printf("j%d", t)), t % 2 ? 30 : 1);
    process("h:1:a", "", 9000);
    look();
    expect_list("queue:default", MANY / 2);
    cr_expect_eq(redis_int(r, "HLEN h:1:a:work"), MANY / 2);
}

static long long commands(void) {
    return redis_int(r, "EVAL %s 0",
                     "return tonumber(string.match(redis.call('INFO', 'stats'), 'total_commands_processed:(%d+)'))");
}

/* A living process is asked when it could be due, were it dead since. */
Test(redis_sidekiq_processes, living_processes_cost_few_commands) {
    mono_t next;
    for (int p = 0; p < 100; p++) process(kept_printf("host:%d:abcdef", p), "", 55000);
    look();
    long long before = commands();
    cr_assert_eq(step(&setup, false, &next), OUTCOME_OK);
    cr_expect_leq(commands() - before, 3);
    cr_expect_gt(mono_diff(next, mono_now()), 5 * NS_PER_S);
}

/* ---- The script by itself. */

static eval_t settle_call(const char *value, const char *old, const char *new, const char *most) {
    eval_t call = call_begin(&script_sidekiq_settle, "10");
    const char *const words[] = {BULL_LOCK,
                                 "h:1:a",
                                 "h:1:a:work",
                                 "queue:default",
                                 "queues",
                                 "dead",
                                 SIDECAR "stamps",
                                 SIDECAR "failures",
                                 SIDECAR "meta",
                                 SIDECAR "recorded",
                                 "T",
                                 "10000",
                                 "t1",
                                 value,
                                 "job",
                                 "default",
                                 "0123456789abcdef",
                                 old,
                                 new,
                                 most,
                                 "",
                                 "kind",
                                 "retried"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) call_text(&call, words[i]);
    return call;
}

#define STAMP "1234567890123456789012345678"

static void work_of_a_dead_process(void) {
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET " BULL_LOCK " T");
    redis_ok(r, "HSET h:1:a:work t1 value");
    process("h:1:a", "", 9000);
}

/* After a lost reply the same call comes again, when another process has the job already. */
Test(redis_sidekiq_processes, a_settle_that_is_repeated_changes_nothing) {
    work_of_a_dead_process();
    eval_t call = settle_call("value", "", STAMP, "999");
    expect_word(call_end(&call, r), "settled");
    redis_ok(r, "RPOP queue:default");
    call = settle_call("value", STAMP, STAMP, "999");
    expect_word(call_in_vain(&call, r), "gone");
    redis_ok(r, "HSET h:1:a:work t1 other");
    redis_ok(r, "PEXPIRE h:1:a:work 9000");
    call = settle_call("value", STAMP, STAMP, "999");
    expect_word(call_in_vain(&call, r), "gone");
}

Test(redis_sidekiq_processes, a_settle_compares_what_its_decision_rests_on) {
    static const struct {
        const char *command, *new, *most, *word;
    } rows[] = {{"SET " BULL_LOCK " other", STAMP, "999", "fenced"},
                {"PEXPIRE h:1:a 10500", STAMP, "999", "alive"},
                {"PEXPIRE h:1:a:work 10500", STAMP, "999", "alive"},
                {"PERSIST h:1:a", STAMP, "999", "alive"},
                {"HSET " SIDECAR "stamps 0123456789abcdef " STAMP, STAMP, "999", "changed"},
                {"PING", "", "1", "full"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        work_of_a_dead_process();
        redis_ok(r, rows[i].command);
        eval_t call = settle_call("value", "", rows[i].new, rows[i].most);
        expect_word(call_in_vain(&call, r), rows[i].word);
    }
}

Test(redis_sidekiq_processes, a_settle_changes_nothing_beside_a_key_of_the_wrong_type) {
    static const char *const keys[][3] = {{"queue:default", "list", "ready"},
                                          {"queues", "set", "queues"},
                                          {"dead", "zset", "dead"},
                                          {SIDECAR "stamps", "hash", "stamps"},
                                          {SIDECAR "failures", "stream", "failures"},
                                          {SIDECAR "meta", "hash", "meta"},
                                          {SIDECAR "recorded", "zset", "recorded"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k][1]) {
            work_of_a_dead_process();
            fixture_make_key(r, keys[k][0], type);
            eval_t call = settle_call("value", "", STAMP, "999");
            expect_type(call_in_vain(&call, r), keys[k][2], type);
        }
}
