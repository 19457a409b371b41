/* Commands while the file on disk is refused: they go on with the config that the running instance has in effect. */
#include "audit_case.h"
#include "cli/audit/requeue_fixture.h"
#include "http/http_fixture.h"

#include <sys/stat.h>

static cluster_t s;
SUITE(daemon_refused_config, s = cluster_begin(NULL), cluster_end(&s));

static const char TORN[] = "queues = (";

static char *copy_of(const daemon_t *d) { return kept_printf("%s.in-effect.cfg", daemon_audit_path(d)); }

/* Starts a sidecar whose file names its audit log, and waits for the copy of its config, and until the log has so many failures.
 */
static daemon_t *recording(sidecar_t spec, int failures) {
    daemon_t *d = cluster_sidecar_up(&s, spec);
    spec.more = kept_printf("%saudit = { path = \"%s\"; };\n", spec.more ? spec.more : "", daemon_audit_path(d));
    cluster_reconfigure(&s, d, spec);
    cr_assert(daemon_wait_log(d, "\"configuration unchanged\"", 10000), "%s", daemon_log(d));
    feed(s.r, 0, failures);
    await(&s, audit_log_rows(daemon_audit_path(d)) == failures && access(copy_of(d), F_OK) == 0, COPY_MS);
    return d;
}

/* Breaks the file of a sidecar, but not its syntax. */
static void spoil(const daemon_t *d) {
    char *path = kept_printf("%s", daemon_config_path(d)), *text = temp_read(path);
    temp_write(path, kept_printf("%snonsense = 1;\nrubbish = 2;\n", text));
    free(text);
}

/* Runs a command in an environment that names the log. */
static const daemon_output_t *run_with(const char *variable, const char *value, const char *const *args) {
    char *setting = kept_printf("%s=%s", variable, value);
    return daemon_run_argv(&(daemon_options_t){.env = (const char *const[]){setting, NULL}}, args);
}
#define run_with_log(d, ...) run_with("QUEUE_SIDECAR_AUDIT_PATH", daemon_audit_path(d), (const char *const[]){__VA_ARGS__, NULL})

/* One warning: the first fault with its place, how many follow, and which config is used instead. */
static void expect_warning(const daemon_t *d, const daemon_output_t *run, const char *place, const char *more) {
    char *start = kept_printf("warning: %s%s", daemon_config_path(d), place),
         *use = kept_printf("; using the config in effect since 2"), *copy = kept_printf(", from %s\n", copy_of(d));
    cr_assert(strncmp(run->err, start, strlen(start)) == 0, "\"%s\" does not begin with \"%s\"", run->err, start);
    cr_assert(has(run->err, use) && has(run->err, copy), "%s", run->err);
    cr_assert_eq(has(run->err, "more: see `queue-sidecar check`"), more != NULL, "%s", run->err);
    cr_assert(!more || has(run->err, more), "%s", run->err);
    cr_assert_null(strstr(strchr(run->err, '\n') + 1, "warning:"), "one warning: %s", run->err);
}

Test(daemon_refused_config, commands_go_on_with_the_config_in_effect, .timeout = 60) {
    daemon_t *d = recording((sidecar_t){.queues = QUEUE}, 3);
    const char *path = daemon_config_path(d);
    spoil(d);
    const daemon_output_t *check = daemon_run("check", "-c", path), *run = daemon_run("run", "-c", path);
    cr_assert(check->code == 78 && has(check->err, "nonsense") && has(check->err, "rubbish"), "%d: %s", check->code, check->err);
    cr_assert_eq(run->code, 78);
    run = daemon_run("audit", "list", "-c", path, "-o", "csv");
    cr_assert(run->code == 0 && has(run->out, "job 2"), "%d: %s%s", run->code, run->out, run->err);
    expect_warning(d, run, ":", " (and 1 more: ");
    run = daemon_run("status", "-c", path, "-o", "json");
    cr_assert(run->code == 0 && has(run->out, "\"name\":\"q\"") && has(run->out, "\"readable\":true"), "%d: %s%s", run->code,
              run->out, run->err);
    expect_warning(d, run, ":", " (and 1 more: ");
    char *ref = kept(ref_of(d, "job 1"));
    run = daemon_run("audit", "requeue", ref, "-c", path);
    cr_assert(run->code == 0 && has(run->out, "put back into q"), "%d: %s%s", run->code, run->out, run->err);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 1);
    await(&s, answers(d, 1), COPY_MS);
    cr_assert_eq(daemon_run("audit", "discard", "--where", "-q", "q", "--yes", "-c", path)->code, 0);
    cr_assert_eq(daemon_run("audit", "requeue", "aaaa", "-c", path)->code, 1, "as with a good config");
    run = daemon_run("status", "-q", "other", "-c", path);
    cr_assert(run->code == 2 && has(run->err, kept_printf("no queue `other` in %s\n", path)), "%d: %s", run->code, run->err);
}

/* A fault of syntax hides all values of the file. */
Test(daemon_refused_config, a_torn_file_needs_the_path_of_the_log, .timeout = 60) {
    int port;
    daemon_t *d = serving(&s, (sidecar_t){.queues = QUEUE}, &port);
    await_says(d, port, "/readyz", "\"state\": \"leading\"");
    const char *path = daemon_config_path(d);
    feed(s.r, 0, 1);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1 && access(copy_of(d), F_OK) == 0, COPY_MS);
    temp_write(path, TORN);
    const daemon_output_t *run = run_with_log(d, "audit", "list", "-c", path);
    cr_assert(run->code == 0 && has(run->out, "reported"), "%d: %s%s", run->code, run->out, run->err);
    expect_warning(d, run, ":1: ", NULL);
    run = run_with_log(d, "status", "-c", path, "-o", "json");
    cr_assert(run->code == 0 && has(run->out, "\"ready\":true"), "%d: %s%s", run->code, run->out, run->err);
    cr_assert_eq(run_with_log(d, "healthcheck", "--ready", "-c", path)->code, 0, "the copy has the port");
    char *ref = kept(ref_of(d, "job 0"));
    run = daemon_run("audit", "requeue", ref, "-c", path, "--db", daemon_audit_path(d));
    cr_assert(run->code == 0, "%d: %s%s", run->code, run->out, run->err);
    run = daemon_run("audit", "list", "-c", path);
    cr_assert(run->code == 78 && has(run->err, ":1: ") && has(run->err, "--db PATH"), "%d: %s", run->code, run->err);
    cr_assert_eq(unlink(path), 0);
    run = run_with_log(d, "audit", "list", "-c", path);
    cr_assert(run->code == 0 && has(run->err, "using the config in effect since"), "%d: %s", run->code, run->err);
}

/* Nothing in a torn file names the log: one that is guessed, or given by --db, may be of an earlier life of this file. */
Test(daemon_refused_config, a_copy_beside_a_guessed_log_counts_while_an_instance_holds_the_log, .timeout = 60) {
    daemon_t *d = recording((sidecar_t){.queues = QUEUE}, 1);
    const char *path = daemon_config_path(d), *log = daemon_audit_path(d);
    char *ref = kept(ref_of(d, "job 0"));
    temp_write(path, TORN);
    const daemon_output_t *run = daemon_run("audit", "requeue", ref, "--dry-run", "-c", path, "--db", log);
    cr_assert(run->code == 0 && has(run->err, "; using the config in effect since 2"), "%d: %s", run->code, run->err);
    daemon_kill(d);
    run = daemon_run("audit", "requeue", ref, "-c", path, "--db", log);
    cr_assert(run->code == 78 && has(run->err, ":1: ") && !has(run->err, "in effect"), "%d: %s", run->code, run->err);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 0);
    run = run_with_log(d, "audit", "requeue", ref, "--dry-run", "-c", path);
    cr_assert(run->code == 0 && has(run->err, "; no instance runs with it: using the last config in effect, since 2"), "%d: %s",
              run->code, run->err);
}

Test(daemon_refused_config, an_accepted_reload_renews_the_copy, .timeout = 60) {
    sidecar_t spec = {.queues = QUEUE};
    daemon_t *d = recording(spec, 0);
    const char *path = daemon_config_path(d);
    spec.queues = QUEUE ", { name = \"new\"; }";
    cluster_reconfigure(&s, d, spec);
    cr_assert(daemon_wait_log(d, "\"new configuration in effect\"", 10000), "%s", daemon_log(d));
    char *text = NULL;
    cr_assert(wait_for((free(text), text = temp_read(copy_of(d)), has(text, "\"new\"")), 10000), "%s", text);
    free(text);
    spec.queues = QUEUE ", { name = \"newer\"; colour = 1; }";
    cluster_reconfigure(&s, d, spec);
    cr_assert(daemon_wait_log(d, "colour", 10000), "%s", daemon_log(d));
    const daemon_output_t *run = run_with_log(d, "status", "-c", path, "-o", "json");
    cr_assert(has(run->out, "\"name\":\"new\"") && !has(run->out, "newer"), "%s%s", run->out, run->err);
    daemon_kill(d);
    run = run_with_log(d, "audit", "list", "-c", path);
    cr_assert(run->code == 0, "without a running instance too: %s", run->err);
}

/* The copy has no passwords: they come from the refused file, the environment, or the file that the copy names. */
Test(daemon_refused_config, passwords_are_not_in_the_copy, .timeout = 60) {
    redis_ok(s.r, "ACL SETUSER sidecar on ~* &* +@all >hunter2");
    daemon_t *d = recording((sidecar_t){.queues = QUEUE, .redis = "username = \"sidecar\"; password = \"hunter2\";"}, 0);
    const char *path = daemon_config_path(d);
    struct stat at;
    cr_assert_eq(stat(copy_of(d), &at), 0);
    cr_assert_eq(at.st_mode & 07777, 0600);
    char *text = temp_read(copy_of(d));
    cr_assert(has(text, "\"sidecar\"") && !has(text, "hunter2"), "%s", text);
    free(text);
    spoil(d);
    const daemon_output_t *run = daemon_run("status", "-c", path, "-o", "json");
    cr_assert(run->code == 0 && !has(run->err, "password"), "%d: %s%s", run->code, run->out, run->err);
    temp_write(path, TORN);
    run = run_with_log(d, "status", "-c", path, "-o", "json");
    cr_assert(run->code == 1 && has(run->out, "\"reachable\":false"), "%d: %s%s", run->code, run->out, run->err);
    cr_assert(has(run->err, ", which holds no passwords: set QUEUE_SIDECAR_REDIS_PASSWORD\n"), "%s", run->err);
    char *log = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(d));
    const daemon_options_t options = {.env = (const char *const[]){log, "QUEUE_SIDECAR_REDIS_PASSWORD=hunter2", NULL}};
    run = daemon_run_argv(&options, (const char *const[]){"status", "-c", path, NULL});
    cr_assert(run->code == 0 && !has(run->err, "QUEUE_SIDECAR_REDIS_PASSWORD"), "%d: %s%s", run->code, run->out, run->err);
}

/* It does not write the log, so it has nothing in effect that belongs beside it. */
Test(daemon_refused_config, an_instance_that_waits_for_the_log_leaves_the_copy_alone, .timeout = 60) {
    daemon_t *d = recording((sidecar_t){.queues = QUEUE}, 0);
    char *setting = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(d)),
         *config = cluster_config(&s, (sidecar_t){.group = "another"});
    const daemon_options_t options = {.env = (const char *const[]){setting, NULL}};
    daemon_t *other = daemon_start_with(&options, "%s", config);
    cr_assert(daemon_wait_log(other, "cannot write audit log", 10000), "%s", daemon_log(other));
    daemon_stop(other);
    char *text = temp_read(copy_of(d));
    cr_assert(has(text, daemon_config_path(d)) && !has(text, "another"), "%s", text);
    free(text);
}

/* The log is one of a later version and cannot be opened, but the config is in effect. */
Test(daemon_refused_config, a_copy_that_cannot_be_written_is_reported_and_tried_again, .timeout = 60) {
    char *path = audit_case_path(), *setting = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", path),
         *config = cluster_config(&s, (sidecar_t){0}), *copy = kept_printf("%s.in-effect.cfg", path);
    audit_close(audit_case_open(path, AUDIT_WRITE));
    audit_case_sql(path, "PRAGMA user_version = 999");
    cr_assert_eq(mkdir(copy, 0700), 0);
    const daemon_options_t options = {.env = (const char *const[]){setting, NULL}};
    daemon_t *d = daemon_start_with(&options, "%s", config);
    cr_assert(daemon_wait_log(d, "cannot keep a copy of the configuration", 10000), "%s", daemon_log(d));
    cr_assert_eq(rmdir(copy), 0);
    cr_assert(wait_for(access(copy, F_OK) == 0, 20000), "the log still cannot be opened: %s", daemon_log(d));
    daemon_stop(d);
}
