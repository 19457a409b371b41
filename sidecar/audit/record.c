// Writes events and positions to the log.

#include "audit/store.h"

static const char insert_sql[] = "INSERT INTO events (seq, ref, answers_ref" EVENT_COLUMNS ") VALUES (?, ?, ?"
#define X(name, help) ", ?"
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        ") ON CONFLICT (event) DO NOTHING";

bool audit_position(audit_t *audit, slice_t queue, char position[AUDIT_POSITION_SIZE], buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, "SELECT position FROM positions WHERE queue = ?", why);
    if (!stmt) return false;
    sqlite3_bind_text64(stmt, 1, queue.data, queue.len, SQLITE_STATIC, SQLITE_UTF8);
    int code = sqlite3_step(stmt);
    snprintf(position, AUDIT_POSITION_SIZE, "%s", code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : "0-0");
    return audit_finish(audit, stmt, code, "read a position", why);
}

static void record_bind_event(audit_t *audit, sqlite3_stmt *stmt, int at, const event_t *event) {
#define X(name, help)                                                                                                            \
    if (&event->name == &event->payload || &event->name == &event->error)                                                        \
        audit_bind_bytes(stmt, at, event->name);                                                                                 \
    else                                                                                                                         \
        audit_bind_text(audit, stmt, at, event->name);                                                                           \
    at++;
    EVENT_TEXTS(X)
#undef X
#define X(name, help) sqlite3_bind_int64(stmt, at++, event->name);
    EVENT_NUMBERS(X)
#undef X
}

bool audit_answer_fits(audit_t *audit, const event_t *event, bool *fits, buffer_t *why) {
    static const char sql[] = "SELECT kind = 'failed' AND queue = ? AND job = ? FROM events WHERE event = ?";
    *fits = true;
    if (!event_is_answer(event)) return true;
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    if (!stmt) return false;
    audit_bind_text(audit, stmt, 1, event->queue);
    audit_bind_text(audit, stmt, 2, event->job);
    audit_bind_text(audit, stmt, 3, event->answers);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) *fits = sqlite3_column_int(stmt, 0);
    return audit_finish(audit, stmt, code, "look for a failure", why);
}

bool audit_check_insert(audit_t *audit, const event_t *event, buffer_t *why) {
    char ref[EVENT_REF_SIZE];
    return (event_ref(event->event, ref) && !sqlite3_get_autocommit(audit->db)) ||
           audit_refuse(audit->path, why, "cannot keep an event without an id, or outside of a transaction");
}

bool audit_insert_row(audit_t *audit, const event_t *event, int64_t seq, buffer_t *why) {
    char ref[EVENT_REF_SIZE] = "", answers[EVENT_REF_SIZE] = "";
    sqlite3_stmt *stmt = audit_statement(audit, insert_sql, why);
    event_t row = *event;
    bool erased;
    if (!stmt || !audit_is_erased(audit, event, &erased, why)) return false;
    if (erased) row.payload = row.error = row.traceparent = (slice_t){0};
    event_ref(event->event, ref);
    if (!event_ref(event->answers, answers)) *answers = '\0';
    sqlite3_bind_int64(stmt, 1, seq);
    sqlite3_bind_text(stmt, 2, ref, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, answers, -1, SQLITE_STATIC);
    record_bind_event(audit, stmt, 4, &row);
    if (!audit_finish(audit, stmt, sqlite3_step(stmt), "write an event", why)) return false;
    bool added = sqlite3_changes(audit->db) > 0;
    audit->added += added;
    return !added || !event_is_erasure(event) || audit_erase(audit, event, why);
}

bool audit_insert(audit_t *audit, const event_t *event, bool *added, buffer_t *why) {
    int64_t before = audit->added;
    bool done = audit_check_insert(audit, event, why) && audit_insert_row(audit, event, audit->last_seq + 1, why);
    audit->last_seq += audit->added - before;
    if (added) *added = audit->added > before;
    return done;
}

bool audit_set_position(audit_t *audit, const char *queue, const char *position, buffer_t *why) {
    static const char sql[] =
        "INSERT INTO positions VALUES (?, ?) ON CONFLICT (queue) DO UPDATE SET position = excluded.position";
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    if (!stmt) return false;
    sqlite3_bind_text(stmt, 1, queue, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, position, -1, SQLITE_STATIC);
    return audit_finish(audit, stmt, sqlite3_step(stmt), "write a position", why);
}

bool audit_checkpoint(audit_t *audit, buffer_t *why) {
    int code = sqlite3_wal_checkpoint_v2(audit->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return code == SQLITE_OK || code == SQLITE_BUSY || audit_fail(audit, "checkpoint it", why);
}
