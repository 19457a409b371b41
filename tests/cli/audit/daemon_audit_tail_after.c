/* `queue-sidecar audit tail --after`: a program that keeps the last ref goes on there, and misses no event. */
#include "tail_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

static char *ref_of(const char *db, int n) {
    return audit_case_sql(db, kept_printf("SELECT ref FROM events WHERE job = 'job-%d'", n));
}

static tail_t start_after(const char *db, const char *ref) {
    return start(db, (const char *const[]){"--after", ref, "-o", "jsonl", NULL});
}

/* An event counts as later if it reached this log later, whatever its time is. */
Test(daemon_audit_tail_after, prints_what_reached_the_log_after_an_event) {
    char *db = audit_case_path();
    put(db, "failed", 11, 13);
    put(db, "retried", 14, 14);
    put(db, "failed", 1, 10);
    scoped(finish) tail_t tail = start_after(db, ref_of(db, 12));
    expect(&tail, "13 1 2 3 4 5 6 7 8 9 10 ");
    put(db, "failed", 15, 15);
    expect(&tail, "13 1 2 3 4 5 6 7 8 9 10 15 ");
    scoped(finish) tail_t last = start_after(db, ref_of(db, 15));
    cr_assert(wait_for(count_sleeps(&last) >= 4, 10000));
    put(db, "failed", 16, 16);
    expect(&last, "16 ");
    expect_silence(&tail);
    expect_silence(&last);
}

Test(daemon_audit_tail_after, prints_the_whole_log_without_an_event) {
    char *db = audit_case_path();
    put(db, "failed", 1, 12);
    scoped(finish) tail_t all = start_after(db, ""), unknown = start_after(db, "aaaaaaaaaaaa");
    expect(&all, "1 2 3 4 5 6 7 8 9 10 11 12 ");
    expect_silence(&all);
    expect(&unknown, "1 2 3 4 5 6 7 8 9 10 11 12 ");
    char *said = temp_read(unknown.err);
    cr_expect_str_eq(said, "queue-sidecar: this log has no event aaaaaaaaaaaa; printing it from its first event on\n");
}

/* The new file may have events that the old one never had, also of an earlier time than the last one that was printed. */
Test(daemon_audit_tail_after, prints_all_of_a_replaced_log) {
    char *db = audit_case_path(), *aside = kept_printf("%s.aside", db);
    put(db, "failed", 1, 2);
    put(db, "failed", 5, 5);
    scoped(finish) tail_t tail = start_after(db, ref_of(db, 1));
    expect(&tail, "2 5 ");
    cr_assert_eq(rename(db, aside), 0);
    put(db, "failed", 1, 6);
    expect(&tail, "2 5 1 2 3 4 5 6 ");
    cr_expect(mentions(tail.err, "the audit log was replaced"));
}

Test(daemon_audit_tail_after, waits_for_a_log_and_looks_for_the_event_there) {
    char *db = audit_case_path(), *made = kept_printf("%s.made", db);
    put(made, "failed", 1, 4);
    scoped(finish) tail_t tail = start(db, (const char *const[]){"--wait", "--after", ref_of(made, 2), "-o", "jsonl", NULL});
    cr_assert(wait_for(mentions(tail.err, "; waiting for the log\n"), 10000));
    cr_assert_eq(rename(made, db), 0);
    expect(&tail, "3 4 ");
}

Test(daemon_audit_tail_after, refuses_what_names_no_single_event) {
    char *db = audit_case_path();
    put(db, "failed", 1, 40);
    const daemon_output_t *out = daemon_run("audit", "tail", "--after", "no-ref", "--db", db);
    cr_expect_eq(out->code, 2);
    cr_expect_not_null(strstr(out->err, "`no-ref` is not a ref"), "%s", out->err);
    out = daemon_run("audit", "tail", "--after", "aaaaaaaaaaaa", "-n", "3", "--db", db);
    cr_expect_eq(out->code, 2);
    cr_expect_not_null(strstr(out->err, "--after and -n exclude each other"), "%s", out->err);
    char *twice = audit_case_sql(db, "SELECT substr(ref, 1, 1) FROM events GROUP BY 1 HAVING count(*) > 1 LIMIT 1");
    out = daemon_run("audit", "tail", "--after", twice, "--db", db);
    cr_expect_eq(out->code, 1);
    cr_expect_not_null(strstr(out->err, "several refs begin with"), "%s", out->err);
    char *late = audit_case_path();
    scoped(finish) tail_t tail = start(late, (const char *const[]){"--wait", "--after", "no-ref", NULL});
    cr_assert(wait_for(mentions(tail.err, "; waiting for the log\n"), 10000));
    put(late, "failed", 1, 1);
    cr_assert(child_wait(tail.child, 10000));
    cr_expect_eq(tail.child->exit_code, 2);
}

static void chmod_directory(const char *db, mode_t mode) {
    char *dir = kept(mem_str(db));
    *strrchr(dir, '/') = '\0';
    cr_assert_eq(chmod(dir, mode), 0);
}

/* As in a second container that mounts the directory read-only, and starts before the sidecar. */
Test(daemon_audit_tail_after, sees_new_rows_although_its_directory_is_read_only) {
    char *db = audit_case_path(), *out = kept_printf("%s.out", db), *err = kept_printf("%s.err", db);
    put(db, "failed", 1, 2);
    temp_write(out, "");
    temp_write(err, "");
    chmod_directory(db, 0555);
    const char *const words[] = {
        "setpriv", "--bounding-set=-all", daemon_program(), "audit", "tail", "--after", "", "-o", "jsonl", "--db", db, NULL};
    scoped(finish) tail_t tail = {.out = out, .err = err};
    /* Without capabilities root is an ordinary owner. */
    tail.child = child_start(&(child_spec_t){.argv = words + (geteuid() == 0 ? 0 : 2), .out = out, .err = err});
    expect(&tail, "1 2 ");
    for (int n = 3; n <= 4; n++) {
        chmod_directory(db, 0755);
        put(db, "failed", n, n);
        chmod_directory(db, 0555);
        expect(&tail, n == 3 ? "1 2 3 " : "1 2 3 4 ");
    }
    chmod_directory(db, 0755);
}
