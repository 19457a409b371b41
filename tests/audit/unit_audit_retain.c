/* Retention and migrations of the audit log, on real files. */
#include "audit/migrations.h"
#include "audit/query/query.h"
#include "audit/store.h"
#include "audit_case.h"
#include "tempdir.h"

#include <criterion/parameterized.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { MUCH_US = 60 * 1000 * 1000 };
static const int64_t NOW = INT64_C(1800000000000);

static char *path;
static audit_t *audit;
static audit_lock_t *lock;
SUITE(unit_audit_retain, path = audit_case_path(), audit_close(audit); audit_lock_free(lock));

/* Inserts events first .. first + count - 1, one a second from at0 on, in one transaction. Like the auditor when it reads a
 * stream again, skips rows that retention has removed. */
static void insert_events(audit_t *log, int first, int count, int64_t at0, size_t payload) {
    buffer_t why = {0};
    char *bytes = kept(mem_alloc(payload + 1));
    memset(bytes, 'p', payload);
    cr_assert(audit_begin(log, &why));
    for (int i = first; i < first + count; i++) {
        audit_case_event_t item;
        audit_case_event(&item, i % 5 == 4 ? "retried" : "failed", i, at0 + i * 1000);
        item.event.payload = (slice_t){bytes, payload};
        if (audit_has_removed(log, item.event.at)) continue;
        cr_assert(audit_insert(log, &item.event, NULL, &why), "%s", buffer_text(&why));
    }
    cr_assert(audit_commit(log, &why), "%s", buffer_text(&why));
}

static audit_retain_result_t step(audit_limits_t limits, int64_t budget_us) {
    buffer_t why = {0};
    audit_retain_result_t done;
    cr_assert(audit_retain(audit, &limits, NOW, budget_us, &done, &why), "%s", buffer_text(&why));
    return done;
}

/* Steps until nothing is left to do; returns the number of removed rows. */
static int64_t retain_all(audit_limits_t limits, int64_t budget_us, int *steps) {
    int64_t dropped = 0;
    int count = 0;
    for (bool more = true; more;) {
        audit_retain_result_t done = step(limits, budget_us);
        more = done.more;
        dropped += done.removed;
        cr_assert_lt(++count, 100000, "retention never ends");
    }
    if (steps) *steps = count;
    return dropped;
}

static audit_usage_t usage_of(void) {
    buffer_t why = {0};
    audit_usage_t use;
    cr_assert(audit_measure(audit, &use, &why), "%s", buffer_text(&why));
    return use;
}

static int64_t size_of(void) {
    struct stat at;
    cr_assert_eq(stat(path, &at), 0);
    return at.st_size;
}

static int64_t rows_fact(void) { return audit_case_count(path, "SELECT value FROM facts WHERE name = 'rows'"); }
static int64_t rows(void) { return audit_case_count(path, "SELECT count(*) FROM events"); }

Test(unit_audit_retain, only_rows_older_than_retain_are_removed) {
    audit = audit_case_open(path, AUDIT_WRITE);
    insert_events(audit, 0, 1000, NOW - 3600 * 1000 - 500 * 1000, 10); /* 500 are older than an hour */
    cr_assert_eq(usage_of().oldest_ms, NOW - 3600 * 1000 - 500 * 1000);
    cr_assert_eq(retain_all((audit_limits_t){.retain_ms = 3600 * 1000}, MUCH_US, NULL), 500);
    cr_assert_eq(rows(), 500);
    cr_assert_eq(rows_fact(), 500);
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE at < 1800000000000 - 3600000"), 0);
    cr_assert_eq(audit_case_count(path, "SELECT value FROM facts WHERE name = 'dropped'"), NOW - 3600 * 1000 - 1000);
    cr_assert_eq(retain_all((audit_limits_t){.retain_ms = 3600 * 1000}, MUCH_US, NULL), 0);
    audit_retain_result_t done;
    buffer_t why = {0};
    cr_assert(audit_retain(audit, &(audit_limits_t){.retain_ms = 1}, 0, MUCH_US, &done, &why)); /* the time is unknown */
    cr_assert_eq(done.removed, 0);
}

Test(unit_audit_retain, retain_rows_removes_the_lowest_at_first) {
    audit = audit_case_open(path, AUDIT_WRITE);
    insert_events(audit, 500, 500, NOW, 10);
    insert_events(audit, 0, 500, NOW, 10); /* an import brings older rows */
    cr_assert_eq(retain_all((audit_limits_t){.rows = 1000}, MUCH_US, NULL), 0, "no row is over the limit");
    cr_assert_eq(retain_all((audit_limits_t){.rows = 640}, MUCH_US, NULL), 370, "removes down to 1/64 below the limit");
    cr_assert_eq(rows(), 630);
    cr_assert_eq(audit_case_count(path, "SELECT min(at) FROM events"), NOW + 370 * 1000);
    cr_assert_eq(rows_fact(), 630);
}

/* Rows written while the clock was ahead must not outlive rows written after the clock was set back. */
Test(unit_audit_retain, rows_go_in_order_of_arrival_after_the_clock_went_back) {
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_limits_t limits = {.rows = 64, .latest_ms = NOW + 200 * 1000};
    insert_events(audit, 0, 50, NOW + 3600 * 1000, 10);
    insert_events(audit, 50, 50, NOW, 10);
    cr_assert_eq(retain_all(limits, MUCH_US, NULL), 37);
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE at < 1800000000000 + 3600000"), 50);
    cr_assert_eq(audit_case_count(path, "SELECT value FROM facts WHERE name = 'dropped'"), NOW + (3600 + 36) * 1000);
    insert_events(audit, 0, 37, NOW + 3600 * 1000, 10);
    cr_assert_eq(rows(), 63, "removed rows came back");
    limits.latest_ms += 3600 * 1000; /* the clock has reached the newest row: the lowest `at` is the oldest row again */
    limits.rows = 32;
    retain_all(limits, MUCH_US, NULL);
    cr_assert_eq(audit_case_count(path, "SELECT min(job) = 'job-37' FROM events WHERE at >= 1800000000000 + 3600000"), 1);
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE at >= 1800000000000 + 3600000"), 13);
    cr_assert_eq(rows_fact(), rows());
}

/* The last row to go is not the one with the highest `at`. */
Test(unit_audit_retain, the_highest_removed_time_stays_after_the_clock_went_back) {
    audit = audit_case_open(path, AUDIT_WRITE);
    insert_events(audit, 0, 10, NOW + 3600 * 1000, 10);
    insert_events(audit, 10, 10, NOW, 10);
    retain_all((audit_limits_t){.rows = 5, .latest_ms = NOW + 200 * 1000}, MUCH_US, NULL);
    cr_assert_eq(rows(), 5);
    cr_assert_eq(audit_case_count(path, "SELECT value FROM facts WHERE name = 'dropped'"), NOW + (3600 + 9) * 1000);
    insert_events(audit, 0, 10, NOW + 3600 * 1000, 10);
    cr_assert_eq(rows(), 5, "removed rows came back");
}

Test(unit_audit_retain, removed_rows_return_by_import_only) {
    audit = audit_case_open(path, AUDIT_WRITE);
    insert_events(audit, 0, 100, NOW, 10);
    retain_all((audit_limits_t){.rows = 50}, MUCH_US, NULL);
    cr_assert_eq(rows(), 50);
    insert_events(audit, 0, 100, NOW, 10);
    cr_assert_eq(rows(), 50);
    audit_close(audit);
    audit = audit_case_open(path, AUDIT_WRITE);
    insert_events(audit, 0, 100, NOW, 10);
    cr_assert_eq(rows(), 50);
    audit_t *import = audit_case_open(path, AUDIT_IMPORT);
    insert_events(import, 0, 100, NOW, 10);
    audit_close(import);
    cr_assert_eq(rows(), 100);
    cr_assert_eq(rows_fact(), 100);
    retain_all((audit_limits_t){.rows = 90}, MUCH_US, NULL); /* removes older rows than before: the highest removed `at` stays */
    cr_assert_eq(audit_case_count(path, "SELECT value FROM facts WHERE name = 'dropped'"), NOW + 49 * 1000);
    insert_events(audit, 0, 50, NOW, 10);
    cr_assert_eq(rows(), 89);
}

Test(unit_audit_retain, retain_bytes_keeps_the_file_below_the_limit) {
    enum { LIMIT = 4 * 1024 * 1024 };
    buffer_t why = {0};
    lock = audit_lock_new(path);
    audit = audit_open_locked(lock, &(audit_open_options_t){.max_bytes = LIMIT}, &why);
    cr_assert_not_null(audit, "%s", buffer_text(&why));
    cr_assert_eq(audit_case_count(path, "PRAGMA auto_vacuum"), 2);
    for (int i = 0; i < 40; i++) insert_events(audit, i * 500, 500, NOW, 400);
    cr_assert_gt(size_of(), 2 * LIMIT);
    int steps = 0;
    cr_assert_gt(retain_all((audit_limits_t){.bytes = LIMIT}, 2000, &steps), 5000);
    cr_assert_gt(steps, 10, "a step is short");
    cr_assert_leq(usage_of().used_bytes, LIMIT);
    cr_assert_leq(size_of(), LIMIT);
    cr_assert_gt(usage_of().used_bytes, LIMIT / 2, "too many rows were removed");
    cr_assert_eq(rows(), rows_fact());
    cr_assert_eq(audit_case_count(path, "SELECT min(at) FROM events") + (rows() - 1) * 1000, NOW + 19999 * 1000);
    char *whole = audit_case_sql(path, "PRAGMA integrity_check");
    cr_assert_str_eq(whole, "ok");
    for (int i = 40; i < 80; i++) { /* the file stays below the limit under load */
        insert_events(audit, i * 500, 500, NOW, 400);
        retain_all((audit_limits_t){.bytes = LIMIT}, 2000, NULL);
        cr_assert_leq(usage_of().bytes, LIMIT + LIMIT / 4);
    }
}

/* The writes of many transactions are merged into the log before the -wal file grows further. The last transaction may exceed the
 * limit. */
static void expect_wal_limit(int64_t retain_bytes, int64_t limit) {
    enum { ROWS = 128, PAYLOAD = 8192, TRANSACTION = ROWS * PAYLOAD * 5 / 4 };
    audit_lock_t *held = audit_lock_new(audit_case_path());
    buffer_t why = {0};
    audit_t *log = audit_open_locked(held, &(audit_open_options_t){.max_bytes = retain_bytes}, &why);
    cr_assert_not_null(log, "%s", buffer_text(&why));
    int64_t largest = 0, transactions = 5 * limit / (4 * ROWS * PAYLOAD) + 3;
    for (int i = 0; i < (int)transactions; i++) {
        insert_events(log, i * ROWS, ROWS, NOW, PAYLOAD);
        if (audit_wal_bytes(log) > largest) largest = audit_wal_bytes(log);
    }
    cr_expect(largest > limit - TRANSACTION && largest < limit + 2 * TRANSACTION, "%lld of %lld bytes", (long long)largest,
              (long long)limit);
    audit_close(log);
    audit_lock_free(held);
}

Test(unit_audit_retain, the_wal_file_has_64_mib_at_most, .timeout = 120) { expect_wal_limit(0, 64 << 20); }
Test(unit_audit_retain, the_wal_file_has_64_mib_at_most_in_a_large_log, .timeout = 120) {
    expect_wal_limit((int64_t)16 << 30, 64 << 20);
}
Test(unit_audit_retain, the_wal_file_of_a_small_log_has_a_sixteenth_of_retain_bytes) { expect_wal_limit(128 << 20, 8 << 20); }

Test(unit_audit_retain, a_log_created_by_import_can_shrink) {
    audit_close(audit_case_open(path, AUDIT_IMPORT));
    cr_assert_eq(audit_case_count(path, "PRAGMA auto_vacuum"), 2);
}

Test(unit_audit_retain, a_step_ends_when_its_budget_is_spent) {
    audit = audit_case_open(path, AUDIT_WRITE);
    for (int i = 0; i < 10; i++) insert_events(audit, i * 500, 500, NOW, 100);
    audit_retain_result_t done = step((audit_limits_t){.rows = 100}, 0);
    cr_assert_eq(done.removed, 1, "at least one row, so that retention ends");
    cr_assert(done.more);
    cr_assert_eq(rows(), 4999);
}

Test(unit_audit_retain, oldest_rows_are_found_without_sorting) {
    audit_close(audit_case_open(path, AUDIT_WRITE));
    char *plan = audit_case_plan(path, "SELECT at, seq FROM events WHERE kind = 'failed' ORDER BY at LIMIT 64"),
         *others = audit_case_plan(path, "SELECT at, seq FROM events WHERE kind <> 'failed' ORDER BY at LIMIT 64");
    cr_assert(strstr(plan, "COVERING INDEX failures_at") && !strstr(plan, "TEMP B-TREE"), "%s", plan);
    cr_assert(strstr(others, "COVERING INDEX others_at") && !strstr(others, "TEMP B-TREE"), "%s", others);
}

/* A file of schema 1: no auto_vacuum, and with rows. */
static void make_schema_1(int count) {
    fclose(fopen(path, "w"));
    audit_case_sql(path, "PRAGMA journal_mode = WAL");
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, migrations[0].sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    char *sql = sqlite3_mprintf(
        "INSERT INTO facts VALUES ('instance', '00112233445566778899aabbccddeeff'); INSERT INTO positions VALUES ('q', '5-7');"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d - 1) INSERT INTO events SELECT NULL, "
        "printf('%%012d', i), printf('%%064d', i), iif(i %% 5, 'failed', 'retried'), 'list', 'q', i, '', '', 'reported', '', '', "
        "'', '', 4, "
        "1, 1, i, 3, 'e', zeroblob(300) FROM n",
        count);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_free(sql);
    sqlite3_close(db);
    cr_assert_eq(audit_case_count(path, "PRAGMA user_version"), 1);
    cr_assert_eq(audit_case_count(path, "PRAGMA auto_vacuum"), 0);
}

typedef struct {
    const char *group;
    int count;
} group_count_t;

static bool count_group(void *self, const audit_row_t *row) {
    group_count_t *of = self;
    of->count += slice_is(row->event.group, of->group);
    return true;
}

static int rows_of_group(const char *group) {
    group_count_t of = {.group = group};
    buffer_t why = {0};
    cr_assert(audit_list(audit, &(audit_filter_t){.all_kinds = true}, count_group, &of, &why), "%s", buffer_text(&why));
    return of.count;
}

static void expect_migrated(int count) {
    cr_assert_eq(audit_case_count(path, "PRAGMA user_version"), 7);
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM pragma_table_info('events') WHERE name = 'group'"), 1);
    cr_assert_eq(audit_case_count(path, "PRAGMA auto_vacuum"), 2);
    cr_assert_eq(rows(), count);
    cr_assert_eq(rows_fact(), count);
    cr_assert_eq(audit_case_count(path, "SELECT sum(length(payload)) FROM events"), 300 * count);
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'others_at'"), 1);
    char *text = audit_case_sql(path, "SELECT value FROM facts WHERE name = 'instance'"),
         *position = audit_case_sql(path, "SELECT position FROM positions"),
         *whole = audit_case_sql(path, "PRAGMA integrity_check");
    cr_assert_str_eq(text, "00112233445566778899aabbccddeeff");
    cr_assert_str_eq(position, "5-7");
    cr_assert_str_eq(whole, "ok");
}

Test(unit_audit_retain, a_schema_1_file_is_migrated_and_can_shrink) {
    make_schema_1(3000);
    char *why = audit_case_refused(path, AUDIT_READ);
    cr_assert(strstr(why, "has schema 1, this version reads 2"), "%s", why);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_not(audit_has_no_auto_vacuum(audit));
    expect_migrated(3000);
    int64_t before = size_of();
    retain_all((audit_limits_t){.rows = 300}, MUCH_US, NULL); /* in one step: an interrupted one may leave 256 free pages */
    cr_assert_lt(size_of(), before / 3);
}

/* A log of 0.1.0 is read as it is. An auditor adds the column. */
Test(unit_audit_retain, a_log_of_0_1_0_gets_the_column_group) {
    make_schema_1(3);
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, migrations[1].sql, NULL, NULL, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "DROP VIEW failed_jobs", NULL, NULL, NULL), SQLITE_OK); // a view is not needed to go on
    audit = audit_case_open(path, AUDIT_READ);
    cr_expect_eq(rows_of_group(""), 3);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM pragma_table_info('events') WHERE name = 'group'"), 0);
    audit_close(audit);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_expect_eq(audit_case_count(path, "PRAGMA user_version"), 7);
    audit_case_event_t item;
    audit_case_event(&item, "failed", 7, 1000);
    item.event.group = slice_text("billing");
    cr_assert(audit_case_put(audit, &item.event));
    cr_expect_eq(rows_of_group(""), 3);
    cr_expect_eq(rows_of_group("billing"), 1);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM failed_jobs WHERE \"group\" = 'billing'"), 1);
    sqlite3_close(db);
}

Test(unit_audit_retain, a_reader_does_not_block_the_migration) {
    make_schema_1(300);
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM events", NULL, NULL, NULL), SQLITE_OK);
    audit_close(audit_case_open(path, AUDIT_WRITE));
    sqlite3_close(db);
    audit_close(audit_case_open(path, AUDIT_WRITE));
    expect_migrated(300);
}

/* A file that cannot be rewritten now is used as it is. */
Test(unit_audit_retain, a_file_without_auto_vacuum_stays_within_its_limits) {
    enum { LIMIT = 1024 * 1024 };
    make_schema_1(3000);
    lock = audit_lock_new(path);
    buffer_t why = {0};
    audit = audit_open_locked(lock, &(audit_open_options_t){.keep_file = true, .max_bytes = LIMIT}, &why);
    cr_assert_not_null(audit, "%s", buffer_text(&why));
    cr_assert(audit_has_no_auto_vacuum(audit));
    cr_assert_eq(audit_case_count(path, "PRAGMA auto_vacuum"), 0);
    cr_assert_gt(usage_of().used_bytes, LIMIT);
    cr_assert_gt(retain_all((audit_limits_t){.bytes = LIMIT}, 4000, NULL), 300);
    cr_assert(usage_of().used_bytes <= LIMIT && rows() > 300, "%lld bytes, %lld rows", (long long)usage_of().used_bytes,
              (long long)rows());
}

/* Kills a process at a failpoint of a migration or of retention. The file must be as before that step, or as after it. */
static void die_at(const char *point, int rows_limit) {
    enum { STEP_US = 200 }; /* so short that each point is reached twice on a fast machine, too */
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        buffer_t why = {0};
        audit_retain_result_t done = {.more = true};
        setenv("QS_CRASH_AT", point, 1);
        audit = audit_open(path, AUDIT_WRITE, &why);
        while (audit && done.more && audit_retain(audit, &(audit_limits_t){.rows = rows_limit}, NOW, STEP_US, &done, &why)) {
        }
        _exit(1);
    }
    waitpid(pid, &status, 0);
    cr_assert_eq(WEXITSTATUS(status), 137, "the process did not reach %s", point);
}

static struct point {
    char name[40];
} migration_points[] = {{"audit_migrate_before_commit"}, {"audit_migrated"}, {"audit_convert_before"}, {"audit_converted"}};
ParameterizedTestParameters(unit_audit_retain, killed_in_a_migration) {
    return cr_make_param_array(struct point, migration_points, sizeof migration_points / sizeof *migration_points);
}
ParameterizedTest(struct point *point, unit_audit_retain, killed_in_a_migration) {
    make_schema_1(1000);
    die_at(point->name, 0);
    audit_close(audit_case_open(path, AUDIT_WRITE));
    expect_migrated(1000);
}

static struct point retain_points[] = {
    {"audit_retain_before_commit"}, {"audit_retain_before_commit:3"}, {"audit_retained"},
    {"audit_retained:3"},           {"audit_vacuum_before"},          {"audit_vacuum_before:2"}};
ParameterizedTestParameters(unit_audit_retain, killed_in_retention) {
    return cr_make_param_array(struct point, retain_points, sizeof retain_points / sizeof *retain_points);
}
ParameterizedTest(struct point *point, unit_audit_retain, killed_in_retention) {
    audit = audit_case_open(path, AUDIT_WRITE);
    for (int i = 0; i < 20; i++) insert_events(audit, i * 500, 500, NOW, 500);
    audit_close(audit);
    die_at(point->name, 1000);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_eq(rows(), rows_fact());
    int64_t kept = rows();
    for (int i = 0; i < 20; i++) insert_events(audit, i * 500, 500, NOW, 500); /* the stream is read again */
    cr_assert_eq(rows(), kept, "removed rows came back");
    retain_all((audit_limits_t){.rows = 1000}, 4000, NULL);
    cr_assert_eq(rows(), kept < 985 ? kept : 985);
    cr_assert_eq(audit_case_count(path, "SELECT max(at) FROM events"), NOW + 9999 * 1000);
    char *whole = audit_case_sql(path, "PRAGMA integrity_check");
    cr_assert_str_eq(whole, "ok");
}
