// Reads the failures that an operator selects. It reads in pages, because a long read transaction would keep the log from being
// checkpointed.
#include <stdlib.h>

#include "audit/query/query.h"
#include "audit/query/statement.h"

enum { SELECT_PAGE_ROWS = 20000 };

// The end of a page of audit_select.
typedef struct select_position {
    int64_t at, seq;
    char *queue, *reason; // owned; NULL = at the beginning
} select_position_t;

static void select_set_position(select_position_t *position, sqlite3_stmt *at) {
    free(position->queue);
    free(position->reason);
    position->at = sqlite3_column_int64(at, 1);
    position->queue = mem_str((const char *)sqlite3_column_text(at, 2));
    position->reason = mem_str((const char *)sqlite3_column_text(at, 3));
    position->seq = sqlite3_column_int64(at, 0);
}

// One page of at most filter->limit rows; *taken of them. Sorted as the index is.
static bool select_page(audit_t *audit, const audit_filter_t *filter, select_position_t *position, int64_t *taken,
                        audit_match_fn *take, void *self, buffer_t *why) {
    static const char select[] = "SELECT seq, at, queue, reason, state FROM event_states";
    const char *rest = position->queue ? " AND at >= :at AND (at, queue, reason, seq) > (:at, :after_queue, :after_reason, :seq)"
                                         " ORDER BY at, queue, reason, seq LIMIT :limit"
                                       : " ORDER BY at, queue, reason, seq LIMIT :limit";
    int code;
    *taken = 0;
    sqlite3_stmt *of = statement_prepare_filtered(audit, select, filter, rest, why);
    if (!of) return false;
    statement_bind_number(of, ":at", position->at);
    statement_bind_number(of, ":seq", position->seq);
    if (position->queue) {
        sqlite3_bind_text(of, sqlite3_bind_parameter_index(of, ":after_queue"), position->queue, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(of, sqlite3_bind_parameter_index(of, ":after_reason"), position->reason, -1, SQLITE_TRANSIENT);
    }
    while ((code = sqlite3_step(of)) == SQLITE_ROW) {
        const audit_match_t match = {.seq = sqlite3_column_int64(of, 0),
                                     .at = sqlite3_column_int64(of, 1),
                                     .queue = statement_bytes(of, 2),
                                     .state = statement_bytes(of, 4)};
        if (!take(self, &match)) break;
        if (++*taken == filter->limit) select_set_position(position, of);
    }
    return statement_finish(audit, of, code, why);
}

bool audit_select(audit_t *audit, const audit_filter_t *filter, audit_match_fn *take, void *self, buffer_t *why) {
    select_position_t position = {0};
    audit_filter_t page = *filter;
    int64_t taken = 0, all = 0;
    bool done;
    do {
        page.limit = filter->limit && filter->limit - all < SELECT_PAGE_ROWS ? filter->limit - all : SELECT_PAGE_ROWS;
        done = select_page(audit, &page, &position, &taken, take, self, why);
        all += taken;
    } while (done && taken == page.limit && all != filter->limit);
    free(position.queue);
    free(position.reason);
    return done;
}
