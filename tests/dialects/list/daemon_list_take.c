/* take = "left": workers take jobs from the left end of ready (BLPOP, LPOP, BLMOVE ... LEFT), and producers push at the right
 * end. Jobs come to such workers in the order in which they come to workers that take from the right. */
#include "audit_log.h"
#include "cluster.h"
#include "daemon.h"
#include "kept.h"
#include "text.h"

#include <criterion/parameterized.h>
#include <signal.h>

enum { MS = 30000 };
#define LEFT(more)  "{ name = \"q\"; take = \"left\"; heartbeat = \"off\"; " more " }"
#define RIGHT(more) "{ name = \"p\"; heartbeat = \"off\"; " more " }"

static cluster_t s;
SUITE_WITHIN(120, daemon_list_take, s = cluster_begin(NULL), cluster_end(&s));

#define await(cond)                                                                                                              \
    do {                                                                                                                         \
        if (!wait_for(cond, MS)) cluster_fail(&s, "never came: " #cond);                                                         \
    } while (0)

static daemon_t *sidecar(const char *queues) {
    return cluster_sidecar_up(&s, (sidecar_t){.queues = queues, .scan = "50ms", .all_roles = true});
}

/* Takes the jobs of a queue from the left, and checks that they are these words, in this order. */
static void expect_taken(const char *queue, const char *words) {
    char *rest = kept_printf("%s", words);
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        redisReply *reply = redis_do(s.r, "BLPOP %s 0.01", queue);
        cr_assert(reply->type == REDIS_REPLY_ARRAY, "nothing is left in place of %s", word);
        cr_assert_str_eq(reply->element[1]->str, word, "%s came, not %s", reply->element[1]->str, word);
    }
    cr_assert_eq(redis_int(s.r, "EXISTS %s", queue), 0);
}

/* A worker takes the next job of q by the command that `check` prints. */
static void take(const char *expected) { redis_expect(s.r, expected, "BLMOVE q q:backup LEFT LEFT 1"); }

Test(daemon_list_take, due_jobs_come_behind_those_that_wait_the_oldest_first) {
    redis_ok(s.r, "RPUSH q waits1 waits2");
    redis_ok(s.r, "ZADD q:delayed 3 c 1 a 2 b");
    sidecar(LEFT(""));
    await(redis_int(s.r, "EXISTS q:delayed") == 0);
    expect_taken("q", "waits1 waits2 a b c");
}

Test(daemon_list_take, a_job_that_is_made_due_comes_behind_those_that_wait) {
    daemon_t *d = sidecar(LEFT("id_path = \"/id\";"));
    redis_ok(s.r, "RPUSH q waits");
    cluster_delay(s.r, "q", "{\"id\":\"j1\"}", 3600000);
    const daemon_output_t *out = daemon_run("jobs", "run", "q", "j1", "-c", daemon_config_path(d));
    cr_assert_eq(out->code, 0, "%s", out->err);
    await(redis_int(s.r, "EXISTS q:delayed") == 0);
    expect_taken("q", "waits {\"id\":\"j1\"}");
}

Test(daemon_list_take, a_stalled_job_is_the_next_one) {
    redis_ok(s.r, "RPUSH q first second third");
    take("first");
    sidecar(LEFT("protected_timeout = \"100ms\";"));
    await(redis_int(s.r, "LLEN q") == 3);
    expect_taken("q", "first second third");
}

Test(daemon_list_take, a_reported_job_is_the_next_one) {
    sidecar(LEFT("protected_timeout = \"1h\";"));
    redis_ok(s.r, "RPUSH q first second third");
    take("first");
    redis_ok(s.r, "HSET q:errors first text");
    await(redis_int(s.r, "LLEN q") == 3);
    expect_taken("q", "first second third");
}

/* The retry waits in delayed, and then comes like every delayed job. */
Test(daemon_list_take, a_retry_with_a_backoff_comes_behind_those_that_wait) {
    sidecar(LEFT("protected_timeout = \"1h\"; retry_backoff = \"fixed\"; retry_delay = \"50ms\"; retry_jitter = 0.0;"));
    redis_ok(s.r, "RPUSH q first second third");
    take("first");
    redis_ok(s.r, "HSET q:errors first text");
    await(redis_int(s.r, "LLEN q") == 3);
    expect_taken("q", "second third first");
}

/* Scans rotate backup, or read it in place, while workers take by BLMOVE ... LEFT LEFT and die with every third job. */
ParameterizedTestParameters(daemon_list_take, jobs_of_dead_workers_come_back) {
    static int rotations[] = {1000, 0};
    return cr_make_param_array(int, rotations, 2);
}

ParameterizedTest(int *rotation, daemon_list_take, jobs_of_dead_workers_come_back) {
    enum { JOBS = 300 };
    cluster_sidecar_up(&s, (sidecar_t){.queues = LEFT("protected_timeout = \"200ms\"; retry_times = 1000;"),
                                       .scan = "50ms",
                                       .monitor = kept_printf("rotation = %d;", *rotation),
                                       .all_roles = true});
    for (int i = 0; i < JOBS; i++) redis_ok(s.r, "RPUSH q job%d", i);
    int taken = 0;
    while (redis_int(s.r, "SCARD done") < JOBS) {
        char *job = redis_str(s.r, "BLMOVE q q:backup LEFT LEFT 10");
        cr_assert_not_null(job, "%lld jobs are done", redis_int(s.r, "SCARD done"));
        if (++taken % 3 == 0) continue; /* the worker dies */
        redis_ok(s.r, "LREM q:backup 1 %s", job);
        redis_ok(s.r, "SADD done %s", job);
    }
    cr_assert_geq(taken, JOBS + JOBS / 3);
}

static const daemon_output_t *requeue(const daemon_t *d, const char *queue, const char *to) {
    const daemon_output_t *out = daemon_run("audit", "requeue", "-c", daemon_config_path(d), "--db", daemon_audit_path(d),
                                            "--where", "-q", queue, "--yes", "--to", to);
    cr_assert_eq(out->code, 0, "%s%s", out->out, out->err);
    return out;
}

/* Each requeue goes behind all that wait in the queue that gets the job. */
ParameterizedTestParameters(daemon_list_take, a_requeued_job_comes_last) {
    static int ways[] = {0, 1, 2, 3};
    return cr_make_param_array(int, ways, 4);
}

ParameterizedTest(int *way, daemon_list_take, a_requeued_job_comes_last) {
    const char *from = *way & 1 ? "q" : "p", *to = *way & 2 ? "q" : "p";
    daemon_t *d = sidecar(LEFT("protected_timeout = \"1h\";") ", " RIGHT("protected_timeout = \"1h\";"));
    redis_ok(s.r, "LPUSH %s:backup bad", from);
    redis_ok(s.r, "HSET %s:errors bad !broken", from);
    await(audit_log_rows(daemon_audit_path(d)) == 1);
    redis_ok(s.r, "RPUSH q next later");
    redis_ok(s.r, "LPUSH p next later");
    requeue(d, from, to);
    if (*to == 'q') expect_taken("q", "next later bad");
    if (*to == 'q') return;
    static const char *const order[] = {"next", "later", "bad", NULL};
    for (size_t i = 0; i < 4; i++) redis_expect(s.r, order[i], "RPOP p");
}

Test(daemon_list_take, the_next_job_is_listed_first) {
    const char *config = cluster_config_file(&s, (sidecar_t){.queues = LEFT("id_path = \"/id\";"), .all_roles = true});
    redis_ok(s.r, "RPUSH q {\"id\":\"next\"} {\"id\":\"later\"}");
    const daemon_output_t *out = daemon_run("jobs", "list", "q", "--state", "ready", "-n", "1", "-c", config);
    cr_assert_eq(out->code, 0, "%s", out->err);
    cr_assert(has(out->out, "next") && !has(out->out, "later"), "%s", out->out);
}

/* Workers and sidecars change sides without a restart of the sidecar. */
Test(daemon_list_take, a_reload_changes_the_side) {
    daemon_t *d = sidecar("{ name = \"q\"; heartbeat = \"off\"; }");
    redis_ok(s.r, "RPUSH q waits");
    redis_ok(s.r, "ZADD q:delayed 1 right");
    await(redis_int(s.r, "LLEN q") == 2);
    redis_expect(s.r, "right", "LINDEX q 0");
    cluster_reconfigure(&s, d, (sidecar_t){.queues = LEFT("protected_timeout = \"1h\";"), .scan = "50ms", .all_roles = true});
    await(cluster_says(d, "new configuration", "q: take \\\"right\\\" -> \\\"left\\\""));
    await(daemon_log_count(d, "new configuration in effect") == 1);
    redis_ok(s.r, "ZADD q:delayed 1 left");
    await(redis_int(s.r, "LLEN q") == 3);
    redis_expect(s.r, "left", "LINDEX q -1");
    take("right");
    redis_ok(s.r, "HSET q:errors right text");
    await(redis_int(s.r, "LLEN q") == 3);
    expect_taken("q", "right waits left");
}

Test(daemon_list_take, check_prints_the_commands_of_workers) {
    static const struct {
        const char *queue, *line;
    } rows[] = {
        {RIGHT(""),
         "# workers take a job: BLMOVE \"p\" \"p:backup\" RIGHT LEFT 1; and when it is done: LREM \"p:backup\" 1 JOB\n"},
        {LEFT(""), "# workers take a job: BLMOVE \"q\" \"q:backup\" LEFT LEFT 1; and when it is done: LREM \"q:backup\" 1 JOB\n"},
        {LEFT("roles = [\"dispatcher\"];"), NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *config = cluster_config_file(&s, (sidecar_t){.queues = rows[i].queue, .all_roles = true});
        const daemon_output_t *out = daemon_run("check", "-c", config);
        cr_assert_eq(out->code, 0, "%s", out->err);
        cr_expect(rows[i].line ? has(out->out, rows[i].line) : !has(out->out, "workers take"), "%s", out->out);
    }
}

/* Without the right to RPUSH no due job could be moved. */
Test(daemon_list_take, check_names_the_right_that_the_left_needs) {
    redis_ok(s.r, "ACL SETUSER default -rpush");
    for (int left = 0; left < 2; left++) {
        const char *queue = left ? LEFT("roles = [\"dispatcher\"];") : RIGHT("roles = [\"dispatcher\"];");
        const daemon_output_t *out =
            daemon_run("check", "--redis", "-c", cluster_config_file(&s, (sidecar_t){.queues = queue, .all_roles = true}));
        cr_expect_eq(has(out->err, "queue \"q\": Redis refuses commands that dialect list needs (see docs/acl.md): script "
                                   "promote: RPUSH: "),
                     left, "%s", out->err);
    }
    redis_ok(s.r, "ACL SETUSER default +rpush");
}
