/* Runs `queue-sidecar audit` and checks its output. Python's own readers check JSON and CSV. */
#include "audit/audit.h"
#include "audit_case.h"
#include "child.h"
#include "daemon.h"
#include "tempdir.h"
#include "terminal.h"
#include "text.h"
#include "wait.h"

enum { BASE_S = 1763690400 }; /* 2025-11-21T02:00:00Z */

/* Failure n, n seconds after BASE. */
static void put(audit_t *audit, int n, const char *queue, const char *reason, slice_t error, slice_t payload) {
    audit_case_event_t of;
    audit_case_event(&of, "failed", n, (int64_t)(BASE_S + n) * 1000 + 7);
    of.event.queue = slice_text(queue);
    of.event.reason = slice_text(reason);
    of.event.error = error;
    of.event.payload = payload;
    cr_assert(audit_case_put(audit, &of.event));
}

#define SLICE(text) ((slice_t){text, sizeof(text) - 1})

/* Three failures; the first is requeued. The caller owns the path. */
static char *small_log(void) {
    char *path = audit_case_path();
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    put(audit, 1, "email", "retries_exhausted", SLICE(""), SLICE("{\"a\":\"quote \\\" comma, and Ł\"}"));
    put(audit, 2, "email", "reported", SLICE("line one\r\nline \"two\", three\x1b[31m"), SLICE("tab\there"));
    put(audit, 3, "video", "alive_timeout", SLICE("\xff\xfe"), SLICE("\0\1\2 nul and \xff"));
    audit_case_event_t of, first;
    audit_case_event(&first, "failed", 1, 0);
    audit_case_event(&of, "requeued", 4, (int64_t)(BASE_S + 60) * 1000);
    of.event.queue = slice_text("email");
    of.event.job = slice_text("job-1");
    of.event.answers = slice_text(first.id);
    cr_assert(audit_case_put(audit, &of.event));
    return path;
}

/* Runs a Python program on the output in the file argv[1]. An AssertionError fails the test. */
static void python(const char *input, const char *program) {
    char *dir = temp_dir("python"), *path = temp_path(dir, "input"), *err = temp_path(dir, "err");
    temp_write(path, input);
    scoped(child_drop) child_t *child =
        child_start(&(child_spec_t){.argv = (const char *const[]){"python3", "-c", program, path, NULL}, .err = err});
    cr_assert(child_wait(child, 30000));
    char *said = temp_read(err);
    cr_assert_eq(child->exit_code, 0, "%s\n%s", said, input);
}

static const char check_rows[] =
    "import base64\n"
    "def raw(r, name): return base64.b64decode(r[name], validate=True) if r[name + '_encoding'] == 'base64' else "
    "r[name].encode()\n"
    "assert [r['job_id'] for r in rows] == ['job-3', 'job-2', 'job-1'], rows\n"
    "assert [r['state'] for r in rows] == ['failed', 'failed', 'requeued']\n"
    "assert [raw(r, 'payload') for r in rows] == [b'\\0\\1\\2 nul and \\xff', b'tab\\there', "
    "'{\"a\":\"quote \\\\\" comma, and Ł\"}'.encode()], rows\n"
    "assert [raw(r, 'error') for r in rows] == [b'\\xff\\xfe', b'line one\\r\\nline \"two\", three\\x1b[31m', b''], rows\n"
    "assert [r['failed_at'] for r in rows] == ['2025-11-21T02:00:0%d.007Z' % n for n in (3, 2, 1)]\n"
    "assert all(str(r['attempts']) == '4' and len(r['ref']) == 12 and len(r['event']) == 64 for r in rows)\n";

static void python_rows(const char *input, const char *read) {
    char *program = kept_printf("import csv, json, sys\n%s%s", read, check_rows);
    python(input, program);
}

Test(daemon_audit_cli, python_reads_every_format_back) {
    char *db = small_log();
    const daemon_output_t *json = daemon_run("audit", "list", "--db", db, "-o", "json");
    cr_assert_eq(json->code, 0, "%s", json->err);
    cr_assert_str_empty(json->err);
    python_rows(json->out, "rows = json.load(open(sys.argv[1]))\n");
    python_rows(daemon_run("audit", "list", "--db", db, "-o", "jsonl")->out,
                "rows = [json.loads(l) for l in open(sys.argv[1])]\n");
    python_rows(daemon_run("audit", "list", "--db", db, "--output=csv")->out,
                "rows = list(csv.DictReader(open(sys.argv[1], newline=''), strict=True))\n"
                "assert all(l.endswith('\\r\\n') for l in open(sys.argv[1], newline='').readlines()[-1:])\n");
    python(daemon_run("audit", "list", "--db", db, "-o", "json", "-q", "none")->out,
           "import json, sys; assert json.load(open(sys.argv[1])) == []");
    python(daemon_run("audit", "stats", "--db", db, "-o", "json", "-q", "none")->out,
           "import json, sys; assert json.load(open(sys.argv[1])) == []");
    python(daemon_run("audit", "stats", "--db", db, "-o", "json")->out,
           "import json, sys; r = json.load(open(sys.argv[1])); assert [(x['queue'], x['reason'], x['failures'], x['open'], "
           "x['hour']) "
           "for x in r] == [('email', 'reported', 1, 1, '2025-11-21T02:00:00.000Z'), ('email', 'retries_exhausted', 1, 0, "
           "'2025-11-21T02:00:00.000Z'), ('video', 'alive_timeout', 1, 1, '2025-11-21T02:00:00.000Z')], r");
    python(daemon_run("audit", "stats", "--db", db, "-o", "csv", "-n", "2")->out,
           "import csv, sys; r = list(csv.DictReader(open(sys.argv[1], newline=''))); assert [x['requeued'] for x in r] == ['0', "
           "'1'], r");
}

/* The caller owns the ref. */
static char *ref_of(const char *db, const char *job) {
    char *sql = kept_printf("SELECT ref FROM failed_jobs WHERE job_id = '%s'", job), *ref = audit_case_sql(db, sql);
    return ref;
}

Test(daemon_audit_cli, show_prints_all_of_an_event) {
    char *db = small_log(), *ref = ref_of(db, "job-1"), *binary = ref_of(db, "job-3");
    const daemon_output_t *shown = daemon_run("audit", "show", ref, "--db", db, "--utc");
    cr_assert_eq(shown->code, 0, "%s", shown->err);
    cr_assert(has(shown->out, "state     requeued\n") && has(shown->out, "2025-11-21 02:00:01.007 UTC"), "%s", shown->out);
    cr_assert(has(shown->out, "\n  {\"a\":\"quote \\\" comma, and Ł\"}\n") && has(shown->out, "requeued  retries_exhausted"),
              "%s", shown->out);
    cr_assert(has(daemon_run("audit", "show", "--db", db, binary)->out, "in base64\n  AAECIG51bCBhbmQg/w==\n"));
    python(daemon_run("audit", "show", "--db", db, ref, "-o", "json")->out,
           "import json, sys; r = json.load(open(sys.argv[1])); assert r['state'] == 'requeued'; "
           "assert [h['kind'] for h in r['history']] == ['failed', 'requeued'], r");
    char *event = audit_case_sql(db, "SELECT event FROM events WHERE job = 'job-2'");
    cr_assert(has(daemon_run("audit", "show", event, "--db", db)->out, "job       job-2"));
    for (char *at = ref; *at; at++) *at = (char)(*at >= 'a' ? *at - 'a' + 'A' : *at);
    ref[9] = '\0';
    cr_assert(has(daemon_run("audit", "show", ref, "--db", db)->out, "job       job-1"), "a prefix in capitals finds nothing");
    const daemon_output_t *none = daemon_run("audit", "show", "zzzzzzzzzzzz", "--db", db);
    cr_assert_eq(none->code, 1);
    cr_assert_str_empty(none->out);
    cr_assert(has(none->err, "no event has the ref"));
}

Test(daemon_audit_cli, an_ambiguous_ref_lists_its_events) {
    char *db = audit_case_path();
    scoped(audit_drop) audit_t *audit = audit_case_open(db, AUDIT_WRITE);
    for (int n = 0; n < 33; n++) put(audit, n, "q", "reported", SLICE(""), SLICE("x")); /* more than there are first digits */
    char *digit = audit_case_sql(db, "SELECT substr(ref, 1, 1) FROM events GROUP BY 1 HAVING count(*) > 1 LIMIT 1");
    const daemon_output_t *several = daemon_run("audit", "show", digit, "--db", db);
    cr_assert_eq(several->code, 1);
    cr_assert_str_empty(several->out);
    cr_assert(has(several->err, "several refs begin with") && has(several->err, "job-"), "%s", several->err);
}

static const daemon_output_t *run_with(const char *variable, const char *const *args) {
    return daemon_run_argv(&(daemon_options_t){.env = (const char *const[]){variable, NULL}}, args);
}

Test(daemon_audit_cli, tables_are_escaped_and_in_local_time) {
    char *db = small_log();
    const char *const list[] = {"audit", "list", "--db", db, NULL}, *const utc[] = {"audit", "list", "--db", db, "--utc", NULL};
    const daemon_output_t *berlin = run_with("TZ=CET-1", list), *plain = run_with("TZ=CET-1", utc);
    cr_assert(has(berlin->out, "FAILED AT (CET)") && has(berlin->out, "2025-11-21 03:00:03"), "%s", berlin->out);
    cr_assert(has(plain->out, "FAILED AT (UTC)") && has(plain->out, "2025-11-21 02:00:03"), "%s", plain->out);
    cr_assert(has(plain->out, "line one\\r\\nline \"two\", three\\x1b[31m") && has(plain->out, "\\xff\\xfe"), "%s", plain->out);
    for (const char *at = plain->out; *at; at++) cr_assert((unsigned char)*at >= ' ' || *at == '\n');
    const daemon_output_t *narrow = run_with("COLUMNS=80", list);
    for (const char *line = narrow->out; *line; line += strcspn(line, "\n") + 1) {
        size_t columns = 0;
        for (size_t i = 0; line[i] && line[i] != '\n'; i++) columns += ((unsigned char)line[i] & 0xc0) != 0x80;
        cr_assert_leq(columns, 80, "%s", narrow->out);
    }
    const daemon_output_t *stats = daemon_run("audit", "stats", "--db", db, "--utc");
    cr_assert(has(stats->out, "(all)") && has(stats->out, "2025-11-21 02:00         3  ####"), "%s", stats->out);
}

Test(daemon_audit_cli, tables_fit_a_terminal_of_80_columns) {
    char *db = audit_case_path(), *event;
    audit_t *audit = audit_case_open(db, AUDIT_WRITE);
    for (int n = 100000; n < 100012; n++)
        put(audit, n, n % 2 ? "email" : "webhooks-outgoing", n % 3 ? "retries_exhausted" : "reported",
            SLICE("SMTP timeout after 30 s, and then what comes behind it in a long text"), SLICE("{}"));
    audit_close(audit);
    event = audit_case_sql(db, "SELECT event FROM events LIMIT 1");
    const char *const commands[][6] = {
        {"audit", "list", "--db", db}, {"audit", "stats", "--db", db}, {"audit", "show", event, "--db", db}};
    for (size_t i = 0; i < 3; i++) {
        const daemon_output_t *narrow = run_with("COLUMNS=80", commands[i]);
        cr_assert_eq(narrow->code, 0, "%s", narrow->err);
        for (const char *line = narrow->out; *line; line += strcspn(line, "\n") + 1) {
            size_t columns = 0;
            for (size_t at = 0; line[at] && line[at] != '\n'; at++) columns += ((unsigned char)line[at] & 0xc0) != 0x80;
            cr_expect_leq(columns, 80, "%s", narrow->out);
        }
    }
}

/* At any width people find the job, its error, and who requeued it. */
Test(daemon_audit_cli, a_narrow_list_shows_job_error_and_answer) {
    char *db = audit_case_path();
    audit_t *audit = audit_case_open(db, AUDIT_WRITE);
    audit_case_event_t failed, back;
    put(audit, 100001, "email", "reported", SLICE("SMTP timeout: mx1 is silent"), SLICE("{}"));
    put(audit, 100002, "email", "retries_exhausted", SLICE("no such mailbox"), SLICE("{}"));
    audit_case_event(&failed, "failed", 100001, 0);
    audit_case_event(&back, "requeued", 100003, (int64_t)(BASE_S + 86400 + 60) * 1000);
    back.event.queue = slice_text("email");
    back.event.job = slice_text("job-100001");
    back.event.worker = slice_text("ann");
    back.event.reason = slice_text("up");
    back.event.payload = (slice_t){0};
    back.event.answers = slice_text(failed.id);
    cr_assert(audit_case_put(audit, &back.event));
    audit_close(audit);
    static const struct {
        const char *width, *kind, *line[2];
    } rows[] = {
        {"COLUMNS=80", "failed", {"  job-100002  no such mailbox\n", "  job-100001  requeued 11-22 02:01 by ann: up\n"}},
        {"COLUMNS=80", "requeued", {"  up      job-100001  requeued by ann: up\n", "REF           AT (UTC)  "}},
        {"COLUMNS=95", "failed", {"  retries…  job-100002  no such", "  reported  job-100001  requeued"}},
        {"COLUMNS=96", "failed", {"  retries_exhausted  job-100002  no such", "  reported           job-100001  requeued"}},
        {"COLUMNS=160", "failed", {"  requeued 2025-11-22 02:01:00 by ann: up  ", "REF           FAILED AT (UTC)  "}},
        {"COLUMNS=160", "requeued", {"  email  up      requeued by ann  ", "REF           AT (UTC)  "}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const command[] = {"audit", "list", "--utc", "--kind", rows[i].kind, "--queue", "email", "--db", db, NULL};
        const daemon_output_t *out = run_with(rows[i].width, command);
        for (size_t j = 0; j < 2; j++)
            cr_expect(has(out->out, rows[i].line[j]), "%s: %s\n%s", rows[i].width, rows[i].line[j], out->out);
    }
}

/* The caller owns the text. */
static char *shown_on_terminal(const char *db, const char *ref) {
    terminal_t *terminal = terminal_open(80, 24);
    const char *const argv[] = {daemon_program(), "audit", "show", ref, "--db", db, NULL};
    child_t *child = child_start(&(child_spec_t){.argv = argv, .out = terminal_path(terminal)});
    cr_assert(wait_for((terminal_raw(terminal), !child_running(child)), 30000));
    cr_assert_eq(child->exit_code, 0);
    char *raw = kept_printf("%s", terminal_raw(terminal));
    child_free(child);
    terminal_free(terminal);
    return raw;
}

/* A payload of megabytes would scroll the other fields away. A pipe gets all of it. */
Test(daemon_audit_cli, show_truncates_large_payloads_on_a_terminal) {
    char *db = audit_case_path(), text[64 * 1024 + 4], binary[685];
    audit_t *audit = audit_case_open(db, AUDIT_WRITE);
    memset(text, 'a', sizeof text);
    memset(binary, 0xff, sizeof binary);
    memcpy(text + sizeof text - 5, "\xc5\x82\xc5\x82!", 5); /* the limit is between two bytes of a letter */
    const slice_t payloads[] = {
        {text, sizeof text}, {text, 64 * 1024 - 1}, {binary, sizeof binary}, {binary, sizeof binary - 1}, {NULL, 0}};
    static const struct {
        const char *terminal, *pipe;
    } shown[] = {{"payload   65,540 bytes\r\n", "aa\xc5\x82\xc5\x82!\n\n"},
                 {"aa\r\n\r\n", "aa\n\n"},
                 {"payload   685 bytes, not text: in base64\r\n", "\n  /w==\n\n"},
                 {"////\r\n\r\n", "////\n\n"},
                 {"payload   2 bytes, not recorded with this event\r\n", "not recorded with this event\n\n"}};
    static const char *const more[] = {"aa\r\n  … and 5 bytes more: ", NULL, "////\r\n  … and 1 bytes more: ", NULL, NULL};
    for (int i = 0; i < 5; i++) put(audit, i, "q", "reported", SLICE(""), payloads[i]);
    audit_close(audit);
    for (int i = 0; i < 5; i++) {
        char job[16];
        snprintf(job, sizeof job, "job-%d", i);
        char *ref = ref_of(db, job), *raw = shown_on_terminal(db, ref);
        const daemon_output_t *piped = daemon_run("audit", "show", ref, "--db", db);
        cr_expect(has(raw, shown[i].terminal) && has(raw, "HISTORY"), "%d: %s", i, raw);
        cr_expect(more[i] ? has(raw, more[i]) : !has(raw, "more: "), "%d: %s", i, raw);
        cr_expect(has(piped->out, shown[i].pipe) && !has(piped->out, "more: "), "%d: %s", i, piped->out);
    }
}

Test(daemon_audit_cli, messages_escape_control_bytes) {
    const daemon_output_t *output = daemon_run("audit", "list", "--db", "no\x1b[31m/such");
    cr_expect(has(output->err, "no\\x1b[31m/such") && !strchr(output->err, '\x1b'), "%s", output->err);
    char *db = audit_case_path();
    audit_t *audit = audit_case_open(db, AUDIT_WRITE);
    put(audit, 1, "email\x1b[31m", "reported", SLICE(""), SLICE("x"));
    audit_close(audit);
    output = daemon_run("audit", "list", "--db", db, "-q", "mail\x1b[31m");
    cr_expect(has(output->err, "`mail\\x1b[31m`") && !strchr(output->err, '\x1b'), "%s", output->err);
}

/* The zone is CET-1. */
Test(daemon_audit_cli, times_without_a_zone_are_local) {
    static const struct {
        const char *since, *until;
        int rows;
    } rows[] = {{"2025-11-21T03:00:02", NULL, 2},
                {"2025-11-21 03:00:02", NULL, 2},
                {"2025-11-21T02:00:02Z", NULL, 2},
                {"2025-11-21T02:00", NULL, 3},
                {"2025-11-21T05:00:03+03:00", NULL, 1},
                {"2025-11-21", NULL, 3},
                {"2025-11-22", NULL, 0},
                {NULL, "2025-11-21T02:00:03Z", 2},
                {NULL, "2025-11-21", 0},
                {"2025-11-20", "2025-11-22", 3},
                {"2h", NULL, 0},
                {"99999d", NULL, 3}};
    char *db = small_log();
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *args[] = {"audit", "list", "--db", db, "-o", "jsonl", NULL, NULL, NULL, NULL, NULL};
        size_t n = 6;
        if (rows[i].since) args[n++] = "--since", args[n++] = rows[i].since;
        if (rows[i].until) args[n++] = "--until", args[n++] = rows[i].until;
        const daemon_output_t *output = run_with("TZ=CET-1", args);
        int lines = 0;
        for (const char *at = output->out; *at; at++) lines += *at == '\n';
        cr_expect_eq(lines, rows[i].rows, "%s to %s: %d rows %s", rows[i].since, rows[i].until, lines, output->err);
        cr_expect_eq(output->code, 0);
        if (lines == 0) cr_expect(has(output->err, "no final failures match"));
    }
}

Test(daemon_audit_cli, an_empty_result_names_the_kind_asked_for) {
    char *db = small_log();
    static const char *const rows[][4] = {{"--kind", "gap", NULL, "no events of kind gap match"},
                                          {"--kind=gap", "--queue", "nobody's", "no events of kind gap match"},
                                          {"--kind", "failed", "--since=2h", "no final failures match"},
                                          {"--all-kinds", "--since", "2h", "no events match"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const args[] = {"audit", "list", "--db", db, rows[i][0], rows[i][1], rows[i][2], NULL};
        const daemon_output_t *output = daemon_run_argv(NULL, args);
        cr_assert_eq(output->code, 0);
        cr_assert(has(output->err, rows[i][3]) && !has(output->err, "did you mean"), "%s", output->err);
    }
}

Test(daemon_audit_cli, wrong_usage_exits_2_with_a_hint) {
    char *db = small_log(), *missing = audit_case_path();
    static const struct {
        const char *words[4], *hint;
    } misuse[] = {
        {{"lst"}, "did you mean `list`?"},
        {{"list", "--reason", "retry_exhausted"}, "did you mean `retries_exhausted`?"},
        {{"list", "--reason", "?"},
         "unknown value of --reason: `?`\nIt is one of: retries_exhausted reported alive_timeout unreadable invalid_target "
         "dead_letter worker_failed cancelled stalled trimmed removed_by_others log_damaged log_missing log_replaced "
         "imported.\n"},
        {{"list", "--kind", "?"},
         "unknown value of --kind: `?`\nIt is one of: failed retried requeued discarded erased gap filled.\n"},
        {{"list", "-o", "?"}, "unknown value of --output: `?`\nIt is one of: table json jsonl csv.\n"},
        {{"export", "-o", "table"}, "unknown value of --output: `table`\nIt is one of: jsonl csv.\n"},
        {{"list", "--quee", "x"}, "did you mean `--queue`?"},
        {{"list", "-o", "jsn"}, "did you mean `json`?"},
        {{"list", "--since", "yesterday-ish"}, "2026-11-21T02:00"},
        {{"list", "--since", "2025-02-30"}, "not a time"},
        {{"list", "--limit", "-1"}, "not a number of rows"},
        {{"list", "--grep", ""}, "--grep needs a text"},
        {{"list", "word"}, "unexpected argument"},
        {{"show"}, "specify the REF of an event"},
        {{"show", "a!"}, "is not a ref"},
        {{"show", "abc", "def"}, "unexpected argument"},
        {{"show", "abc", "--queue=x"}, "unknown option"},
        {{"stats", "--since=1h", "--until=2h"}, "--since must be before"},
        {{"list", "-c", "x"}, "exclude each other"}};
    for (size_t i = 0; i < sizeof(misuse) / sizeof(*misuse); i++) {
        const char *args[] = {"audit", misuse[i].words[0], "--db", db, NULL, NULL, NULL, NULL};
        for (size_t j = 1; j < 4 && misuse[i].words[j]; j++) args[3 + j] = misuse[i].words[j];
        const daemon_output_t *output = daemon_run_argv(NULL, args);
        cr_expect_eq(output->code, 2, "%s: %d", misuse[i].hint, output->code);
        cr_expect(has(output->err, misuse[i].hint), "\"%s\" lacks \"%s\"", output->err, misuse[i].hint);
        cr_expect_str_empty(output->out);
        char see[64] = "See `queue-sidecar help audit`.\n"; /* the subcommand, if it is known, has help of its own */
        if (i > 0) snprintf(see, sizeof see, "See `queue-sidecar help audit %s`.\n", misuse[i].words[0]);
        cr_expect(has(output->err, see) || !has(output->err, "See `"), "\"%s\" lacks \"%s\"", output->err, see);
    }
    cr_assert_eq(daemon_run("audit")->code, 2);
    cr_assert_eq(daemon_run("audit", "list", "--db", missing)->code, 1);
    const daemon_output_t *unnamed = daemon_run("audit", "list", "-c", "no/such.cfg");
    cr_assert_eq(unnamed->code, 78);
    cr_assert(has(unnamed->err, "queue-sidecar audit list: the log can be read without the config: --db PATH\n"), "%s",
              unnamed->err);
    char *refused = temp_file("refused.cfg", kept_printf("audit = { path = \"%s\"; };\nqueues = ();\n", db)),
         *way = kept_printf("--db %s\n", db);
    const daemon_output_t *bad = daemon_run("audit", "show", "abc", "-c", refused), *status = daemon_run("status", "-c", refused);
    cr_assert(bad->code == 78 && has(bad->err, way), "%s", bad->err);
    cr_assert(status->code == 78 && has(status->out, way), "%s", status->out);
    cr_assert(!has(daemon_run("audit", "requeue", "abc", "-c", refused)->err, "--db"), "it needs Redis");
}

Test(daemon_audit_cli, says_what_it_left_out_and_where_help_is) {
    char *db = small_log();
    cr_assert(has(daemon_run("audit", "list", "--db", db, "-q", "emial")->err,
                  "the log has none of queue `emial`; did you mean `email`?\n"));
    cr_assert(has(daemon_run("audit", "stats", "--db", db, "-q", "emial")->err,
                  "the log has none of queue `emial`; did you mean `email`?\n"));
    cr_assert(has(daemon_run("audit", "list", "--db", db, "-n", "2")->err, "there are more"));
    cr_assert_str_empty(daemon_run("audit", "list", "--db", db, "-n", "3")->err);
    cr_assert(has(daemon_run("audit", "--help")->out, "Examples:\n  queue-sidecar audit list"));
    cr_assert(has(daemon_run("audit", "show", "--help")->out, "Usage: queue-sidecar audit show REF"));
    cr_assert(has(daemon_run("help", "audit", "stats")->out, "Usage: queue-sidecar audit stats"));
    cr_assert(has(daemon_run("help", "audit", "stast")->err, "unexpected argument `stast`"));
}

Test(daemon_audit_cli, list_finds_the_log_by_config_during_a_write) {
    char *db = small_log(), *text = kept_printf("audit = { path = \"%s\"; };\nqueues = ( { name = \"q\"; } );\n", db),
         *config = temp_file("x.cfg", text);
    scoped(audit_drop) audit_t *writer = audit_case_open(db, AUDIT_WRITE);
    buffer_t why = {0};
    cr_assert(audit_begin(writer, &why));
    const daemon_output_t *output = daemon_run("audit", "list", "-c", config);
    cr_assert_eq(output->code, 0, "%s", output->err);
    cr_assert(has(output->out, "job-3"));
    audit_rollback(writer);
}

Test(daemon_audit_cli, queries_of_the_sql_readme_run_in_the_shell) {
    char *db = small_log(), *text = temp_read("sql/README.md"), *dir = temp_dir("shell"), *out = temp_path(dir, "out"),
         *err = temp_path(dir, "err");
    int queries = 0;
    for (char *at = text; (at = strstr(at, "```sql\n")); queries++) {
        char *sql = at + strlen("```sql\n");
        at = strstr(sql, "```");
        cr_assert_not_null(at);
        *at++ = '\0';
        scoped(child_drop) child_t *child = child_start(&(child_spec_t){
            .argv = (const char *const[]){"sqlite3", "-bail", "-readonly", db, sql, NULL}, .out = out, .err = err});
        cr_assert(child_wait(child, 30000));
        char *said = temp_read(err);
        cr_expect_eq(child->exit_code, 0, "%s\n%s", sql, said);
        cr_expect_str_empty(said, "%s\n%s", sql, said);
    }
    cr_assert_geq(queries, 9);
    char *said = temp_read(out);
    cr_assert(has(said, "retries_exhausted|4|job-1") && has(said, "email|1|2|1|0"), "%s", said);
}

/* Runs the block merge.sh of sql/README.md on two files. */
static void merge(const char *into, const char *from) {
    char *text = temp_read("sql/README.md"), *block = strstr(text, "```sh merge.sh\n"),
         *end = block ? strstr(block, "\n```") : NULL;
    cr_assert(block && end, "sql/README.md has no merge.sh");
    *end = '\0';
    char *command = strchr(strchr(block, '\n') + 1, '\n'), *sh = kept_printf("into=%s from=%s%s", into, from, command);
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = (const char *const[]){"sh", "-ec", sh, NULL}});
    cr_assert(child_wait(child, 30000));
    cr_expect_eq(child->exit_code, 0, "%s", sh);
}

/* Each file has seqs from 1 on, so a merge by them would lose rows. In logs of schema 5 `events` was a view. */
Test(daemon_audit_cli, two_logs_merge_by_sql) {
    for (int view = 0; view < 2; view++) {
        char *into = small_log(), *from = small_log();
        int64_t rows = audit_case_count(into, "SELECT count(*) FROM events");
        audit_case_sql(from, "DELETE FROM events WHERE kind <> 'failed'");
        audit_case_sql(from, "UPDATE events SET event = replace(event, '0', '1'), payload = x'ff00'");
        int64_t more = audit_case_count(from, "SELECT count(*) FROM events WHERE event LIKE '%1%'");
        audit_case_sql(from, "PRAGMA user_version = 5");
        if (view) audit_case_sql(from, "ALTER TABLE events RENAME TO records");
        if (view) audit_case_sql(from, "CREATE VIEW events AS SELECT * FROM records");
        for (int i = 0; i < 2; i++) merge(into, from);
        cr_expect(more > 0 && audit_case_count(into, "SELECT count(*) FROM events") == rows + more);
        cr_expect_eq(audit_case_count(into, "SELECT count(*) FROM failed_jobs WHERE hex(payload) = 'FF00'"), more);
        audit_close(audit_case_open(into, AUDIT_WRITE));
    }
}
