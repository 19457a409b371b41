// Recent events and possible gaps of the log, for `status`.
#include "audit/query/query.h"
#include "audit/query/statement.h"

// An index alone counts failures. All other events of that time are read row by row.
static const char recent_sql[] = "SELECT queue, kind, reason, count(*) FROM events WHERE kind = 'failed' AND at >= :since "
                                 "GROUP BY queue, kind, reason UNION ALL "
                                 "SELECT queue, kind, reason, count(*) FROM events WHERE kind <> 'failed' AND kind = 'retried' "
                                 "AND at >= :since GROUP BY queue, kind, reason";

bool audit_recent(audit_t *audit, int64_t since_ms, audit_recent_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *of = statement_prepare(audit, recent_sql, why);
    if (!of) return false;
    statement_bind_number(of, ":since", since_ms);
    int code = sqlite3_step(of);
    for (; code == SQLITE_ROW; code = sqlite3_step(of))
        take(self, statement_bytes(of, 0), statement_bytes(of, 1), statement_bytes(of, 2), sqlite3_column_int64(of, 3));
    return statement_finish(audit, of, code, why);
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
