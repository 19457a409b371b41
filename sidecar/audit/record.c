// Writes events and positions to the log, and runs its prepared statements.

#include "audit/store.h"
#include "base/utf8.h"

static const char insert_sql[] = "INSERT INTO events (ref, answers_ref"
#define X(name, help) ", \"" #name "\""
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        ") VALUES (?, ?"
#define X(name, help) ", ?"
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        ")";

// An older copy that overwrites the open file has fewer commits: see replaced.c.
static const char commits_sql[] = "INSERT INTO facts VALUES ('commits', '1') ON CONFLICT (name) DO UPDATE SET"
                                  " value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)";

sqlite3_stmt *audit_statement(audit_t *audit, const char *sql, buffer_t *why) {
    for (size_t i = 0; i < audit->statement_count; i++)
        if (audit->statements[i].sql == sql) return audit->statements[i].prepared;
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v3(audit->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) != SQLITE_OK) {
        audit_fail(audit, "prepare a statement", why);
        return NULL;
    }
    audit->statements = mem_grown(audit->statements, audit->statement_count, sizeof *audit->statements);
    audit->statements[audit->statement_count++] = (statement_t){sql, stmt};
    return stmt;
}

bool audit_finish(audit_t *audit, sqlite3_stmt *stmt, int code, const char *doing, buffer_t *why) {
    bool done = code == SQLITE_DONE || code == SQLITE_ROW;
    if (!done) audit_fail(audit, doing, why); // read the error before the reset, because the reset may change it
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt); // the bound texts are borrowed
    return done;
}

bool audit_run(audit_t *audit, const char *sql, int64_t number, const char *doing, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    if (!stmt) return false;
    if (sqlite3_bind_parameter_count(stmt)) sqlite3_bind_int64(stmt, 1, number);
    return audit_finish(audit, stmt, sqlite3_step(stmt), doing, why);
}

static bool record_read_number(audit_t *audit, sqlite3_stmt *stmt, int64_t *out, buffer_t *why) {
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) *out = sqlite3_column_int64(stmt, 0);
    return audit_finish(audit, stmt, code == SQLITE_DONE ? SQLITE_ERROR : code, "read from it", why);
}

bool audit_read_number(audit_t *audit, const char *sql, int64_t *out, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    return stmt && record_read_number(audit, stmt, out, why);
}

bool audit_read_fact(audit_t *audit, const char *name, int64_t otherwise, int64_t *out, buffer_t *why) {
    static const char sql[] = "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = ?), ?)";
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    if (!stmt) return false;
    sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, otherwise);
    return record_read_number(audit, stmt, out, why);
}

bool audit_exec(audit_t *audit, const char *sql, const char *doing, buffer_t *why) {
    return sqlite3_exec(audit->db, sql, NULL, NULL, NULL) == SQLITE_OK || audit_fail(audit, doing, why);
}

bool audit_position(audit_t *audit, slice_t queue, char position[AUDIT_POSITION_SIZE], buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, "SELECT position FROM positions WHERE queue = ?", why);
    if (!stmt) return false;
    sqlite3_bind_text64(stmt, 1, queue.data, queue.len, SQLITE_STATIC, SQLITE_UTF8);
    int code = sqlite3_step(stmt);
    snprintf(position, AUDIT_POSITION_SIZE, "%s", code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : "0-0");
    return audit_finish(audit, stmt, code, "read a position", why);
}

bool audit_begin(audit_t *audit, buffer_t *why) { return audit_run(audit, "BEGIN IMMEDIATE", 0, "begin to write", why); }

// Checks eight bytes at once, because most texts are ASCII without NUL.
static bool record_is_ascii_word(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    uint64_t high = UINT64_C(0x8080808080808080), low = UINT64_C(0x0101010101010101);
    return ((word | (word - low)) & high) == 0;
}

// Whether the bytes are UTF-8 without NUL. In a TEXT of other bytes, SQLite's functions would stop early or read too far.
static bool record_is_text(slice_t bytes) {
    for (size_t i = 0; i < bytes.len;) {
        size_t sequence = 0;
        if (bytes.len - i >= sizeof(uint64_t) && record_is_ascii_word(bytes.data + i))
            sequence = sizeof(uint64_t);
        else if (bytes.data[i])
            sequence = utf8_sequence(bytes.data + i, bytes.len - i);
        if (sequence == 0) return false;
        i += sequence;
    }
    return true;
}

// A column of type ANY keeps bytes that are not text unchanged, as a BLOB. Other columns get these bytes escaped.
static void record_bind(audit_t *audit, sqlite3_stmt *stmt, int at, slice_t value, bool any) {
    const char *data = value.len ? value.data : "";
    if (record_is_text(value)) {
        sqlite3_bind_text64(stmt, at, data, value.len, SQLITE_STATIC, SQLITE_UTF8);
    } else if (any) {
        sqlite3_bind_blob64(stmt, at, data, value.len, SQLITE_STATIC);
    } else {
        buffer_clear(&audit->scratch);
        utf8_escape(&audit->scratch, data, value.len, "");
        sqlite3_bind_text64(stmt, at, audit->scratch.data, audit->scratch.len, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
}

static void record_bind_event(audit_t *audit, sqlite3_stmt *stmt, const event_t *event) {
    int at = 3; // 1 and 2 are the refs
#define X(name, help)                                                                                                            \
    record_bind(audit, stmt, at, event->name, &event->name == &event->payload || &event->name == &event->error);                 \
    at++;
    EVENT_TEXTS(X)
#undef X
#define X(name, help) sqlite3_bind_int64(stmt, at++, event->name);
    EVENT_NUMBERS(X)
#undef X
}

bool audit_has_event(audit_t *audit, slice_t id, bool *exists, buffer_t *why) {
    char ref[EVENT_REF_SIZE];
    sqlite3_stmt *stmt = audit_statement(audit, "SELECT 1 FROM events WHERE ref = ? AND event = ?", why);
    *exists = false;
    if (!stmt) return false;
    if (!event_ref(id, ref)) return true;
    sqlite3_bind_text(stmt, 1, ref, -1, SQLITE_STATIC);
    sqlite3_bind_text64(stmt, 2, id.data, id.len, SQLITE_STATIC, SQLITE_UTF8);
    int code = sqlite3_step(stmt);
    *exists = code == SQLITE_ROW;
    return audit_finish(audit, stmt, code, "look for an event", why);
}

bool audit_answer_fits(audit_t *audit, const event_t *event, bool *fits, buffer_t *why) {
    static const char sql[] = "SELECT kind = 'failed' AND queue = ? AND job = ? FROM events WHERE ref = ? AND event = ?";
    char ref[EVENT_REF_SIZE];
    *fits = true;
    if (!event_is_answer(event) || !event_ref(event->answers, ref)) return true;
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    if (!stmt) return false;
    record_bind(audit, stmt, 1, event->queue, false);
    record_bind(audit, stmt, 2, event->job, false);
    sqlite3_bind_text(stmt, 3, ref, -1, SQLITE_STATIC);
    sqlite3_bind_text64(stmt, 4, event->answers.data, event->answers.len, SQLITE_STATIC, SQLITE_UTF8);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) *fits = sqlite3_column_int(stmt, 0);
    return audit_finish(audit, stmt, code, "look for a failure", why);
}

bool audit_insert(audit_t *audit, const event_t *event, bool *added, buffer_t *why) {
    char ref[EVENT_REF_SIZE], answers[EVENT_REF_SIZE] = "";
    bool exists = false;
    if (added) *added = false;
    if (!event_ref(event->event, ref) || sqlite3_get_autocommit(audit->db))
        return audit_refuse(audit->path, why, "cannot keep an event without an id, or outside of a transaction");
    if (!audit_has_event(audit, event->event, &exists, why)) return false;
    if (exists) return true;
    sqlite3_stmt *stmt = audit_statement(audit, insert_sql, why);
    if (!stmt) return false;
    if (!event_ref(event->answers, answers)) *answers = '\0';
    sqlite3_bind_text(stmt, 1, ref, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, answers, -1, SQLITE_STATIC);
    record_bind_event(audit, stmt, event);
    bool done = audit_finish(audit, stmt, sqlite3_step(stmt), "write an event", why);
    if (done) audit->added++;
    if (added) *added = done;
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
