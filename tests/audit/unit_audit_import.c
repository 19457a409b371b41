/* Imports from another log: rows, gaps, damage, foreign files; and backups of a log. */
#include "audit/import/import.h"
#include "audit/migrations.h"
#include "audit/query/query.h"
#include "audit_case.h"
#include "tempdir.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <time.h>

typedef struct {
    audit_t *audit;
    char *path;
} log_t;

static log_t begin(void) {
    log_t log = {.path = audit_case_path()};
    log.audit = audit_case_open(log.path, AUDIT_WRITE);
    return log;
}

static void end(log_t *log) {
    audit_close(log->audit);
    log->audit = NULL;
}

static void put(log_t *log, const char *kind, int n) {
    audit_case_event_t item;
    audit_case_event(&item, kind, n, 1000 * n);
    audit_case_put(log->audit, &item.event);
}

/* A gap as the auditor writes it. */
static void put_gap(log_t *log, const char *queue, const char *range) {
    char id[EVENT_ID_SIZE];
    event_t gap = {.kind = slice_text("gap"),
                   .dialect = slice_text("list"),
                   .queue = slice_text(queue),
                   .job = slice_text(range),
                   .reason = slice_text("trimmed"),
                   .at = 5000};
    event_id(&gap, 0, 0, id);
    audit_case_put(log->audit, &gap);
}

static void set_position(log_t *log, const char *queue, const char *position) {
    buffer_t why = {0};
    cr_assert(audit_begin(log->audit, &why) && audit_set_position(log->audit, queue, position, &why) &&
              audit_commit(log->audit, &why));
}

static void note_refused(void *self, int64_t seq, int64_t last, const char *reason) {
    buffer_printf(self, "%d-%d %s|", (int)seq, (int)last, reason);
}

static void note_filled(void *self, const event_t *gap) { buffer_printf(self, "filled %.*s|", (int)gap->job.len, gap->job.data); }

/* Returns the calls of the listener as text; counts may be NULL. */
static char *import_from(log_t *to, const char *path, import_counts_t *counts) {
    buffer_t told = {0}, why = {0};
    import_t *import = import_begin(to->audit);
    cr_assert(import_log(import, path, &(import_listener_t){&told, note_refused, note_filled, NULL}, &why), "%s",
              buffer_text(&why));
    if (counts) *counts = *import_counted(import);
    import_free(import);
    return kept(told.data ? told.data : mem_str(""));
}

#define ALL                                                                                                                      \
    "SELECT group_concat(event || kind || dialect || queue || job || type || worker || reason || term || sha256 || answers || "  \
    "answers_ref || ref || attempts || created || started || at || size || typeof(error) || hex(error) || typeof(payload) || "   \
    "hex(payload), char(10)) FROM (SELECT * FROM events ORDER BY event)"

static void expect_equal(const log_t *a, const log_t *b) {
    char *of_a = audit_case_sql(a->path, ALL), *of_b = audit_case_sql(b->path, ALL);
    cr_expect_str_eq(of_a, of_b);
}

Test(unit_audit_import, missing_events_are_added) {
    scoped(end) log_t mine = begin(), peer = begin();
    import_counts_t counts;
    for (int n = 1; n <= 2500; n++) {
        put(&peer, n % 3 ? "failed" : "retried", n);
        if (n % 5 == 0) put(&mine, n % 3 ? "failed" : "retried", n);
    }
    import_from(&mine, peer.path, &counts);
    cr_expect_eq(counts.added, 2000);
    cr_expect_eq(counts.known, 500);
    cr_expect_eq(counts.refused, 0);
    expect_equal(&mine, &peer);
    import_from(&mine, peer.path, &counts);
    cr_expect_eq(counts.added, 0);
    cr_expect_eq(counts.known, 2500);
    expect_equal(&mine, &peer);
}

static int64_t open_gaps(const log_t *log) {
    return audit_case_count(log->path, "SELECT count(*) FROM events AS g WHERE kind = 'gap' AND NOT EXISTS (SELECT 1 FROM events "
                                       "WHERE answers = g.event AND answers <> '' AND kind = 'filled')");
}

static bool note_state(void *self, const audit_row_t *row) {
    buffer_printf(self, "%.*s=%.*s ", (int)row->event.job.len, row->event.job.data, (int)row->state.len, row->state.data);
    return true;
}

Test(unit_audit_import, a_complete_peer_fills_a_gap) {
    scoped(end) log_t mine = begin(), peer = begin();
    import_counts_t counts;
    scoped(buffer_free) buffer_t states = {0};
    buffer_t why = {0};
    put_gap(&mine, "q", "10-0..20-5");
    put_gap(&mine, "q", "30-0..40-0");
    set_position(&mine, "q", "50-0");
    set_position(&peer, "q", "20-5"); /* the end of the first gap */
    put(&peer, "failed", 1);
    char *told = import_from(&mine, peer.path, &counts);
    cr_expect_str_eq(told, "filled 10-0..20-5|");
    cr_expect_eq(counts.added, 1);
    cr_expect_eq(counts.gaps_filled, 1);
    cr_expect_eq(open_gaps(&mine), 1);
    cr_assert(audit_list(mine.audit, &(audit_filter_t){.kind = "gap"}, note_state, &states, &why));
    cr_expect(strstr(buffer_text(&states), "10-0..20-5=filled") && strstr(buffer_text(&states), "30-0..40-0=open"), "%s",
              buffer_text(&states));
    cr_expect_eq(audit_case_count(mine.path, "SELECT count(*) FROM events WHERE kind = 'filled' AND reason = 'imported' AND "
                                             "error LIKE '%audit.db' AND answers_ref <> ''"),
                 1);
    told = import_from(&mine, peer.path, &counts);
    cr_expect_str_eq(told, "", "a gap is filled once");
}

/* An incomplete peer fills no gap, but its rows are added. */
static const struct {
    const char *gap, *position, *queue;
} lacking[] = {
    {"5-0..11-0", "50-0", "q"},  /* overlaps the beginning */
    {"19-9..30-0", "50-0", "q"}, /* overlaps the end */
    {"12-0..13-0", "50-0", "q"}, /* inside */
    {"0-0..90-0", "50-0", "q"},  /* around */
    {"unknown", "50-0", "q"},    /* no range */
    {NULL, "20-4", "q"},         /* the peer's position is before the end of the gap */
    {NULL, "50-0", "other"},     /* the peer does not serve the queue of the gap */
};

Test(unit_audit_import, a_peer_with_the_same_gap_fills_nothing) {
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        scoped(end) log_t mine = begin(), peer = begin();
        import_counts_t counts;
        put_gap(&mine, "q", "10-0..20-5");
        set_position(&mine, "q", "50-0");
        if (lacking[i].gap) put_gap(&peer, "q", lacking[i].gap);
        set_position(&peer, lacking[i].queue, lacking[i].position);
        put(&peer, "failed", 1);
        char *told = import_from(&mine, peer.path, &counts);
        cr_expect_str_eq(told, "", "row %zu", i);
        cr_expect_eq(counts.gaps_filled, 0);
        cr_expect_geq(counts.added, 1);
    }
    scoped(end) log_t mine = begin(), peer = begin(); /* the peer's gaps only touch the ends, or are of another queue */
    put_gap(&mine, "q", "10-0..20-5");
    put_gap(&peer, "q", "5-0..10-0");
    put_gap(&peer, "q", "20-5..30-0");
    put_gap(&peer, "other", "0-0..90-0");
    set_position(&peer, "q", "50-0");
    char *told = import_from(&mine, peer.path, NULL);
    cr_expect_str_eq(told, "filled 10-0..20-5|");
}

/* Retention of the peer has removed rows of the gap. A range from 0-0 is only incomplete if retention has reached its end. */
Test(unit_audit_import, a_peer_that_removed_rows_of_the_gap_fills_nothing) {
    static const struct {
        const char *dropped, *told;
    } rows[] = {{"9", "filled 0-0..5000-0|filled 100-0..200-5|"},
                {"100", "filled 0-0..5000-0|filled 100-0..200-5|"},
                {"101", "filled 0-0..5000-0|"},
                {"4999", "filled 0-0..5000-0|"},
                {"5000", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scoped(end) log_t mine = begin(), peer = begin();
        put_gap(&mine, "q", "100-0..200-5");
        put_gap(&mine, "r", "0-0..5000-0");
        set_position(&peer, "q", "9000-0");
        set_position(&peer, "r", "9000-0");
        char *fact = kept_printf("INSERT OR REPLACE INTO facts VALUES ('dropped', '%s')", rows[i].dropped);
        audit_case_sql(peer.path, fact);
        char *told = import_from(&mine, peer.path, NULL);
        cr_expect_str_eq(told, rows[i].told, "dropped up to %s", rows[i].dropped);
    }
}

/* The auditor of this log notes its own gaps. A log without an auditor imports all gaps. */
Test(unit_audit_import, peer_gaps_are_imported_only_for_queues_that_this_log_does_not_follow) {
    scoped(end) log_t mine = begin(), peer = begin(), copy = begin();
    import_counts_t counts;
    put_gap(&peer, "q", "10-0..20-0");
    put_gap(&peer, "r", "60-0..70-0");
    set_position(&mine, "q", "50-0");
    import_from(&mine, peer.path, &counts);
    cr_expect_eq(counts.gaps_skipped, 1);
    cr_expect_eq(counts.added, 1);
    cr_expect_eq(audit_case_count(mine.path, "SELECT count(*) FROM events WHERE kind = 'gap' AND job = '60-0..70-0'"), 1);
    import_from(&copy, peer.path, &counts);
    expect_equal(&copy, &peer);
}

/* A gap of the peer that a third log has filled is imported together with the `filled` event. */
Test(unit_audit_import, a_filled_gap_does_not_count) {
    scoped(end) log_t mine = begin(), peer = begin(), third = begin(), copy = begin();
    put_gap(&peer, "q", "10-0..20-0");
    put_gap(&mine, "q", "12-0..13-0");
    set_position(&third, "q", "50-0");
    set_position(&peer, "q", "50-0");
    import_from(&peer, third.path, NULL);
    cr_expect_eq(open_gaps(&peer), 0);
    char *told = import_from(&mine, peer.path, NULL);
    cr_expect_str_eq(told, "filled 12-0..13-0|");
    import_from(&copy, peer.path, NULL);
    expect_equal(&copy, &peer);
    cr_expect_eq(open_gaps(&copy), 0);
}

static void sql(const char *path, const char *text) { audit_case_sql(path, text); }

Test(unit_audit_import, invalid_rows_are_reported_and_skipped) {
    scoped(end) log_t mine = begin(), peer = begin();
    import_counts_t counts;
    for (int n = 1; n <= 5; n++) put(&peer, "failed", n);
    put_gap(&mine, "q", "10-0..20-5");
    set_position(&peer, "q", "50-0");
    sql(peer.path, "UPDATE events SET event = 'x' WHERE seq = 2");
    sql(peer.path, "UPDATE events SET at = -5 WHERE seq = 4");
    char *told = import_from(&mine, peer.path, &counts);
    cr_expect_str_eq(told, "2-2 the event id is not 64 hex digits|4-4 at is not a time|", "and no gap is filled");
    cr_expect_eq(counts.added, 3);
    cr_expect_eq(counts.refused, 2);
}

/* An answer that names another job would hide the failure. Its failure comes in the same batch, or is in the log already. */
Test(unit_audit_import, an_answer_to_a_failure_of_another_job_is_refused) {
    for (int known = 0; known < 2; known++) {
        scoped(end) log_t mine = begin(), peer = begin();
        import_counts_t counts;
        audit_case_event_t failure, forged;
        audit_case_event(&failure, "failed", 1, 1000);
        audit_case_event(&forged, "requeued", 2, 2000);
        forged.event.answers = slice_text(failure.id);
        put(&peer, "failed", 1);
        audit_case_put(peer.audit, &forged.event);
        if (known) put(&mine, "failed", 1);
        char *told = import_from(&mine, peer.path, &counts);
        cr_expect_str_eq(told, "2-2 " EVENT_ANSWERS_OTHER "|");
        cr_expect_eq(counts.refused, 1);
        cr_expect_eq(audit_case_count(mine.path, "SELECT count(*) FROM failed_jobs WHERE state = 'failed'"), 1);
    }
}

static void expect_refused(const char *path, const char *reason) {
    scoped(end) log_t mine = begin();
    buffer_t told = {0}, why = {0};
    import_t *import = import_begin(mine.audit);
    cr_expect(!import_log(import, path, &(import_listener_t){&told, note_refused, note_filled, NULL}, &why));
    cr_expect_not_null(strstr(buffer_text(&why), reason), "\"%s\" lacks \"%s\"", buffer_text(&why), reason);
    buffer_free(&why);
    import_free(import);
}

Test(unit_audit_import, a_time_far_ahead_is_refused) {
    enum { DAY_S = 24 * 3600 };
    scoped(buffer_free) buffer_t why = {0};
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    audit_case_event_t item;
    audit_case_event(&item, "failed", 1, ((int64_t)time(NULL) + 366 * DAY_S) * 1000);
    item.event.event = slice_text("abababababababababababababababababababababababababababababababab");
    cr_expect(event_check(&item.event, now_ms, &why), "%s", buffer_text(&why));
    item.event.at = ((int64_t)time(NULL) + 3 * 366 * DAY_S) * 1000;
    cr_expect(!event_check(&item.event, now_ms, &why));
    cr_expect(strstr(buffer_text(&why), "two years ahead"), "%s", buffer_text(&why));
}

Test(unit_audit_import, foreign_databases_are_refused) {
    log_t peer = begin();
    put(&peer, "failed", 1);
    end(&peer);
    char *view = audit_case_sql(peer.path, "SELECT sql FROM sqlite_schema WHERE name = 'event_states'");
    sql(peer.path, "DROP VIEW event_states");
    sql(peer.path, "CREATE VIEW event_states AS SELECT *, '' AS state FROM events");
    expect_refused(peer.path, "has another view of its events");
    sql(peer.path, "DROP VIEW event_states");
    sql(peer.path, view);
    sql(peer.path, "ALTER TABLE events RENAME TO records");
    sql(peer.path, "CREATE VIEW events AS SELECT * FROM records");
    expect_refused(peer.path, "has no table of events");
    sql(peer.path, "PRAGMA application_id = 7");
    expect_refused(peer.path, "another program");
    scoped(end) log_t mine = begin();
    buffer_t why = {0};
    import_t *import = import_begin(mine.audit);
    cr_expect(!import_log(import, mine.path, &(import_listener_t){0}, &why));
    cr_expect_not_null(strstr(buffer_text(&why), "the audit log itself"));
    buffer_free(&why);
    import_free(import);
}

/* Garbage over one page of the table: the rows of all other pages are imported. */
Test(unit_audit_import, readable_rows_of_a_damaged_log_are_imported) {
    scoped(end) log_t mine = begin();
    log_t peer = begin();
    import_counts_t counts;
    for (int n = 1; n <= 2000; n++) put(&peer, "failed", n);
    set_position(&peer, "q", "50-0");
    put_gap(&mine, "q", "10-0..20-5");
    end(&peer);
    sql(peer.path, "PRAGMA journal_mode = DELETE");
    int64_t page = audit_case_count(peer.path, "SELECT pageno FROM dbstat WHERE name = 'events' AND pagetype = 'leaf' "
                                               "ORDER BY path LIMIT 1 OFFSET 20");
    if (page == 0) cr_skip_test("this SQLite has no dbstat");
    char *count = kept_printf("SELECT ncell FROM dbstat WHERE pageno = %lld", (long long)page);
    int64_t lost = audit_case_count(peer.path, count);
    FILE *file = fopen(peer.path, "r+b");
    cr_assert_eq(fseek(file, (page - 1) * 4096, SEEK_SET), 0);
    for (int i = 0; i < 4096; i++) putc(0x5a, file);
    fclose(file);
    char *told = import_from(&mine, peer.path, &counts);
    cr_expect_not_null(strstr(told, "cannot be read: the file is damaged there"), "%s", told);
    cr_expect_null(strstr(told, "filled"));
    cr_expect(lost > 0 && lost < 100 && counts.added == 2000 - lost, "%lld of 2000, the page had %lld", (long long)counts.added,
              (long long)lost);
    cr_expect_eq(counts.refused, 1, "%s", told);
    cr_expect_eq(audit_case_count(mine.path, "SELECT max(at) FROM events"), 2000000);
}

/* 0.1.0 recorded the date of a job as it was, for example microseconds. */
Test(unit_audit_import, an_impossible_date_of_a_job_is_dropped_and_not_the_event) {
    scoped(end) log_t mine = begin();
    log_t peer = begin();
    import_counts_t counts;
    put(&peer, "failed", 1);
    end(&peer);
    sql(peer.path, "UPDATE events SET created = 1700000000000000, started = -1, attempts = 9007199254740993");
    import_from(&mine, peer.path, &counts);
    cr_expect_eq(counts.added, 1);
    cr_expect_eq(audit_case_count(mine.path, "SELECT created + started + attempts FROM events"), 0);
}

/* A log with a failure, its answer, and a gap that is filled. */
static char *make_log_of_0_1_0(void) {
    char *path = audit_case_path();
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    for (int i = 0; i < 2; i++) cr_assert_eq(sqlite3_exec(db, migrations[i].sql, NULL, NULL, NULL), SQLITE_OK);
    static const char text[] =
        "INSERT INTO facts VALUES ('instance', '00112233445566778899aabbccddeeff'); CREATE TEMP TABLE e (n, kind, answers);"
        "INSERT INTO e VALUES (1, 'failed', ''), (2, 'requeued', 1), (3, 'gap', ''), (4, 'filled', 3);"
        "INSERT INTO events (seq, ref, event, kind, dialect, queue, job, type, worker, reason, term, sha256, answers, "
        "answers_ref, attempts, created, started, at, size, error, payload) SELECT n, 'aaaaaaaaaaaa', printf('%064x', n), kind, "
        "'list', 'q', iif(n > 2, '10-0..20-5', 'job-1'), '', '', 'reported', '', '', iif(answers, printf('%064x', answers), ''),"
        " iif(answers, 'aaaaaaaaaaaa', ''), 1, 1, 1, 1700000000000 + n, 0, 'e', '' FROM e";
    cr_assert_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
    return path;
}

/* Newer versions may have unknown columns. */
Test(unit_audit_import, older_schemas_are_imported_newer_ones_refused) {
    scoped(end) log_t mine = begin();
    log_t peer = begin();
    import_counts_t counts;
    char *path = make_log_of_0_1_0();
    import_from(&mine, path, &counts);
    cr_expect_eq(counts.added, 4, "%lld", (long long)counts.added);
    cr_expect_eq(audit_case_count(mine.path, "SELECT count(*) FROM failed_jobs WHERE state = 'requeued'"), 1);
    put(&peer, "failed", 1);
    end(&peer);
    sql(peer.path, "PRAGMA user_version = 999");
    expect_refused(peer.path, "has schema 999");
}

Test(unit_audit_import, a_backup_has_its_own_instance_name) {
    scoped(end) log_t log = begin(), copy = {.path = kept_printf("%s.copy", log.path)};
    buffer_t why = {0};
    for (int n = 1; n <= 500; n++) put(&log, "failed", n);
    set_position(&log, "q", "50-0");
    temp_read(copy.path);
    fclose(fopen(copy.path, "wb"));
    cr_assert(audit_backup(log.audit, copy.path, NULL, NULL, &why), "%s", buffer_text(&why));
    copy.audit = audit_case_open(copy.path, AUDIT_READ);
    expect_equal(&log, &copy);
    cr_expect_str_neq(audit_instance(log.audit), audit_instance(copy.audit), "two logs would acknowledge under one name");
    cr_expect_eq(audit_case_count(copy.path, "SELECT position = '50-0' FROM positions"), 1);
}
