// Prepares, binds and runs the statements of the log.

#include "audit/store.h"
#include "base/utf8.h"

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

// In a TEXT with NUL or without UTF-8, SQLite's functions would stop early or read too far.
static bool prepared_is_text(slice_t bytes) {
    return bytes.len == 0 || (!memchr(bytes.data, '\0', bytes.len) && utf8_is_valid(bytes.data, bytes.len));
}

void audit_bind_bytes(sqlite3_stmt *stmt, int at, slice_t value) {
    const char *data = value.len ? value.data : "";
    if (prepared_is_text(value))
        sqlite3_bind_text64(stmt, at, data, value.len, SQLITE_STATIC, SQLITE_UTF8);
    else
        sqlite3_bind_blob64(stmt, at, data, value.len, SQLITE_STATIC);
}

void audit_bind_text(audit_t *audit, sqlite3_stmt *stmt, int at, slice_t value) {
    if (prepared_is_text(value)) {
        sqlite3_bind_text64(stmt, at, value.len ? value.data : "", value.len, SQLITE_STATIC, SQLITE_UTF8);
    } else {
        buffer_clear(&audit->scratch);
        utf8_escape(&audit->scratch, value.data, value.len, "");
        sqlite3_bind_text64(stmt, at, audit->scratch.data, audit->scratch.len, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
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

static bool prepared_read_numbers(audit_t *audit, sqlite3_stmt *stmt, int64_t *const *out, int count, buffer_t *why) {
    int code = sqlite3_step(stmt);
    for (int i = 0; i < count && code == SQLITE_ROW; i++) *out[i] = sqlite3_column_int64(stmt, i);
    return audit_finish(audit, stmt, code == SQLITE_DONE ? SQLITE_ERROR : code, "read from it", why);
}

bool audit_read_numbers(audit_t *audit, const char *sql, int64_t *const *out, int count, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    return stmt && prepared_read_numbers(audit, stmt, out, count, why);
}

bool audit_read_number(audit_t *audit, const char *sql, int64_t *out, buffer_t *why) {
    return audit_read_numbers(audit, sql, &out, 1, why);
}

bool audit_read_fact(audit_t *audit, const char *name, int64_t otherwise, int64_t *out, buffer_t *why) {
    static const char sql[] = "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = ?), ?)";
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    if (!stmt) return false;
    sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, otherwise);
    return prepared_read_numbers(audit, stmt, &out, 1, why);
}

bool audit_exec(audit_t *audit, const char *sql, const char *doing, buffer_t *why) {
    return sqlite3_exec(audit->db, sql, NULL, NULL, NULL) == SQLITE_OK || audit_fail(audit, doing, why);
}
