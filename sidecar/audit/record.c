// Writes events and positions to the log.

#include "audit/store.h"

static const char insert_sql[] = "INSERT INTO events (seq, ref, answers_ref" EVENT_COLUMNS ") VALUES (?, ?, ?"
#define X(name, help) ", ?"
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        ") ON CONFLICT (event) DO NOTHING";

// An older copy that overwrites the open file has fewer commits: see replaced.c.
static const char commits_sql[] = "INSERT INTO facts VALUES ('commits', '1') ON CONFLICT (name) DO UPDATE SET"
                                  " value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)";

bool audit_position(audit_t *audit, slice_t queue, char position[AUDIT_POSITION_SIZE], buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, "SELECT position FROM positions WHERE queue = ?", why);
    if (!stmt) return false;
    sqlite3_bind_text64(stmt, 1, queue.data, queue.len, SQLITE_STATIC, SQLITE_UTF8);
    int code = sqlite3_step(stmt);
    snprintf(position, AUDIT_POSITION_SIZE, "%s", code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : "0-0");
    return audit_finish(audit, stmt, code, "read a position", why);
}

// Retention may have removed the row with the highest seq. A reader that follows the log must not miss the next row.
static const char last_seq_sql[] =
    "SELECT max(coalesce((SELECT max(seq) FROM events), 0), coalesce((SELECT CAST(value AS INTEGER)"
    " FROM facts WHERE name = 'last_seq'), 0))";

bool audit_begin(audit_t *audit, buffer_t *why) {
    if (!audit_run(audit, "BEGIN IMMEDIATE", 0, "begin to write", why)) return false;
    if (audit_read_number(audit, last_seq_sql, &audit->last_seq, why)) return true;
    audit_rollback(audit);
    return false;
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

bool audit_has_event(audit_t *audit, slice_t id, bool *exists, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, "SELECT 1 FROM events WHERE event = ?", why);
    if (!stmt) return false;
    audit_bind_text(audit, stmt, 1, id);
    int code = sqlite3_step(stmt);
    *exists = code == SQLITE_ROW;
    return audit_finish(audit, stmt, code, "look for an event", why);
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

bool audit_insert(audit_t *audit, const event_t *event, bool *added, buffer_t *why) {
    char ref[EVENT_REF_SIZE], answers[EVENT_REF_SIZE] = "";
    if (added) *added = false;
    if (!event_ref(event->event, ref) || sqlite3_get_autocommit(audit->db))
        return audit_refuse(audit->path, why, "cannot keep an event without an id, or outside of a transaction");
    sqlite3_stmt *stmt = audit_statement(audit, insert_sql, why);
    if (!stmt) return false;
    if (!event_ref(event->answers, answers)) *answers = '\0';
    sqlite3_bind_int64(stmt, 1, audit->last_seq + 1);
    sqlite3_bind_text(stmt, 2, ref, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, answers, -1, SQLITE_STATIC);
    record_bind_event(audit, stmt, 4, event);
    if (!audit_finish(audit, stmt, sqlite3_step(stmt), "write an event", why)) return false;
    bool new = sqlite3_changes(audit->db) > 0;
    audit->last_seq += new;
    audit->added += new;
    if (added) *added = new;
    return true;
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

bool audit_commit(audit_t *audit, buffer_t *why) {
    static const char rows_sql[] = "UPDATE facts SET value = CAST(CAST(value AS INTEGER) + ? AS TEXT) WHERE name = 'rows'";
    if (audit->added && !audit_run(audit, rows_sql, audit->added, "count rows", why)) return false;
    if (!audit_run(audit, commits_sql, 0, "count the commit", why) || !audit_run(audit, "COMMIT", 0, "commit", why)) return false;
    audit->added = 0;
    return true;
}

void audit_rollback(audit_t *audit) {
    audit->added = 0;
    if (!sqlite3_get_autocommit(audit->db)) sqlite3_exec(audit->db, "ROLLBACK", NULL, NULL, NULL);
}

bool audit_checkpoint(audit_t *audit, buffer_t *why) {
    int code = sqlite3_wal_checkpoint_v2(audit->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return code == SQLITE_OK || code == SQLITE_BUSY || audit_fail(audit, "checkpoint it", why);
}
