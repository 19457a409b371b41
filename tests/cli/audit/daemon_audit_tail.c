/* `queue-sidecar audit tail`: new rows in order, also after the file is replaced. */
#include "tail_fixture.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

Test(daemon_audit_tail, prints_the_last_rows_and_then_new_ones) {
    char *db = audit_case_path();
    put(db, "failed", 1, 5);
    put(db, "retried", 6, 7);
    scoped(finish) tail_t tail = start(db, (const char *const[]){"-n", "3", "-o", "jsonl", NULL});
    expect(&tail, "3 4 5 ");
    put(db, "failed", 8, 9);
    put(db, "requeued", 10, 10);
    put(db, "failed", 11, 11);
    expect(&tail, "3 4 5 8 9 11 ");
    child_signal(tail.child, SIGINT);
    cr_assert(child_wait(tail.child, 5000));
    cr_expect_eq(tail.child->term_signal, SIGINT, "it must end by the signal");
    expect_silence(&tail);
}

Test(daemon_audit_tail, filters_and_formats_apply) {
    char *db = audit_case_path();
    put(db, "failed", 1, 5);
    put(db, "retried", 6, 7);
    scoped(finish) tail_t all = start(db, (const char *const[]){"-n", "3", "--all-kinds", "-o", "jsonl", NULL}),
                          none = start(db, (const char *const[]){"-n", "0", "-o", "jsonl", NULL}),
                          table = start(db, (const char *const[]){"--kind", "retried", "--utc", NULL});
    expect(&all, "5 6 7 ");
    cr_assert(wait_for(mentions(table.out, "job-7"), 10000));
    put(db, "retried", 8, 8);
    expect(&all, "5 6 7 8 ");
    cr_assert(wait_for(mentions(table.out, "job-8"), 10000));
    int last = 8; /* tail does not show when it has begun; it may begin after some of these rows */
    cr_assert(wait_for((last++, put(db, "failed", last, last), !shows(&none, "")), 10000));
    char *first = jobs(&none), *text = temp_read(table.out);
    cr_expect_eq(strncmp(text, "REF           AT (UTC)", 22), 0, "%s", text);
    cr_expect_geq(atoi(first), 9, "%s", first);
    cr_expect_null(strstr(text, "job-9"));
}

/* Columns that are the same in each row are left out. */
Test(daemon_audit_tail, a_narrow_terminal_has_room_for_the_error) {
    char *db = audit_case_path();
    audit_t *audit = audit_case_open(db, AUDIT_WRITE);
    audit_case_event_t of;
    audit_case_event(&of, "failed", 1, INT64_C(1763690400000));
    of.event.error = slice_text("SMTP timeout: mx1");
    cr_assert(audit_case_put(audit, &of.event));
    audit_close(audit);
    static const struct {
        const char *width, *words[4], *title, *row;
    } rows[] = {
        {"COLUMNS=80",
         {"--utc"},
         "  QUEUE     REASON    JOB           ERROR, ELSE PAYLOAD",
         "  q         retries…  job-1         SMTP timeout: mx1\n"},
        {"COLUMNS=80",
         {"--utc", "-q", "q"},
         "  AT (UTC)     REASON    JOB    ",
         "  11-21 02:00  retries…  job-1         SMTP timeout: mx1\n"},
        {"COLUMNS=96",
         {"--utc", "--all-kinds"},
         "  KIND    REASON             JOB    ",
         "  failed  retries_exhausted  job-1         SMTP timeout: mx1\n"},
        {"COLUMNS=120", {"--utc", "-q", "q"}, "  QUEUE         KIND    REASON             JOB    ", "SMTP timeout: mx1\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scoped(finish) tail_t tail = start_in(rows[i].width, db, rows[i].words);
        cr_assert(wait_for(mentions(tail.out, "\n") && mentions(tail.out, "mx1\n"), 10000), "%s", rows[i].width);
        char *text = temp_read(tail.out);
        cr_expect(strstr(text, rows[i].title) && strstr(text, rows[i].row), "%s: %s", rows[i].width, text);
    }
}

/* Like the auditor with a damaged log: sets it aside, creates a new one, fills it from the stream. */
Test(daemon_audit_tail, follows_a_replaced_file) {
    char *db = audit_case_path(), *aside = kept_printf("%s.aside", db);
    put(db, "failed", 1, 3);
    scoped(finish) tail_t tail = start(db, (const char *const[]){"-n", "2", "-o", "jsonl", NULL});
    expect(&tail, "2 3 ");
    put(db, "failed", 4, 4);
    expect(&tail, "2 3 4 ");
    cr_assert_eq(rename(db, aside), 0);
    put(db, "failed", 2, 6); /* 2 to 4 come again */
    expect(&tail, "2 3 4 5 6 ");
    put(db, "failed", 7, 7);
    expect(&tail, "2 3 4 5 6 7 ");
    char *err = temp_read(tail.err);
    cr_expect_str_eq(err, "queue-sidecar: the audit log was replaced; following the new file\n");
    child_signal(tail.child, SIGTERM);
    cr_assert(child_wait(tail.child, 5000));
}

Test(daemon_audit_tail, follows_an_older_copy_written_over_the_file) {
    char *db = audit_case_path();
    put(db, "failed", 1, 4);
    scoped(finish) tail_t tail = start(db, (const char *const[]){"-n", "2", "-o", "jsonl", NULL});
    expect(&tail, "3 4 ");
    sqlite3 *copy;
    cr_assert_eq(sqlite3_open(db, &copy), SQLITE_OK);
    cr_assert_eq(
        sqlite3_exec(copy, "BEGIN; DELETE FROM events WHERE seq > 2; UPDATE facts SET value = '2' WHERE name = 'commits'; COMMIT",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(copy);
    cr_assert(wait_for(mentions(tail.err, "was replaced"), 10000));
    put(db, "failed", 4, 5); /* 4 comes again */
    expect(&tail, "3 4 5 ");
}

/* Retention removes the lowest times first, which may be those of the last rows. */
Test(daemon_audit_tail, removing_the_last_row_is_not_a_replaced_file) {
    char *db = audit_case_path();
    put(db, "failed", 1, 4);
    scoped(finish) tail_t tail = start(db, (const char *const[]){"-n", "2", "-o", "jsonl", NULL});
    expect(&tail, "3 4 ");
    audit_case_sql(db, "DELETE FROM events WHERE seq = 4");
    long before = count_sleeps(&tail); /* a poll that finds nothing shows only here */
    cr_assert(wait_for(count_sleeps(&tail) >= before + 4, 10000));
    put(db, "failed", 5, 5); /* with the seq of the removed row */
    expect(&tail, "3 4 5 ");
    expect_silence(&tail);
}

Test(daemon_audit_tail, ends_when_its_reader_is_gone) {
    char *db = audit_case_path(), *err = kept_printf("%s.err", db);
    put(db, "failed", 1, 3);
    char *line = kept_printf("%s audit tail -o jsonl --db %s | head -n 1 >/dev/null", daemon_program(), db);
    scoped(child_drop) child_t *child =
        child_start(&(child_spec_t){.argv = (const char *const[]){"sh", "-c", line, NULL}, .err = err});
    cr_assert(child_wait(child, 10000), "it must end although no further row comes");
    char *said = temp_read(err);
    cr_expect_str_empty(said);
}

Test(daemon_audit_tail, ends_when_the_disk_is_full) {
    char *db = audit_case_path(), *err = kept_printf("%s.err", db);
    put(db, "failed", 1, 3);
    const char *const argv[] = {daemon_program(), "audit", "tail", "-o", "jsonl", "--db", db, NULL};
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = argv, .out = "/dev/full", .err = err});
    cr_assert(child_wait(child, 10000));
    char *said = temp_read(err);
    cr_expect_eq(child->exit_code, 1);
    cr_expect_not_null(strstr(said, "cannot write to standard output: check that the disk is not full"), "%s", said);
}

Test(daemon_audit_tail, a_missing_log_is_an_error) {
    char *db = audit_case_path();
    const daemon_output_t *out = daemon_run("audit", "tail", "--db", db);
    cr_expect_eq(out->code, 1);
    cr_expect_not_null(strstr(out->err, "no such file"));
    cr_expect_eq(daemon_run("audit", "tail", "-o", "json", "--db", db)->code, 2);
}

/* The log may come late: its sidecar starts at the same time, or makes the directory first. */
Test(daemon_audit_tail, waits_for_a_log_and_its_directory) {
    char *root = temp_dir("wait"), *dir = temp_path(root, "later"), *db = temp_path(dir, "audit.db");
    scoped(finish) tail_t tail = start(db, (const char *const[]){"--wait", "-n", "2", "-o", "jsonl", NULL});
    cr_assert(wait_for(mentions(tail.err, "; waiting for the log\n"), 10000));
    char *said = temp_read(tail.err);
    long before = count_sleeps(&tail);
    cr_assert(wait_for(count_sleeps(&tail) >= before + 4, 10000));
    cr_assert_eq(mkdir(dir, 0700), 0);
    temp_write(db, ""); /* what a log is while it is made */
    before = count_sleeps(&tail);
    cr_assert(wait_for(count_sleeps(&tail) >= before + 4, 10000));
    put(db, "failed", 1, 4);
    expect(&tail, "1 2 3 4 ");
    put(db, "failed", 5, 5);
    expect(&tail, "1 2 3 4 5 ");
    cr_expect_str_eq(temp_read(tail.err), said, "it says once that it waits, and nothing of a replaced log");
    cr_assert_eq(rename(db, kept_printf("%s.aside", db)), 0);
    put(db, "failed", 6, 6);
    expect(&tail, "1 2 3 4 5 6 ");
    cr_expect(mentions(tail.err, "the audit log was replaced"));
}

Test(daemon_audit_tail, wait_says_why_a_file_cannot_be_the_log) {
    char *db = audit_case_path();
    temp_write(db, "this is the file of another program, and longer than a page of nothing");
    scoped(finish) tail_t tail = start(db, (const char *const[]){"--wait", "-o", "jsonl", NULL});
    cr_assert(wait_for(mentions(tail.err, "; waiting for the log\n"), 20000));
    cr_assert_eq(unlink(db), 0);
    put(db, "failed", 1, 1);
    expect(&tail, "1 ");
}
