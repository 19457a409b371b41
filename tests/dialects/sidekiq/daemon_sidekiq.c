/* Sidekiq of Debian 12 (6.4) and 13 (7.3) beside a real sidecar, which records the failures of its processes, and requeues them.
 */
#include "sidekiq_story.h"

#include <criterion/parameterized.h>

enum { THREADS = 3 };

TestSuite(daemon_sidekiq, .timeout = 300);

/* Jobs that fail once are dead, have a record each, and run after a requeue. Returns the number of runs. */
static int runs_with_a_requeue(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, "");
    child_t *one = process(&setup);
    produce(&setup, "flaky", JOBS, 0);
    produce(&setup, "ok", JOBS, 0);
    await_native(&setup, rows(&setup, "kind = 'failed'") == JOBS);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == JOBS);
    cr_expect_eq(rows(&setup,
                      "kind = 'failed' AND reason = 'worker_failed' AND error LIKE 'RuntimeError: flaky%' AND attempts = 1 "
                      "AND type = 'TestJob' AND length(job) = 24 AND json_valid(payload) AND created > at - 60000"),
                 JOBS);
    const daemon_output_t *done = cli(setup.sidecar, "requeue", "--where", "-q", "sidekiq", "--yes", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 2 * JOBS);
    cr_expect_eq(redis_int(setup.cluster.r, "EXISTS dead retry queue:default"), 0);
    await_native(&setup, rows(&setup, "kind = 'requeued'") == JOBS);
    stop(&setup, one);
    return native_count(&setup.native, "taken", NULL);
}

Test(daemon_sidekiq, records_and_requeues_failures_6) { cr_assert_eq(runs_with_a_requeue("QS_SIDEKIQ=6"), 3 * JOBS); }
Test(daemon_sidekiq, records_and_requeues_failures_7) { cr_assert_eq(runs_with_a_requeue("QS_SIDEKIQ=7"), 3 * JOBS); }

/* Two jobs of a queue, without their times and ids: one that the sidecar has pushed, and one that Sidekiq has. Kept. */
typedef struct {
    char *ours, *own;
} pushed_t;

/* By the sidecar and by Sidekiq's own API. Both replace enqueued_at and lower retry_count in place. */
static pushed_t requeue_both_ways(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, "");
    child_t *one = process(&setup);
    produce(&setup, "poison", 2, 0);
    await_native(&setup, rows(&setup, "kind = 'failed'") == 2);
    stop(&setup, one);
    native_finish(&setup.native, (const char *const[]){"retry", "poison", "0", NULL}, setup.env, "");
    const daemon_output_t *done =
        cli(setup.sidecar, "requeue", "--where", "-q", "sidekiq", "-g", "poison\",1", "--yes", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
    cr_assert_eq(redis_int(setup.cluster.r, "LLEN queue:default"), 2);
    cr_expect_eq(redis_int(setup.cluster.r, "ZCARD dead"), 0);
    const char *plain = "local t = redis.call('LINDEX', 'queue:default', ARGV[1]) "
                        "t = string.gsub(t, '\"jid\":\"%x+\"', 'J') t = string.gsub(t, '(_at\":)[%d.]+', '%1T') "
                        "return (string.gsub(t, 'poison([^%d]+)%d', 'poison%1N'))";
    return (pushed_t){redis_str(setup.cluster.r, "EVAL %s 0 0", plain), redis_str(setup.cluster.r, "EVAL %s 0 1", plain)};
}

Test(daemon_sidekiq, requeues_as_the_web_ui_does_6) {
    const pushed_t pushed = requeue_both_ways("QS_SIDEKIQ=6");
    cr_assert_str_eq(pushed.ours, pushed.own);
    cr_assert(strstr(pushed.ours, "\"retry_count\":-1"), "%s", pushed.ours);
}
Test(daemon_sidekiq, requeues_as_the_web_ui_does_7) {
    const pushed_t pushed = requeue_both_ways("QS_SIDEKIQ=7");
    cr_assert_str_eq(pushed.ours, pushed.own);
    cr_assert(strstr(pushed.ours, "\"retry_count\":-1"), "%s", pushed.ours);
}

/* ---- Delayed jobs. */

#define BOTH                                                                                                                     \
    "roles = [\"dispatcher\", \"monitor\"]; }, { name = \"again\"; dialect = \"sidekiq\"; queues = [\"default\"]; set = "        \
    "\"retry\"; roles = [\"dispatcher\"];"

enum { MANY = 300 };

/* Sidekiq's own poller and the sidecar promote the same MANY jobs. Returns the number of runs. */
static int runs_beside_the_poller(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, BOTH);
    setup.env[1] = "POLL=1";
    child_t *one = process(&setup), *two = process(&setup);
    produce(&setup, "ok", MANY, 9000); /* by then both pollers have begun */
    await_native(&setup, native_count(&setup.native, "finished", NULL) == MANY);
    await_native(&setup, redis_int(setup.cluster.r, "EXISTS schedule queue:default") == 0);
    stop(&setup, one);
    stop(&setup, two);
    return native_count(&setup.native, "taken", NULL);
}

Test(daemon_sidekiq, promotes_beside_sidekiqs_poller_6) { cr_assert_eq(runs_beside_the_poller("QS_SIDEKIQ=6"), MANY); }
Test(daemon_sidekiq, promotes_beside_sidekiqs_poller_7) { cr_assert_eq(runs_beside_the_poller("QS_SIDEKIQ=7"), MANY); }

/* With no process at all jobs become due, also those that wait for a retry; then a process runs them. Returns a
 * promoted job, and one that the client pushed at once. */
static pushed_t promote_without_a_process(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, BOTH);
    setup.env[1] = "RETRY=5";
    child_t *one = process(&setup);
    produce(&setup, "flaky", 1, 0);
    await_native(&setup, redis_int(setup.cluster.r, "ZCARD retry") == 1);
    stop(&setup, one);
    redis_ok(setup.cluster.r, "ZADD retry XX 5 %s",
             redis_str(setup.cluster.r, "EVAL %s 0", "return redis.call('ZRANGE', 'retry', 0, 0)[1]"));
    await_native(&setup, redis_int(setup.cluster.r, "LLEN queue:default") == 1);
    produce(&setup, "ok", 1, 300);
    await_native(&setup, redis_int(setup.cluster.r, "LLEN queue:default") == 2);
    produce(&setup, "ok", 1, 0);
    const char *plain = "local t = redis.call('LINDEX', 'queue:default', ARGV[1]) "
                        "t = string.gsub(t, '\"jid\":\"%x+\"', 'J') return (string.gsub(t, '(_at\":)[%d.]+', '%1T'))";
    const pushed_t pushed = {redis_str(setup.cluster.r, "EVAL %s 0 1", plain), redis_str(setup.cluster.r, "EVAL %s 0 0", plain)};
    child_t *two = process(&setup);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 3);
    cr_expect_eq(native_count(&setup.native, "taken", NULL), 4);
    cr_expect_eq(redis_int(setup.cluster.r, "EXISTS schedule retry dead queue:default"), 0);
    stop(&setup, two);
    return pushed;
}

Test(daemon_sidekiq, promotes_while_no_process_runs_6) {
    const pushed_t pushed = promote_without_a_process("QS_SIDEKIQ=6");
    cr_assert_str_eq(pushed.ours, pushed.own);
}
Test(daemon_sidekiq, promotes_while_no_process_runs_7) {
    const pushed_t pushed = promote_without_a_process("QS_SIDEKIQ=7");
    cr_assert_str_eq(pushed.ours, pushed.own);
}

/* ---- Processes that are gone. */

/* A process that runs so many jobs, which wait for the key `go`, and has noted them at a beat. */
static child_t *process_at_work(setup_t *setup, int before) {
    child_t *child = process(setup);
    produce(setup, "wait", THREADS, 0);
    await_gone(setup, native_count(&setup->native, "taken", NULL) == before + THREADS);
    await_gone(setup, noted(setup) == before + THREADS);
    return child;
}

static int times_in(const char *text, const char *part) {
    int times = 0;
    while ((text = strstr(text, part))) times++, text++;
    return times;
}

/* As people see them: each began when its process says so, and is shown with its process. */
static void expect_running(const setup_t *setup, int count) {
    const daemon_output_t *out =
        daemon_run("jobs", "list", "-c", daemon_config_path(setup->sidecar), "sidekiq", "--state", "in-progress", "-o", "json");
    cr_assert_eq(out->code, 0, "%s%s", out->out, out->err);
    redisReply *all =
        redis_do(setup->cluster.r, "EVAL %s 0",
                 "local all = {} for _, p in ipairs(redis.call('SMEMBERS', 'processes')) do "
                 "for _, key in ipairs({p .. ':work', p .. ':workers'}) do "
                 "for _, v in ipairs(redis.call('HVALS', key)) do local w = cjson.decode(v) "
                 "for _, x in ipairs({p, cjson.decode(w.payload).jid, w.run_at}) do all[#all + 1] = x end end end end "
                 "return all");
    cr_assert_eq(all->elements, 3 * (size_t)count);
    for (size_t i = 0; i < all->elements; i += 3) {
        char row[400];
        time_t at = (time_t)all->element[i + 2]->integer;
        size_t len = (size_t)snprintf(
            row, sizeof row,
            "\"job_id\":\"%s\",\"type\":\"TestJob\",\"worker\":\"%s\",\"key\":\"%s:work%s\",\"due_at\":null,"
            "\"started_at\":\"",
            all->element[i + 1]->str, all->element[i]->str, all->element[i]->str, strstr(setup->env[0], "=6") ? "ers" : "");
        strftime(row + len, sizeof row - len, "%Y-%m-%dT%H:%M:%S.000Z\"", gmtime(&at));
        cr_expect_not_null(strstr(out->out, row), "%s: %s", row, out->out);
    }
    cr_expect_eq(times_in(out->out, "\"retries\":0"), count);
    cr_expect_eq(times_in(out->out, "\\\"args\\\":[\\\"wait"), count);
    freeReplyObject(all);
}

/* Two processes of one host: the jobs of the killed one come back once, as they were, and a new one runs them. Returns the number
 * of runs. */
static int runs_with_a_kill(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, DEAD);
    child_t *one = process_at_work(&setup, 0), *two = process_at_work(&setup, THREADS);
    expect_running(&setup, 2 * THREADS);
    kill_process(one);
    await_gone(&setup, redis_int(setup.cluster.r, "LLEN queue:default") == THREADS);
    child_t *three = process(&setup);
    await_gone(&setup, native_count(&setup.native, "taken", NULL) == 3 * THREADS);
    redis_ok(setup.cluster.r, "SET go 1");
    await_gone(&setup, native_count(&setup.native, "finished", NULL) == 2 * THREADS);
    await_gone(&setup, rows(&setup, "kind = 'retried' AND reason = 'stalled' AND type = 'TestJob' AND attempts = 1") == THREADS);
    cr_expect_eq(redis_int(setup.cluster.r, "EXISTS queue:default retry dead"), 0);
    stop(&setup, two);
    stop(&setup, three);
    return native_count(&setup.native, "taken", NULL);
}

Test(daemon_sidekiq, gives_back_jobs_of_a_killed_process_6) { cr_assert_eq(runs_with_a_kill("QS_SIDEKIQ=6"), 3 * THREADS); }
Test(daemon_sidekiq, gives_back_jobs_of_a_killed_process_7) { cr_assert_eq(runs_with_a_kill("QS_SIDEKIQ=7"), 3 * THREADS); }

/* A process that is stopped pushes its jobs back by itself. It is killed at that moment. Returns the number of jobs that wait
 * once its keys are gone. */
static long long waiting_after_a_stop(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, DEAD);
    child_t *one = process_at_work(&setup, 0);
    child_signal(one, SIGTERM);
    await_gone(&setup, redis_int(setup.cluster.r, "LLEN queue:default") == THREADS);
    kill_process(one);
    await_gone(
        &setup,
        redis_int(setup.cluster.r, "EVAL %s 0",
                  "for _, p in ipairs(redis.call('KEYS', '*:*:*')) do "
                  "if not string.find(p, '^s[it][da][et]') and redis.call('PTTL', p) > 38000 then return 1 end end return 0") ==
            0);
    await_gone(&setup, noted(&setup) == 0);
    cr_expect_eq(rows(&setup, "kind = 'retried'"), 0);
    return redis_int(setup.cluster.r, "LLEN queue:default");
}

Test(daemon_sidekiq, gives_back_nothing_twice_after_a_stop_6) { cr_assert_eq(waiting_after_a_stop("QS_SIDEKIQ=6"), THREADS); }
Test(daemon_sidekiq, gives_back_nothing_twice_after_a_stop_7) { cr_assert_eq(waiting_after_a_stop("QS_SIDEKIQ=7"), THREADS); }

/* A process that was frozen for longer than its keys last comes back: its jobs ran elsewhere meanwhile, and are not given back
 * again. Returns the number of runs. */
static int runs_with_a_frozen_process(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, DEAD);
    child_t *one = process_at_work(&setup, 0);
    child_signal(one, SIGSTOP);
    await_gone(&setup, redis_int(setup.cluster.r, "LLEN queue:default") == THREADS);
    child_t *two = process(&setup);
    await_gone(&setup, native_count(&setup.native, "taken", NULL) == 2 * THREADS);
    await_gone(
        &setup,
        redis_int(setup.cluster.r, "EVAL %s 0",
                  "local n = 0 for _, p in ipairs(redis.call('KEYS', '*:*:*')) do if "
                  "not string.find(p, '^s[it][da][et]') and redis.call('TYPE', p).ok == 'hash' and not string.find(p, ':work') "
                  "then n = n + 1 end end return n") == 1);
    child_signal(one, SIGCONT);
    await_gone(&setup, noted(&setup) == 2 * THREADS); /* it beats again, and still runs them */
    redis_ok(setup.cluster.r, "SET go 1");
    await_gone(&setup, native_count(&setup.native, "finished", NULL) == 2 * THREADS);
    await_gone(&setup, noted(&setup) == 0);
    cr_expect_eq(redis_int(setup.cluster.r, "LLEN queue:default"), 0);
    cr_expect_eq(rows(&setup, "kind = 'retried'"), THREADS);
    stop(&setup, one);
    stop(&setup, two);
    return native_count(&setup.native, "taken", NULL);
}

Test(daemon_sidekiq, a_process_that_was_frozen_for_a_minute_6) {
    cr_assert_eq(runs_with_a_frozen_process("QS_SIDEKIQ=6"), 2 * THREADS);
}
Test(daemon_sidekiq, a_process_that_was_frozen_for_a_minute_7) {
    cr_assert_eq(runs_with_a_frozen_process("QS_SIDEKIQ=7"), 2 * THREADS);
}

/* The worker of docs/dialects/sidekiq.md, as it is there: its own poller rests, so the sidecar promotes; and a kill loses
 * nothing. Returns the number of runs: four jobs, of which two ran in the killed process, too. */
static int runs_of_the_docs(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin(&setup, version, DEAD);
    child_t *one = process_of(&setup, "worker");
    native_finish(&setup.native, (const char *const[]){"mail", NULL}, setup.env, "400 ok 1\n400 ok 2\n0 wait 1\n0 wait 2\n");
    await_gone(&setup, native_count(&setup.native, "finished", NULL) == 2);
    await_gone(&setup, noted(&setup) == 2);
    kill_process(one);
    await_gone(&setup, redis_int(setup.cluster.r, "LLEN queue:default") == 2);
    child_t *two = process_of(&setup, "worker");
    redis_ok(setup.cluster.r, "SET go 1");
    await_gone(&setup, native_count(&setup.native, "finished", NULL) == 4);
    stop(&setup, two);
    return native_count(&setup.native, "taken", NULL);
}

Test(daemon_sidekiq, the_worker_of_the_docs_6) { cr_assert_eq(runs_of_the_docs("QS_SIDEKIQ=6"), 6); }
Test(daemon_sidekiq, the_worker_of_the_docs_7) { cr_assert_eq(runs_of_the_docs("QS_SIDEKIQ=7"), 6); }

/* The keys of a killed process expire, so its jobs wait for a leader no longer than a minute. */
Test(daemon_sidekiq, status_tells_what_is_lost_while_nobody_leads) {
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    char *path = cluster_config_file(&s, (sidecar_t){.queues = kept_printf(SIDEKIQ, "")});
    const daemon_output_t *out = daemon_run("status", "-c", path, "-o", "json");
    cr_expect(has(out->out, "is free; jobs of processes of Sidekiq that are killed now are lost\""), "%s%s", out->out, out->err);
}

/* ---- A leader dies in the middle. */

static const char *const POINTS[] = {"settle_before", "settle_sent", "settle_answered", "settle_answered:2"};

ParameterizedTestParameters(daemon_sidekiq, crash_points) {
    static int numbers[] = {0, 1, 2, 3};
    return cr_make_param_array(int, numbers, 4);
}
/* The next leader goes on: each job comes back once. The keys are those of a process that was killed. */
ParameterizedTest(int *number, daemon_sidekiq, crash_points) {
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    const sidecar_t spec = {.queues = kept_printf(SIDEKIQ, ""), .all_roles = true};
    redis_ok(s.r, "SADD processes h:1:a");
    redis_ok(s.r, "HSET h:1:a beat 1700000100.5 rtt_us 9 info {}");
    for (int i = 0; i < JOBS; i++)
        redis_ok(s.r, "HSET h:1:a:work %s %s", kept_printf("t%d", i),
                 kept_printf("{\"queue\":\"default\",\"payload\":\"{\\\"jid\\\":\\\"%d\\\"}\",\"run_at\":1700000000}", i));
    redis_ok(s.r, "PEXPIRE h:1:a 9900");
    redis_ok(s.r, "PEXPIRE h:1:a:work 9900");
    cr_assert_eq(cluster_crash(&s, spec, POINTS[*number]), 137);
    redis_ok(s.r, "PEXPIRE h:1:a 9900");
    redis_do(s.r, "PEXPIRE h:1:a:work 9900");
    daemon_t *next = cluster_sidecar_up(&s, spec);
    await(&s, redis_int(s.r, "LLEN queue:default") == JOBS && redis_int(s.r, "EXISTS h:1:a:work") == 0, SOON_MS);
    await(&s, audit_log_int(daemon_audit_path(next), "SELECT count(DISTINCT job) FROM events WHERE kind = 'retried'") == JOBS,
          SOON_MS);
    cr_expect_eq(audit_log_int(daemon_audit_path(next), "SELECT count(*) FROM events WHERE kind = 'retried'"), JOBS);
    cr_expect_eq(redis_int(s.r, "EVAL %s 1 queue:default",
                           "local seen, n = {}, 0 for _, j in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do "
                           "if not seen[j] then n = n + 1 end seen[j] = true end return n"),
                 JOBS);
}
