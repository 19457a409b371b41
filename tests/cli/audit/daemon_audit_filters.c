/* `queue-sidecar audit`: filters, pages and counts, on a real log. */
#include "audit/audit.h"
#include "audit_case.h"
#include "audit_log.h"
#include "child.h"
#include "daemon.h"
#include "tempdir.h"
#include "text.h"
#include "wait.h"

#define TRACE   "4bf92f3577b34da6a3ce929d0e0e4736"
#define BASE_MS INT64_C(1763690400000) /* 2025-11-21T02:00:00Z */

static void put(audit_t *audit, int n, const char *type, const char *worker, const char *group, const char *error) {
    audit_case_event_t item;
    audit_case_event(&item, "failed", n, BASE_MS + n / 2); /* two at a time, of two queues */
    item.event.queue = slice_text(n % 2 ? "email" : "video");
    item.event.type = slice_text(type);
    item.event.worker = slice_text(worker);
    item.event.group = slice_text(group);
    item.event.error = slice_text(error);
    if (n == 4) item.event.traceparent = slice_text("00-" TRACE "-00f067aa0ba902b7-01");
    cr_assert(audit_case_put(audit, &item.event));
}

static void answer(audit_t *audit, const char *kind, int n) {
    audit_case_event_t item, failed;
    audit_case_event(&failed, "failed", n, 0);
    audit_case_event(&item, kind, n, BASE_MS + 1000);
    item.event.queue = slice_text(n % 2 ? "email" : "video");
    item.event.answers = slice_text(failed.id);
    cr_assert(audit_case_put(audit, &item.event));
}

/* Jobs 1 to 6. Jobs 2 and 3 are answered. */
static char *begin(void) {
    char *path = audit_case_path();
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    put(audit, 1, "letter", "worker-1", "mail", "timeout after 5 s");
    put(audit, 2, "letter", "worker-2", "mail", "timeout after 30 s");
    put(audit, 3, "invoice", "worker-1", "billing", "no such MAILBOX");
    put(audit, 4, "invoice", "worker-2", "billing", "");
    put(audit, 5, "letter", "worker-1", "", "timeout after 7 s");
    put(audit, 6, "letter", "worker-2", "mail", "no such mailbox");
    answer(audit, "requeued", 2);
    answer(audit, "discarded", 3);
    return path;
}

static char *db;
static void drop(void) { db = NULL; }
SUITE(daemon_audit_filters, db = begin(), drop());

/* The jobs of lines of JSON, "3 2 1 ". */
static char *jobs(const char *text) {
    buffer_t got = {0};
    for (const char *at = text; (at = strstr(at, "\"job_id\":\"job-")); at++)
        buffer_printf(&got, "%d ", atoi(at + strlen("\"job_id\":\"job-")));
    return kept(got.data ? got.data : mem_str(""));
}

static void expect_jobs(const char *command, const char *const *words, const char *expected) {
    const char *argv[16] = {"audit", command, "--db", db, "-o", "jsonl"};
    for (size_t i = 0; words[i]; i++) argv[6 + i] = words[i];
    const daemon_output_t *out = daemon_run_argv(NULL, argv);
    cr_assert_eq(out->code, 0, "%s", out->err);
    cr_expect_str_eq(jobs(out->out), expected, "%s %s %s", command, words[0], words[1]);
}

static const struct {
    const char *words[5], *newest_first, *oldest_first;
} filters[] = {
    {{"--state", "failed"}, "6 4 5 1 ", "1 4 5 6 "},
    {{"--state", "open"}, "6 4 5 1 ", "1 4 5 6 "},
    {{"--state", "requeued"}, "2 ", "2 "},
    {{"--state", "discarded"}, "3 ", "3 "},
    {{"--type", "invoice"}, "4 3 ", "3 4 "},
    {{"--job", "job-5"}, "5 ", "5 "},
    {{"--worker", "worker-2"}, "6 4 2 ", "2 4 6 "},
    {{"--group", "billing"}, "4 3 ", "3 4 "},
    {{"--group", ""}, "5 ", "5 "},
    {{"--trace", TRACE}, "4 ", "4 "},
    {{"--trace", "4bf92f3577b34da6a3ce929d0e0e4737"}, "", ""},
    {{"--grep", "mailbox"}, "6 ", "6 "},
    {{"--grep", "Mailbox", "-i"}, "6 3 ", "3 6 "},
    {{"--worker", "worker-1", "--type", "letter"}, "5 1 ", "1 5 "},
};

Test(daemon_audit_filters, list_and_export_take_each_filter) {
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        const char *export[7] = {"--kind", "failed"};
        for (size_t j = 0; filters[i].words[j]; j++) export[2 + j] = filters[i].words[j];
        expect_jobs("list", filters[i].words, filters[i].newest_first);
        expect_jobs("export", export, filters[i].oldest_first);
    }
    expect_jobs("export", (const char *const[]){"--state", "open", NULL}, "1 4 5 6 ");
}

Test(daemon_audit_filters, a_traceparent_is_shown_exported_and_imported) {
    char *dir = temp_dir("trace"), *file = temp_path(dir, "events.jsonl"), *copy = temp_path(dir, "copy.db");
    const char *ref = audit_log_word(db, "SELECT ref FROM events WHERE job = 'job-4'");
    const char *line = "\ntrace     00-" TRACE "-00f067aa0ba902b7-01\n";
    const daemon_output_t *shown = daemon_run("audit", "show", "--db", db, ref);
    cr_expect(has(shown->out, line), "%s", shown->out);
    cr_assert_eq(daemon_run("audit", "export", "--all-kinds", "--db", db, file)->code, 0);
    cr_assert_eq(daemon_run("audit", "import", file, "--db", copy)->code, 0);
    shown = daemon_run("audit", "show", "--db", copy, ref);
    cr_expect(has(shown->out, line), "%s", shown->out);
    shown = daemon_run("audit", "import", db, "--db", temp_path(dir, "of_a_log.db"));
    cr_expect_eq(audit_case_count(temp_path(dir, "of_a_log.db"), "SELECT count(*) FROM failed_jobs WHERE traceparent <> ''"), 1,
                 "%s", shown->err);
}

Test(daemon_audit_filters, tail_takes_filters) {
    char *dir = temp_dir("tail"), *out = temp_path(dir, "out");
    const char *const argv[] = {daemon_program(), "audit", "tail",   "--db",    db,   "-o", "jsonl",
                                "--state",        "open",  "--type", "invoice", "-n", "2",  NULL};
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = argv, .out = out});
    cr_assert(wait_for(strcmp(jobs(temp_read(out)), "4 ") == 0, 10000));
    scoped(audit_drop) audit_t *audit = audit_case_open(db, AUDIT_WRITE);
    put(audit, 7, "letter", "", "", "");
    put(audit, 8, "invoice", "", "", "");
    cr_assert(wait_for(strcmp(jobs(temp_read(out)), "4 8 ") == 0, 10000));
    child_signal(child, 15);
    cr_assert(child_wait(child, 5000));
}

/* Each page begins behind the last row of the page before. The message says how to ask for the next page. */
Test(daemon_audit_filters, pages_of_a_list_follow_each_other) {
    char before[16] = "";
    buffer_t got = {0};
    for (int page = 0; page < 3; page++) {
        const char *argv[] = {"audit", "list", "--db", db, "-o", "jsonl", "-n", "2", *before ? "--before" : NULL, before, NULL};
        const daemon_output_t *out = daemon_run_argv(NULL, argv);
        cr_assert_eq(out->code, 0, "%s", out->err);
        buffer_str(&got, jobs(out->out));
        const char *hint = strstr(out->err, "--before ");
        cr_assert_eq(hint != NULL, page < 2, "%s", out->err);
        if (hint) snprintf(before, sizeof before, "%.12s", hint + strlen("--before "));
    }
    cr_expect_str_eq(buffer_text(&got), "6 4 5 2 3 1 ");
    buffer_free(&got);
}

Test(daemon_audit_filters, a_page_before_an_unknown_event_is_an_error) {
    const daemon_output_t *out = daemon_run("audit", "list", "--db", db, "--before", "zzzzzzzzzzzz");
    cr_expect_eq(out->code, 1);
    cr_expect(has(out->err, "no event has the ref"), "%s", out->err);
    cr_expect_str_empty(out->out);
    cr_expect_eq(daemon_run("audit", "list", "--db", db, "--before", "no!")->code, 2);
}

Test(daemon_audit_filters, wrong_words_are_refused_with_the_nearest_one) {
    static const struct {
        const char *words[6], *said;
    } rows[] = {
        {{"list", "--state", "fialed"}, "unknown value of --state: `fialed`: did you mean `failed`?"},
        {{"list", "--sate", "failed"}, "did you mean `--state`?"},
        {{"list", "--since", "yestreday"}, "did you mean `yesterday`?"},
        {{"list", "--state", "open", "--kind", "gap"}, "--state is of final failures: omit --kind gap"},
        {{"list", "-i"}, "--ignore-case is for --grep"},
        {{"stats", "--by", "errors"}, "did you mean `error`?"},
        {{"tail", "--before", "abc"}, "unknown option `--before`"},
        {{"tail", "--state", "requeued"}, "a new failure is not requeued yet: use --kind requeued"},
        {{"tail", "--state", "discarded", "-n", "5"}, "a new failure is not discarded yet: use --kind discarded"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *argv[10] = {"audit"};
        size_t count = 1;
        while (rows[i].words[count - 1]) argv[count] = rows[i].words[count - 1], count++;
        argv[count++] = "--db";
        argv[count++] = db;
        const daemon_output_t *out = daemon_run_argv(NULL, argv);
        cr_expect_eq(out->code, 2);
        cr_expect(has(out->err, rows[i].said), "%s", out->err);
    }
    const daemon_output_t *none = daemon_run("audit", "list", "--db", db, "-q", "emial");
    cr_expect(none->code == 0 && has(none->err, "the log has none of queue `emial`; did you mean `email`?"), "%s", none->err);
}

Test(daemon_audit_filters, stats_by_error_join_errors_that_differ_in_numbers) {
    const daemon_output_t *out = daemon_run("audit", "stats", "--db", db, "--by", "error", "-o", "csv");
    static const char timeouts[] = "error,failures,open,requeued,discarded,first_at,last_at\r\n"
                                   "timeout after # s,3,2,1,0,2025-11-21T02:00:00.000Z,2025-11-21T02:00:00.002Z\r\n";
    cr_expect(strncmp(out->out, timeouts, sizeof timeouts - 1) == 0, "%s%s", out->out, out->err);
    out = daemon_run("audit", "stats", "--db", db, "--by", "error", "-o", "jsonl", "-n", "1");
    cr_expect(has(out->out, "{\"error\":\"timeout after # s\",\"failures\":3,\"open\":2,\"requeued\":1,"), "%s", out->out);
    cr_expect(has(out->err, "these are the most frequent 1 of 4;"), "%s", out->err);
    out = daemon_run("audit", "stats", "--db", db, "--by", "error", "--utc");
    cr_expect(has(out->out, "       3     2         1          0  2025-11-21 02:00:00  timeout after # s\n"), "%s", out->out);
    cr_expect(has(out->out, "  (no text)\n"), "%s", out->out);
}

Test(daemon_audit_filters, stats_by_queue_reason_and_hour_count_each_alone) {
    const daemon_output_t *out = daemon_run("audit", "stats", "--db", db, "--by", "queue", "--state", "open", "-o", "jsonl");
    cr_expect(has(out->out, "{\"queue\":\"email\",\"failures\":2,\"open\":2,") &&
                  has(out->out, "{\"queue\":\"video\",\"failures\":2,"),
              "%s", out->out);
    out = daemon_run("audit", "stats", "--db", db, "--by", "reason", "-o", "json");
    cr_expect(has(out->out, "\"failures\":6,\"open\":4,\"requeued\":1,\"discarded\":1,"), "%s", out->out);
    out = daemon_run("audit", "stats", "--db", db, "--by", "hour", "--utc");
    cr_expect(has(out->out, "HOUR FROM") && has(out->out, "  2025-11-21 02:00\n"), "%s", out->out);
    out = daemon_run("audit", "stats", "--db", db, "--by", "hour", "-q", "none", "-o", "json");
    cr_expect(strcmp(out->out, "[]\n") == 0 && has(out->err, "no final failures match"), "%s%s", out->out, out->err);
}
