/* A log may hold the failures of another application, whose queue has the same name. */
#include "base/buffer.h"
#include "requeue_fixture.h"

#define REPORT                                                                                                                   \
    "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"1h\"; retry_times = 0; type_path = "      \
    "\"/type\"; }"

/* A sidecar of a group ends a job that its worker reports as failed. */
static daemon_t *fail_job(cluster_t *s, const char *group, const char *job) {
    daemon_t *d = cluster_sidecar_up(s, (sidecar_t){.group = group, .queues = REPORT, .scan = "50ms"});
    redis_ok(s->r, "HSET q:errors %s !no", job);
    redis_ok(s->r, "LPUSH q:backup %s", job);
    await(s, audit_log_rows(daemon_audit_path(d)) == 1, COPY_MS);
    return d;
}

/* Lists this log by this config. */
static const daemon_output_t *list(const char *config, const char *log) {
    char *variable = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", log);
    const char *const words[] = {"audit", "list", "-c", config, NULL};
    const daemon_output_t *out = daemon_run_argv(&(daemon_options_t){.env = (const char *const[]){variable, NULL}}, words);
    return out;
}

Test(daemon_requeue_group, failures_of_another_group_are_requeued_only_on_request) {
    scoped(cluster_end) cluster_t theirs = cluster_begin(NULL), ours = cluster_begin(NULL);
    daemon_t *billing = fail_job(&theirs, "billing", "{\"type\":\"invoice\"}");
    daemon_t *mail = fail_job(&ours, "mail", "letter");
    const daemon_output_t *out = daemon_run("audit", "import", daemon_audit_path(billing), "--db", daemon_audit_path(mail));
    cr_assert_eq(out->code, 0, "%s", out->err);
    out = list(daemon_config_path(mail), daemon_audit_path(mail));
    cr_expect(has(out->out, " billing/q ") && has(out->out, " q "), "%s%s", out->out, out->err);
    out = cli(mail, "requeue", "--where", "-q", "q", "--group", "mail", "--dry-run", "-o", "json");
    cr_expect(out->code == 0 && number_of(out->out, "would") == 1 && number_of(out->out, "other_group") == 0, "%s", out->out);
    out = cli(mail, "requeue", "--where", "--type", "invoice", "--group", "billing", "--from-group", "billing", "--dry-run", "-o",
              "json");
    cr_expect(out->code == 0 && number_of(out->out, "would") == 1, "%s", out->out);
    out = cli(mail, "requeue", "--where", "-q", "q", "--yes", "-o", "jsonl");
    cr_expect_eq(out->code, 1);
    cr_expect(has(out->out, "\"result\":\"done\"") && has(out->out, "\"result\":\"other_group\"") &&
                  has(out->out, "\"detail\":\"billing\""),
              "%s%s", out->out, out->err);
    redis_expect(ours.r, "letter", "LINDEX q 0");
    cr_expect_eq(redis_int(ours.r, "LLEN q"), 1);
    out = cli(mail, "requeue", "--where", "-q", "q", "--yes", "--from-group", "other");
    cr_expect(out->code == 1 && has(out->err, "put it back there (--from-group with its name does it here): billing"), "%s",
              out->err);
    cr_expect_eq(redis_int(ours.r, "LLEN q"), 1);
    cr_expect_eq(cli(mail, "requeue", "--where", "-q", "q", "--yes", "--from-group", "billing")->code, 0);
    redis_expect(ours.r, "{\"type\":\"invoice\"}", "LINDEX q 0");
    await(&ours, answers(mail, 2), COPY_MS);
    cr_expect_eq(audit_log_int(daemon_audit_path(mail), "SELECT count(*) FROM events WHERE answers <> '' AND \"group\" = 'mail'"),
                 2);
}

/* An erasure pushes no job, so it needs nobody's leave. The record of a former group may be in the log for years. */
Test(daemon_requeue_group, failures_of_another_group_are_discarded_and_erased_by_group) {
    scoped(cluster_end) cluster_t theirs = cluster_begin(NULL), ours = cluster_begin(NULL);
    daemon_t *billing = fail_job(&theirs, "billing", "{\"type\":\"invoice\"}");
    daemon_t *mail = fail_job(&ours, "mail", "letter");
    const daemon_output_t *out = daemon_run("audit", "import", daemon_audit_path(billing), "--db", daemon_audit_path(mail));
    cr_assert_eq(out->code, 0, "%s", out->err);
    out = cli(mail, "discard", "--where", "-q", "q", "--group", "billing", "--yes", "-o", "json");
    cr_expect(out->code == 0 && number_of(out->out, "done") == 1, "%s%s", out->out, out->err);
    out = cli(mail, "erase", "--where", "-q", "q", "--group", "billing", "--yes", "-o", "json");
    cr_expect(out->code == 0 && number_of(out->out, "done") == 1, "%s%s", out->out, out->err);
    await(&ours,
          audit_log_int(daemon_audit_path(mail), "SELECT count(*) FROM events WHERE kind = 'failed' AND payload = ''") == 1,
          COPY_MS);
    cr_expect_eq(audit_log_int(daemon_audit_path(mail), "SELECT count(*) FROM events WHERE payload = 'letter'"), 1);
}

Test(daemon_requeue_group, list_show_and_export_name_the_group) {
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    daemon_t *d = fail_job(&s, "billing", "{\"type\":\"invoice\"}");
    char *config = cluster_config_file(&s, (sidecar_t){.group = "mail", .queues = REPORT});
    char *ref = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events");
    const daemon_output_t *out = list(config, daemon_audit_path(d));
    cr_expect(has(out->out, " billing/q "), "%s%s", out->out, out->err);
    out = list(daemon_config_path(d), daemon_audit_path(d));
    cr_expect(has(out->out, " q ") && !has(out->out, "billing/q"), "%s%s", out->out, out->err);
    out = daemon_run("audit", "export", "--db", daemon_audit_path(d));
    cr_expect(has(out->out, "\"group\":\"billing\""), "%s", out->out);
    out = daemon_run("audit", "show", ref, "--db", daemon_audit_path(d));
    cr_expect(has(out->out, "\ngroup     billing\n"), "%s", out->out);
    cr_expect(cluster_says(d, "\"msg\":\"a job has failed for good\"", ref));
    cr_expect(cluster_says(d, "\"msg\":\"a job has failed for good\"", "\"type\":\"invoice\""));
}
