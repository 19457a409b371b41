// Counts final failures by hour, queue and reason.

#include "audit/query/query.h"
#include "audit/query/statement.h"

enum { HOUR_MS = 3600000 };

// The hour is rounded towards 0. Few failures have an answer, so the states of these are joined to counts that an index has.
static const char select_wanted[] =
    "WITH wanted AS NOT MATERIALIZED (SELECT seq, at / 3600000 AS hour, queue, reason, at FROM events";
static const char count_wanted[] =
    "), answered AS (SELECT hour, wanted.queue, wanted.reason, sum(state = 'requeued') AS requeued,"
    " sum(state = 'discarded') AS discarded FROM event_states JOIN wanted USING (seq)"
    " WHERE (ref, event) IN (SELECT answers_ref, answers FROM events WHERE answers <> '') GROUP BY 1, 2, 3),"
    " failures AS (SELECT hour, queue, reason, count(*) AS count, min(at) AS first, max(at) AS last FROM wanted GROUP BY 1, 2, 3)"
    " SELECT hour, queue, reason, count, coalesce(requeued, 0), coalesce(discarded, 0), first, last FROM failures"
    " LEFT JOIN answered USING (hour, queue, reason) ORDER BY hour DESC, queue, count DESC, reason LIMIT :limit";

bool audit_stats(audit_t *audit, const audit_filter_t *filter, audit_count_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *stmt = statement_prepare_filtered(audit, select_wanted, filter, count_wanted, why);
    int code;
    if (!stmt) return false;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        audit_count_t count = {.hour_ms = sqlite3_column_int64(stmt, 0) * HOUR_MS,
                               .queue = statement_bytes(stmt, 1),
                               .reason = statement_bytes(stmt, 2),
                               .failures = sqlite3_column_int64(stmt, 3),
                               .requeued = sqlite3_column_int64(stmt, 4),
                               .discarded = sqlite3_column_int64(stmt, 5),
                               .first_ms = sqlite3_column_int64(stmt, 6),
                               .last_ms = sqlite3_column_int64(stmt, 7)};
        count.open = count.failures - count.requeued - count.discarded;
        if (!take(self, &count)) break;
    }
    return statement_finish(audit, stmt, code, why);
}
