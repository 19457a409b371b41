// Erases texts of failures: an event of kind `erased` removes payload, error and traceparent of the failure that it names, and
// the errors that earlier retries of its job reported. It does so whichever of the events comes first.
//
// The fact `erasures` counts erasures. scrub.c removes what is left of their texts in the files.

#include "audit/store.h"

#define NO_TEXTS "payload = '', error = '', traceparent = ''"

static const char count_sql[] = "INSERT INTO facts VALUES ('erasures', '1') ON CONFLICT (name) DO UPDATE SET"
                                " value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)";

static bool erase_count(audit_t *audit, buffer_t *why) {
    audit->erasures++;
    return audit_run(audit, count_sql, 0, "count an erasure", why);
}

static bool erase_failure(audit_t *audit, const event_t *erasure, buffer_t *why) {
    static const char sql[] = "UPDATE events SET " NO_TEXTS " WHERE event = ? AND kind = 'failed'";
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    if (!stmt) return false;
    audit_bind_text(audit, stmt, 1, erasure->answers);
    return audit_finish(audit, stmt, sqlite3_step(stmt), "erase a failure", why);
}

static bool erase_retries(audit_t *audit, const event_t *erasure, buffer_t *why) {
    static const char sql[] = "UPDATE events SET error = '' WHERE job = ? AND queue = ? AND at <= ? AND kind = 'retried'"
                              " AND error <> ''";
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    if (!stmt) return false;
    audit_bind_text(audit, stmt, 1, erasure->job);
    audit_bind_text(audit, stmt, 2, erasure->queue);
    sqlite3_bind_int64(stmt, 3, erasure->at);
    return audit_finish(audit, stmt, sqlite3_step(stmt), "erase errors of retries", why);
}

bool audit_erase(audit_t *audit, const event_t *erasure, buffer_t *why) {
    return erase_failure(audit, erasure, why) && (erasure->job.len == 0 || erase_retries(audit, erasure, why)) &&
           erase_count(audit, why);
}

// One of both conditions is true for an erased event.
static const char is_erased_sql[] =
    "SELECT CASE ?1 WHEN 'failed' THEN EXISTS (SELECT 1 FROM events WHERE answers = ?2 AND answers <> '' AND kind = 'erased')"
    " ELSE EXISTS (SELECT 1 FROM events WHERE job = ?3 AND job <> '' AND at >= ?5 AND queue = ?4 AND kind = 'erased') END";

bool audit_is_erased(audit_t *audit, const event_t *event, bool *erased, buffer_t *why) {
    *erased = false;
    if (audit->erasures == 0 || !(slice_is(event->kind, "failed") || slice_is(event->kind, "retried"))) return true;
    sqlite3_stmt *stmt = audit_statement(audit, is_erased_sql, why);
    if (!stmt) return false;
    audit_bind_text(audit, stmt, 1, event->kind);
    audit_bind_text(audit, stmt, 2, event->event);
    audit_bind_text(audit, stmt, 3, event->job);
    audit_bind_text(audit, stmt, 4, event->queue);
    sqlite3_bind_int64(stmt, 5, event->at);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) *erased = sqlite3_column_int(stmt, 0);
    return audit_finish(audit, stmt, code, "look for an erasure", why);
}

// Somebody may have merged another log into this one by SQL.
bool audit_erase_again(audit_t *audit, buffer_t *why) {
    static const char sql[] =
        "UPDATE events SET " NO_TEXTS
        " WHERE kind = 'failed' AND (payload <> '' OR error <> '' OR traceparent <> '') AND event IN"
        " (SELECT answers FROM events WHERE answers <> '' AND kind = 'erased');"
        "UPDATE events SET error = '' WHERE seq IN (SELECT r.seq FROM events AS e JOIN events AS r ON r.job = e.job"
        " AND r.at <= e.at AND r.queue = e.queue WHERE e.answers <> '' AND e.kind = 'erased' AND e.job <> ''"
        " AND r.kind = 'retried' AND r.error <> '')";
    static const char any_sql[] = "SELECT EXISTS (SELECT 1 FROM events WHERE answers <> '' AND kind = 'erased')";
    int64_t any = 0, changes = sqlite3_total_changes64(audit->db);
    if (!audit_read_number(audit, any_sql, &any, why) || !audit_read_fact(audit, "erasures", 0, &audit->erasures, why))
        return false;
    if (!any) return true;
    if (!audit_exec(audit, sql, "erase what a merge has brought back", why)) return false;
    return (audit->erasures && sqlite3_total_changes64(audit->db) == changes) || erase_count(audit, why);
}
