#include "audit/query/statement.h"

// has(bytes, a, b, c): whether one of a, b, c contains the bytes. SQLite's instr() is slower: it goes byte by byte.
static void statement_sql_has(sqlite3_context *context, int count, sqlite3_value **values) {
    const void *wanted = sqlite3_value_blob(values[0]);
    size_t len = (size_t)sqlite3_value_bytes(values[0]);
    int found = 0;
    for (int i = 1; i < count && !found; i++) {
        const void *bytes = sqlite3_value_blob(values[i]); // also for a text: its raw bytes
        found = bytes && wanted && memmem(bytes, (size_t)sqlite3_value_bytes(values[i]), wanted, len);
    }
    sqlite3_result_int(context, found);
}

sqlite3_stmt *statement_prepare(audit_t *audit, const char *sql, buffer_t *why) {
    sqlite3_stmt *stmt = NULL;
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    if (!audit->has_functions)
        audit->has_functions =
            sqlite3_create_function_v2(audit->db, "has", 4, flags, NULL, statement_sql_has, NULL, NULL, NULL) == SQLITE_OK;
    if (sqlite3_prepare_v2(audit->db, sql, -1, &stmt, NULL) != SQLITE_OK) audit_fail(audit, "query it", why);
    return stmt;
}

// Adds only the conditions that the filter has, so that the planner sees the right index.
static void statement_where(buffer_t *sql, const audit_filter_t *filter) {
    buffer_str(sql, filter->all_kinds ? " WHERE 1" : filter->kind ? " WHERE kind = :kind" : " WHERE kind = 'failed'");
    if (filter->queue) buffer_str(sql, " AND queue = :queue");
    if (filter->reason) buffer_str(sql, " AND reason = :reason");
    if (filter->since_ms) buffer_str(sql, " AND at >= :since");
    if (filter->until_ms) buffer_str(sql, " AND at < :until");
    if (filter->grep) buffer_str(sql, " AND has(:grep, payload, error, job)");
}

sqlite3_stmt *statement_prepare_filtered(audit_t *audit, const char *select, const audit_filter_t *filter, const char *rest,
                                         buffer_t *why) {
    buffer_t sql = {0};
    buffer_str(&sql, select);
    statement_where(&sql, filter);
    buffer_str(&sql, rest);
    sqlite3_stmt *stmt = statement_prepare(audit, buffer_text(&sql), why);
    buffer_free(&sql);
    if (!stmt) return NULL;
    if (filter->kind) statement_bind_text(stmt, ":kind", slice_text(filter->kind));
    if (filter->queue) statement_bind_text(stmt, ":queue", slice_text(filter->queue));
    if (filter->reason) statement_bind_text(stmt, ":reason", slice_text(filter->reason));
    statement_bind_number(stmt, ":since", filter->since_ms);
    statement_bind_number(stmt, ":until", filter->until_ms);
    statement_bind_number(stmt, ":limit", filter->limit > 0 ? filter->limit : -1);
    if (filter->grep)
        sqlite3_bind_blob64(stmt, sqlite3_bind_parameter_index(stmt, ":grep"), filter->grep, strlen(filter->grep), SQLITE_STATIC);
    return stmt;
}

bool statement_finish(audit_t *audit, sqlite3_stmt *stmt, int code, buffer_t *why) {
    bool done = code == SQLITE_DONE || code == SQLITE_ROW || audit_fail(audit, "read from it", why);
    sqlite3_finalize(stmt);
    return done;
}

void statement_bind_text(sqlite3_stmt *stmt, const char *name, slice_t text) {
    sqlite3_bind_text64(stmt, sqlite3_bind_parameter_index(stmt, name), text.data, text.len, SQLITE_STATIC, SQLITE_UTF8);
}

void statement_bind_number(sqlite3_stmt *stmt, const char *name, int64_t number) {
    sqlite3_bind_int64(stmt, sqlite3_bind_parameter_index(stmt, name), number);
}

slice_t statement_bytes(sqlite3_stmt *stmt, int at) {
    const char *data = sqlite3_column_blob(stmt, at);
    return (slice_t){data ? data : "", (size_t)sqlite3_column_bytes(stmt, at)};
}

event_t statement_event(sqlite3_stmt *stmt, int *at) {
    event_t event;
#define X(name, help) event.name = statement_bytes(stmt, (*at)++);
    EVENT_TEXTS(X)
#undef X
#define X(name, help) event.name = sqlite3_column_int64(stmt, (*at)++);
    EVENT_NUMBERS(X)
#undef X
    event_clear_impossible(&event);
    return event;
}
