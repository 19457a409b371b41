#include "audit/query/query.h"

#include "audit/query/statement.h"

enum { PAGE_ROWS = 1000 };

void audit_set_head(audit_t *audit, int bytes) { audit->head_bytes = bytes; }

// Returns the code of the last step.
static int query_take_rows(audit_t *audit, sqlite3_stmt *stmt, audit_row_fn *take, void *self) {
    audit_row_t row;
    int code;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW && (code = statement_take_row(audit, stmt, &row)) == SQLITE_ROW)
        if (!take(self, &row)) break;
    return code;
}

static bool query_each_row(audit_t *audit, sqlite3_stmt *stmt, audit_row_fn *take, void *self, buffer_t *why) {
    return statement_finish(audit, stmt, query_take_rows(audit, stmt, take, self), why);
}

bool audit_list(audit_t *audit, const audit_filter_t *filter, audit_row_fn *take, void *self, buffer_t *why) {
    return audit_search(audit, filter, &(audit_place_t){0}, 0, take, self, why);
}

// A statement of the rows that `rest` selects.
static sqlite3_stmt *query_prepare(audit_t *audit, const char *rest, buffer_t *why) {
    buffer_t sql = {0};
    buffer_str(&sql, statement_rows(audit));
    buffer_str(&sql, rest);
    sqlite3_stmt *stmt = statement_prepare(audit, buffer_text(&sql), why);
    buffer_free(&sql);
    return stmt;
}

bool audit_find_ref(audit_t *audit, const char *prefix, int64_t limit, audit_row_fn *take, void *self, buffer_t *why) {
    // '{' comes right after 'z': all digits of a ref are below it.
    static const char where[] = " WHERE ref >= :prefix AND ref < :prefix || '{' ORDER BY ref, event LIMIT :limit";
    sqlite3_stmt *stmt = query_prepare(audit, where, why);
    if (!stmt) return false;
    statement_bind_text(stmt, ":prefix", slice_text(prefix));
    statement_bind_number(stmt, ":limit", limit);
    return query_each_row(audit, stmt, take, self, why);
}

bool audit_history(audit_t *audit, slice_t queue, slice_t job, audit_row_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *stmt = query_prepare(audit, " WHERE job = :job AND queue = :queue ORDER BY at, seq", why);
    if (!stmt) return false;
    statement_bind_text(stmt, ":job", job);
    statement_bind_text(stmt, ":queue", queue);
    return query_each_row(audit, stmt, take, self, why);
}

bool audit_rows(audit_t *audit, const int64_t *seqs, size_t count, audit_row_fn *take, void *self, buffer_t *why) {
    buffer_t where = {0};
    buffer_str(&where, " WHERE seq IN (");
    for (size_t i = 0; i < count; i++) buffer_printf(&where, "%s%" PRId64, i ? "," : "", seqs[i]);
    buffer_str(&where, ") ORDER BY seq");
    sqlite3_stmt *stmt = query_prepare(audit, buffer_text(&where), why);
    buffer_free(&where);
    return stmt && query_each_row(audit, stmt, take, self, why);
}

bool audit_bounds(audit_t *audit, int64_t after, int64_t *first, int64_t *last, buffer_t *why) {
    static const char sql[] = "SELECT (SELECT min(seq) FROM events WHERE seq > :after), (SELECT max(seq) FROM events)";
    sqlite3_stmt *stmt = statement_prepare(audit, sql, why);
    if (!stmt) return false;
    statement_bind_number(stmt, ":after", after);
    int code = sqlite3_step(stmt);
    bool some = code == SQLITE_ROW && sqlite3_column_type(stmt, 0) != SQLITE_NULL;
    *first = some ? sqlite3_column_int64(stmt, 0) : 0;
    *last = some ? sqlite3_column_int64(stmt, 1) : after;
    return statement_finish(audit, stmt, code, why);
}

static bool query_read_page(audit_t *audit, const audit_filter_t *filter, audit_cursor_t *cursor, audit_row_fn *take, void *self,
                            buffer_t *why) {
    static const char rest[] = " AND seq BETWEEN :first AND :last ORDER BY seq";
    int64_t first, last;
    if (!audit_bounds(audit, cursor->after, &first, &last, why)) return false;
    if (last <= cursor->after) return true;
    int64_t to = (uint64_t)last - (uint64_t)first < PAGE_ROWS ? last : first + PAGE_ROWS - 1;
    sqlite3_stmt *stmt = statement_prepare_filtered(audit, statement_rows(audit), filter, STATEMENT_BY_SEQ, rest, why);
    if (!stmt) return false;
    statement_bind_number(stmt, ":first", first);
    statement_bind_number(stmt, ":last", to);
    int code = query_take_rows(audit, stmt, take, self);
    if (code == SQLITE_ROW) to = sqlite3_column_int64(stmt, 0); // seq of the row at which `take` ended the query
    if (!statement_finish(audit, stmt, code, why)) return false;
    *cursor = (audit_cursor_t){.after = to, .more = to < last};
    return true;
}

// One transaction, because a row that is added between two statements must not be skipped.
bool audit_page(audit_t *audit, const audit_filter_t *filter, audit_cursor_t *cursor, audit_row_fn *take, void *self,
                buffer_t *why) {
    cursor->more = false;
    if (!audit_exec(audit, "BEGIN", "query it", why)) return false;
    bool done = query_read_page(audit, filter, cursor, take, self, why);
    sqlite3_exec(audit->db, "COMMIT", NULL, NULL, NULL);
    return done;
}

bool audit_find_last(audit_t *audit, const audit_filter_t *filter, int64_t count, int64_t *after, buffer_t *why) {
    static const char select[] = "SELECT min(seq) - 1, (SELECT max(seq) FROM events) FROM (SELECT seq FROM event_states";
    static const char rest[] = " ORDER BY seq DESC LIMIT :count)";
    sqlite3_stmt *stmt = statement_prepare_filtered(audit, select, filter, STATEMENT_BY_TIME, rest, why);
    if (!stmt) return false;
    statement_bind_number(stmt, ":count", count);
    int code = sqlite3_step(stmt);
    *after = sqlite3_column_int64(stmt, sqlite3_column_type(stmt, 0) == SQLITE_NULL); // no match: after the last event
    return statement_finish(audit, stmt, code, why);
}

bool audit_queues(audit_t *audit, audit_name_fn *take, void *self, buffer_t *why) {
    // Steps from queue to queue by the index, instead of reading every failure.
    const char sql[] =
        "WITH RECURSIVE names(name) AS (SELECT min(queue) FROM events WHERE kind = 'failed' UNION ALL "
        "SELECT (SELECT min(queue) FROM events WHERE kind = 'failed' AND queue > name) FROM names WHERE name IS NOT NULL)"
        " SELECT name FROM names WHERE name IS NOT NULL";
    sqlite3_stmt *stmt = statement_prepare(audit, sql, why);
    if (!stmt) return false;
    int code;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
        if (!take(self, (const char *)sqlite3_column_text(stmt, 0))) break;
    return statement_finish(audit, stmt, code, why);
}

bool audit_commits(audit_t *audit, int64_t *commits, buffer_t *why) { return audit_read_fact(audit, "commits", 0, commits, why); }

// Counts failures from an index alone. Reads retries and answers of that time row by row.
static const char recent_sql[] = "SELECT queue, kind, reason, count(*) FROM events WHERE kind = 'failed' AND at >= :since "
                                 "GROUP BY queue, kind, reason UNION ALL "
                                 "SELECT queue, kind, reason, count(*) FROM events WHERE kind <> 'failed' AND kind = 'retried' "
                                 "AND at >= :since GROUP BY queue, kind, reason UNION ALL "
                                 "SELECT f.queue, 'answered', '', count(DISTINCT f.event) FROM events AS a JOIN events AS f "
                                 "ON f.event = a.answers AND f.kind = 'failed' AND f.at >= :since WHERE a.kind <> 'failed' "
                                 "AND a.kind IN ('requeued', 'discarded') AND a.at >= :since GROUP BY f.queue";

bool audit_recent(audit_t *audit, int64_t since_ms, audit_recent_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *stmt = statement_prepare(audit, recent_sql, why);
    if (!stmt) return false;
    statement_bind_number(stmt, ":since", since_ms);
    int code = sqlite3_step(stmt);
    for (; code == SQLITE_ROW; code = sqlite3_step(stmt))
        take(self, statement_bytes(stmt, 0), statement_bytes(stmt, 1), statement_bytes(stmt, 2), sqlite3_column_int64(stmt, 3));
    return statement_finish(audit, stmt, code, why);
}

bool audit_has_removed_since(audit_t *audit, int64_t since_ms, bool *has, buffer_t *why) {
    int64_t dropped = 0;
    if (!audit_read_fact(audit, "dropped", 0, &dropped, why)) return false;
    *has = dropped >= since_ms;
    return true;
}

bool audit_open_gaps(audit_t *audit, int64_t *count, buffer_t *why) {
    return audit_read_number(
        audit,
        "SELECT count(*) FROM events AS gap WHERE kind <> 'failed' AND kind = 'gap' AND NOT EXISTS "
        "(SELECT 1 FROM events AS filled WHERE filled.answers = gap.event AND filled.answers <> '' AND filled.kind = 'filled')",
        count, why);
}
