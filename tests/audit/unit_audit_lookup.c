/* Events are found by id and by job: in memory, in the tables `ids` and `jobs`, and after both have changed. */
#include "audit/migrations.h"
#include "audit/query/query.h"
#include "audit/store.h"
#include "audit_case.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 5000, MANY = 70000, MUCH_US = 60 * 1000 * 1000 };
static const int64_t NOW = INT64_C(1800000000000);

/* Inserts failures first .. first + count - 1 in one transaction; returns how many were new. */
static int insert(audit_t *audit, int first, int count, int64_t at) {
    buffer_t why = {0};
    int new = 0;
    cr_assert(audit_begin(audit, &why), "%s", buffer_text(&why));
    for (int n = first; n < first + count; n++) {
        audit_case_event_t item;
        bool added;
        audit_case_event(&item, "failed", n, at + n);
        cr_assert(audit_insert(audit, &item.event, &added, &why), "%s", buffer_text(&why));
        new += added;
    }
    cr_assert(audit_commit(audit, &why), "%s", buffer_text(&why));
    return new;
}

static int insert_all(audit_t *audit, int count) {
    int new = 0;
    for (int n = 0; n < count; n += BATCH) new += insert(audit, n, BATCH, NOW);
    return new;
}

static bool count_row(void *self, const audit_row_t *row) {
    (void)row;
    ++*(int *)self;
    return true;
}

/* Expects that readers find event n by its ref, and by its job. */
static void expect_found(const char *path, int n, int times) {
    audit_t *audit = audit_case_open(path, AUDIT_READ);
    audit_case_event_t item;
    char ref[EVENT_REF_SIZE];
    buffer_t why = {0};
    int found = 0, history = 0;
    audit_case_event(&item, "failed", n, NOW);
    cr_assert(event_ref(item.event.event, ref));
    cr_assert(audit_find_ref(audit, ref, 10, count_row, &found, &why), "%s", buffer_text(&why));
    cr_expect_eq(found, times, "event %d by its ref", n);
    ref[4] = '\0';
    cr_assert(audit_find_ref(audit, ref, 1000, count_row, &found, &why));
    cr_expect_geq(found, 2 * times, "event %d by the beginning of its ref", n);
    cr_assert(audit_history(audit, item.event.queue, item.event.job, count_row, &history, &why), "%s", buffer_text(&why));
    cr_expect_eq(history, times, "event %d by its job", n);
    audit_close(audit);
}

static void expect_whole(const char *path) {
    char *whole = audit_case_sql(path, "PRAGMA integrity_check");
    cr_expect_str_eq(whole, "ok");
    free(whole);
}

static int64_t indexed(const char *path) { return audit_case_count(path, "SELECT value FROM facts WHERE name = 'indexed'"); }

Test(unit_audit_lookup, no_id_comes_twice_however_many_there_are, .timeout = 120) {
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_eq(insert(audit, 0, BATCH, NOW), BATCH);
    cr_assert_eq(insert(audit, 0, BATCH, NOW + 1), 0, "in memory");
    cr_assert_eq(insert_all(audit, MANY), MANY - BATCH);
    int64_t in_tables = indexed(path);
    cr_assert(in_tables > 0 && in_tables < MANY, "some in the tables, some in memory");
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM ids"), in_tables);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM jobs"), in_tables);
    cr_assert_eq(insert_all(audit, MANY), 0);
    audit_close(audit);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_eq(insert_all(audit, MANY), 0, "after the log was opened again");
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), MANY);
    expect_found(path, 7, 1);
    expect_found(path, MANY - 7, 1);
    expect_found(path, MANY + 7, 0);
    expect_whole(path);
    audit_close(audit);
    free(path);
}

Test(unit_audit_lookup, each_writer_knows_the_events_of_the_other, .timeout = 120) {
    char *path = audit_case_path();
    audit_t *one = audit_case_open(path, AUDIT_WRITE), *other = audit_case_open(path, AUDIT_IMPORT);
    for (int n = 0; n < MANY; n += 2 * BATCH) {
        cr_assert_eq(insert(one, n, BATCH, NOW), BATCH);
        cr_assert_eq(insert(other, n, 2 * BATCH, NOW), BATCH);
        cr_assert_eq(insert(one, n, 2 * BATCH, NOW), 0);
    }
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), MANY);
    expect_found(path, 1, 1);
    audit_close(other);
    audit_close(one);
    free(path);
}

Test(unit_audit_lookup, events_of_a_rolled_back_transaction_can_come_again) {
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t item;
    buffer_t why = {0};
    insert(audit, 0, 10, NOW);
    audit_case_event(&item, "failed", 20, NOW);
    cr_assert(audit_begin(audit, &why) && audit_insert(audit, &item.event, NULL, &why));
    audit_rollback(audit);
    cr_assert_eq(insert(audit, 0, 30, NOW), 20);
    expect_found(path, 20, 1);
    expect_found(path, 5, 1);
    audit_close(audit);
    free(path);
}

/* An answer that comes while the failure is in memory, and one that comes when the failure is in the tables. */
Test(unit_audit_lookup, answers_find_their_failures, .timeout = 120) {
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    buffer_t why = {0};
    insert_all(audit, MANY);
    const int failures[] = {3, MANY - 3};
    for (int i = 0; i < 2; i++) {
        audit_case_event_t failure, item;
        bool fits;
        audit_case_event(&failure, "failed", failures[i], NOW);
        audit_case_event(&item, "requeued", MANY + i, NOW);
        item.event.answers = slice_text(failure.id);
        cr_assert(audit_answer_fits(audit, &item.event, &fits, &why) && !fits, "an answer for another job");
        item.event.job = failure.event.job;
        cr_assert(audit_answer_fits(audit, &item.event, &fits, &why) && fits);
        cr_assert(audit_case_put(audit, &item.event));
    }
    cr_expect_eq(audit_case_count(path, "SELECT requeued * 1000000 + open FROM failures_by_queue"), 2000000 + MANY - 2);
    int64_t counted = audit_case_count(path, "SELECT count(*) FROM failed_jobs WHERE state = 'requeued'");
    cr_expect_eq(counted, 2, "%lld", (long long)counted);
    audit_close(audit);
    free(path);
}

static void retain_all(audit_t *audit, int64_t rows, int64_t budget_us) {
    buffer_t why = {0};
    audit_retain_result_t done = {.more = true};
    int steps = 0;
    for (; done.more; steps++) {
        cr_assert(audit_retain(audit, &(audit_limits_t){.rows = rows}, NOW, budget_us, &done, &why), "%s", buffer_text(&why));
        cr_assert_lt(steps, 100000, "retention never ends");
    }
}

/* `at` of the first event: one in the future stays, and keeps the lowest seq. */
static const int64_t firsts[] = {0, INT64_C(1000000000)};
ParameterizedTestParameters(unit_audit_lookup, rows_of_removed_events_go) {
    return cr_make_param_array(const int64_t, firsts, sizeof firsts / sizeof *firsts);
}
ParameterizedTest(int64_t *first, unit_audit_lookup, rows_of_removed_events_go, .timeout = 120) {
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    insert(audit, 0, 1, NOW + *first);
    insert(audit, 1, BATCH - 1, NOW);
    for (int n = BATCH; n < MANY; n += BATCH) insert(audit, n, BATCH, NOW);
    retain_all(audit, 2000, 1000);
    retain_all(audit, 2000, 1000); /* nothing was added since: the events in memory get their rows */
    cr_expect_eq(indexed(path), MANY);
    for (int i = 0; i < 3; i++) { /* a sweep that finds little is followed by one that looks at each row */
        insert(audit, MANY + i * 6000, 6000, NOW);
        retain_all(audit, 2000, 1000);
        retain_all(audit, 2000, 1000);
    }
    int64_t ids = audit_case_count(path, "SELECT count(*) FROM ids"), jobs = audit_case_count(path, "SELECT count(*) FROM jobs");
    cr_expect(ids == jobs && ids < 14000, "%lld and %lld rows for 2,000 events", (long long)ids, (long long)jobs);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE seq NOT IN (SELECT seq FROM ids)"), 0);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE seq NOT IN (SELECT seq FROM jobs)"), 0);
    cr_assert_eq(insert(audit, MANY + 3 * 6000 - 100, 100, NOW), 0);
    audit_close(audit);
    free(path);
}

/* A process that has read a seq would take another event of this seq for known. */
Test(unit_audit_lookup, a_seq_is_never_given_again) {
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    insert(audit, 0, 10, NOW);
    free(audit_case_sql(path, "DELETE FROM records"));
    audit_close(audit);
    audit = audit_case_open(path, AUDIT_WRITE);
    insert(audit, 10, 1, NOW);
    cr_expect_eq(audit_case_count(path, "SELECT seq FROM events"), 11);
    audit_close(audit);
    free(path);
}

/* A log of an older schema with many events, whose ids are the digests of audit_case_event. */
static char *make_schema_3(int count) {
    char *path = audit_case_path();
    sqlite3 *db;
    sqlite3_stmt *of;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; BEGIN", NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) cr_assert_eq(sqlite3_exec(db, migrations[i].sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_exec(db, "INSERT INTO facts VALUES ('instance', '00112233445566778899aabbccddeeff')", NULL, NULL, NULL);
    static const char sql[] =
        "INSERT INTO events VALUES (NULL, ?1, ?2, 'failed', 'list', 'q', ?3, '', '', 'reported', '', '', '', '', "
        "4, 1, 1, ?4, 2, 'e', '{}', '')";
    cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &of, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    for (int n = 0; n < count; n++) {
        audit_case_event_t item;
        char ref[EVENT_REF_SIZE];
        audit_case_event(&item, "failed", n, NOW);
        cr_assert(event_ref(item.event.event, ref));
        sqlite3_bind_text(of, 1, ref, -1, SQLITE_STATIC);
        sqlite3_bind_text(of, 2, item.id, -1, SQLITE_STATIC);
        sqlite3_bind_text(of, 3, item.job, -1, SQLITE_STATIC);
        sqlite3_bind_int64(of, 4, NOW + n);
        cr_assert_eq(sqlite3_step(of), SQLITE_DONE);
        sqlite3_reset(of);
    }
    sqlite3_finalize(of);
    sqlite3_exec(db, "UPDATE facts SET value = (SELECT count(*) FROM events) WHERE name = 'rows'; COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    return path;
}

Test(unit_audit_lookup, a_log_of_schema_3_is_read_as_it_is) {
    char *path = make_schema_3(3000);
    expect_found(path, 2999, 1);
    cr_expect_eq(audit_case_count(path, "PRAGMA user_version"), 2);
    free(path);
}

/* As many events are in no table as there is room for in memory. */
Test(unit_audit_lookup, memory_that_is_full_has_room_for_the_next_event, .timeout = 120) {
    enum { ROOM = 65536 };
    char *path = make_schema_3(ROOM);
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    cr_expect_eq(indexed(path), ROOM);
    cr_expect_eq(insert(audit, ROOM - 10, 20, NOW), 10);
    expect_found(path, ROOM - 10, 1);
    expect_found(path, ROOM + 5, 1);
    audit_close(audit);
    free(path);
}

static struct point {
    char name[40];
} points[] = {{"audit_migrate_before_commit"},
              {"audit_migrated"},
              {"audit_move_before_commit"},
              {"audit_move_before_commit:3"},
              {"audit_moved"},
              {"audit_moved:2"},
              {"audit_catch_up_before_commit"},
              {"audit_catch_up_before_commit:2"},
              {"audit_caught_up"},
              {"audit_caught_up:2"}};
ParameterizedTestParameters(unit_audit_lookup, killed_while_events_are_indexed) {
    return cr_make_param_array(struct point, points, sizeof points / sizeof *points);
}
ParameterizedTest(struct point *point, unit_audit_lookup, killed_while_events_are_indexed, .timeout = 120) {
    enum { EVENTS = 3500, STEP = 1000 };
    static const audit_open_options_t options = {.batch_rows = STEP};
    char *path = make_schema_3(EVENTS);
    buffer_t why = {0};
    int status;
    audit_lock_t *lock = audit_lock_new(path);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("QS_CRASH_AT", point->name, 1);
        _exit(audit_open_locked(lock, &options, &why) ? 1 : 2);
    }
    waitpid(pid, &status, 0);
    cr_assert_eq(WEXITSTATUS(status), 137, "the process did not reach %s", point->name);
    audit_t *audit = audit_open_locked(lock, &options, &why);
    cr_assert_not_null(audit, "%s", buffer_text(&why));
    cr_expect_eq(audit_case_count(path, "PRAGMA user_version"), 5);
    cr_expect_eq(indexed(path), EVENTS / STEP * STEP);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events"), EVENTS);
    cr_expect_eq(insert(audit, 0, EVENTS, NOW), 0);
    expect_found(path, 3, 1);
    expect_found(path, EVENTS - 3, 1);
    expect_whole(path);
    audit_close(audit);
    audit_lock_free(lock);
    free(path);
}
