// Moves the events of a log of schema 4 into the tables of schema 5: see 005_compact.sql.

#include "audit/context.h"
#include "base/failpoint.h"

enum { STEP_MS = 100, MOST_ROWS = 10000 }; // of one transaction

static const char select_sql[] = "SELECT seq"
#define X(name, help) ", \"" #name "\""
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        " FROM moving ORDER BY seq LIMIT ?";

bool audit_is_moving(audit_t *audit, bool *moving, buffer_t *why) {
    int64_t tables = 0;
    if (!audit_read_number(audit, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'moving'", &tables, why))
        return false;
    *moving = tables > 0;
    return true;
}

// Reads the ends of both tables, because a count would read all of `moving`.
int64_t audit_moved_percent(audit_t *audit) {
    static const char sql[] = "SELECT coalesce((next - first) * 100 / (last - first + 1), 0) FROM (SELECT (SELECT min(seq) FROM"
                              " records) AS first, (SELECT min(seq) FROM moving) AS next, (SELECT max(seq) FROM moving) AS last)";
    int64_t percent = 100; // the sidecar may drop `moving` just now
    buffer_t why = {0};
    audit_read_number(audit, sql, &percent, &why);
    buffer_free(&why);
    return percent;
}

static event_t move_read_event(sqlite3_stmt *stmt) {
    event_t event;
    int at = 1; // 0 is seq
#define X(name, help)                                                                                                            \
    event.name.data = sqlite3_column_blob(stmt, at);                                                                             \
    event.name.len = (size_t)sqlite3_column_bytes(stmt, at++);
    EVENT_TEXTS(X)
#undef X
#define X(name, help) event.name = sqlite3_column_int64(stmt, at++);
    EVENT_NUMBERS(X)
#undef X
    return event;
}

// *last: seq of the last event that was moved; unchanged if none is left.
static bool move_events(audit_t *audit, int batch_rows, int64_t *last, int64_t *count, buffer_t *why) {
    mono_t until = mono_add(mono_now(), STEP_MS * NS_PER_MS);
    sqlite3_stmt *stmt = audit_statement(audit, select_sql, why);
    if (!stmt) return false;
    sqlite3_bind_int(stmt, 1, batch_rows ? batch_rows : MOST_ROWS);
    int code;
    bool done = true;
    while (done && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        event_t event = move_read_event(stmt);
        *last = sqlite3_column_int64(stmt, 0);
        done = audit_write_event(audit, *last, &event, why);
        ++*count;
        if (mono_reached(until, mono_now())) break;
    }
    if (!done) sqlite3_reset(stmt);
    return done && audit_finish(audit, stmt, code, "read an event", why);
}

// One transaction. Another process may have moved the rest meanwhile.
static bool move_step(audit_t *audit, int batch_rows, int64_t *count, buffer_t *why) {
    int64_t last = 0, before = *count;
    bool moving;
    context_forget(&audit->contexts);
    if (!audit_is_moving(audit, &moving, why)) return false;
    if (!moving) return true;
    if (!move_events(audit, batch_rows, &last, count, why)) return false;
    if (*count > before) return audit_run(audit, "DELETE FROM moving WHERE seq <= ?", last, "move its events", why);
    return audit_exec(audit, "DROP TABLE moving", "move its events", why);
}

bool audit_move(audit_t *audit, const audit_open_options_t *options, buffer_t *why) {
    int64_t count = 0, of = 0;
    bool moving;
    for (;;) {
        if (!audit_is_moving(audit, &moving, why)) return false;
        if (!moving) return true;
        if (options->stop && atomic_load(options->stop))
            return audit_refuse(audit->path, why, "stopped while its events were being moved");
        if (of == 0 && !(audit_read_fact(audit, "rows", 0, &of, why) &&
                         audit_read_number(audit, "SELECT count(*) FROM records", &count, why)))
            return false;
        bool done = audit_run(audit, "BEGIN IMMEDIATE", 0, "begin to move its events", why) &&
                    move_step(audit, options->batch_rows, &count, why);
        failpoint("audit_move_before_commit");
        if (!done || !audit_run(audit, "COMMIT", 0, "move its events", why)) {
            audit_rollback(audit);
            return false;
        }
        failpoint("audit_moved");
        if (options->moved) options->moved(options->self, count, of);
    }
}
