/* The auditor, and others who open its log or write over it. */
#include "auditor_desk.h"
#include "wait.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

static long long size_of(desk_t *d, const char *suffix) {
    struct stat at = {0};
    char *path = mem_printf("%s%s", d->path, suffix);
    if (stat(path, &at) != 0) at.st_size = 0;
    free(path);
    return at.st_size;
}

/* As a shell does that somebody left in a transaction. */
Test(redis_auditor_beside, a_reader_that_does_not_end_is_said_once) {
    static const char GROWS[] = "somebody reads the audit log and does not end";
    enum { WAL_MOST = 4 * 1024 * 1024 / 16, ROWS = 1500 };
    desk_t d = {.audit = "retain_bytes = \"4MiB\"; retain_rows = 100000;"};
    sqlite3 *shell;
    open_desk(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 1, NULL);
    expect_rows(&d, 1);
    cr_assert_eq(sqlite3_open_v2(d.path, &shell, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(shell, "BEGIN; SELECT count(*) FROM events", NULL, NULL, NULL), SQLITE_OK);
    audit_log_feed(d.f.r, "email", 1, ROWS, NULL);
    expect_rows(&d, ROWS + 1);
    cr_assert(stage_until(&d.crew.stage, fixture_log_count(GROWS) == 1, 5000), "%lld bytes of wal", size_of(&d, "-wal"));
    fixture_step_boottime(31000);
    audit_log_feed(d.f.r, "email", ROWS + 1, 100, NULL);
    expect_rows(&d, ROWS + 101);
    settle(&d);
    cr_assert_eq(fixture_log_count(GROWS), 1);
    cr_assert_gt(size_of(&d, "-wal"), 2 * WAL_MOST);
    cr_assert_eq(sqlite3_exec(shell, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    fixture_step_boottime(31000);
    audit_log_feed(d.f.r, "email", ROWS + 101, 1, NULL);
    expect_rows(&d, ROWS + 102);
    cr_assert(stage_until(&d.crew.stage, fixture_log_count("-wal grows no more") == 1, 5000));
    audit_log_feed(d.f.r, "email", ROWS + 102, 1, NULL);
    expect_rows(&d, ROWS + 103);
    cr_assert_leq(size_of(&d, "-wal"), 2 * WAL_MOST);
    sqlite3_close(shell);
    close_desk(&d);
}
