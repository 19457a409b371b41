/* Other processes open the auditor's log or overwrite it. */
#include "auditor_fixture.h"
#include "http/health.h"
#include "wait.h"

#include <glob.h>
#include <sqlite3.h>
#include <sys/stat.h>

static long long size_of(setup_t *d, const char *suffix) {
    struct stat at = {0};
    char *path = kept_printf("%s%s", d->path, suffix);
    if (stat(path, &at) != 0) at.st_size = 0;
    return at.st_size;
}

/* The reader is like a sqlite3 shell with an open transaction. */
Test(redis_auditor_concurrency, an_endless_reader_is_reported_once) {
    static const char GROWS[] = "a reader lets the -wal file of the audit log grow";
    enum { MAX_WAL = 4 * 1024 * 1024 / 16, ROWS = 3000 };
    setup_t d = {.audit = "retain_bytes = \"4MiB\"; retain_rows = 100000;"};
    sqlite3 *shell;
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 1, NULL);
    expect_rows(&d, 1);
    cr_assert_eq(sqlite3_open_v2(d.path, &shell, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(shell, "BEGIN; SELECT count(*) FROM events", NULL, NULL, NULL), SQLITE_OK);
    audit_log_feed(d.f.r, "email", 1, ROWS, NULL);
    expect_rows(&d, ROWS + 1);
    cr_assert(driver_until(&d.instance.driver, fixture_log_count(GROWS) == 1, 5000), "%lld bytes of wal", size_of(&d, "-wal"));
    fixture_step_boottime(31000);
    audit_log_feed(d.f.r, "email", ROWS + 1, 100, NULL);
    expect_rows(&d, ROWS + 101);
    settle(&d);
    cr_assert_eq(fixture_log_count(GROWS), 1);
    cr_assert_gt(size_of(&d, "-wal"), 2 * MAX_WAL);
    cr_assert_eq(sqlite3_exec(shell, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    fixture_step_boottime(31000);
    audit_log_feed(d.f.r, "email", ROWS + 101, 1, NULL);
    expect_rows(&d, ROWS + 102);
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("-wal file of the audit log has stopped growing") == 1, 5000));
    audit_log_feed(d.f.r, "email", ROWS + 102, 1, NULL);
    expect_rows(&d, ROWS + 103);
    cr_assert_leq(size_of(&d, "-wal"), 2 * MAX_WAL);
    sqlite3_close(shell);
    close_auditor(&d);
}

static void expect_quick_check_ok(setup_t *d) {
    char *said = audit_log_word(d->path, "PRAGMA integrity_check");
    cr_assert_str_eq(said, "ok");
}

static bool wal_is_set_aside(const setup_t *d) {
    char *pattern = kept_printf("%s.corrupt-*-wal", d->path);
    glob_t found;
    int result = glob(pattern, 0, NULL, &found);
    if (result == 0) globfree(&found);
    return result == 0;
}

/* `cp old.db audit.db` over the open log keeps the inode. The auditor sets the -wal file aside, opens the copy and refills it.
 * `rows` came after the copy, and are checkpointed (`checkpointed`) or only in the -wal file. */
static void expect_whole_after_copy(int rows, bool checkpointed) {
    enum { BEFORE = 20 };
    char position[32];
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "100%41?#", "", NULL); /* a path that is not a valid URI */
    char *copy = kept_printf("%s/copy.db", d.dir);
    audit_log_feed(d.f.r, "email", 0, BEFORE, "1");
    expect_rows(&d, BEFORE);
    stop(&d);
    copy_file(d.path, copy);
    start(&d);
    audit_log_feed(d.f.r, "email", BEFORE, rows, "1");
    expect_rows(&d, BEFORE + rows);
    if (checkpointed) restart(&d);
    audit_log_feed(d.f.r, "email", BEFORE + rows, 1, "1");
    snprintf(position, sizeof position, "1-%d ", BEFORE + rows);
    expect_acknowledged(&d, "email", position);
    copy_file(copy, d.path);
    if (checkpointed) cr_assert(driver_until(&d.instance.driver, fixture_log_count("overwritten while it was open") == 1, 5000));
    /* The readers of this test may write: one that came earlier would merge the former -wal file into the copy. */
    if (checkpointed) cr_assert(driver_until(&d.instance.driver, wal_is_set_aside(&d), 10000));
    audit_log_feed(d.f.r, "email", BEFORE + rows + 1, 1, "1");
    expect_rows(&d, BEFORE + rows + 2);
    audit_log_expect(d.path, "email", 0, BEFORE + rows + 2);
    expect_quick_check_ok(&d);
    restart(&d);
    settle(&d);
    audit_log_expect(d.path, "email", 0, BEFORE + rows + 2);
    cr_assert_eq(gaps(&d), 0);
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_lost), 0);
    cr_assert_eq(redis_int(d.f.r, "HLEN sidecar:email:auditors"), 1);
    close_auditor(&d);
}

Test(redis_auditor_concurrency, an_older_copy_overwrites_the_open_log) { expect_whole_after_copy(5000, true); }
/* One row needs no new page: only the number of commits differs. */
Test(redis_auditor_concurrency, a_copy_without_the_last_row_overwrites_the_open_log) { expect_whole_after_copy(1, true); }
Test(redis_auditor_concurrency, a_copy_from_the_last_checkpoint_overwrites_the_open_log) { expect_whole_after_copy(5, false); }

/* The log of another pod may have more commits. */
Test(redis_auditor_concurrency, another_log_overwrites_the_open_log) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    char *copy = kept_printf("%s/copy.db", d.dir);
    audit_log_feed(d.f.r, "email", 0, 50, "1");
    expect_rows(&d, 50);
    stop(&d);
    copy_file(d.path, copy);
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(copy, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db,
                              "UPDATE facts SET value = '00112233445566778899aabbccddeeff' WHERE name = 'instance'; "
                              "UPDATE facts SET value = '1000000' WHERE name = 'commits'",
                              NULL, NULL, NULL),
                 SQLITE_OK);
    sqlite3_close(db);
    start(&d);
    settle(&d);
    copy_file(copy, d.path);
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("overwritten while it was open") == 1, 5000));
    cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->audit_lost) == 1, 10000));
    cr_assert(driver_until(&d.instance.driver,
                           audit_log_int(d.path, "SELECT count(*) FROM events WHERE reason = 'log_replaced'") == 1, 5000));
    audit_log_feed(d.f.r, "email", 50, 1, "1");
    expect_rows(&d, 51);
    cr_assert(driver_until(&d.instance.driver, redis_int(d.f.r, "HLEN sidecar:email:auditors") == 1, 5000));
    for (int check = 0; check < 3; check++) {
        fixture_step_boottime(1100);
        settle(&d);
    }
    cr_assert_eq(fixture_log_count("overwritten while it was open"), 1, "%s", fixture_log());
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_lost), 1);
    close_auditor(&d);
}

/* Number of faults in the metric, plus log lines about an overwritten file. */
static int64_t faults(setup_t *d) { return metric_get(&metrics_of(d)->audit_faults) + fixture_log_count("overwritten while"); }

static bool has_rows(setup_t *d, long long rows) {
    bool there = driver_until(&d->instance.driver, faults(d) || audit_log_rows(d->path) == rows, 30000);
    cr_assert(there, "%lld rows, %lld were expected", audit_log_rows(d->path), rows);
    return faults(d) == 0;
}

/* Changes by SQLite, or of the inode alone, are no overwrite: neither while all rows are in the -wal file, nor after a
 * checkpoint. Returns the number of faults after the first round with a fault. */
static int64_t faults_after(const char *sql, const char *command) {
    enum { ROUNDS = 6 };
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    sqlite3 *db;
    for (int i = 0; i < ROUNDS && faults(&d) == 0; i++) {
        if (i == ROUNDS / 2) restart(&d); /* the last connection checkpoints everything */
        audit_log_feed(d.f.r, "email", 100 * i, 100, "1");
        if (!has_rows(&d, 100 * (i + 1))) break;
        cr_assert_eq(sqlite3_open(d.path, &db), SQLITE_OK);
        sqlite3_busy_timeout(db, 5000);
        if (sql) cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
        sqlite3_close(db);
        char *line = kept_printf("%s '%s'", command ? command : ":", d.path);
        cr_assert_eq(system(line), 0);
        for (int check = 0; check < 3; check++) {
            fixture_step_boottime(1100);
            settle(&d);
        }
    }
    int64_t found = faults(&d);
    close_auditor(&d);
    return found;
}

Test(redis_auditor_concurrency, a_foreign_checkpoint_is_no_overwrite) {
    cr_assert_eq(faults_after("PRAGMA wal_checkpoint(TRUNCATE)", NULL), 0);
}
Test(redis_auditor_concurrency, manual_vacuum_does_not_count_as_overwrite) { cr_assert_eq(faults_after("VACUUM", NULL), 0); }
Test(redis_auditor_concurrency, a_checkpointed_vacuum_is_no_overwrite) {
    cr_assert_eq(faults_after("VACUUM; PRAGMA wal_checkpoint(FULL)", NULL), 0);
}
Test(redis_auditor_concurrency, chmod_does_not_count_as_overwrite) { cr_assert_eq(faults_after(NULL, "chmod 0600"), 0); }
Test(redis_auditor_concurrency, a_touch_is_no_overwrite) {
    int64_t found = faults_after(NULL, "touch");
    cr_assert_eq(found, 0, "a touch counted as %lld faults", (long long)found);
}

static uint32_t read_u32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Makes the file of a process that was killed when it had checkpointed only page 1
 * (https://www.sqlite.org/fileformat.html#the_write_ahead_log). */
static void checkpoint_page_one(const setup_t *d) {
    enum { WAL_HEAD = 32, FRAME_HEAD = 24, PAGE = 4096 };
    char *path = kept_printf("%s-wal", d->path);
    FILE *wal = fopen(path, "re"), *file = fopen(d->path, "r+e");
    unsigned char frame[FRAME_HEAD + PAGE], page[PAGE];
    bool found = false;
    cr_assert(wal && file && fseek(wal, WAL_HEAD, SEEK_SET) == 0);
    while (fread(frame, sizeof frame, 1, wal) == 1)
        if (read_u32(frame) == 1) found = memcpy(page, frame + FRAME_HEAD, PAGE);
    cr_assert(found && fwrite(page, PAGE, 1, file) == 1 && fclose(file) == 0 && fclose(wal) == 0);
}

Test(redis_auditor_concurrency, an_interrupted_checkpoint_is_no_overwrite) {
    setup_t d = {0};
    sqlite3 *db, *alone;
    open_checkpointed(&d, 500);
    cr_assert_eq(sqlite3_open(d.path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "DELETE FROM events WHERE seq < 400; VACUUM", NULL, NULL, NULL), SQLITE_OK);
    checkpoint_page_one(&d);
    char *uri = kept_printf("file:%s?immutable=1", d.path);
    cr_assert_eq(sqlite3_open_v2(uri, &alone, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL), SQLITE_OK);
    cr_assert_neq(sqlite3_exec(alone, "SELECT value FROM facts", NULL, NULL, NULL), SQLITE_OK,
                  "the file alone must be unreadable");
    sqlite3_close(alone);
    for (int check = 0; check < 3; check++) {
        fixture_step_boottime(1100);
        settle(&d);
    }
    sqlite3_close(db);
    audit_log_feed(d.f.r, "email", 500, 1, "1");
    cr_assert(has_rows(&d, 102), "%s", fixture_log());
    expect_quick_check_ok(&d);
    cr_assert_eq(faults(&d), 0, "%s", fixture_log());
    close_auditor(&d);
}

/* Expects that the auditor fills a new log from the stream. */
static void expect_set_aside_and_refilled(setup_t *d) {
    cr_assert(driver_until(&d->instance.driver, fixture_log_count("overwritten while it was open") == 1, 10000), "%s",
              fixture_log());
    cr_assert(driver_until(&d->instance.driver, metric_get(&metrics_of(d)->audit_lost) == 1, 10000), "%s", fixture_log());
    audit_log_feed(d->f.r, "email", 50, 1, "1");
    expect_rows(d, 51);
    audit_log_expect(d->path, "email", 0, 51);
    expect_quick_check_ok(d);
    close_auditor(d);
}

/* Overwrites the log with garbage of the same length. No new record makes SQLite read it. */
static void expect_refilled_after_overwrite(const char *command_on) {
    setup_t d = {0};
    open_checkpointed(&d, 50);
    char *command = kept_printf(command_on, d.path, size_of(&d, ""));
    cr_assert_eq(system(command), 0);
    expect_set_aside_and_refilled(&d);
}

Test(redis_auditor_concurrency, garbage_overwrites_the_open_log) {
    expect_refilled_after_overwrite("dd if=/dev/urandom of='%s' bs=%lld count=1 conv=notrunc 2>/dev/null");
}
Test(redis_auditor_concurrency, garbage_behind_the_header_overwrites_the_open_log) {
    expect_refilled_after_overwrite("dd if=/dev/urandom of='%s' bs=1 seek=100 count=%lld conv=notrunc 2>/dev/null");
}
/* A valid magic, but no valid page size. */
Test(redis_auditor_concurrency, garbage_behind_the_magic_overwrites_the_open_log) {
    expect_refilled_after_overwrite("head -c 2 /dev/zero | dd of='%s' bs=1 seek=16 conv=notrunc 2>/dev/null");
}
/* A valid database with our application id and no table (https://www.sqlite.org/fileformat.html#b_tree_pages). */
Test(redis_auditor_concurrency, a_log_without_tables_overwrites_the_open_log) {
    expect_refilled_after_overwrite("printf '\\015\\0\\0\\0\\0\\020\\0\\0' | dd of='%s' bs=1 seek=100 conv=notrunc 2>/dev/null");
}

/* SQLite alone would not notice: nothing is checkpointed yet, so it reads all pages from the -wal file. */
Test(redis_auditor_concurrency, the_open_log_is_truncated) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 50, "1");
    expect_rows(&d, 50);
    settle(&d);
    cr_assert_eq(truncate(d.path, 50), 0);
    expect_set_aside_and_refilled(&d);
}

/* Expects that /readyz gives this reason for the audit log; NULL: that it is ready. */
static void expect_reason(const setup_t *d, const char *reason) {
    scoped(buffer_free) buffer_t json = {0};
    scoped(health_drop) health_t *health = health_new(d->instance.metrics, "app", true);
    health_ready(health, &json);
    static const char CHECK[] = "\"check\": \"audit\", \"ok\": ";
    const char *at = strstr(buffer_text(&json), CHECK);
    cr_assert_not_null(at);
    bool well = strncmp(at + strlen(CHECK), "true", 4) == 0;
    cr_assert(reason ? !well && strstr(at, reason) : well, "%s", at);
}

/* The auditor does not change a database of another program. Failures wait in their streams until somebody removes the file.
 * `checkpointed`: all rows are checkpointed; otherwise SQLite still reads them from the -wal file. */
static void expect_foreign_left_alone(bool checkpointed) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    char *copy = kept_printf("%s/foreign.db", d.dir);
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(copy, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "CREATE TABLE t(a); INSERT INTO t VALUES (1)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    audit_log_feed(d.f.r, "email", 0, 50, "1");
    expect_rows(&d, 50);
    if (checkpointed) restart(&d);
    settle(&d);
    copy_file(copy, d.path);
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("overwritten while it was open") == 1, 10000), "%s",
              fixture_log());
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("is the database of another program") == 1, 10000), "%s",
              fixture_log());
    audit_log_feed(d.f.r, "email", 50, 1, "1");
    settle(&d);
    expect_reason(&d, "is the database of another program");
    cr_assert_eq(audit_log_int(d.path, "SELECT a FROM t"), 1);
    expect_acknowledged(&d, "email", "1-49 "); /* the new record is in no log */
    cr_assert_eq(unlink(d.path), 0);
    expect_rows(&d, 51);
    expect_reason(&d, NULL);
    audit_log_expect(d.path, "email", 0, 51);
    close_auditor(&d);
}

Test(redis_auditor_concurrency, a_foreign_database_overwrites_the_open_log) { expect_foreign_left_alone(true); }
Test(redis_auditor_concurrency, a_foreign_database_overwrites_a_log_with_a_wal) { expect_foreign_left_alone(false); }
