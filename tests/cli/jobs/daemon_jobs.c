/* `jobs list`, `jobs run` and `jobs cancel` beside sidecars that promote. */
#include "jobs_fixture.h"

SUITE_WITHIN(120, daemon_jobs, s = cluster_begin(&(server_options_t){.tcp = true}), cluster_end(&s));

/* A score may be anything. */
Test(daemon_jobs, list_prints_times_that_are_none) {
    redis_ok(s.r, "ZADD q:delayed -inf a 1e300 b inf c 9e14 d");
    const daemon_output_t *table = jobs("list", "q"), *json = jobs("list", "q", "-o", "jsonl");
    cr_expect(table->code == 0 && has(table->out, "never"), "%s", table->out);
    cr_expect(json->code == 0 && has(json->out, "\"due_at\":null") && !has(json->out, "292278994"), "%s", json->out);
    cr_expect_eq(jobs("cancel", "q", "--where", "--since", "1970-01-01", "-y")->code, 0);
    cr_expect_eq(delayed(), 0);
}

Test(daemon_jobs, list_prints_what_waits) {
    delay(60, LATER);
    const daemon_output_t *table = jobs("list", "q"), *json = jobs("list", "q", "-o", "json", "-n", "2"),
                          *csv = jobs("list", "q", "-o", "csv", "--grep", "j17"), *none = jobs("list", "q", "--state", "ready");
    cr_expect(table->code == 0 && has(table->out, "JOB") && has(table->out, "j49") && !has(table->out, "j50"), "%s", table->out);
    cr_expect(has(table->err, "these are the first 50; there are more"), "%s", table->err);
    cr_expect(has(json->out, "\"job_id\":\"j0\",\"type\":\"even\"") && has(json->out, "\"payload_cut\":false"), "%s", json->out);
    cr_expect(has(csv->out, "queue,state,job_id,") && has(csv->out, "\r\nq,delayed,j17,odd,"), "%s", csv->out);
    cr_expect(none->code == 0 && has(none->err, "queue `q` has no jobs that are ready"), "%s", none->err);
}

Test(daemon_jobs, list_of_jobs_in_progress_begins_with_the_one_that_runs_for_longest) {
    static const char queue[] = "{ name = \"q\"; id_path = \"/id\"; roles = [\"monitor\"]; heartbeat = \"off\"; "
                                "protected_timeout = \"1h\"; }";
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = queue, .scan = "50ms"});
    for (int job = 1; job <= 2; job++) {
        redis_ok(s.r, "LPUSH q:backup {\"id\":\"j%s\"}", kept_printf("%d", job));
        await(redis_int(s.r, "HLEN sidecar:q:stamps") == job);
    }
    daemon_stop(d);
    s.count = 0;
    redis_ok(s.r, "DEL q:backup");
    redis_ok(s.r, "RPUSH q:backup {\"id\":\"j1\"} {\"id\":\"j2\"}");
    const daemon_output_t *out =
        jobs_with(cluster_config_file(&s, (sidecar_t){.queues = queue}), "list", "q", "--state", "in-progress", "-n", "1");
    cr_expect(has(out->out, "\nj1 ") && !has(out->out, "j2"), "%s%s", out->out, out->err);
    cr_expect(has(out->err, "these are the first 1; there are more"), "%s", out->err);
}

/* The leader is woken by the change of the zset alone: its poll comes once an hour. */
Test(daemon_jobs, run_makes_a_job_ready_at_once_and_leaves_others) {
    sidecar();
    delay(5, LATER);
    const daemon_output_t *done = jobs("run", "q", "j3");
    cr_assert_eq(done->code, 0, "%s", done->err);
    cr_expect(has(done->out, "due now: j3 (due "), "%s", done->out);
    await(ready() == 1);
    cr_expect_eq(delayed(), 4);
    cr_expect_eq(not_once(5), 0);
    const daemon_output_t *again = jobs("run", "q", "j3", "j9", "j1");
    cr_expect_eq(again->code, 1);
    cr_expect(has(again->err, "j3 names no delayed job") && has(again->err, "j9 names no delayed job"), "%s", again->err);
    await(ready() == 2);
}

/* Half of the jobs fall due while they are made due. */
Test(daemon_jobs, run_beside_a_leader_that_promotes_doubles_and_loses_nothing) {
    enum { JOBS = 20000 };
    sidecar();
    delay(JOBS, -JOBS / 2);
    const daemon_output_t *done = jobs("run", "q", "--where", "--since", "1970-01-01", "--yes", "-o", "json");
    cr_assert_geq(done->code, 0, "%s", done->err);
    await(ready() == JOBS);
    cr_expect_eq(not_once(JOBS), 0);
    cr_expect_eq(delayed(), 0);
}

Test(daemon_jobs, cancel_beside_a_leader_that_promotes_doubles_and_loses_nothing) {
    enum { JOBS = 20000 };
    daemon_t *one = sidecar(), *two = sidecar();
    delay(JOBS, -JOBS / 4);
    const daemon_output_t *done = jobs("cancel", "q", "--where", "--since", "1970-01-01", "--yes", "-o", "json");
    await(delayed() == 0);
    long long cancelled = number_of(done, "done");
    cr_expect_gt(cancelled, 0);
    cr_expect_eq(ready() + cancelled, JOBS);
    cr_expect_eq(not_once(JOBS), 0);
    await(audit_log_rows(daemon_audit_path(one)) == cancelled && audit_log_rows(daemon_audit_path(two)) == cancelled);
}

static child_t *begin(const char *verb, const char *type) {
    const char *argv[] = {daemon_program(), "jobs", verb, "q", "--where", "--type", type, "-y", "-c", config(), NULL};
    return child_start(&(child_spec_t){.argv = argv});
}

/* A leader promotes, workers take, one operator cancels half of the jobs and two make the others due. */
Test(daemon_jobs, operators_beside_workers_and_a_leader_double_and_lose_nothing) {
    enum { JOBS = 20000 };
    sidecar(), sidecar();
    delay(JOBS, -JOBS / 2);
    child_t *children[] = {begin("run", "odd"), begin("cancel", "even"), begin("run", "odd")};
    while (child_running(children[0]) || child_running(children[1]) || child_running(children[2]) || delayed() || ready()) {
        long long taken =
            redis_int(s.r, "EVAL %s 2 q q:taken",
                      "for i = 1, 50 do if not redis.call('RPOPLPUSH', KEYS[1], KEYS[2]) then return i end end return 50");
        cr_assert_gt(taken, 0);
    }
    for (int i = 0; i < 3; i++) child_free(children[i]);
    cr_expect_eq(not_once(JOBS), 0, "%lld wrong; %lld taken, %lld recorded, %lld ready, %lld delayed", not_once(JOBS),
                 redis_int(s.r, "LLEN q:taken"), records(), ready(), delayed());
    cr_expect(records() > 0 && redis_int(s.r, "LLEN q:taken") + records() == JOBS);
}

Test(daemon_jobs, cancel_is_a_failure_in_every_log_and_can_be_requeued) {
    daemon_t *one = sidecar(), *two = sidecar();
    delay(3, LATER);
    const daemon_output_t *done = jobs("cancel", "q", "j1", "--by", "ann", "--because", "order withdrawn");
    cr_assert_eq(done->code, 0, "%s", done->err);
    cr_expect(has(done->out, "cancelled: j1 (due "), "%s", done->out);
    await(audit_log_rows(daemon_audit_path(one)) == 1 && audit_log_rows(daemon_audit_path(two)) == 1);
    const daemon_output_t *list =
        daemon_run("audit", "list", "--db", daemon_audit_path(two), "--reason", "cancelled", "-o", "jsonl");
    cr_expect(has(list->out,
                  "\"job_id\":\"j1\",\"type\":\"odd\",\"worker\":\"ann\",\"reason\":\"cancelled\",\"error\":\"order withdrawn\""),
              "%s", list->out);
    cr_expect(has(list->out, kept_printf("\"ref\":\"%.12s\"", done->out)), "the command prints the ref");
    cr_expect_eq(not_once(3), 0);
    const daemon_output_t *back = daemon_run("audit", "requeue", kept_printf("%.12s", done->out), "-c", daemon_config_path(two),
                                             "--db", daemon_audit_path(two));
    cr_assert_eq(back->code, 0, "%s", back->err);
    redis_expect(s.r, "{\"id\":\"j1\",\"type\":\"odd\"}", "LINDEX q 0");
    cr_expect_eq(delayed(), 2);
}

#define TRACE_TEXT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
Test(daemon_jobs, cancel_is_told_like_any_failure) {
    redis_ok(s.r, "ZADD q:delayed 9999999999999 %s", "{\"id\":\"j1\",\"t\":\"" TRACE_TEXT "\"}");
    const daemon_output_t *done = jobs("cancel", "q", "j1", "--because", "order withdrawn");
    cr_assert_eq(done->code, 0, "%s", done->err);
    char *told = redis_str(s.r, "RPOP told");
    cr_assert(told && has(told, kept_printf("{\"ref\":\"%.12s\",\"queue\":\"q\"", done->out)), "%s", told);
    cr_expect(
        has(told, "\"job_id\":\"j1\",\"reason\":\"cancelled\",\"traceparent\":\"" TRACE_TEXT "\",\"error\":\"order withdrawn\""),
        "%s", told);
    redis_ok(s.r, "SET told taken"); /* a key of the wrong type keeps no job from its end */
    redis_ok(s.r, "ZADD q:delayed 9999999999999 %s", "{\"id\":\"j1\"}");
    cr_expect_eq(jobs("cancel", "q", "j1")->code, 0);
    cr_expect_eq(delayed(), 0);
}

/* The same bytes may be delayed and cancelled again. */
Test(daemon_jobs, two_cancellations_of_equal_jobs_are_two_failures) {
    daemon_t *one = sidecar();
    for (int i = 1; i <= 2; i++) {
        delay(1, LATER);
        cr_assert_eq(jobs("cancel", "q", "j0")->code, 0);
        await(audit_log_rows(daemon_audit_path(one)) == i);
    }
}

/* A job that waits for a retry has run; its retries end with it. */
Test(daemon_jobs, cancel_of_a_retried_job_tells_its_attempts_and_ends_its_life) {
    daemon_t *d =
        cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"q\"; id_path = \"/id\"; roles = [\"dispatcher\", \"monitor\"]; "
                                                     "heartbeat = \"off\"; retry_backoff = \"fixed\"; retry_delay "
                                                     "= \"1h\"; retry_delay_max = \"2h\"; retry_window = \"7d\"; }",
                                           .scan = "50ms"});
    redis_ok(s.r, "LPUSH q:backup {\"id\":\"j0\"}");
    redis_ok(s.r, "HSET q:errors {\"id\":\"j0\"} no");
    await(delayed() == 1);
    cr_expect(has(jobs_with(daemon_config_path(d), "list", "q", "-o", "jsonl")->out, "\"retries\":1,"));
    const daemon_output_t *done = jobs_with(daemon_config_path(d), "cancel", "q", "j0");
    cr_assert_eq(done->code, 0, "%s", done->err);
    await(audit_log_rows(daemon_audit_path(d)) == 1);
    cr_expect_eq(audit_log_int(daemon_audit_path(d), "SELECT attempts FROM events WHERE kind = 'failed'"), 1);
    cr_expect_eq(redis_int(s.r, "HLEN sidecar:q:stamps"), 0);
}

/* The test promotes the last jobs while the command waits before them. */
Test(daemon_jobs, a_job_that_is_promoted_meanwhile_is_reported_and_not_ended) {
    delay(20, LATER);
    const char *argv[] = {daemon_program(), "jobs", "cancel", "q",    "--where", "--grep", "j", "-y",
                          "--rate",         "10/s", "-o",     "json", "-c",      config(), NULL};
    char *dir = temp_dir("jobs"), *out = temp_path(dir, "out");
    child_t *child = child_start(&(child_spec_t){.argv = argv, .out = out});
    await(records() >= 3);
    redis_ok(s.r, "EVAL %s 2 q:delayed q",
             "local jobs = redis.call('ZRANGE', KEYS[1], -5, -1) redis.call('LPUSH', KEYS[2], unpack(jobs)) "
             "redis.call('ZREM', KEYS[1], unpack(jobs))");
    cr_assert(child_wait(child, MS));
    char *text = temp_read(out);
    cr_expect_eq(child->exit_code, 1);
    cr_expect(has(text, "\"done\":15,") && has(text, "\"gone\":5,"), "%s", text);
    cr_expect(has(text, "is no longer delayed: it was promoted"), "%s", text);
    cr_expect_eq(not_once(20), 0);
    cr_expect_eq(ready(), 5);
    child_free(child);
}

/* Delays 8 jobs of which two fill a page, and cancels them or makes them due, 5 a second. Returns the command when it has begun;
   its output goes to *out. */
static child_t *change_in_pages(const char *verb, char **out) {
    static char large[150000];
    memset(large, 'x', sizeof large - 1);
    for (int i = 0; i < 8; i++)
        redis_ok(s.r, "ZADD q:delayed %s {\"id\":\"j%s\",\"pad\":\"%s\"}", kept_printf("%lld", 4000000000000LL + i),
                 kept_printf("%d", i), large);
    const char *argv[] = {
        daemon_program(), "jobs", verb,     "q", "--where", "--until", "2096-10-02T07:06:41Z", "-y", "--rate", "5/s", "-o",
        "json",           "-c",   config(), NULL};
    *out = temp_path(temp_dir("jobs"), "out");
    child_t *child = child_start(&(child_spec_t){.argv = argv, .out = *out});
    await(redis_int(s.r, "ZCOUNT q:delayed 4000000000000 inf") < 8);
    return child;
}

Test(daemon_jobs, a_planned_job_that_goes_before_its_page_is_reported) {
    char *out;
    child_t *child = change_in_pages("cancel", &out);
    redis_ok(s.r, "EVAL %s 2 q:delayed q",
             "local jobs = redis.call('ZRANGE', KEYS[1], -2, -1) redis.call('LPUSH', KEYS[2], unpack(jobs)) "
             "redis.call('ZREM', KEYS[1], unpack(jobs))");
    cr_assert(child_wait(child, MS));
    char *text = temp_read(out);
    cr_expect_eq(child->exit_code, 1);
    cr_expect(has(text, "\"done\":6,") && has(text, "\"gone\":2,"), "%s", text);
    const char *digest = strstr(text, "\"sha256\":\"");
    cr_expect(digest && strspn(digest + 10, "0123456789abcdef") == 64, "%s", text);
    cr_expect_eq(not_once(8), 0);
    child_free(child);
}

/* People have said yes to the jobs that they saw. */
Test(daemon_jobs, a_job_that_comes_after_the_plan_is_left_alone) {
    char *out;
    child_t *child = change_in_pages("cancel", &out);
    redis_ok(s.r, "ZADD q:delayed 4000000000006.5 {\"id\":\"j8\"}");
    cr_assert(child_wait(child, MS));
    cr_expect_eq(child->exit_code, 0);
    cr_expect(records() == 8 && not_once(9) == 0);
    redis_expect(s.r, "4000000000006.5", "ZSCORE q:delayed {\"id\":\"j8\"}");
    child_free(child);
}

/* A producer schedules jobs of the same bytes: within the range of the filter, out of it, and where the command has read before.
 */
static void schedule_anew_meanwhile(const char *verb) {
    static const char *const anew[] = {"3999999999999.5", "4000000000500", "4000009000000"};
    char *out;
    child_t *child = change_in_pages(verb, &out);
    redis_ok(s.r, "EVAL %s 1 q:delayed %s %s %s",
             "local jobs = redis.call('ZRANGE', KEYS[1], -3, -1) redis.call('ZREM', KEYS[1], unpack(jobs)) "
             "for i, job in ipairs(jobs) do redis.call('ZADD', KEYS[1], ARGV[i], job) end",
             anew[0], anew[1], anew[2]);
    cr_assert(child_wait(child, MS));
    char *text = temp_read(out);
    cr_expect_eq(child->exit_code, 1);
    cr_expect(has(text, "\"done\":5,") && has(text, "\"changed\":3,") && has(text, "\"gone\":0,"), "%s", text);
    for (size_t i = 0; i < 3; i++) cr_expect_eq(redis_int(s.r, "ZCOUNT q:delayed %s %s", anew[i], anew[i]), 1, "%s", anew[i]);
    child_free(child);
}

Test(daemon_jobs, run_leaves_jobs_that_were_scheduled_anew) { schedule_anew_meanwhile("run"); }
Test(daemon_jobs, cancel_leaves_jobs_that_were_scheduled_anew) { schedule_anew_meanwhile("cancel"); }

Test(daemon_jobs, limit_takes_the_jobs_that_are_due_next) {
    delay(30, LATER);
    const daemon_output_t *out = jobs("cancel", "q", "--where", "--type", "odd", "-n", "4", "-y");
    cr_expect(out->code == 0 && has(out->out, "4 cancelled"), "%s%s", out->out, out->err);
    cr_expect(has(jobs("list", "q", "--type", "odd", "-n", "1", "-o", "jsonl")->out, "\"job_id\":\"j9\""));
}

Test(daemon_jobs, an_id_of_several_jobs_is_refused_and_a_digest_names_one) {
    redis_ok(s.r, "ZADD q:delayed 4000000000000 %s 4000000000001 %s", "{\"id\":\"j0\"}", "{\"id\":\"j0\",\"second\":1}");
    const daemon_output_t *both = jobs("cancel", "q", "j0");
    cr_expect(both->code == 1 && has(both->err, "j0 names several delayed jobs"), "%s", both->err);
    cr_expect_eq(delayed(), 2);
    const daemon_output_t *list = jobs("list", "q", "--grep", "second", "-o", "jsonl");
    char *digest = kept_printf("%.12s", strstr(list->out, "\"sha256\":\"") + 10);
    cr_expect_eq(jobs("cancel", "q", digest, digest)->code, 0);
    cr_expect_eq(delayed(), 1);
}

Test(daemon_jobs, a_job_above_max_payload_is_left_alone) {
    char *path = cluster_config_file(&s, (sidecar_t){.queues = "{ name = \"q\"; max_payload = \"1KiB\"; }"}), large[3000] = "";
    memset(large, 'j', sizeof large - 1);
    redis_ok(s.r, "ZADD q:delayed 4000000000000 %s 4000000000001 jay", large);
    const daemon_output_t *out = jobs_with(path, "cancel", "q", "--where", "--grep", "j", "-y");
    cr_expect(out->code == 1 && has(out->err, "is larger than max_payload, and is left alone"), "%s%s", out->out, out->err);
    cr_expect_eq(delayed(), 1);
    cr_expect_eq(records(), 1);
}

/* docs/acl.md: the line of every sidecar is enough for `list`, and one right more for the others. */
/* Redis hangs in the middle. What it has got it does later. */
/* The command ends after the requests in flight. */
