// Which failures an operator means: chosen in pages, so that a question never keeps the log from being merged.
#include <stdlib.h>

#include "audit/query/query.h"
#include "audit/query/statement.h"

enum { SELECT_PAGE = 20000 };

// Where a page of audit_select ended.
typedef struct place {
    int64_t at, seq;
    char *queue, *reason; // owned; NULL = at the beginning
} place_t;

static void place_move(place_t *place, sqlite3_stmt *at) {
    free(place->queue);
    free(place->reason);
    place->at = sqlite3_column_int64(at, 1);
    place->queue = mem_str((const char *)sqlite3_column_text(at, 2));
    place->reason = mem_str((const char *)sqlite3_column_text(at, 3));
    place->seq = sqlite3_column_int64(at, 0);
}

// One page of at most filter->limit rows; *taken of them.
static bool select_page(audit_t *audit, const audit_filter_t *filter, place_t *place, int64_t *taken, audit_match_fn *take,
                        void *self, buffer_t *why) {
    buffer_t sql = {0};
    sqlite3_stmt *of = NULL;
    int code;
    *taken = 0;
    buffer_str(&sql, "SELECT seq, at, queue, reason, state FROM event_states");
    question_where(&sql, filter);
    if (place->queue) buffer_str(&sql, " AND at >= :at AND (at, queue, reason, seq) > (:at, :after_queue, :after_reason, :seq)");
    buffer_str(&sql, " ORDER BY at, queue, reason, seq LIMIT :limit"); // as the index has it
    bool done = question_prepare(audit, buffer_text(&sql), &of, why);
    buffer_free(&sql);
    if (!done) return false;
    question_bind(of, filter);
    sqlite3_bind_int64(of, sqlite3_bind_parameter_index(of, ":at"), place->at);
    sqlite3_bind_int64(of, sqlite3_bind_parameter_index(of, ":seq"), place->seq);
    if (place->queue) {
        sqlite3_bind_text(of, sqlite3_bind_parameter_index(of, ":after_queue"), place->queue, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(of, sqlite3_bind_parameter_index(of, ":after_reason"), place->reason, -1, SQLITE_TRANSIENT);
    }
    while ((code = sqlite3_step(of)) == SQLITE_ROW) {
        const audit_match_t match = {.seq = sqlite3_column_int64(of, 0),
                                     .at = sqlite3_column_int64(of, 1),
                                     .queue = question_bytes(of, 2),
                                     .state = question_bytes(of, 4)};
        if (!take(self, &match)) break;
        if (++*taken == filter->limit) place_move(place, of);
    }
    return question_end(audit, of, code, why);
}

bool audit_select(audit_t *audit, const audit_filter_t *filter, audit_match_fn *take, void *self, buffer_t *why) {
    place_t place = {0};
    audit_filter_t page = *filter;
    int64_t taken = 0, all = 0;
    bool done;
    do {
        page.limit = filter->limit && filter->limit - all < SELECT_PAGE ? filter->limit - all : SELECT_PAGE;
        done = select_page(audit, &page, &place, &taken, take, self, why);
        all += taken;
    } while (done && taken == page.limit && all != filter->limit);
    free(place.queue);
    free(place.reason);
    return done;
}
