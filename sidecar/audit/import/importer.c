// Imports another log. Its file may be damaged or made by an attacker: validate each row, and trust nothing else
// (sqlite.org/security.html on database files of unknown origin).

#include "audit/import/internal.h"
#include "audit/query/query.h"
#include "audit/query/statement.h"

enum {
    STEP_ROWS = 1000,               // rows that one transaction reads from the other log
    MAX_EMPTY_STEPS = 64,           // steps without a readable row, after which the import skips the remaining rows
    MAX_EMPTY_STEPS_TRUNCATED = 16, // lower for a truncated file: mostly nothing follows the first unreadable rows
};

static const char untrusted_pragmas[] = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON";

import_t *import_begin(audit_t *audit) {
    import_t *import = mem_alloc(sizeof *import);
    import->audit = audit;
    return import;
}

void import_free(import_t *import) {
    if (!import) return;
    import_clear_batch(import);
    gaps_free(&import->gaps);
    free(import->batch);
    free(import);
}

bool import_add(import_t *import, const event_t *event, buffer_t *why) {
    if (!slice_is(event->kind, "gap") && !slice_is(event->kind, "filled")) return import_add_to_batch(import, event, why);
    gaps_add(&import->gaps, event);
    return true;
}

bool import_finish_export(import_t *import, buffer_t *why) {
    return import_flush(import, why) && (import->gaps.count == 0 || import_finish_gaps(import, NULL, NULL, NULL, why));
}

void import_count_refused(import_t *import) { import->counts.refused++; }

const import_counts_t *import_counted(const import_t *import) { return &import->counts; }

typedef struct log_reader {
    import_t *import;
    audit_t *peer;
    const import_listener_t *listener;
    int64_t after;           // the last seq that was read or skipped
    int64_t last;            // the highest seq of the file
    bool failed;             // this log cannot be written
    bool damaged;            // a row was skipped
    bool truncated;          // the file is shorter than its header says
    int64_t unreadable_from; // first seq of a run that cannot be read; 0 = none
    buffer_t *why;
} log_reader_t;

static void log_refuse(log_reader_t *reader, int64_t seq, int64_t last, const char *reason) {
    reader->damaged = true;
    import_count_refused(reader->import);
    reader->listener->refused(reader->listener->self, seq, last, reason);
}

static void log_end_unreadable_run(log_reader_t *reader, int64_t next) {
    if (reader->unreadable_from)
        log_refuse(reader, reader->unreadable_from, next - 1, "cannot be read: the file is damaged there");
    reader->unreadable_from = 0;
}

static bool log_take_row(void *self, const audit_row_t *row) {
    log_reader_t *reader = self;
    buffer_t why = {0};
    log_end_unreadable_run(reader, row->seq);
    reader->after = row->seq;
    if (!event_check(&row->event, (int64_t)time(NULL) * 1000, &why) || !import_answer_fits(reader->import, &row->event, &why))
        log_refuse(reader, row->seq, row->seq, buffer_text(&why));
    else if (!import_add(reader->import, &row->event, reader->why))
        reader->failed = true;
    buffer_free(&why);
    return !reader->failed && !import_is_full(reader->import);
}

// Skips the rows that cannot be read.
static bool log_read_one_by_one(log_reader_t *reader, int64_t to, bool *some) {
    buffer_t ignored = {0};
    for (int64_t seq = reader->after + 1; seq <= to && !reader->failed; seq++) {
        int64_t before = reader->after;
        if (!audit_range(reader->peer, seq, seq, log_take_row, reader, &ignored) && reader->after < seq &&
            !reader->unreadable_from)
            reader->unreadable_from = seq;
        *some = *some || reader->after > before;
        reader->after = seq;
        if (import_is_full(reader->import) && !reader->failed) reader->failed = !import_flush(reader->import, reader->why);
    }
    buffer_free(&ignored);
    return !reader->failed;
}

// *done: there are no more rows. False: the rows cannot be read.
static bool log_read_range(log_reader_t *reader, bool *done, buffer_t *why) {
    int64_t first, last;
    if (!audit_bounds(reader->peer, reader->after, &first, &last, why)) return false;
    *done = last <= reader->after;
    if (*done) return true;
    reader->last = last;
    reader->after = first - 1;
    int64_t to = (uint64_t)last - (uint64_t)first < STEP_ROWS ? last : first + STEP_ROWS - 1;
    if (!audit_range(reader->peer, first, to, log_take_row, reader, why)) return false;
    if (!import_is_full(reader->import)) reader->after = to;
    return true;
}

// False: this log cannot be written, or the other log cannot be read at all.
static bool log_read_step(log_reader_t *reader, int *empty_steps, bool *done) {
    buffer_t why = {0};
    *done = false;
    bool some = log_read_range(reader, done, &why);
    bool damaged = !some && (sqlite3_errcode(reader->peer->db) & 0xff) == SQLITE_CORRUPT;
    if (!some && !damaged) buffer_str(reader->why, buffer_text(&why));
    buffer_free(&why);
    if (reader->failed || (!some && !damaged)) return false;
    if (damaged && reader->after < 0) reader->after = 0;
    if (damaged && !log_read_one_by_one(reader, reader->after + STEP_ROWS, &some)) return false;
    *empty_steps = some ? 0 : *empty_steps + 1;
    *done = *done || *empty_steps == (reader->truncated ? MAX_EMPTY_STEPS_TRUNCATED : MAX_EMPTY_STEPS);
    return !import_is_full(reader->import) || import_flush(reader->import, reader->why);
}

static bool log_read_rows(log_reader_t *reader) {
    int empty_steps = 0;
    for (bool done = false; !done;) {
        if (!log_read_step(reader, &empty_steps, &done)) return false;
        if (reader->listener->progress) reader->listener->progress(reader->listener->self, reader->after, reader->last);
    }
    if (reader->unreadable_from)
        log_refuse(reader, reader->unreadable_from, reader->unreadable_from, "cannot be read: the file is damaged from there on");
    return import_flush(reader->import, reader->why);
}

// The text of the views from which events are read; owned. NULL: the file cannot be read.
static char *log_read_views(audit_t *audit, buffer_t *why) {
    const char sql[] = "SELECT group_concat(sql) FROM (SELECT sql FROM sqlite_schema WHERE type = 'view' AND name IN"
                       " ('events', 'event_states') ORDER BY name)";
    sqlite3_stmt *stmt = statement_prepare(audit, sql, why);
    if (!stmt) return NULL;
    int code = sqlite3_step(stmt);
    char *views =
        mem_printf("%s", code == SQLITE_ROW && sqlite3_column_text(stmt, 0) ? (const char *)sqlite3_column_text(stmt, 0) : "");
    if (statement_finish(audit, stmt, code, why)) return views;
    free(views);
    return NULL;
}

// Another view of the name `events` could run any query.
static bool log_has_same_views(const import_t *import, audit_t *peer, buffer_t *why) {
    char *own = log_read_views(import->audit, why), *other = own ? log_read_views(peer, why) : NULL;
    bool same = other && strcmp(own, other) == 0;
    if (other && !same) audit_refuse(peer->path, why, "has other views of its events than an audit log");
    free(own);
    free(other);
    return same;
}

// The events must be in tables.
static bool log_has_events(const import_t *import, audit_t *peer, buffer_t *why) {
    bool compact = peer->schema >= SCHEMA_COMPACT;
    int64_t tables = 0;
    const char *sql = compact
                          ? "SELECT count(*) / 3 FROM sqlite_schema WHERE name IN ('records', 'contexts', 'answers') AND type ="
                            " 'table' AND sql LIKE 'CREATE TABLE %'"
                          : "SELECT count(*) FROM sqlite_schema WHERE name = 'events' AND type = 'table' AND sql LIKE"
                            " 'CREATE TABLE %'";
    if (!audit_read_number(peer, sql, &tables, why)) return false;
    if (tables != 1) return audit_refuse(peer->path, why, "has no table of events");
    return !compact || log_has_same_views(import, peer, why);
}

bool import_log(import_t *import, const char *path, const import_listener_t *listener, buffer_t *why) {
    if (audit_is_same_file(path, import->audit->path)) {
        buffer_printf(why, "%s: is the audit log itself: name that of another instance", path);
        return false;
    }
    audit_t *peer = audit_open(path, AUDIT_PEER, why);
    if (!peer) return false;
    log_reader_t reader = {.import = import, .peer = peer, .listener = listener, .after = INT64_MIN, .why = why};
    reader.truncated = audit_is_damaged(peer);
    sqlite3_db_config(peer->db, SQLITE_DBCONFIG_DEFENSIVE, !reader.truncated, NULL); // see open_truncated
    sqlite3_exec(peer->db, untrusted_pragmas, NULL, NULL, NULL);
    bool done = log_has_events(import, peer, why) && log_read_rows(&reader) &&
                import_finish_gaps(import, reader.damaged ? NULL : peer, path, listener, why);
    audit_close(peer);
    return done;
}
