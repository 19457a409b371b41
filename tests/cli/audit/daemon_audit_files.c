/* `queue-sidecar audit export`, `import` and `backup`: round trips, crashes and damaged files. */
#include "audit/audit.h"
#include "audit_case.h"
#include "audit_log.h"
#include "child.h"
#include "cluster.h"
#include "daemon.h"
#include "tempdir.h"
#include "text.h"

#include <criterion/parameterized.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>

#define SLICE(text) ((slice_t){text, sizeof(text) - 1})

static void put(audit_t *audit, const char *kind, int n, slice_t error, slice_t payload) {
    audit_case_event_t of, first;
    char sha256[DIGEST_HEX_SIZE];
    digest_t digest = digest_of(payload.data, payload.len);
    audit_case_event(&of, kind, n, INT64_C(1763690400000) + n);
    audit_case_event(&first, "failed", 1, 0);
    digest_hex(&digest, sha256);
    of.event.queue = slice_text(n % 2 ? "email" : "video");
    if (strcmp(kind, "failed") != 0) of.event.answers = slice_text(first.id);
    if (strcmp(kind, "requeued") == 0) of.event.job = slice_text(first.job), of.event.queue = slice_text("email");
    of.event.worker = SLICE("w, \"x\"\xff");
    of.event.sha256 = slice_text(sha256);
    of.event.error = error;
    of.event.payload = payload;
    cr_assert(audit_case_put(audit, &of.event));
}

/* A log with events of all kinds, with bytes that need escapes. The caller owns the path. */
static char *hostile_log(void) {
    char *path = audit_case_path();
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    put(audit, "failed", 1, SLICE(""), SLICE("{\"a\":\"quote \\\" comma, and Ł\"}"));
    put(audit, "failed", 2, SLICE("one\r\nline \"two\", three\x1b[31m"), SLICE("\n"));
    put(audit, "failed", 3, SLICE("\xff\xfe"), SLICE("\0\1\2 nul and \xff"));
    put(audit, "failed", 4, SLICE("\""), SLICE("\r"));
    put(audit, "retried", 5, SLICE("=cmd()"), SLICE(""));
    put(audit, "requeued", 6, SLICE(""), SLICE("\xf0\x9f\x98\x80 \xe2\x80\xae"));
    put(audit, "failed", 7, SLICE("\\u0000"), SLICE("\0"));
    put(audit, "failed", 8, SLICE(","), SLICE("aaaaaaaaaaaa,\"\n\"\"\n"));
    char *gap = kept(mem_str("10-0..20-0"));
    audit_case_event_t of;
    audit_case_event(&of, "gap", 9, 5000);
    of.event.job = slice_text(gap);
    cr_assert(audit_case_put(audit, &of.event));
    return path;
}

#define ALL                                                                                                                      \
    "SELECT group_concat(event || kind || dialect || queue || job || type || worker || reason || term || sha256 || answers || "  \
    "answers_ref || ref || attempts || created || started || at || size || typeof(error) || hex(error) || typeof(payload) || "   \
    "hex(payload), char(10)) FROM (SELECT * FROM events ORDER BY event)"

static void expect_equal(const char *a, const char *b) {
    char *of_a = audit_case_sql(a, ALL), *of_b = audit_case_sql(b, ALL);
    cr_assert_str_eq(of_a, of_b);
}

static void write_file(const char *path, const char *text, size_t len) {
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(text, 1, len, file) == len && fclose(file) == 0);
}

static bool is_there(const char *path) { return access(path, F_OK) == 0; }

/* DB.SUFFIX; the caller owns it. */
static char *beside(const char *db, const char *suffix) { return kept_printf("%s.%s", db, suffix); }

Test(daemon_audit_files, an_export_imports_as_the_same_log) {
    char *db = hostile_log(), *file = beside(db, "jsonl"), *copy = beside(file, "db");
    const daemon_output_t *out = daemon_run("audit", "export", file, "--db", db, "-o", "jsonl");
    cr_assert_eq(out->code, 0, "%s", out->err);
    cr_assert_str_empty(out->err);
    cr_assert_str_empty(out->out);
    out = daemon_run("audit", "import", file, "--db", copy);
    cr_assert_eq(out->code, 0, "%s", out->err);
    cr_assert(has(out->out, ": 9 added, 0 known, 0 skipped\n"), "%s", out->out);
    cr_assert(has(out->err, "created a new audit log: "));
    expect_equal(db, copy);
    out = daemon_run("audit", "import", file, "--db", copy);
    cr_assert(has(out->out, ": 0 added, 9 known, 0 skipped\n"), "%s", out->out);
    cr_assert_str_empty(out->err);
    expect_equal(db, copy);
}

Test(daemon_audit_files, an_export_to_a_file_equals_standard_output) {
    static const char *const formats[] = {"jsonl", "csv"};
    char *db = hostile_log();
    for (size_t i = 0; i < 2; i++) {
        char *file = beside(db, formats[i]);
        cr_assert_eq(daemon_run("audit", "export", file, "--db", db, "-o", formats[i])->code, 0);
        char *text = temp_read(file);
        cr_assert_str_eq(daemon_run("audit", "export", "--db", db, "-o", formats[i])->out, text);
    }
}

Test(daemon_audit_files, import_of_csv_is_refused_with_a_hint) {
    char *db = hostile_log(), *file = beside(db, "csv"), *copy = beside(db, "copy");
    cr_assert_eq(daemon_run("audit", "export", file, "--db", db, "-o", "csv")->code, 0);
    const daemon_output_t *out = daemon_run("audit", "import", file, "--db", copy);
    cr_expect_eq(out->code, 1);
    cr_expect(has(out->err, ": is a CSV file, which import does not read: export it again with -o jsonl\n"), "%s", out->err);
    cr_expect(has(out->out, ": 0 added, 0 known, 0 skipped\n"), "%s", out->out);
    char *spreadsheet = beside(db, "bom"), *text = temp_read(file), *marked = kept_printf("\xef\xbb\xbf%s", text);
    write_file(spreadsheet, marked, strlen(marked));
    cr_expect(has(daemon_run("audit", "import", spreadsheet, "--db", copy)->err, ": is a CSV file"));
}

Test(daemon_audit_files, export_filters_and_imports_from_a_pipe) {
    char *db = hostile_log(), *copy = beside(db, "copy"), *err = beside(db, "err");
    char *line = kept_printf("%s audit export --kind failed -q email --db %s | %s audit import - --db %s", daemon_program(), db,
                             daemon_program(), copy);
    child_t *child = child_start(&(child_spec_t){.argv = (const char *const[]){"sh", "-c", line, NULL}, .err = err});
    cr_assert(child_wait(child, 30000));
    char *said = temp_read(err);
    cr_assert_eq(child->exit_code, 0, "%s", said);
    cr_assert_eq(audit_case_count(copy, "SELECT count(*) FROM events"), 3);
    cr_assert_eq(audit_case_count(copy, "SELECT count(*) FROM failed_jobs WHERE queue = 'email'"), 3);
    child_free(child);
}

Test(daemon_audit_files, existing_files_need_force) {
    static const char *const commands[] = {"export", "backup"};
    char *db = hostile_log();
    for (size_t i = 0; i < 2; i++) {
        char *file = beside(db, commands[i]), *part = beside(file, "part");
        struct stat at;
        fclose(fopen(file, "wb"));
        const daemon_output_t *out = daemon_run("audit", commands[i], file, "--db", db);
        cr_expect_eq(out->code, 1);
        cr_expect(has(out->err, "exists: name a new file, or use --force"), "%s", out->err);
        cr_expect(stat(file, &at) == 0 && at.st_size == 0 && !is_there(part));
        out = daemon_run("audit", commands[i], file, "--db", db, "--force");
        cr_expect_eq(out->code, 0, "%s", out->err);
        cr_expect(stat(file, &at) == 0 && at.st_size > 0 && (at.st_mode & 0777) == 0640 && !is_there(part), "%o", at.st_mode);
        cr_expect(has(daemon_run("audit", commands[i], db, "--db", db, "--force")->err, "is the audit log itself"));
        write_file(beside(db, "in-effect.cfg"), "", 0); /* the copy of the config in effect */
        out = daemon_run("audit", commands[i], beside(db, "in-effect.cfg"), "--db", db, "--force");
        cr_expect(has(out->err, "is the audit log itself"), "%s", out->err);
        cr_expect(has(daemon_run("audit", commands[i], "/dev/null", "--db", db, "--force")->err, "is not a regular file"));
        out = daemon_run("audit", commands[i], "no/such/dir/x", "--db", db);
        cr_expect(out->code == 1 && has(out->err, "no/such/dir/x.part: No such file"), "%s", out->err);
    }
    cr_expect_eq(audit_case_count(db, "SELECT count(*) FROM events"), 9);
}

/* SQLite would merge that -wal file into the copy. */
Test(daemon_audit_files, backup_refuses_a_foreign_wal_beside_its_file) {
    char *db = hostile_log(), *file = beside(db, "backup"), *wal = kept_printf("%s-wal", file);
    write_file(wal, "x", 1);
    const daemon_output_t *out = daemon_run("audit", "backup", file, "--db", db, "--force");
    cr_expect(out->code == 1 && has(out->err, "-wal: belongs to another database"), "%s", out->err);
    cr_expect(!is_there(file) && is_there(wal));
    write_file(wal, "", 0);
    cr_expect(has(daemon_run("audit", "backup", "-", "--db", db)->err, "needs the name of a file") && !is_there("-"));
    cr_expect_eq(daemon_run("audit", "backup", file, "--db", db)->code, 0, "an empty -wal file is refused");
}

/* The -wal file of the log holds its newest rows, so the message must not advise moving it away. */
Test(daemon_audit_files, backup_refuses_the_log_itself) {
    char *db = hostile_log(), *wal = kept_printf("%s-wal", db);
    sqlite3 *shell;
    struct stat at;
    cr_assert_eq(sqlite3_open(db, &shell), SQLITE_OK);
    char *why = NULL;
    sqlite3_exec(shell, "PRAGMA journal_mode = wal; CREATE TABLE newest(row)", NULL, NULL, &why);
    cr_assert(!why, "%s", why);
    cr_assert(stat(wal, &at) == 0 && at.st_size > 0);
    const daemon_output_t *out = daemon_run("audit", "backup", db, "--db", db, "--force");
    cr_expect(out->code == 1 && has(out->err, "is the audit log itself") && !has(out->err, "move it away"), "%s", out->err);
    sqlite3_close(shell);
}

Test(daemon_audit_files, a_second_writer_of_a_file_is_refused) {
    char *db = hostile_log(), *file = beside(db, "x"), *part = beside(file, "part");
    int fd = open(part, O_RDWR | O_CREAT, 0600);
    cr_assert(fd >= 0 && flock(fd, LOCK_EX) == 0);
    const daemon_output_t *out = daemon_run("audit", "export", file, "--db", db);
    cr_expect(out->code == 1 && has(out->err, "another process is writing it"), "%s", out->err);
    close(fd);
    cr_expect_eq(daemon_run("audit", "export", file, "--db", db)->code, 0, "the .part of a killed process must be overwritten");
    cr_expect(is_there(file) && !is_there(part));
}

static struct point {
    char name[40], command[12];
} points[] = {{"export_before_rename", "export"}, {"backup_before_rename", "backup"}};

ParameterizedTestParameters(daemon_audit_files, a_killed_writer_leaves_no_file_and_can_be_rerun) {
    return cr_make_param_array(struct point, points, sizeof points / sizeof *points);
}

/* The file appears only when it is whole. */
ParameterizedTest(struct point *point, daemon_audit_files, a_killed_writer_leaves_no_file_and_can_be_rerun) {
    char *db = hostile_log(), *file = beside(db, "x"), *variable = kept_printf("QS_CRASH_AT=%s", point->name),
         *copy = beside(db, "y");
    const char *const words[] = {"audit", point->command, file, "--db", db, NULL};
    const daemon_output_t *out = daemon_run_argv(&(daemon_options_t){.env = (const char *const[]){variable, NULL}}, words);
    cr_assert_eq(out->code, 137);
    cr_assert(!is_there(file));
    out = daemon_run_argv(NULL, words);
    cr_assert_eq(out->code, 0, "%s", out->err);
    cr_assert_eq(daemon_run("audit", "import", file, "--db", copy)->code, 0);
    expect_equal(db, copy);
}

Test(daemon_audit_files, the_program_that_is_shipped_has_no_failpoints) {
    char *db = hostile_log(), *file = beside(db, "x");
    const char *const words[] = {"audit", "export", file, "--db", db, NULL};
    const daemon_options_t shipped = {.binary = daemon_program(),
                                      .env = (const char *const[]){"QS_CRASH_AT=export_before_rename", NULL}};
    cr_expect_eq(daemon_run_argv(&shipped, words)->code, 0);
    cr_expect(is_there(file));
    cr_expect_neq(system(kept_printf("grep -q QS_CRASH_AT %s", daemon_program())), 0);
    cr_expect_eq(system(kept_printf("grep -q QS_CRASH_AT $(dirname %s)/tests/queue-sidecar", daemon_program())), 0);
}

/* A log of n failures; the caller owns the path. */
static char *long_log(int n) {
    char *path = audit_case_path();
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    buffer_t why = {0};
    cr_assert(audit_begin(audit, &why));
    for (int i = 1; i <= n; i++) {
        audit_case_event_t of;
        audit_case_event(&of, "failed", i, INT64_C(1763690400000) + i);
        cr_assert(audit_insert(audit, &of.event, NULL, &why));
    }
    cr_assert(audit_commit(audit, &why), "%s", buffer_text(&why));
    return path;
}

static struct death {
    char name[40];
    int rows; /* in the log after the crash */
} deaths[] = {
    {"import_before_commit", 0}, {"import_before_commit:3", 1000}, {"import_committed:1", 500}, {"import_committed:4", 2000}};

ParameterizedTestParameters(daemon_audit_files, a_killed_import_can_be_rerun) {
    return cr_make_param_array(struct death, deaths, sizeof deaths / sizeof *deaths);
}

ParameterizedTest(struct death *death, daemon_audit_files, a_killed_import_can_be_rerun) {
    char *peer = long_log(2100), *db = audit_case_path(), *variable = kept_printf("QS_CRASH_AT=%s", death->name);
    const char *const words[] = {"audit", "import", peer, "--db", db, NULL};
    const daemon_output_t *out = daemon_run_argv(&(daemon_options_t){.env = (const char *const[]){variable, NULL}}, words);
    cr_assert_eq(out->code, 137);
    cr_assert_eq(audit_case_count(db, "SELECT count(*) FROM events"), death->rows);
    out = daemon_run_argv(NULL, words);
    cr_assert_eq(out->code, 0, "%s", out->err);
    char *expected = kept_printf("%s: %s added, %s known, 0 skipped\n", peer,
                                 death->rows == 0      ? "2,100"
                                 : death->rows == 500  ? "1,600"
                                 : death->rows == 1000 ? "1,100"
                                                       : "100",
                                 death->rows == 0      ? "0"
                                 : death->rows == 500  ? "500"
                                 : death->rows == 1000 ? "1,000"
                                                       : "2,000");
    cr_assert_str_eq(out->out, expected);
    expect_equal(peer, db);
}

/* Wherever the file is cut, import adds its whole lines, names the torn line, and reports a cut file. */
Test(daemon_audit_files, a_truncated_export_imports_its_whole_lines) {
    char *db = hostile_log(), *all = audit_case_sql(db, ALL), *file = beside(db, "jsonl"), *copy = beside(file, "copy");
    cr_assert_eq(daemon_run("audit", "export", file, "--db", db)->code, 0);
    char *text = temp_read(file);
    size_t len = strlen(text);
    for (size_t cut = len; cut > len * 2 / 3; cut -= 1 + cut % 97) {
        write_file(file, text, cut);
        const daemon_output_t *out = daemon_run("audit", "import", file, "--db", copy);
        bool whole = cut + 2 > len; /* only the end of the last line is missing */
        cr_assert_eq(out->code, whole ? 0 : out->code, "%s", out->err);
        cr_assert(out->code == 0 || has(out->err, ": skipped: "), "%s", out->err);
        cr_assert_eq(has(out->err, "the line that ends an export is missing"), !whole, "cut at %zu: %s", cut, out->err);
        char *rows = audit_case_sql(copy, ALL);
        for (char *row = strtok(rows, "\n"); row; row = strtok(NULL, "\n")) cr_assert(has(all, row), "cut at %zu: %s", cut, row);
        cr_assert_eq(unlink(copy), 0);
    }
}

/* The file may be several exports joined by `cat`. */
Test(daemon_audit_files, import_reports_lines_missing_inside_an_export) {
    char *db = hostile_log(), *file = beside(db, "jsonl"), *copy = beside(db, "copy");
    const char *text = daemon_run("audit", "export", "--db", db)->out, *second = strchr(text, '\n') + 1;
    write_file(file, second, strlen(second));
    const daemon_output_t *out = daemon_run("audit", "import", file, "--db", copy);
    cr_assert_eq(out->code, 1);
    cr_assert(has(out->err, ": 1 exported events are missing"), "%s", out->err);
    cr_assert(has(out->out, ": 8 added, 0 known, 0 skipped\n"), "%s", out->out);
    char *both = kept_printf("%s%s", text, text);
    write_file(file, both, strlen(both));
    out = daemon_run("audit", "import", file, "--db", copy);
    cr_assert_eq(out->code, 0, "%s", out->err);
    cr_assert_str_empty(out->err);
    cr_assert(has(out->out, ": 1 added, 17 known, 0 skipped\n"), "%s", out->out);
}

Test(daemon_audit_files, import_names_bad_lines_and_keeps_good_ones) {
    char *db = hostile_log(), *file = beside(db, "jsonl"), *copy = beside(db, "copy");
    const daemon_output_t *out = daemon_run("audit", "export", "--db", db, "--kind", "failed");
    char *first = strchr(out->out, '\n') + 1,
         *text = kept_printf("%.*s{\"x\n\xff\xfe\n%s", (int)(first - out->out), out->out, first);
    write_file(file, text, strlen(text));
    out = daemon_run("audit", "import", file, "--db", copy);
    cr_assert_eq(out->code, 1);
    cr_assert(has(out->err, ": line 2: skipped: is not valid JSON at byte 2") &&
                  has(out->err, ": line 3: skipped: is not a JSON"),
              "%s", out->err);
    cr_assert(has(out->out, ": 6 added, 0 known, 2 skipped\n"), "%s", out->out);
}

/* A wrong file has only bad lines, which must not bury the summary. */
Test(daemon_audit_files, import_names_only_the_first_100_bad_lines) {
    char *db = audit_case_path(), *file = beside(db, "jsonl");
    for (int lines = 100; lines <= 101; lines++) {
        scoped(buffer_free) buffer_t text = {0};
        for (int i = 0; i < lines; i++) buffer_str(&text, "{}\n");
        write_file(file, text.data, text.len);
        const daemon_output_t *out = daemon_run("audit", "import", file, "--db", db);
        cr_expect_eq(out->code, 1);
        cr_expect(has(out->err, ": line 100: skipped: ") && !has(out->err, ": line 101: skipped: "), "%s", out->err);
        cr_expect_eq(has(out->err, ": these are the first 100 skipped lines; the others are only counted\n"), lines > 100);
        char *counted = kept_printf(": 0 added, 0 known, %d skipped\n", lines);
        cr_expect(has(out->out, counted), "%s", out->out);
    }
}

Test(daemon_audit_files, import_refuses_other_files_with_a_reason) {
    static const struct {
        const char *text, *reason;
    } rows[] = {{"hello\n", "is neither an audit log nor an export (-o jsonl) of one"},
                {"[]\n", "is one JSON array: export it again with -o jsonl"},
                {"event,kind\r\nx,y\r\n", "is a CSV file, which import does not read: export it again with -o jsonl"},
                {"SQLite format 3", "is no SQLite database"}};
    char *db = hostile_log(), *file = beside(db, "x");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file(file, rows[i].text, strlen(rows[i].text));
        const daemon_output_t *out = daemon_run("audit", "import", file, "--db", db);
        cr_expect_eq(out->code, 1);
        cr_expect(has(out->err, rows[i].reason), "%s: %s", rows[i].text, out->err);
    }
    cr_expect(has(daemon_run("audit", "import", db, "--db", db)->err, "is the audit log itself"));
    cr_expect(has(daemon_run("audit", "import", "no-such-file", "--db", db)->err, "no-such-file: No such file"));
    cr_expect(has(daemon_run("audit", "import", ".", "--db", db)->err, "Is a directory"));
    cr_expect(has(daemon_run("audit", "import", "/dev/zero", "--db", db)->err, rows[0].reason)); /* it has no end */
    cr_expect_eq(daemon_run("audit", "import", "--db", db)->code, 2);
    cr_expect_eq(daemon_run("audit", "export", "-o", "table", "--db", db)->code, 2);
    cr_expect_eq(audit_case_count(db, "SELECT count(*) FROM events"), 9);
}

/* Like a copy over a network that broke off. */
Test(daemon_audit_files, a_truncated_log_imports_its_readable_rows) {
    char *peer = long_log(4000), *db = audit_case_path();
    struct stat at;
    cr_assert(stat(peer, &at) == 0 && truncate(peer, at.st_size / 2 / 4096 * 4096) == 0);
    const daemon_output_t *out = daemon_run("audit", "import", peer, "--db", db);
    cr_assert_eq(out->code, 1);
    cr_assert(has(out->err, "cannot be read: the file is damaged"), "%s", out->err);
    long long rows = audit_case_count(db, "SELECT count(*) FROM events");
    cr_assert(rows > 500 && rows < 4000, "%lld rows: %s", rows, out->err);
    cr_assert_eq(audit_case_count(db, "SELECT count(*) FROM pragma_quick_check WHERE quick_check = 'ok'"), 1);
}

Test(daemon_audit_files, importing_a_peers_log_fills_a_gap) {
    char *peer = long_log(10), *db = hostile_log();
    audit_t *audit = audit_case_open(peer, AUDIT_WRITE);
    buffer_t why = {0};
    cr_assert(audit_begin(audit, &why) && audit_set_position(audit, "q", "30-0", &why) && audit_commit(audit, &why));
    audit_close(audit);
    cr_assert(has(daemon_run("audit", "list", "--kind", "gap", "--db", db)->out, "open"));
    const daemon_output_t *out = daemon_run("audit", "import", peer, "--db", db);
    cr_assert_eq(out->code, 0, "%s", out->err);
    cr_assert(has(out->out, ": fills the gap ") && has(out->out, " of queue q (records 10-0..20-0, up to "), "%s", out->out);
    cr_assert(has(out->out, "1 gap filled"), "%s", out->out);
    cr_assert(has(daemon_run("audit", "list", "--kind", "gap", "--db", db)->out, "filled"));
    char *ref = audit_case_sql(db, "SELECT ref FROM events WHERE kind = 'gap'");
    out = daemon_run("audit", "show", ref, "--db", db);
    cr_assert(has(out->out, "state     filled") && has(out->out, "were added from the audit log"), "%s", out->out);
}

/* As docs/audit.md says: nothing is lost, and no gap is reported. */
Test(daemon_audit_files, a_restored_backup_catches_up_from_the_stream, .timeout = 120) {
    enum { BEFORE = 20, ALL_OF_THEM = 50 };
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"q\"; }"});
    const char *db = daemon_audit_path(d);
    char *backup = beside(db, "backup"), *wal = kept_printf("%s-wal", db), *shm = kept_printf("%s-shm", db);
    char *name = mem_str("SELECT value FROM facts WHERE name = 'instance'");
    audit_log_feed(s.r, "q", 0, BEFORE, NULL);
    cr_assert(wait_for(audit_log_rows(db) == BEFORE, 20000));
    cr_assert_eq(daemon_run("audit", "backup", backup, "--db", db)->code, 0);
    char *before = audit_case_sql(db, name), *of_backup = audit_case_sql(backup, name);
    cr_assert_str_neq(before, of_backup, "a backup must have an instance name of its own");
    audit_log_feed(s.r, "q", BEFORE, ALL_OF_THEM - BEFORE, NULL);
    cr_assert(wait_for(audit_log_rows(db) == ALL_OF_THEM, 20000));
    cr_assert_eq(daemon_terminate(d, 10000).code, 0);
    unlink(wal);
    unlink(shm);
    cr_assert_eq(rename(backup, db), 0);
    daemon_restart(d);
    cr_assert(wait_for(audit_log_rows(db) == ALL_OF_THEM, 20000));
    audit_log_expect(db, "q", 0, ALL_OF_THEM);
    cr_assert_eq(audit_case_count(db, "SELECT count(*) FROM events WHERE kind = 'gap'"), 0);
    cr_assert_eq(daemon_log_count(d, "audit log was lost"), 0);
    char *after = audit_case_sql(db, name);
    cr_assert_str_eq(after, before, "the restored log must keep the instance name of the file at that path");
    free(name);
}

/* A sidecar copies a long stream while a peer is imported, a backup and an export are made: none waits too long,
 * and none lacks rows. */
Test(daemon_audit_files, import_export_and_backup_run_beside_a_writing_sidecar, .timeout = 120) {
    enum { FED = 60000, PEER = 8000 };
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    char *peer = long_log(PEER);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"q\"; }"});
    const char *db = daemon_audit_path(d);
    char *backup = beside(db, "backup"), *export = beside(db, "jsonl");
    for (int fed = 0; fed < FED; fed += 5000) audit_log_feed(s.r, "q", fed, 5000, NULL);
    cr_assert(wait_for(audit_log_rows(db) > 0, 20000));
    const daemon_output_t *out = daemon_run("audit", "backup", backup, "--db", db);
    cr_assert_eq(out->code, 0, "%s", out->err);
    out = daemon_run("audit", "import", peer, "--db", db);
    cr_assert_eq(out->code, 0, "%s", out->err);
    cr_assert(has(out->out, ": 8,000 added, 0 known, 0 skipped"), "%s", out->out);
    out = daemon_run("audit", "export", export, "--db", db);
    cr_assert_eq(out->code, 0, "%s", out->err);
    if (!wait_for(audit_log_rows(db) == FED + PEER, 60000)) cluster_fail(&s, "the log lacks rows");
    cr_assert_eq(daemon_log_count(d, "cannot write audit log"), 0);
    long long copied = audit_log_rows(backup);
    cr_assert(copied > 0 && copied <= FED, "%lld rows", copied);
    audit_log_expect(backup, "q", 0, (int)copied);
    cr_assert_eq(audit_log_int(backup, "SELECT count(*) FROM pragma_quick_check WHERE quick_check = 'ok'"), 1);
    cr_assert_eq(daemon_run("audit", "list", "--db", backup)->code, 0);
}
