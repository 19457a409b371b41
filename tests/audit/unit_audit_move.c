/* The migration to schema 5: every event keeps all its columns, whatever interrupts the move. And the table `contexts`. */
#include "audit/migrations.h"
#include "audit/query/query.h"
#include "audit_case.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 12000 };
static const int64_t NOW = INT64_C(1800000000000);

/* Events of all kinds, with bytes that are no text, numbers at the limits, texts that are no ids, and empty columns. */
static const char fill_sql[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO events (seq, ref, event, kind, "
    "dialect, queue, job, type, worker, reason, term, sha256, answers, answers_ref, attempts, created, started, at, size, error, "
    "payload) SELECT i * 3, 'aaaaaaaaaaaa', printf('%%064x', i), iif(i %% 7, 'failed', iif(i %% 2, 'requeued', 'retried')), "
    "'list', 'q' || i %% 11, 'job-' || i, iif(i %% 5, 'mail', ''), 'worker-' || i %% 50, iif(i %% 7 OR i %% 2 = 0, 'reported', "
    "'a "
    "note ' || i), 'term-' || i / 9000, CASE i %% 4 WHEN 0 THEN '' WHEN 1 THEN 'NOT HEX' ELSE printf('%%064x', i * i) END, "
    "iif(i %% 7 OR i %% 2 = 0, '', printf('%%064x', i - 1)), iif(i %% 7 OR i %% 2 = 0, '', 'aaaaaaaaaaaa'), "
    "iif(i = 9, 9223372036854775807, i %% 4), iif(i = 9, -9223372036854775807 - 1, i), 0, i, i, CASE i %% 3 WHEN 0 THEN "
    "x'00ff' WHEN 1 THEN '\xc3\xa4' ELSE '' END, iif(i %% 2, printf('%%.*c', i %% 300, 'p'), CAST('a' || x'00' AS BLOB)) FROM n;"
    "UPDATE facts SET value = (SELECT count(*) FROM events) WHERE name = 'rows';"
    "UPDATE events SET payload = randomblob(20000) WHERE seq = 300;"
    "INSERT INTO facts VALUES ('instance', '00112233445566778899aabbccddeeff');";

static char *make_log(int schema, int count) {
    char *path = audit_case_path();
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; BEGIN", NULL, NULL, NULL);
    for (int i = 0; i < 2; i++) cr_assert_eq(sqlite3_exec(db, migrations[i].sql, NULL, NULL, NULL), SQLITE_OK);
    char *sql = sqlite3_mprintf(fill_sql, count);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_free(sql);
    for (int i = 2; i < schema; i++) cr_assert_eq(sqlite3_exec(db, migrations[i].sql, NULL, NULL, NULL), SQLITE_OK);
    if (schema > 2) sqlite3_exec(db, "UPDATE events SET \"group\" = 'g' || seq % 2", NULL, NULL, NULL);
    cr_assert_eq(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    return path;
}

/* Every column of all events but `ref`, which older rows of this test have not from their ids. */
#define ALL_COLUMNS                                                                                                              \
    "seq || quote(event) || kind || dialect || queue || job || quote(type) || worker || reason || term || quote(sha256) || "     \
    "quote(answers) || quote(answers_ref) || attempts || ',' || created || ',' || started || ',' || at || ',' || size || "       \
    "quote(error) || quote(payload)"
static char *columns(const char *path) {
    return audit_case_sql(path, "SELECT " ALL_COLUMNS " || quote(\"group\") || char(10) FROM events ORDER BY seq");
}

static void open_dies_at(const char *path, const char *point) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        buffer_t why = {0};
        setenv("QS_CRASH_AT", point, 1);
        _exit(audit_open(path, AUDIT_WRITE, &why) ? 1 : 2);
    }
    waitpid(pid, &status, 0);
    cr_assert_eq(WEXITSTATUS(status), 137, "the process did not reach %s", point);
}

static struct point {
    char name[40];
} points[] = {{""},
              {"audit_migrate_before_commit"},
              {"audit_migrated"},
              {"audit_move_before_commit"},
              {"audit_moved"},
              {"audit_move_before_commit:2"},
              {"audit_moved:2"}};
ParameterizedTestParameters(unit_audit_move, every_event_keeps_its_columns) {
    return cr_make_param_array(struct point, points, sizeof points / sizeof *points);
}
ParameterizedTest(struct point *point, unit_audit_move, every_event_keeps_its_columns, .timeout = 120) {
    char *path = make_log(4, EVENTS), *before = columns(path);
    if (*point->name) open_dies_at(path, point->name);
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    char *after = columns(path), *whole = audit_case_sql(path, "PRAGMA integrity_check");
    cr_expect_eq(strlen(before) > 1000000 ? strcmp(after, before) : 1, 0, "a column has changed");
    cr_expect_str_eq(whole, "ok");
    cr_expect_eq(audit_case_count(path, "PRAGMA user_version"), 5);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'moving'"), 0);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM failed_jobs WHERE state = 'requeued'"), (EVENTS + 7) / 14);
    cr_expect_eq(audit_case_count(path, "SELECT sum(requeued) FROM failures_by_queue"), (EVENTS + 7) / 14);
    audit_close(audit);
    free(whole), free(after), free(before), free(path);
}

static bool count_requeued(void *self, const audit_row_t *row) {
    *(int *)self += slice_is(row->state, "requeued");
    return true;
}

/* A log of an older schema is read as it is, until a sidecar of this version opens it. */
Test(unit_audit_move, older_logs_are_read_as_they_are, .timeout = 60) {
    for (int schema = 2; schema < 5; schema++) {
        char *path = make_log(schema, 1000);
        int requeued = 0;
        buffer_t why = {0};
        audit_t *audit = audit_case_open(path, AUDIT_READ);
        cr_assert(audit_list(audit, &(audit_filter_t){0}, count_requeued, &requeued, &why), "%s", buffer_text(&why));
        cr_expect_eq(requeued, (1000 + 7) / 14);
        audit_close(audit);
        audit_close(audit_case_open(path, AUDIT_WRITE));
        requeued = 0;
        audit = audit_case_open(path, AUDIT_READ);
        cr_assert(audit_list(audit, &(audit_filter_t){0}, count_requeued, &requeued, &why), "%s", buffer_text(&why));
        cr_expect_eq(requeued, (1000 + 7) / 14);
        audit_close(audit);
        free(path);
    }
}

static void stop_at(void *self, int64_t done, int64_t of) {
    cr_expect(done > 0 && done <= of && of == EVENTS);
    atomic_store((atomic_bool *)self, true);
}

/* Until all events are moved a reader would miss some. A stop does not wait for the move. */
Test(unit_audit_move, a_stopped_move_goes_on_at_the_next_opening, .timeout = 60) {
    char *path = make_log(4, EVENTS), *before = columns(path);
    atomic_bool stop = false;
    buffer_t why = {0};
    audit_lock_t *lock = audit_lock_new(path);
    const audit_open_options_t options = {.stop = &stop, .moved = stop_at, .self = &stop};
    cr_assert_null(audit_open_locked(lock, &options, &why));
    cr_expect_not_null(strstr(buffer_text(&why), "stopped while"), "%s", buffer_text(&why));
    audit_lock_free(lock);
    int64_t moved = audit_case_count(path, "SELECT count(*) FROM records");
    cr_expect_gt(moved, 0);
    char percent[40];
    snprintf(percent, sizeof percent, "schema 5, %lld %% done", (long long)moved * 100 / EVENTS);
    const audit_mode_t readers[] = {AUDIT_READ, AUDIT_PEER};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        char *refused = audit_case_refused(path, readers[i]);
        cr_expect_not_null(strstr(refused, percent), "%s", refused);
        free(refused);
    }
    audit_close(audit_case_open(path, AUDIT_IMPORT)); /* whoever may write moves the rest */
    char *after = columns(path);
    cr_expect_eq(strcmp(after, before), 0, "a column has changed");
    buffer_free(&why);
    free(after), free(before), free(path);
}

typedef struct progress {
    atomic_bool stop;
    int64_t done;
} progress_t;

static void note_progress(void *self, int64_t done, int64_t of) {
    progress_t *progress = self;
    cr_expect(done > progress->done && done <= of, "%lld of %lld after %lld", (long long)done, (long long)of,
              (long long)progress->done);
    progress->done = done;
    atomic_store(&progress->stop, true);
}

/* Each opening makes one step. */
Test(unit_audit_move, progress_counts_events_that_an_earlier_process_has_moved, .timeout = 60) {
    char *path = make_log(4, 2 * EVENTS);
    progress_t progress = {0};
    audit_t *audit = NULL;
    for (int i = 0; !audit && i < 1000; i++) {
        buffer_t why = {0};
        audit_lock_t *lock = audit_lock_new(path);
        const audit_open_options_t options = {.stop = &progress.stop, .moved = note_progress, .self = &progress};
        atomic_store(&progress.stop, false);
        audit = audit_open_locked(lock, &options, &why);
        audit_close(audit);
        audit_lock_free(lock);
        buffer_free(&why);
        if (progress.done == 2 * EVENTS) break;
    }
    cr_expect_eq(progress.done, 2 * EVENTS);
    free(path);
}

static void insert(audit_t *audit, int first, int count, const char *reason) {
    buffer_t why = {0};
    cr_assert(audit_begin(audit, &why), "%s", buffer_text(&why));
    for (int n = first; n < first + count; n++) {
        audit_case_event_t item;
        char text[32];
        snprintf(text, sizeof text, "%s-%d", reason, n % 100); /* more than are kept in memory */
        audit_case_event(&item, "failed", n, NOW + n);
        item.event.reason = slice_text(text);
        cr_assert(audit_insert(audit, &item.event, NULL, &why), "%s", buffer_text(&why));
    }
    cr_assert(audit_commit(audit, &why), "%s", buffer_text(&why));
}

static void retain_all(audit_t *audit, int64_t rows) {
    audit_retain_result_t done = {.more = true};
    buffer_t why = {0};
    for (int i = 0; done.more && i < 100000; i++)
        cr_assert(audit_retain(audit, &(audit_limits_t){.rows = rows}, NOW, 50000, &done, &why), "%s", buffer_text(&why));
}

Test(unit_audit_move, contexts_go_with_their_last_event, .timeout = 60) {
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE), *other = audit_case_open(path, AUDIT_IMPORT);
    insert(other, 0, 200, "old");
    insert(audit, 200, 300, "new");
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM contexts"), 200);
    for (int n = 500; n < 20500; n += 5000) insert(audit, n, 5000, "new");
    retain_all(audit, 1000);
    retain_all(audit, 1000);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM contexts"), 100, "those of old events are gone");
    insert(other, 20500, 200, "old");
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM contexts"), 200);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE reason LIKE 'old-%' AND queue = 'q'"), 200);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE reason = ''"), 0);
    audit_close(other);
    audit_close(audit);
    free(path);
}

/* The other process has used the contexts a moment ago. */
Test(unit_audit_move, contexts_that_were_pruned_come_again, .timeout = 60) {
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE), *other = audit_case_open(path, AUDIT_IMPORT);
    audit_retain_result_t done = {.more = true};
    buffer_t why = {0};
    insert(other, 0, 6000, "old");
    for (int i = 0; done.more && i < 100000; i++)
        cr_assert(audit_retain(audit, &(audit_limits_t){.retain_ms = 1}, NOW + 1000000, 50000, &done, &why));
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM contexts"), 0);
    insert(other, 6000, 200, "old");
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE reason LIKE 'old-%' AND queue = 'q'"), 200);
    audit_close(other);
    audit_close(audit);
    free(path);
}

/* The texts of a context that was rolled back are written again. */
Test(unit_audit_move, a_rolled_back_context_comes_again) {
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t item;
    buffer_t why = {0};
    audit_case_event(&item, "failed", 1, NOW);
    cr_assert(audit_begin(audit, &why) && audit_insert(audit, &item.event, NULL, &why));
    audit_rollback(audit);
    cr_assert(audit_case_put(audit, &item.event));
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE kind = 'failed' AND queue = 'q'"), 1);
    audit_close(audit);
    free(path);
}

Test(unit_audit_move, answers_go_with_their_events, .timeout = 60) {
    char *path = make_log(4, 2000);
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM answers"), (2000 + 7) / 14);
    retain_all(audit, 100);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM answers WHERE seq NOT IN (SELECT seq FROM records)"), 0);
    cr_expect_gt(audit_case_count(path, "SELECT count(*) FROM answers"), 0);
    audit_close(audit);
    free(path);
}
