/* The output of `queue-sidecar audit` for hostile jobs, on a terminal and for spreadsheets. */
#include "audit/audit.h"
#include "audit_case.h"
#include "child.h"
#include "daemon.h"
#include "tempdir.h"
#include "terminal.h"
#include "text.h"
#include "wait.h"

/* A log with one failure; the caller owns its path. */
static char *log_of_one(const char *queue, const char *error) {
    char *db = audit_case_path();
    scoped(audit_drop) audit_t *audit = audit_case_open(db, AUDIT_WRITE);
    audit_case_event_t of;
    audit_case_event(&of, "failed", 1, 1763690401007);
    of.event.queue = slice_text(queue);
    of.event.reason = slice_text("reported");
    of.event.error = slice_text(error);
    of.event.payload = slice_text(error);
    cr_assert(audit_case_put(audit, &of.event));
    return db;
}

/* The caller owns the ref. */
static char *ref_of(const char *db, const char *job) {
    char *sql = kept_printf("SELECT ref FROM failed_jobs WHERE job_id = '%s'", job), *ref = audit_case_sql(db, sql);
    return ref;
}

/* The caller owns the text. */
static char *printed_on_terminal(const char *const *argv) {
    terminal_t *terminal = terminal_open(80, 24);
    child_t *child = child_start(&(child_spec_t){.argv = argv, .out = terminal_path(terminal)});
    cr_assert(wait_for((terminal_raw(terminal), !child_running(child)), 30000));
    cr_assert_eq(child->exit_code, 0);
    char *raw = kept_printf("%s", terminal_raw(terminal));
    child_free(child);
    terminal_free(terminal);
    return raw;
}

#define ON_TERMINAL(...) printed_on_terminal((const char *const[]){daemon_program(), "audit", __VA_ARGS__, NULL})

/* Control characters of both kinds, marks of direction, a byte order mark, a soft hyphen, the tag of an A, a carriage return. */
#define UNSEEN  "\xc2\xad\xf3\xa0\x81\x81"
#define HOSTILE UNSEEN "a\x1b[2J\x07\x08\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf\rb\r\nc \xc5\x81"

static void expect_harmless(const char *shown) {
    for (const char *at = shown; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        bool line_end = byte == '\n' || (byte == '\r' && at[strspn(at, "\r")] == '\n'); /* a terminal makes CR LF of LF */
        cr_expect((byte >= 0x20 && byte != 0x7f) || line_end, "byte %02x in %s", byte, shown);
    }
    static const char *const bad[] = {"\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6", "\xef\xbb\xbf", "\xc2\xad", "\xf3\xa0\x81\x81"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) cr_expect(!has(shown, bad[i]), "%s", shown);
    cr_expect(has(shown, "\\u202e") && has(shown, "\\u009b") && has(shown, " \xc5\x81"), "%s", shown);
}

Test(daemon_audit_output, a_terminal_gets_no_control_character_in_any_format) {
    char *db = log_of_one("q", HOSTILE);
    char *ref = ref_of(db, "job-1");
    static const char *const formats[] = {"json", "jsonl", "csv"};
    for (size_t i = 0; i < 3; i++) {
        bool is_json = i == 0;
        char *shown[] = {ON_TERMINAL("list", "--db", db, "-o", formats[i]),
                         ON_TERMINAL("show", ref, "--db", db, "-o", formats[i]),
                         ON_TERMINAL("export", "--db", db, "-o", is_json ? "jsonl" : formats[i])};
        for (size_t n = 0; n < 3; n++) {
            expect_harmless(shown[n]);
            free(shown[n]);
        }
    }
    /* In JSON an escape means the same character, and a file gets all bytes. */
    char *json = ON_TERMINAL("list", "--db", db, "-o", "json"), *file = temp_path(temp_root(), "out.csv");
    cr_expect(has(json, "\"\\u00ad\\udb40\\udc41a\\u001b["
                        "2J\\u0007\\u0008\\u007f\\u009b\\u202e\\u2066\\ufeff\\u000db\\u000d\\u000ac \xc5\x81\""),
              "%s", json);
    free(ON_TERMINAL("export", file, "--db", db, "-o", "csv"));
    char *csv = temp_read(file);
    cr_expect(has(csv, HOSTILE), "%s", csv);
    cr_expect(has(daemon_run("audit", "list", "--db", db, "-o", "csv")->out, HOSTILE));
    free(json);
}

Test(daemon_audit_output, csv_guards_formulas_unless_raw) {
    char *db = log_of_one("=q", "=HYPERLINK(\"http://x\")");
    char *ref = ref_of(db, "job-1");
    const char *const commands[][4] = {{"list"}, {"show", ref}, {"export", "-"}, {"stats"}};
    for (size_t i = 0; i < 4; i++) {
        const char *operand = commands[i][1] ? commands[i][1] : "--utc";
        const daemon_output_t *guarded = daemon_run("audit", commands[i][0], operand, "--db", db, "-o", "csv");
        const daemon_output_t *raw = daemon_run("audit", commands[i][0], operand, "--db", db, "-o", "csv", "--raw");
        cr_expect(has(guarded->out, "'=q,") && !has(raw->out, "'="), "%s%s%s", guarded->out, raw->out, raw->err);
        cr_expect(has(raw->out, ",=q,") || has(raw->out, "\r\n=q,"), "%s%s", raw->out, raw->err);
    }
    cr_expect_eq(daemon_run("audit", "list", "--db", db, "-o", "json", "--raw")->code, 2);
}
