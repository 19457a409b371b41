/* The table `events`: each event is one row, which is found by id, ref and job; and logs of 0.1.0, which have another table. */
#include "audit/migrations.h"
#include "audit/query/query.h"
#include "audit_case.h"

#include <criterion/parameterized.h>
#include <sqlite3.h>
#include <sys/wait.h>

enum { MANY = 5000 };
static const int64_t NOW = INT64_C(1800000000000);

static char *path;
static audit_t *audit;
static audit_lock_t *lock;
SUITE(unit_audit_events, path = audit_case_path(), audit_close(audit); audit_lock_free(lock));

/* Inserts failures first .. first + count - 1 in one transaction; returns how many were new. */
static int insert(audit_t *log, int first, int count) {
    buffer_t why = {0};
    int new = 0;
    cr_assert(audit_begin(log, &why), "%s", buffer_text(&why));
    for (int n = first; n < first + count; n++) {
        audit_case_event_t item;
        bool added;
        audit_case_event(&item, "failed", n, NOW + n);
        cr_assert(audit_insert(log, &item.event, &added, &why), "%s", buffer_text(&why));
        new += added;
    }
    cr_assert(audit_commit(log, &why), "%s", buffer_text(&why));
    return new;
}

static bool count_row(void *self, const audit_row_t *row) {
    (void)row;
    ++*(int *)self;
    return true;
}

static int find_ref(audit_t *log, const char *id) {
    char ref[EVENT_REF_SIZE];
    buffer_t why = {0};
    int found = 0;
    cr_assert(event_ref(slice_text(id), ref));
    cr_assert(audit_find_ref(log, ref, 10, count_row, &found, &why), "%s", buffer_text(&why));
    return found;
}

/* Expects that readers find event n by its ref, and by its job. */
static void expect_found(int n, int times) {
    scoped(audit_drop) audit_t *log = audit_case_open(path, AUDIT_READ);
    audit_case_event_t item;
    buffer_t why = {0};
    int history = 0;
    audit_case_event(&item, "failed", n, NOW);
    cr_expect_eq(find_ref(log, item.id), times, "event %d by its ref", n);
    cr_assert(audit_history(log, item.event.queue, item.event.job, count_row, &history, &why), "%s", buffer_text(&why));
    cr_expect_eq(history, times, "event %d by its job", n);
}

Test(unit_audit_events, no_id_comes_twice_however_many_there_are) {
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_eq(insert(audit, 0, MANY), MANY);
    cr_assert_eq(insert(audit, 0, MANY + 10), 10);
    audit_close(audit);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_eq(insert(audit, 0, MANY), 0, "after the log was opened again");
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), MANY + 10);
    cr_assert_eq(audit_case_count(path, "SELECT value FROM facts WHERE name = 'rows'"), MANY + 10);
    expect_found(7, 1);
    expect_found(MANY + 7, 1);
    expect_found(MANY + 17, 0);
}

Test(unit_audit_events, each_writer_knows_the_events_of_the_other) {
    scoped(audit_drop) audit_t *one = audit_case_open(path, AUDIT_WRITE), *other = audit_case_open(path, AUDIT_IMPORT);
    for (int n = 0; n < 400; n += 200) {
        cr_assert_eq(insert(one, n, 100), 100);
        cr_assert_eq(insert(other, n, 200), 100);
        cr_assert_eq(insert(one, n, 200), 0);
    }
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 400);
    expect_found(1, 1);
}

Test(unit_audit_events, events_of_a_rolled_back_transaction_can_come_again) {
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t item;
    buffer_t why = {0};
    insert(audit, 0, 10);
    audit_case_event(&item, "failed", 20, NOW);
    cr_assert(audit_begin(audit, &why) && audit_insert(audit, &item.event, NULL, &why));
    audit_rollback(audit);
    cr_assert_eq(insert(audit, 0, 30), 20);
    expect_found(20, 1);
    expect_found(5, 1);
}

Test(unit_audit_events, answers_find_their_failures) {
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t failure, item;
    buffer_t why = {0};
    bool fits;
    insert(audit, 0, MANY);
    audit_case_event(&failure, "failed", 3, NOW);
    audit_case_event(&item, "requeued", MANY, NOW);
    item.event.answers = slice_text(failure.id);
    cr_assert(audit_answer_fits(audit, &item.event, &fits, &why) && !fits, "an answer for another job");
    item.event.job = failure.event.job;
    cr_assert(audit_answer_fits(audit, &item.event, &fits, &why) && fits);
    cr_assert(audit_case_put(audit, &item.event));
    cr_expect_eq(audit_case_count(path, "SELECT requeued * 1000000 + open FROM failures_by_queue"), 1000000 + MANY - 1);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM failed_jobs WHERE state = 'requeued'"), 1);
}

/* Ids may begin alike: each is an event of its own, and an answer means one of them. */
Test(unit_audit_events, ids_that_share_a_ref_are_two_events) {
    static const char *const ids[] = {"01234567ffffffff0123456789abcdef0123456789abcdef0123456789abcdef",
                                      "01234567ffffffff0123456789abcdef0123456789abcdef0123456789abcdee"};
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t item;
    for (int i = 0; i < 2; i++) {
        audit_case_event(&item, "failed", i, NOW);
        item.event.event = slice_text(ids[i]);
        cr_assert(audit_case_put(audit, &item.event));
        cr_assert_not(audit_case_put(audit, &item.event));
    }
    cr_expect_eq(find_ref(audit, ids[0]), 2);
    audit_case_event(&item, "requeued", 1, NOW + 1);
    item.event.answers = slice_text(ids[1]);
    cr_assert(audit_case_put(audit, &item.event));
    cr_expect_eq(audit_case_count(path, "SELECT requeued FROM failures_by_queue"), 1);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM failed_jobs WHERE state = 'requeued' AND job_id = 'job-1'"), 1);
}

/* The auditor inserts the events of a transaction in the order of their ids, and numbers them in the order of arrival. */
Test(unit_audit_events, events_that_are_inserted_later_keep_their_order) {
    char *large = kept(calloc(1, 100001));
    audit = audit_case_open(path, AUDIT_WRITE);
    buffer_t why = {0};
    memset(large, 'x', 100000);
    insert(audit, 100, 10);
    for (int round = 0; round < 2; round++) {
        cr_assert(audit_begin(audit, &why));
        for (int n = 0; n < MANY; n++) {
            audit_case_event_t item;
            audit_case_event(&item, "failed", n, NOW + n);
            if (n % 1000 == 7) item.event.payload = slice_text(large);
            cr_assert(audit_insert_later(audit, &item.event, &why), "%s", buffer_text(&why));
        }
        if (round == 0) audit_rollback(audit);
    }
    cr_assert(audit_commit(audit, &why), "%s", buffer_text(&why));
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events"), MANY);
    cr_expect_eq(audit_case_count(path, "SELECT value FROM facts WHERE name = 'rows'"), MANY);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events AS a JOIN events AS b ON b.seq > a.seq WHERE a.seq > 10 AND "
                                        "b.seq < a.seq + 3 AND b.at <= a.at"),
                 0);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE size = 2 AND length(payload) = 100000"), MANY / 1000);
    expect_found(MANY - 1, 1);
}

/* `audit tail` has read a seq, and would take another event of this seq for known. */
Test(unit_audit_events, a_seq_is_never_given_again) {
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_retain_result_t done = {.more = true};
    buffer_t why = {0};
    insert(audit, 0, 10);
    while (done.more) cr_assert(audit_retain(audit, &(audit_limits_t){.retain_ms = 1}, NOW + 1000, 50000, &done, &why));
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 0);
    audit_close(audit);
    audit = audit_case_open(path, AUDIT_WRITE);
    insert(audit, 10, 1);
    cr_expect_eq(audit_case_count(path, "SELECT seq FROM events"), 11);
}

/* Operators plan their disks with it. */
Test(unit_audit_events, a_row_takes_at_most_600_bytes_beside_its_payload, .timeout = 120) {
    enum { ROWS = 50000, PAYLOAD = 100, MOST = 600, PAGE = 4096 };
    char payload[PAYLOAD + 1], worker[20];
    audit = audit_case_open(path, AUDIT_WRITE);
    buffer_t why = {0};
    memset(payload, 'p', PAYLOAD);
    payload[PAYLOAD] = '\0';
    cr_assert(audit_begin(audit, &why));
    for (int n = 0; n < ROWS; n++) {
        audit_case_event_t item;
        audit_case_event(&item, "failed", n, NOW + n);
        snprintf(worker, sizeof worker, "worker-%d", n % 50);
        item.event.job = (slice_t){item.id, 16};
        item.event.type = slice_text("mail");
        item.event.worker = slice_text(worker);
        item.event.error = slice_text("no route to host");
        item.event.sha256 = slice_text(item.id);
        item.event.term = slice_text("00112233445566778899aabbccddeeff-5000");
        item.event.payload = slice_text(payload);
        item.event.size = PAYLOAD;
        item.event.created = item.event.at - 60000;
        cr_assert(audit_insert(audit, &item.event, NULL, &why), "%s", buffer_text(&why));
    }
    cr_assert(audit_commit(audit, &why));
    int64_t pages = audit_case_count(path, "PRAGMA page_count") - audit_case_count(path, "PRAGMA freelist_count");
    int64_t bytes = pages * PAGE / ROWS - PAYLOAD;
    cr_expect_leq(bytes, MOST, "%lld bytes", (long long)bytes);
}

/* Events of all kinds, with bytes that are no text, numbers at the limits, texts that are no ids, and empty columns. */
static const char fill_sql[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO events (seq, ref, event, kind, "
    "dialect, queue, job, type, worker, reason, term, sha256, answers, answers_ref, attempts, created, started, at, size, error, "
    "payload) SELECT i * 3, 'aaaaaaaaaaaa', printf('%064x', i), iif(i % 7, 'failed', iif(i % 2, 'requeued', 'retried')), "
    "'list', 'q' || i % 11, 'job-' || i, iif(i % 5, 'mail', ''), 'worker-' || i % 50, iif(i % 7 OR i % 2 = 0, 'reported', "
    "'a note ' || i), 'term-' || i / 900, CASE i % 4 WHEN 0 THEN '' WHEN 1 THEN 'NOT HEX' ELSE printf('%064x', i * i) END, "
    "iif(i % 7 OR i % 2 = 0, '', printf('%064x', i - 1)), iif(i % 7 OR i % 2 = 0, '', 'aaaaaaaaaaaa'), "
    "iif(i = 9, 9223372036854775807, i % 4), iif(i = 9, -9223372036854775807 - 1, i), 0, i, i, CASE i % 3 WHEN 0 THEN "
    "x'00ff' WHEN 1 THEN '\xc3\xa4' ELSE '' END, iif(i % 2, printf('%.*c', i % 300, 'p'), CAST('a' || x'00' AS BLOB)) FROM n;"
    "UPDATE facts SET value = (SELECT count(*) FROM events) WHERE name = 'rows';"
    "UPDATE events SET payload = randomblob(20000) WHERE seq = 300;"
    "INSERT INTO facts VALUES ('instance', '00112233445566778899aabbccddeeff');";
enum { REQUEUED = (3000 + 7) / 14 };

static void make_log_of_0_1_0(void) {
    path = audit_case_path();
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    for (int i = 0; i < 2; i++) cr_assert_eq(sqlite3_exec(db, migrations[i].sql, NULL, NULL, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, fill_sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static char *columns(void) {
    return audit_case_sql(
        path, "SELECT seq || ref || event || kind || dialect || queue || job || quote(type) || worker || reason || term || "
              "quote(sha256) || quote(answers) || quote(answers_ref) || attempts || ',' || created || ',' || started || ',' || "
              "at || ',' || size || quote(error) || quote(payload) || char(10) FROM events ORDER BY seq");
}

static void open_dies_at(const char *point) {
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

static struct point { char name[40]; } points[] = {{""}, {"audit_migrate_before_commit"}, {"audit_migrated"}};
ParameterizedTestParameters(unit_audit_events, every_event_of_0_1_0_keeps_its_columns) {
    return cr_make_param_array(struct point, points, sizeof points / sizeof *points);
}
ParameterizedTest(struct point *point, unit_audit_events, every_event_of_0_1_0_keeps_its_columns) {
    make_log_of_0_1_0();
    char *before = columns();
    if (*point->name) open_dies_at(point->name);
    audit = audit_case_open(path, AUDIT_WRITE);
    char *after = columns(), *whole = audit_case_sql(path, "PRAGMA integrity_check");
    cr_expect_eq(strlen(before) > 500000 ? strcmp(after, before) : 1, 0, "a column has changed");
    cr_expect_str_eq(whole, "ok");
    cr_expect_eq(audit_case_count(path, "PRAGMA user_version"), 7);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE \"group\" = ''"), 3000);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM failed_jobs WHERE state = 'requeued'"), REQUEUED);
    cr_expect_eq(audit_case_count(path, "SELECT sum(requeued) FROM failures_by_queue"), REQUEUED);
    cr_expect_eq(insert(audit, 0, 10), 10);
}

/* The next start tries again. */
Test(unit_audit_events, a_stop_does_not_wait_for_the_migration) {
    make_log_of_0_1_0();
    atomic_bool stop = true;
    const audit_open_options_t options = {.stop = &stop};
    scoped(buffer_free) buffer_t why = {0};
    lock = audit_lock_new(path);
    cr_assert_null(audit_open_locked(lock, &options, &why));
    cr_expect_not_null(strstr(buffer_text(&why), "interrupted"), "%s", buffer_text(&why));
    cr_expect_eq(audit_case_count(path, "PRAGMA user_version"), 2);
    atomic_store(&stop, false);
    audit = audit_open_locked(lock, &options, &why);
    cr_expect_eq(audit_case_count(path, "PRAGMA user_version"), 7);
}

static bool count_requeued(void *self, const audit_row_t *row) {
    *(int *)self += slice_is(row->state, "requeued");
    return true;
}

static void expect_requeued(void) {
    int requeued = 0;
    buffer_t why = {0};
    scoped(audit_drop) audit_t *log = audit_case_open(path, AUDIT_READ);
    cr_assert(audit_list(log, &(audit_filter_t){0}, count_requeued, &requeued, &why), "%s", buffer_text(&why));
    cr_expect_eq(requeued, REQUEUED);
}

/* A log of 0.1.0 is read as it is, until a sidecar of this version opens it. */
Test(unit_audit_events, logs_of_0_1_0_are_read_as_they_are) {
    make_log_of_0_1_0();
    expect_requeued();
    cr_expect_eq(audit_case_count(path, "PRAGMA user_version"), 2);
    audit_close(audit_case_open(path, AUDIT_WRITE));
    expect_requeued();
}

/* Each of these is a schema that builds between the releases made. */
Test(unit_audit_events, unreleased_schemas_are_refused_unchanged) {
    static const char *const makes[] = {"ALTER TABLE events ADD COLUMN \"group\" TEXT NOT NULL DEFAULT ''",
                                        "PRAGMA user_version = 4", "PRAGMA user_version = 5", "PRAGMA user_version = 6"};
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        char expected[40];
        make_log_of_0_1_0();
        snprintf(expected, sizeof expected, "has schema %zu, which no release had", i + 3);
        audit_case_sql(path, makes[i]);
        char *before = columns();
        for (audit_mode_t mode = AUDIT_WRITE; mode <= AUDIT_IMPORT; mode++) {
            char *why = audit_case_refused(path, mode);
            cr_expect(strstr(why, expected) && strstr(why, "audit export") && strstr(why, "Merge two logs"), "%s", why);
        }
        char *after = columns();
        cr_expect_eq(strcmp(after, before), 0);
    }
}

/* Somebody has added rows by SQL: see "Merge two logs" in sql/README.md. */
Test(unit_audit_events, rows_that_others_added_are_counted_at_the_start) {
    audit = audit_case_open(path, AUDIT_WRITE);
    const audit_open_options_t options = {.check = true};
    buffer_t why = {0};
    insert(audit, 0, 10);
    audit_close(audit);
    audit_case_sql(path, "DELETE FROM events WHERE seq > 7");
    lock = audit_lock_new(path);
    audit = audit_open_locked(lock, &options, &why);
    cr_assert_not_null(audit, "%s", buffer_text(&why));
    cr_expect_eq(audit_case_count(path, "SELECT value FROM facts WHERE name = 'rows'"), 7);
}
