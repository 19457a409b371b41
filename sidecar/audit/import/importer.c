// Imports another log. Its file may be damaged or made by an attacker: validate each row, and trust nothing else
// (sqlite.org/security.html on database files of unknown origin). It is not attached to this log: after an error in an attached
// file, SQLite refuses each further write of the transaction.

#include "audit/import/internal.h"
#include "audit/query/query.h"
#include "audit/query/statement.h"

// Steps without a readable row, after which the import skips the remaining rows. In a truncated file mostly nothing follows the
// first unreadable rows.
enum { MAX_EMPTY_STEPS = 128, MAX_EMPTY_STEPS_TRUNCATED = 32 };

static const char untrusted_pragmas[] = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON";

typedef struct log_reader {
    import_t *import;
    audit_t *peer;
    const import_listener_t *listener;
    int64_t after;           // the last seq that was read or skipped
    int64_t last;            // the highest seq of the file
    bool refused;            // a row was skipped
    bool damaged;            // the next row, or one near it, cannot be read
    int64_t unreadable_from; // first seq of a run that cannot be read; 0 = none
    int empty_steps;
    bool truncated; // the file is shorter than its header says
    bool complete;  // there are no more rows
} log_reader_t;

static void log_refuse(log_reader_t *reader, int64_t seq, int64_t last, const char *reason) {
    reader->refused = true;
    reader->import->counts.refused++;
    reader->listener->refused(reader->listener->self, seq, last, reason);
}

static void log_end_unreadable_run(log_reader_t *reader, int64_t next) {
    if (reader->unreadable_from)
        log_refuse(reader, reader->unreadable_from, next - 1, "cannot be read: the file is damaged there");
    reader->unreadable_from = 0;
}

static bool log_take_event(log_reader_t *reader, int64_t seq, const event_t *event, buffer_t *why) {
    buffer_t reason = {0};
    bool done = true;
    log_end_unreadable_run(reader, seq);
    reader->after = seq;
    if (!event_check(event, (int64_t)time(NULL) * 1000, &reason) || !import_answer_fits(reader->import, event, &reason))
        log_refuse(reader, seq, seq, buffer_text(&reason));
    else
        done = import_put(reader->import, event, why);
    buffer_free(&reason);
    return done;
}

// Takes the next rows up to `last`, as many as a transaction may have. *damaged: not all of them can be read.
static bool log_take_rows(log_reader_t *reader, int64_t last, size_t *rows, bool *damaged, buffer_t *why) {
    static const char sql[] = "SELECT seq" EVENT_COLUMNS " FROM event_states WHERE seq BETWEEN :first AND :last ORDER BY seq"
                              " LIMIT :limit";
    sqlite3_stmt *stmt = audit_statement(reader->peer, sql, why);
    if (!stmt) return false;
    statement_bind_number(stmt, ":first", reader->after + 1);
    statement_bind_number(stmt, ":last", last);
    statement_bind_number(stmt, ":limit", IMPORT_ROWS);
    int code = SQLITE_ROW;
    bool done = true;
    *rows = 0;
    for (size_t bytes = 0; done && bytes < IMPORT_BYTES && (code = sqlite3_step(stmt)) == SQLITE_ROW; ++*rows) {
        int column = 1;
        event_t event = statement_event(stmt, &column);
        bytes += event.payload.len + event.error.len;
        done = log_take_event(reader, sqlite3_column_int64(stmt, 0), &event, why);
    }
    *damaged = done && (code & 0xff) == SQLITE_CORRUPT;
    if (done && !*damaged) return audit_finish(reader->peer, stmt, code, "read from it", why);
    sqlite3_reset(stmt);
    return done;
}

// Reads the next rows one by one, and skips those that cannot be read.
static bool log_salvage(log_reader_t *reader, buffer_t *why) {
    size_t rows, all = 0;
    bool damaged;
    if (reader->after < 0) reader->after = 0;
    for (int i = 0; i < IMPORT_ROWS; i++, all += rows) {
        int64_t seq = reader->after + 1;
        if (!log_take_rows(reader, seq, &rows, &damaged, why)) return false;
        if (damaged && !reader->unreadable_from) reader->unreadable_from = seq;
        reader->after = seq;
    }
    reader->empty_steps = all ? 0 : reader->empty_steps + 1;
    reader->complete = reader->empty_steps == (reader->truncated ? MAX_EMPTY_STEPS_TRUNCATED : MAX_EMPTY_STEPS);
    reader->damaged = false;
    return true;
}

// In a transaction of this log.
static bool log_copy_rows(void *self, buffer_t *why) {
    log_reader_t *reader = self;
    size_t rows;
    if (reader->damaged) return log_salvage(reader, why);
    if (!log_take_rows(reader, INT64_MAX, &rows, &reader->damaged, why)) return false;
    reader->complete = rows == 0 && !reader->damaged;
    return true;
}

static bool log_copy(log_reader_t *reader, buffer_t *why) {
    buffer_t ignored = {0}; // a damaged file may not tell how many rows it has
    int64_t first;
    while (!reader->complete) {
        audit_bounds(reader->peer, reader->after, &first, &reader->last, &ignored);
        buffer_clear(&ignored);
        if (!import_in_transaction(reader->import, log_copy_rows, reader, why)) break;
        if (reader->listener->progress) reader->listener->progress(reader->listener->self, reader->after, reader->last);
    }
    buffer_free(&ignored);
    if (reader->complete && reader->unreadable_from)
        log_refuse(reader, reader->unreadable_from, reader->unreadable_from, "cannot be read: the file is damaged from there on");
    return reader->complete;
}

// The text of the view that log_take_rows reads; owned. NULL: the file cannot be read.
static char *log_read_view(audit_t *audit, buffer_t *why) {
    static const char sql[] = "SELECT sql FROM main.sqlite_schema WHERE type = 'view' AND name = 'event_states'";
    sqlite3_stmt *stmt = statement_prepare(audit, sql, why);
    if (!stmt) return NULL;
    int code = sqlite3_step(stmt);
    char *view = mem_str(code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : "");
    if (statement_finish(audit, stmt, code, why)) return view;
    free(view);
    return NULL;
}

// The events must be in a table, and another view could run any query.
static bool log_has_events(const import_t *import, audit_t *peer, buffer_t *why) {
    static const char sql[] =
        "SELECT count(*) FROM main.sqlite_schema WHERE name = 'events' AND type = 'table' AND sql LIKE 'CREATE TABLE %'";
    int64_t tables = 0;
    if (!audit_read_number(peer, sql, &tables, why)) return false;
    if (tables != 1) return audit_refuse(peer->path, why, "has no table of events");
    char *own = log_read_view(import->audit, why), *other = own ? log_read_view(peer, why) : NULL;
    bool same = other && strcmp(own, other) == 0;
    if (other && !same) audit_refuse(peer->path, why, "has another view of its events than an audit log");
    free(own);
    free(other);
    return same;
}

bool import_log(import_t *import, const char *path, const import_listener_t *listener, buffer_t *why) {
    if (audit_is_same_file(path, import->audit->path)) {
        buffer_printf(why, "%s: is the audit log itself: name that of another instance", path);
        return false;
    }
    audit_t *peer = audit_open(path, AUDIT_PEER, why);
    if (!peer) return false;
    log_reader_t reader = {.import = import, .peer = peer, .listener = listener, .after = INT64_MIN, .truncated = peer->damaged};
    sqlite3_db_config(peer->db, SQLITE_DBCONFIG_DEFENSIVE, !reader.truncated, NULL); // see open_truncated
    bool done = audit_exec(peer, untrusted_pragmas, "read it", why) && log_has_events(import, peer, why) &&
                log_copy(&reader, why) && (reader.refused || import_fill_gaps(import, peer, path, listener, why));
    audit_close(peer);
    return done;
}
