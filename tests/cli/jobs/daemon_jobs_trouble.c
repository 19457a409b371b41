/* `queue-sidecar jobs` when it is killed, interrupted, refused or misused, and where Redis is a Cluster or has a replica. */
#include "jobs_fixture.h"
#include "redis_cluster.h"
#include "replica.h"
#include "rights.h"

#include <criterion/parameterized.h>
#include <signal.h>

SUITE_WITHIN(120, daemon_jobs_trouble, s = cluster_begin(&(server_options_t){.tcp = true}), cluster_end(&s));

static const char *const points[] = {"jobs_before:3", "jobs_sent", "jobs_answered:5"};
static const char *const verbs[] = {"run", "cancel"};
struct death {
    size_t point, verb;
};
static struct death deaths[] = {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}};

ParameterizedTestParameters(daemon_jobs_trouble, a_killed_command_leaves_each_job_once_and_can_be_rerun) {
    return cr_make_param_array(struct death, deaths, 6);
}

ParameterizedTest(struct death *death, daemon_jobs_trouble, a_killed_command_leaves_each_job_once_and_can_be_rerun) {
    enum { JOBS = 500 };
    const char *verb = verbs[death->verb];
    delay(JOBS, LATER);
    const daemon_output_t *out = jobs_crash(points[death->point], verb, "q", "--where", "--grep", "j", "-y");
    cr_assert_eq(out->code, 137, "%s", out->err);
    cr_expect_eq(not_once(JOBS), 0, "after %s", points[death->point]);
    out = jobs(verb, "q", "--where", "--grep", "j", "-y", "-o", "json");
    cr_expect_eq(out->code, 0, "%s", out->err);
    cr_expect_eq(not_once(JOBS), 0);
    if (death->verb) cr_expect(records() == JOBS && delayed() == 0);
    sidecar();
    await(death->verb || ready() == JOBS);
    cr_expect_eq(not_once(JOBS), 0);
}

Test(daemon_jobs_trouble, a_dry_run_and_a_missing_yes_change_nothing) {
    delay(30, LATER);
    char *before =
        redis_str(s.r, "EVAL %s 1 q:delayed", "return table.concat(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), ' ')");
    for (int i = 0; i < 2; i++) {
        const daemon_output_t *dry = jobs(verbs[i], "q", "--where", "--type", "odd", "--dry-run", "-o", "json");
        cr_expect(dry->code == 0 && number_of(dry, "would") == 15, "%s%s", dry->out, dry->err);
        const daemon_output_t *asks = jobs(verbs[i], "q", "--where", "--type", "odd");
        cr_expect(asks->code == 2 && has(asks->err, "15 delayed jobs of q, due from "), "%s", asks->err);
        cr_expect(has(asks->err, "add --yes, or try --dry-run first"), "%s", asks->err);
    }
    redis_expect(s.r, before, "EVAL %s 1 q:delayed",
                 "return table.concat(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), ' ')");
    cr_expect_eq(records(), 0);
}

Test(daemon_jobs_trouble, a_full_stream_ends_nothing) {
    delay(5, LATER);
    redis_ok(s.r, "XADD sidecar:q:failures 1-1 a b");
    redis_ok(s.r, "HSET sidecar:q:meta bytes 999999999999 entries 1");
    const daemon_output_t *out = jobs("cancel", "q", "--where", "--grep", "j", "-y");
    cr_expect(out->code == 1 && has(out->err, "stopped: the failure stream is full"), "%s", out->err);
    cr_expect_eq(delayed(), 5);
}

Test(daemon_jobs_trouble, wrong_words_are_named_and_nothing_is_done) {
    static const struct {
        const char *words[8], *text;
    } cases[] = {
        {{NULL}, "specify a subcommand: list, run, cancel\n"},
        {{"list", NULL}, "specify a queue of the config"},
        {{"list", "--since", "soon", NULL}, "`soon`\n"},
        {{"list", "p", NULL}, "no queue `p`"},
        {{"list", "q", "--state", "redy", NULL}, "did you mean `ready`?"},
        {{"list", "q", "--state", "ready", "--since", "1h", NULL}, "--since and --until select delayed jobs"},
        {{"list", "q", "--state", "in-progress", "--until", "2030-01-01", NULL}, "--since and --until select delayed jobs"},
        {{"cancel", "q", NULL}, "specify IDs, or --where with a filter"},
        {{"cancel", "q", "--where", "-y", NULL}, "--where needs a filter"},
        {{"cancel", "q", "j1", "--grep", "j", NULL}, "not both"},
        {{"cancel", "q", "--grep", "j", NULL}, "add --where"},
        {{"cancel", "q", "j1", "--by", "", NULL}, "--by takes 1 to 128 bytes"},
        {{"run", "q", "j1", "--rate", "0/s", NULL}, "--rate takes"},
        {{"rnu", "q", NULL}, "unknown subcommand"},
    };
    delay(3, LATER);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const daemon_output_t *out = run_words(config(), NULL, cases[i].words);
        cr_expect(out->code == 2 && has(out->err, cases[i].text), "%s: %s", cases[i].text, out->err);
    }
    cr_expect_eq(delayed(), 3);
}

Test(daemon_jobs_trouble, list_tells_nothing_from_no_match) {
    cr_expect(has(jobs_with(config(), "list", "q")->err, "queue `q` has no jobs that are delayed\n"));
    delay(1, LATER);
    cr_expect(has(jobs_with(config(), "list", "q", "--type", "x")->err, "no jobs of queue `q` that are delayed match\n"));
}

Test(daemon_jobs_trouble, list_ends_without_a_message_when_nobody_reads) {
    char *errors = temp_path(temp_root(), "errors");
    delay(5000, LATER);
    char *command = kept_printf("%s jobs list q -c %s -o jsonl 2>%s | true", daemon_program(), config(), errors);
    cr_assert_eq(system(command), 0);
    cr_expect_str_empty(temp_read(errors));
}

Test(daemon_jobs_trouble, other_dialects_are_only_shown) {
    char *path = cluster_config_file(
        &s, (sidecar_t){.queues = "{ name = \"q\"; dialect = \"bull\"; bull_queue = \"video\"; }, { name = \"k\"; dialect = "
                                  "\"kmqueue\"; roles = [\"monitor\"]; queues = [\"w:safe\"]; }"});
    redis_ok(s.r, "ZADD bull:video:delayed 5 1");
    cr_expect(has(jobs_with(path, "list", "q", "-o", "jsonl")->out, "\"job_id\":\"1\""));
    const daemon_output_t *out = jobs_with(path, "cancel", "q", "1");
    cr_expect(out->code == 2 && has(out->err, "of dialect bull are only shown: its jobs belong to Bull"), "%s", out->err);
    cr_expect_eq(redis_int(s.r, "ZCARD bull:video:delayed"), 1);
    cr_expect(has(jobs_with(path, "list", "k")->err, "queue `k` has no jobs that are delayed"));
}

enum { ATTEMPTS = 5 }; /* a replica on a busy machine may need more than the second that the command waits */

Test(daemon_jobs_trouble, cancel_says_when_no_replica_has_confirmed) {
    static const char *const ids[] = {"j0", "j1", "j2", "j3", "j4", "j5"};
    delay(1 + ATTEMPTS, LATER);
    scoped(server_drop) server_t *replica = replica_start(s.server, NULL);
    const daemon_output_t *done;
    int cancelled = 0;
    do done = jobs("cancel", "q", ids[cancelled++]);
    while (has(done->err, "replica") && cancelled < ATTEMPTS);
    cr_expect(!has(done->err, "replica"), "%s", done->err);
    server_freeze(replica);
    done = jobs("cancel", "q", ids[cancelled]);
    cr_expect(has(done->err, "no replica has confirmed this within 1 s"), "%s", done->err);
}

Test(daemon_jobs_trouble, the_published_rights_are_enough_and_a_missing_one_changes_nothing) {
    char *path = cluster_config_file(&s, (sidecar_t){.redis = RIGHTS_LOGIN, .queues = "{ name = \"email\"; }"});
    rights_t rights = rights_read(NULL), own = rights_read_behind("This is for `jobs run` and `jobs cancel`");
    redis_ok(s.r, "ZADD email:delayed 4000000000000 j0 4000000000001 j1");
    rights_grant(s.r, &rights, NULL);
    cr_expect_eq(jobs_with(path, "list", "email")->code, 0);
    for (size_t i = 0; i < 2; i++) {
        const daemon_output_t *out = jobs_with(path, verbs[i], "email", "--where", "--grep", "j0", "-y");
        cr_expect(out->code == 1 && has(out->err, "NOPERM the user ") && has(out->err, "(ZSCORE on the key email:delayed)"),
                  "%s%s", out->out, out->err);
    }
    redis_expect(s.r, "4000000000000", "ZSCORE email:delayed j0");
    cr_expect_eq(redis_int(s.r, "XLEN sidecar:email:failures"), 0);
    for (size_t i = 0; i < own.count; i++) rights.words[rights.count++] = own.words[i];
    rights_grant(s.r, &rights, NULL);
    for (size_t i = 0; i < 2; i++) {
        const daemon_output_t *out = jobs_with(path, verbs[i], "email", "--where", "--grep", i ? "j1" : "j0", "-y");
        cr_expect_eq(out->code, 0, "%s%s", out->out, out->err);
    }
    cr_expect_eq(rights_refused(s.r), 0);
    rights_free(&rights);
    rights_free(&own);
}

Test(daemon_jobs_trouble, in_a_cluster_each_queue_is_asked_at_its_primary, .timeout = 180) {
    nodes_t nodes = nodes_start(3, 0);
    static const char *const names[] = {"{a}", "{b}", "{c}", "{d}"};
    char *dir = temp_dir("cluster"), *path = temp_path(dir, "c.cfg");
    temp_write(
        path,
        kept_printf("group = \"g\"; redis = { nodes = [ %s ]; }; audit = { path = \"%s/a.db\"; }; http = { port = 0; }; queues = "
                    "( { name = \"{a}\"; }, { name = \"{b}\"; }, { name = \"{c}\"; }, { name = \"{d}\"; } );",
                    nodes_seeds(&nodes), dir));
    for (size_t i = 0; i < 4; i++) {
        redis_t *r = nodes_open(&nodes, names[i]);
        redis_ok(r, "ZADD %s:delayed 4000000000000 job 4000000000001 other", names[i]);
        const daemon_output_t *list = jobs_with(path, "list", names[i], "-o", "jsonl");
        cr_expect(list->code == 0 && has(list->out, "\"payload\":\"other\""), "%s%s", list->out, list->err);
        const daemon_output_t *done = jobs_with(path, "cancel", names[i], "--where", "--grep", "job", "-y");
        cr_expect_eq(done->code, 0, "%s%s", done->out, done->err);
        done = jobs_with(path, "run", names[i], "--where", "--grep", "other", "-y");
        cr_expect_eq(done->code, 0, "%s%s", done->out, done->err);
        cr_expect_eq(redis_int(r, "ZCARD %s:delayed", names[i]), 1);
        cr_expect_eq(redis_int(r, "ZCOUNT %s:delayed -inf 3999999999999", names[i]), 1);
        cr_expect_eq(redis_int(r, "XLEN sidecar:%s:failures", names[i]), 1);
        redis_close(r);
    }
    nodes_free(&nodes);
}

Test(daemon_jobs_trouble, a_lost_reply_is_told_and_a_rerun_does_the_rest) {
    delay(30, LATER);
    char *path = cluster_config_file(&s, (sidecar_t){.redis = "timeout = \"500ms\";", .queues = QUEUE}), *dir = temp_dir("jobs"),
         *out = temp_path(dir, "out");
    const char *argv[] = {daemon_program(), "jobs", "cancel", "q",    "--where", "--grep", "j", "-y",
                          "--rate",         "20/s", "-o",     "json", "-c",      path,     NULL};
    child_t *child = child_start(&(child_spec_t){.argv = argv, .out = out});
    await(records() >= 3);
    server_freeze(s.server);
    cr_assert(child_wait(child, MS));
    cr_expect_eq(child->exit_code, 69);
    char *text = temp_read(out);
    cr_expect(has(text, "\"unknown\":1,"), "%s", text);
    server_thaw(s.server);
    cr_expect_eq(not_once(30), 0);
    cr_expect_eq(jobs("cancel", "q", "--where", "--grep", "j", "-y")->code, 0);
    cr_expect(not_once(30) == 0 && records() == 30 && delayed() == 0);
    child_free(child);
}

Test(daemon_jobs_trouble, ctrl_c_stops_and_a_rerun_does_the_rest) {
    delay(200, LATER);
    const char *argv[] = {daemon_program(), "jobs", "cancel", "q",    "--where", "--grep", "j", "-y",
                          "--rate",         "50/s", "-o",     "json", "-c",      config(), NULL};
    char *dir = temp_dir("jobs"), *out = temp_path(dir, "out");
    child_t *child = child_start(&(child_spec_t){.argv = argv, .out = out});
    await(records() >= 3);
    child_signal(child, SIGINT);
    cr_assert(child_wait(child, MS));
    cr_expect_eq(child->exit_code, 130);
    char *text = temp_read(out);
    cr_expect(has(text, kept_printf("\"done\":%lld,", records())), "%s", text);
    cr_expect(records() < 200 && not_once(200) == 0);
    cr_expect_eq(jobs("cancel", "q", "--where", "--grep", "j", "-y")->code, 0);
    cr_expect(not_once(200) == 0 && records() == 200);
    child_free(child);
}

Test(daemon_jobs_trouble, without_redis_the_exit_code_says_so) {
    delay(3, LATER);
    const char *path = config();
    server_kill(s.server);
    for (size_t i = 0; i < 2; i++) {
        const daemon_output_t *out = jobs_with(path, verbs[i], "q", "j1");
        cr_expect_eq(out->code, 69, "%s", out->err);
    }
    cr_expect_eq(jobs_with(path, "list", "q")->code, 69);
    server_restart(s.server, SERVER_LOSE_DATA);
}
