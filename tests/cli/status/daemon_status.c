/* `queue-sidecar status` with real sidecars and real servers. */
#include "audit_log.h"
#include "base/json/json.h"
#include "cluster.h"
#include "tempdir.h"
#include "text.h"
#include "tls_harness.h"

#include <math.h>

/* A sidecar whose lock survives a pause of a busy machine. */
#define STEADY ((sidecar_t){.ttl = "3s"})

/* Without a log, `status` counts the last hour in the streams. */
static void no_log_here(void) {
    char *path = temp_path(temp_root(), "none.db");
    setenv("QUEUE_SIDECAR_AUDIT_PATH", path, 1);
    unsetenv("COLUMNS");
}

typedef struct {
    const daemon_output_t *run;
    slice_t json;
} answer_t;

static answer_t ask(const char *config) {
    answer_t answer = {.run = daemon_run("status", "-c", config, "-o", "json")};
    answer.json = slice_text(answer.run->out);
    cr_assert(json_pick(answer.json, NULL, 0), "no JSON: %s%s", answer.run->out, answer.run->err);
    cr_assert_eq(strcspn(answer.run->out, "\n") + 1, strlen(answer.run->out), "not one line");
    return answer;
}

static double number(const answer_t *answer, const char *pointer) {
    json_value_t value;
    cr_assert_eq(json_find(answer->json, pointer, &value), JSON_FOUND, "no %s in %s", pointer, answer->run->out);
    return value.type == JSON_NULL ? NAN : strtod(value.raw.data, NULL);
}

#define expect_number(answer, pointer, expected)                                                                                 \
    cr_assert_eq(number(answer, pointer), expected, "%s is %g: %s", pointer, number(answer, pointer), (answer)->run->out)
#define expect_null(answer, pointer) cr_assert(isnan(number(answer, pointer)), "%s: %s", pointer, (answer)->run->out)

static bool found(const answer_t *answer, const char *code) {
    char *text = kept_printf("\"code\":\"%s\"", code);
    return has(answer->run->out, text);
}

/* Asks until `status` finds `code`. Returns the last answer. */
static answer_t ask_until(const char *config, const char *code) {
    answer_t answer = {0};
    bool came = wait_for((answer = ask(config), found(&answer, code)), 10000);
    cr_assert(came, "finding %s does not come: %s", code, answer.run->out);
    return answer;
}

static cluster_t s;
SUITE(daemon_status, no_log_here(); s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_status, reports_a_leader_until_it_is_killed) {
    daemon_t *d = cluster_sidecar_up(&s, STEADY);
    char *config = cluster_config_file(&s, STEADY), pid[32];
    snprintf(pid, sizeof(pid), "/%d\"", (int)daemon_pid(d));
    redis_ok(s.r, "LPUSH q job another");
    cluster_delay(s.r, "q", "later", 3600000);
    char *before = redis_str(s.r, "DEBUG DIGEST");
    answer_t answer = ask(config);
    cr_assert_eq(answer.run->code, 0, "%s", answer.run->out);
    cr_assert(has(answer.run->out, "\"well\":true") && has(answer.run->out, pid), "%s", answer.run->out);
    cr_assert(number(&answer, "/locks/0/ttl_seconds") > 0 && number(&answer, "/locks/0/ttl_seconds") <= 3);
    expect_number(&answer, "/redis/primaries/0/replicas", 0);
    expect_null(&answer, "/redis/primaries/0/good_replicas");
    cr_assert(has(answer.run->out, "\"mode\":\"single\"") && has(answer.run->out, "\"maxmemory_policy\":\"noeviction\""));
    expect_number(&answer, "/queues/0/delayed", 1);
    expect_number(&answer, "/queues/0/ready", 2);
    expect_number(&answer, "/queues/0/overdue_seconds", 0);
    expect_number(&answer, "/queues/0/failed_last_hour", 0);
    expect_null(&answer, "/queues/0/oldest_in_progress");
    redis_expect(s.r, before, "DEBUG DIGEST");
    const daemon_output_t *table = daemon_run("status", "-c", config);
    cr_assert_eq(table->code, 0);
    cr_assert(has(table->out, "\nredis    single server; ") &&
                  /* with TLS the line is longer, so it is wrapped */
                  has(table->out, tls_harness_is_on() ? "; 0 replicas; " : "; 0 replicas; maxmemory-policy noeviction\nleader"),
              "%s", table->out);
    cr_assert(has(table->out, "\nleader   ") && has(table->out, "all is well") && has(table->out, " in 59 min "), "%s",
              table->out);
    daemon_kill(d);
    answer = ask_until(config, "no_leader");
    cr_assert_eq(answer.run->code, 1);
    cr_assert(has(answer.run->out, "\"well\":false") && has(answer.run->out, "queue-sidecar run -c "));
    expect_null(&answer, "/locks/0/ttl_seconds");
    cr_assert(has(daemon_run("status", "-c", config)->out, "\nleader   nobody\n"));
}

Test(daemon_status, lists_the_standbys) {
    char *config = cluster_config_file(&s, STEADY), name[64];
    daemon_t *d[2] = {cluster_sidecar_up(&s, STEADY), cluster_sidecar_up(&s, STEADY)};
    bool first = cluster_await_leader(&s, "g", NULL, 10000) == d[0];
    snprintf(name, sizeof(name), "/%d", (int)daemon_pid(d[first ? 1 : 0]));
    const daemon_output_t *run = daemon_run("status", "-c", config);
    const char *line = strstr(run->out, "\nstandby  ");
    cr_assert(line && has(line, name) && strstr(line, name) < strchr(line + 1, '\n'), "%s", run->out);
    answer_t answer = ask(config);
    cr_assert(has(answer.run->out, "\"standbys\":[{\"instance\":"), "%s", answer.run->out);
    daemon_kill(d[first ? 1 : 0]);
    cr_assert(wait_for(has(daemon_run("status", "-c", config)->out, "\nstandby  none\n"), 20000));
}

Test(daemon_status, reports_queues_its_leader_skips) {
    cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .queues = "{ name = \"q\"; }"});
    cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .group = "others", .queues = "{ name = \"p\"; }"});
    char *config = cluster_config_file(&s, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"fresh\"; }, { name = \"p\"; }"});
    answer_t answer = ask(config);
    cr_assert_eq(answer.run->code, 1);
    cr_assert(has(answer.run->out, "\"code\":\"unserved\",\"queues\":[\"fresh\"]"), "%s", answer.run->out);
    cr_assert(has(answer.run->out, "\"code\":\"other_group\",\"queues\":[\"p\"]"), "%s", answer.run->out);
    const daemon_output_t *one = daemon_run("status", "-c", config, "--queue", "q");
    cr_assert_eq(one->code, 0, "%s", one->out);
    cr_assert(has(one->out, "nothing is wrong with these queues") && !has(one->out, "fresh"), "%s", one->out);
    cr_assert_eq(daemon_run("status", "-c", config, "-q", "q", "-q", "fresh")->code, 1);
}

Test(daemon_status, reports_due_jobs_that_wait) {
    daemon_t *d =
        cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .queues = "{ name = \"q\"; ready_limit = 2; }, { name = \"p\"; }"});
    char *config =
        cluster_config_file(&s, (sidecar_t){.ttl = "3s", .queues = "{ name = \"q\"; ready_limit = 2; }, { name = \"p\"; }"});
    redis_ok(s.r, "LPUSH q a b");
    redis_ok(s.r, "ZADD q:delayed 1 late");
    answer_t answer = ask(config);
    cr_assert(found(&answer, "ready_limit") && !found(&answer, "overdue"), "%s", answer.run->out);
    cr_assert_eq(answer.run->code, 1);
    daemon_pause(d); /* PERSIST keeps the lock, so this leader stays leader and does nothing */
    redis_ok(s.r, "PERSIST sidecar:g:lock");
    redis_ok(s.r, "ZADD p:delayed 1 late");
    answer = ask(config);
    cr_assert(found(&answer, "overdue") && found(&answer, "clock_step"), "%s", answer.run->out);
    cr_assert_gt(number(&answer, "/queues/1/overdue_seconds"), 1e9);
    redis_ok(s.r, "HSET sidecar:p:meta anomaly:large_delayed %s", "1 1 9000000000000 the one at the head");
    answer = ask(config);
    cr_assert(found(&answer, "large_delayed") && !found(&answer, "overdue"), "%s", answer.run->out);
    redis_ok(s.r, "ZADD p:delayed 2 another");
    answer = ask(config);
    cr_assert(found(&answer, "large_delayed") && found(&answer, "overdue"), "%s", answer.run->out);
    free(config);
}

Test(daemon_status, reports_a_full_stream_and_uncopied_records) {
    char *config = cluster_config_file(&s, (sidecar_t){.more = "stream = { max_bytes = \"1MiB\"; };\n"});
    redis_ok(s.r, "XADD sidecar:q:failures %lld-0 kind failed reason reported", redis_ms(s.r) - 120000);
    redis_ok(s.r, "HSET sidecar:q:meta bytes 1048570 entries 1");
    answer_t answer = ask(config);
    cr_assert(found(&answer, "stream_full") && found(&answer, "uncopied"), "%s", answer.run->out);
    cr_assert_geq(number(&answer, "/queues/0/audit_lag_seconds"), 120);
    expect_number(&answer, "/queues/0/records", 1);
    expect_number(&answer, "/queues/0/record_bytes", 1048570);
    expect_number(&answer, "/queues/0/record_bytes_limit", 1048576);
    expect_number(&answer, "/queues/0/failed_last_hour", 1);
    expect_number(&answer, "/queues/0/failed_last_hour_by_reason/reported", 1);
    cr_assert(has(answer.run->out, "\"last_hour_from\":\"failure_stream\"") && has(answer.run->out, "\"readable\":false"));
    redis_ok(s.r, "HSET sidecar:q:meta bytes 943718 entries 10"); /* as after a trim of nine records of ten */
    answer = ask(config);
    cr_assert(!found(&answer, "stream_full") && !found(&answer, "stream_fills"), "%s", answer.run->out);
}

Test(daemon_status, log_and_streams_count_the_same_last_hour) {
    static const char queues[] = "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"50ms\"; "
                                 "retry_times = 1; }";
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .scan = "50ms", .queues = queues});
    char *config = cluster_config_file(&s, (sidecar_t){.ttl = "3s", .scan = "50ms", .queues = queues});
    redis_ok(s.r, "LPUSH q:backup stalls poison");
    redis_ok(s.r, "HSET q:errors poison !no");
    cr_assert(wait_for(redis_int(s.r, "XLEN sidecar:q:failures") == 2, 10000));
    cluster_take(s.r, "q", 10000); /* removes the retried job, so that it does not stall again */
    const daemon_output_t *by_log = NULL;
    /* the log has the rows before the auditor acknowledges them */
    cr_assert(wait_for((by_log = cluster_status(d, config),
                        has(by_log->out, "\"retried_last_hour\":1,\"failed_last_hour\":1") && has(by_log->out, "\"here\":true,")),
                       10000),
              "%s", by_log->out);
    answer_t by_stream = ask(config);
    cr_assert(has(by_log->out, "\"last_hour_from\":\"audit_log\"") && has(by_log->out, "\"here\":true,"), "%s", by_log->out);
    cr_assert(has(by_log->out, "\"last_hour_is_partial\":false"), "%s", by_log->out);
    cr_assert(has(by_stream.run->out, "\"last_hour_from\":\"failure_stream\"") && has(by_stream.run->out, "\"here\":false,"));
    static const char sizes[] = "\"retried_last_hour\":1,\"failed_last_hour\":1,\"failed_last_hour_by_reason\":{"
                                "\"retries_exhausted\":0,\"reported\":1,";
    cr_assert(has(by_log->out, sizes) && has(by_stream.run->out, sizes), "%s%s", by_log->out, by_stream.run->out);
    cr_assert(found(&by_stream, "failures") && has(by_stream.run->out, "audit list -c "));
    cr_assert_eq(by_log->code, 0, "final failures alone are no fault: %s", by_log->out);
}

/* An answered failure needs nobody any more. In a pipe the first line is one line. */
Test(daemon_status, the_first_line_counts_failures_until_they_are_answered) {
    const sidecar_t spec = {.ttl = "3s", .scan = "50ms", .queues = "{ name = \"q\"; roles = [\"monitor\"]; }"};
    daemon_t *d = cluster_sidecar_up(&s, spec);
    setenv("QUEUE_SIDECAR_AUDIT_PATH", daemon_audit_path(d), 1);
    char *config = cluster_config_file(&s, spec);
    redis_ok(s.r, "LPUSH q:backup one two");
    redis_ok(s.r, "HSET q:errors one !no two !no");
    const daemon_output_t *run = NULL;
    cr_assert(
        wait_for((run = daemon_run("status", "-c", config), strncmp(run->out, "2 final failures in the last hour", 33) == 0),
                 10000),
        "%s", run->out);
    cr_assert(wait_for(audit_log_int(daemon_audit_path(d), "SELECT count(*) FROM events WHERE kind = 'failed'") == 2, 10000));
    run = daemon_run("audit", "requeue", "-c", config, "--where", "--grep", "one", "--yes");
    cr_assert_eq(run->code, 0, "%s%s", run->out, run->err);
    const char *const again[] = {"audit", "requeue", "-c", config, "--where", "--grep", "one", "--yes", "--again", NULL};
    cr_assert_eq(daemon_run_argv(NULL, again)->code, 0);
    cr_assert(wait_for(audit_log_int(daemon_audit_path(d), "SELECT count(*) FROM events WHERE kind = 'requeued'") == 2, 10000),
              "%s", daemon_log(d));
    cr_assert(wait_for((run = daemon_run("status", "-c", config), strncmp(run->out, "1 final failure in the last hour", 32) == 0),
                       10000),
              "%s", run->out);
    cr_assert(has(run->out, "2 final failures in the last hour, 1 of them answered: 2 reported"), "%s", run->out);
    cr_assert_eq(daemon_run("audit", "discard", "-c", config, "--where", "--queue", "q", "--yes")->code, 0);
    cr_assert(wait_for((run = daemon_run("status", "-c", config), strncmp(run->out, "all is well", 11) == 0), 10000), "%s",
              run->out);
}

Test(daemon_status, reports_the_age_of_the_oldest_job_in_progress) {
    static const char queues[] = "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; }";
    cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .scan = "50ms", .queues = queues});
    char *config = cluster_config_file(&s, (sidecar_t){.ttl = "3s", .scan = "50ms", .queues = queues});
    redis_ok(s.r, "LPUSH q:backup job");
    cr_assert(wait_for(redis_int(s.r, "HLEN sidecar:q:stamps") == 1, 10000));
    answer_t answer = ask(config);
    double oldest = number(&answer, "/queues/0/oldest_in_progress_seconds");
    cr_assert(oldest >= 0 && oldest < 60, "%g: %s", oldest, answer.run->out);
}

Test(daemon_status, rows_removed_by_retention_make_the_count_partial) {
    const sidecar_t spec = {.more = "audit = { retain_rows = 1; };\n"};
    daemon_t *d = cluster_sidecar_up(&s, spec);
    char *config = cluster_config_file(&s, spec);
    for (int i = 0; i < 3; i++)
        redis_ok(s.r, "XADD sidecar:q:failures * kind failed reason reported at %lld event 012345678%dabcdef%048d", redis_ms(s.r),
                 i, 0);
    const daemon_output_t *out = NULL;
    cr_assert(wait_for((out = cluster_status(d, config), has(out->out, "\"failed_last_hour\":1,") &&
                                                             has(out->out, "\"last_hour_from\":\"audit_log\"") &&
                                                             has(out->out, "\"last_hour_is_partial\":true")),
                       20000),
              "%s", out->out);
    cr_assert(has(out->out, "at least 1 final failure"), "%s", out->out);
}

/* The instance hangs, so its log lacks failures that are recorded meanwhile. */
Test(daemon_status, a_log_that_is_behind_is_not_used_for_counts) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){0});
    char *config = cluster_config_file(&s, (sidecar_t){0});
    redis_ok(s.r, "XADD sidecar:q:failures %lld-0 kind failed reason reported event %s", redis_ms(s.r) - 20000,
             "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    const daemon_output_t *out = NULL;
    cr_assert(wait_for((out = cluster_status(d, config),
                        has(out->out, "\"complete\":true") && has(out->out, "\"last_hour_from\":\"audit_log\"")),
                       10000),
              "%s", out->out);
    daemon_pause(d);
    redis_ok(s.r, "XADD sidecar:q:failures * kind failed reason reported event %s",
             "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    out = cluster_status(d, config);
    cr_assert(has(out->out, "\"last_hour_from\":\"failure_stream\"") && has(out->out, "\"failed_last_hour\":2"), "%s", out->out);
    daemon_continue(d);
}

Test(daemon_status, a_large_stream_makes_the_count_partial) {
    char *config = cluster_config_file(&s, (sidecar_t){0});
    redis_ok(
        s.r, "EVAL %s 1 sidecar:q:failures",
        "local text = string.rep('x', 1000000) for i = 1, 40 do redis.call('XADD', KEYS[1], '*', 'kind', 'failed', 'payload', "
        "text) end");
    answer_t answer = ask(config);
    cr_assert(has(answer.run->out, "\"last_hour_is_partial\":true"), "%s", answer.run->out);
    double counted = number(&answer, "/queues/0/failed_last_hour");
    cr_assert(counted >= 8 && counted < 40, "%g", counted);
    cr_assert(has(answer.run->out, "at least "));
}

#define ALL_DIALECTS                                                                                                             \
    "{ name = \"q\"; roles = [\"monitor\"]; }, { name = \"video\"; dialect = \"bull\"; }, "                                      \
    "{ name = \"mail\"; dialect = \"kmqueue\"; queues = [\"w1\", \"w2:safe\"]; roles = [\"monitor\"]; }, "                       \
    "{ name = \"events\"; dialect = \"delayed_queue\"; types = [\"a.Check\"]; roles = [\"dispatcher\", \"monitor\"]; }, "        \
    "{ name = \"fights\"; dialect = \"private_queues\"; main = \"fight\"; private = \"fq-*\"; heartbeat = \"off\"; roles = "     \
    "[\"monitor\"]; }"

Test(daemon_status, counts_each_dialect_by_its_own_keys) {
    char *config = cluster_config_file(&s, (sidecar_t){.queues = ALL_DIALECTS});
    redis_ok(s.r, "LPUSH q:backup a b c");
    redis_ok(s.r, "LPUSH bull:video:wait 1 2");
    redis_ok(s.r, "LPUSH bull:video:active 3");
    redis_ok(s.r, "ZADD bull:video:delayed %lld 4", (redis_ms(s.r) + 3600000) * 4096);
    redis_ok(s.r, "LPUSH w1 a b");
    redis_ok(s.r, "LPUSH w2 c");
    redis_ok(s.r, "ZADD de_delayed_events %lld a.Check###1", redis_ms(s.r) + 60000);
    redis_ok(s.r, "LPUSH fight a b c d");
    answer_t answer = ask(config);
    expect_number(&answer, "/queues/0/in_progress", 3);
    expect_number(&answer, "/queues/1/ready", 2);
    expect_number(&answer, "/queues/1/in_progress", 1);
    expect_number(&answer, "/queues/1/delayed", 1);
    expect_number(&answer, "/queues/1/overdue_seconds", 0);
    expect_number(&answer, "/queues/2/ready", 3);
    expect_null(&answer, "/queues/2/delayed");
    expect_number(&answer, "/queues/3/delayed", 1);
    expect_null(&answer, "/queues/3/in_progress");
    expect_number(&answer, "/queues/4/ready", 4);
    redis_ok(s.r, "HSET bull:video:meta version bullmq:5");
    answer = ask(config);
    cr_assert(has(answer.run->out, "BullMQ"), "%s", answer.run->out);
}

Test(daemon_status, warns_of_kmqueue_names_in_another_order_as_check_does) {
    static const char queues[] =
        "{ name = \"mail\"; dialect = \"kmqueue\"; queues = [\"w2:safe\", \"w1\"]; roles = [\"monitor\"]; }";
    const sidecar_t spec = {.ttl = "3s", .queues = queues};
    cluster_sidecar_up(&s, spec);
    char *config = cluster_config_file(&s, spec);
    answer_t answer = ask(config);
    cr_assert(answer.run->code == 0 && found(&answer, "other_keys"), "%s", answer.run->out);
    cr_assert(has(daemon_run("check", "-c", config, "--redis")->err, "\nnote     queue \"mail\": its backup list "));
    redis_ok(s.r, "LPUSH w2 task");
    answer = ask(config);
    cr_assert(answer.run->code == 1 && found(&answer, "preflight"), "%s", answer.run->out);
    cr_assert(has(answer.run->out, "give `queues` all names of the manager, in the same order"), "%s", answer.run->out);
    const daemon_output_t *check = daemon_run("check", "-c", config, "--redis");
    cr_assert(check->code == 0 && has(check->err, "\nwarning  queue \"mail\": tasks wait, but the backup list "), "%s",
              check->err);
}

/* A worker of KMQueue dies in finishTask, between LREM and SREM (RedisTaskQueue.java): the task is done. */
Test(daemon_status, warns_of_unique_ids_without_a_task) {
    static const char queues[] = "{ name = \"mail\"; dialect = \"kmqueue\"; queues = [\"w1\", \"w2:safe\"]; backup = "
                                 "\"w:backup\"; roles = [\"monitor\"]; protected_timeout = \"200ms\"; }";
    static const char marker[] = "{\"id\":\"m\",\"queue\":\"w:backup\",\"taskStatus\":{\"excTimestamp\":0,\"genTimestamp\":1,"
                                 "\"retry\":0,\"state\":\"normal\"},\"type\":\"marker\",\"unique\":false}";
    const sidecar_t spec = {.ttl = "3s", .queues = queues};
    redis_ok(s.r, "LPUSH w:backup %s", marker);
    redis_ok(s.r, "SADD w2_unique task");
    cluster_sidecar_up(&s, spec);
    char *config = cluster_config_file(&s, spec);
    answer_t answer = ask_until(config, "stale_unique");
    cr_assert(answer.run->code == 1 && has(answer.run->out, "or it died after the task was done"), "%s", answer.run->out);
}

Test(daemon_status, a_key_of_the_wrong_type_is_named_and_spoils_no_other_queue) {
    static const char *const keys[] = {"q",
                                       "q:delayed",
                                       "q:backup",
                                       "sidecar:q:stamps",
                                       "sidecar:q:failures",
                                       "sidecar:q:meta",
                                       "sidecar:q:auditors",
                                       "sidecar:g:queues",
                                       "sidecar:g:lock"};
    static const char queues[] = "{ name = \"q\"; roles = [\"dispatcher\", \"monitor\"]; }, { name = \"p\"; }";
    char *config = cluster_config_file(&s, (sidecar_t){.queues = queues});
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        redis_ok(s.r, "FLUSHALL");
        redis_ok(s.r, "LPUSH p job");
        redis_ok(s.r, "XADD sidecar:p:failures * kind failed reason reported");
        redis_ok(s.r, i < 8 ? "SET %s text" : "SADD %s text", keys[i]);
        answer_t answer = ask(config);
        cr_assert_eq(answer.run->code, 1);
        cr_assert(has(answer.run->out, keys[i]), "%s: %s", keys[i], answer.run->out);
        cr_assert(found(&answer, "preflight") || found(&answer, "key_fault") || found(&answer, "lock_fault"), "%s",
                  answer.run->out);
        expect_number(&answer, "/queues/1/ready", 1);
        expect_number(&answer, "/queues/1/failed_last_hour", 1);
        if (has(keys[i], "failures")) expect_null(&answer, "/queues/0/failed_last_hour");
        cr_assert_eq(daemon_run("status", "-c", config)->code, 1);
    }
}

Test(daemon_status, a_thousand_queues_take_less_than_4_seconds) {
    enum { QUEUES = 1000, MAX_MS = 4000 }; /* it takes 100 to 300 ms on a quiet machine */
    char *queues = cluster_queues("", "queue-number-", QUEUES);
    redis_ok(s.r, "LPUSH queue-number-999 job");
    char *config = cluster_config_file(&s, (sidecar_t){.queues = queues});
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = "1m", .queues = queues});
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5 && best > MAX_MS; i++) {
        const daemon_output_t *run = daemon_run("status", "-c", config);
        cr_assert_eq(run->code, 0, "%s", run->out);
        cr_assert(has(run->out, "\nqueue-number-999 ") && has(run->out, "\n999 idle queues: queue-number-0, "), "%s", run->out);
        if (run->ms < best) best = run->ms;
    }
    cr_assert_leq(best, wait_scaled_ms(MAX_MS), "%lld ms", (long long)best);
    redis_ok(s.r, "DEL sidecar:g:queues");
    const daemon_output_t *unserved = daemon_run("status", "-c", config);
    cr_assert(has(unserved->out, "1,000 queues, the worst is \"queue-number-0\""), "%s", unserved->out);
    daemon_kill(d);
}

/* The head and the findings agree about the log. */
Test(daemon_status, an_unreadable_log_is_not_reported_as_absent) {
    char *config = cluster_config_file(&s, (sidecar_t){0});
    cr_assert(has(daemon_run("status", "-c", config)->out, "none.db does not exist\n"));
    char *below = kept_printf("%s/audit.db", config); /* the config is a file, not a directory */
    setenv("QUEUE_SIDECAR_AUDIT_PATH", below, 1);
    const daemon_output_t *run = daemon_run("status", "-c", config);
    cr_assert(has(run->out, "/audit.db cannot be read\n") && has(run->out, "the local audit log cannot be read: "), "%s",
              run->out);
}

#define BEATING(name, heartbeat) "{ name = \"" name "\"; roles = [\"monitor\"]; " heartbeat " }"

Test(daemon_status, warns_of_heartbeats_in_common_with_another_group_as_check_does) {
    daemon_t *others = cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .group = "shop", .queues = BEATING("orders", "")});
    daemon_t *ours = cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .queues = BEATING("email", "")});
    cr_assert(daemon_wait_log(ours, "with the queue orders of group shop", 10000), "the log tells nothing");
    char *config = cluster_config_file(&s, (sidecar_t){.queues = BEATING("email", "")});
    answer_t answer = ask(config);
    cr_assert(answer.run->code == 1 && has(answer.run->out, "\"code\":\"preflight\",\"queues\":[\"email\"]") &&
                  has(answer.run->out, "with the queue orders of group shop"),
              "%s", answer.run->out);
    const daemon_output_t *check = daemon_run("check", "-c", config, "--redis");
    cr_assert(check->code == 0 && has(check->err, "\nwarning  queue \"email\": it has heartbeats in common (\"*_alive\")"), "%s",
              check->err);
    char *theirs = cluster_config_file(&s, (sidecar_t){.group = "shop", .queues = BEATING("orders", "")});
    cr_assert(has(ask(theirs).run->out, "with the queue email of group g"));
    config = cluster_config_file(&s, (sidecar_t){.queues = BEATING("email", "heartbeat = \"email:*_alive\";")});
    cr_assert_eq(ask(config).run->code, 0);
    config = cluster_config_file(&s, (sidecar_t){.queues = BEATING("email", "")});
    cr_assert_eq(daemon_terminate(others, 5000).code, 0);
    cr_assert_eq(ask(config).run->code, 0, "a group without a leader is warned about");
}

Test(daemon_status, warns_of_heartbeats_in_common_within_a_config_as_check_does) {
    const sidecar_t spec = {.ttl = "3s", .queues = BEATING("email", "") ", " BEATING("orders", "")};
    daemon_t *d = cluster_sidecar_up(&s, spec);
    cr_assert_eq(daemon_log_count(d, "queues email and orders have heartbeats in common"), 1);
    char *config = cluster_config_file(&s, spec);
    answer_t answer = ask(config);
    cr_assert(answer.run->code == 1 && found(&answer, "heartbeat_shared") && !found(&answer, "preflight"), "%s", answer.run->out);
    const daemon_output_t *check = daemon_run("check", "-c", config);
    cr_assert(check->code == 0 && strncmp(check->err, "warning: ", 9) == 0 && has(check->err, "heartbeats in common"), "%s",
              check->err);
}

Test(daemon_status, exit_codes_of_misuse_bad_config_and_unreachable_redis) {
    char *config = cluster_config_file(&s, (sidecar_t){0});
    static const char *const misuse[][3] = {{"--nonsense"},     {"-o", "yaml"},   {"2s"},
                                            {"--watch", "1ms"}, {"--queue", "p"}, {"-w", "2h"}};
    for (size_t i = 0; i < sizeof(misuse) / sizeof(*misuse); i++) {
        const char *const args[] = {"status", "-c", config, misuse[i][0], misuse[i][1], NULL};
        const daemon_output_t *run = daemon_run_argv(NULL, args);
        cr_assert_eq(run->code, 2, "%s: %d %s", misuse[i][0], run->code, run->err);
        cr_assert_str_empty(run->out);
        cr_assert(has(run->err, "queue-sidecar status: "), "%s", run->err);
    }
    cr_assert_eq(daemon_run("status", "-c", "no/such/file.cfg")->code, 78);
    server_kill(s.server);
    answer_t answer = ask(config);
    cr_assert_eq(answer.run->code, 69, "%s", answer.run->out);
    cr_assert(found(&answer, "redis_unreachable") && has(answer.run->out, "\"reachable\":false"), "%s", answer.run->out);
    const daemon_output_t *table = daemon_run("status", "-c", config);
    cr_assert_eq(table->code, 69);
    cr_assert(has(table->out, "FAULT    Redis at "), "%s", table->out);
}
