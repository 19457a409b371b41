// Searches by time, in slices: a search ends after its time and goes on later from where it was.
#include "audit/query/search.h"

#include "base/clock.h"

// So many answers are read and sorted first, at 12 us each: within the slices of the API, and of a search without slices.
enum { FEW_ANSWERS = 5000, FEW_ANSWERS_SLICE = 1000 };

// The columns of the indexes by time, by queue and by job. Each index ends with seq, so SQLite sorts nothing. The index of other
// kinds lacks queue and reason: there it sorts the rows of one time, or those that have an answer.
#define INDEX_ORDER(way)  " ORDER BY at" way ", queue" way ", reason" way
#define SORTED_ORDER(way) INDEX_ORDER(way) ", seq" way
#define JOB_ORDER(way)    " ORDER BY at" way ", seq" way

typedef struct search {
    audit_t *audit;
    const audit_filter_t *filter; // without an end that the place has passed
    bool from_place;              // rows behind the place
    bool by_answers;              // reads the answers, which are few, and then their failures
    char *queue, *reason;         // of the row at the place; owned; NULL = retention has removed the row
} search_t;

// Retention removes what is oldest, in the order of the index. So what it leaves behind a removed row has the same time. Newest
// first, it goes next: a comparison with NULL leaves it out. Oldest first, nobody has seen it: it is behind the empty texts.
static bool search_read_place(search_t *search, const audit_place_t *place, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(search->audit, "SELECT queue, reason FROM events WHERE seq = ?", why);
    if (!stmt) return false;
    sqlite3_bind_int64(stmt, 1, place->seq);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) {
        search->queue = mem_str((const char *)sqlite3_column_text(stmt, 0));
        search->reason = mem_str((const char *)sqlite3_column_text(stmt, 1));
    }
    return audit_finish(search->audit, stmt, code, "read from it", why);
}

bool search_count_answers(audit_t *audit, int64_t few, bool *are_few, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, "SELECT count(*) FROM (SELECT 1 FROM events WHERE answers <> '' LIMIT ?)", why);
    if (!stmt) return false;
    sqlite3_bind_int64(stmt, 1, few + 1);
    int code = sqlite3_step(stmt);
    *are_few = code == SQLITE_ROW && sqlite3_column_int64(stmt, 0) <= few;
    return audit_finish(audit, stmt, code, "read from it", why);
}

static bool search_is_failures(const audit_filter_t *filter) {
    return !filter->all_kinds && (!filter->kind || strcmp(filter->kind, "failed") == 0);
}

static void search_add_place(const search_t *search, buffer_t *sql) {
    char way = search->filter->oldest_first ? '>' : '<';
    if (search->filter->job)
        buffer_printf(sql, " AND (at, seq) %c (:place_at, :place_seq)", way);
    else if (search->filter->queue) // the column is no part of the range in the index by queue
        buffer_printf(sql, " AND (at, reason, seq) %c (:place_at, :place_reason, :place_seq)", way);
    else
        buffer_printf(sql, " AND (at, queue, reason, seq) %c (:place_at, :place_queue, :place_reason, :place_seq)", way);
}

static const char *search_order(const search_t *search) {
    const audit_filter_t *filter = search->filter;
    if (filter->job) return filter->oldest_first ? JOB_ORDER("") : JOB_ORDER(" DESC");
    if (search->by_answers || !search_is_failures(filter)) return filter->oldest_first ? SORTED_ORDER("") : SORTED_ORDER(" DESC");
    return filter->oldest_first ? INDEX_ORDER("") : INDEX_ORDER(" DESC");
}

// Conditions that no index has are a column, so that each row read is a step, between which a search can end.
static sqlite3_stmt *search_prepare(const search_t *search, const audit_place_t *place, search_columns_t columns, buffer_t *why) {
    const audit_filter_t *filter = search->filter;
    statement_index_t by = search->by_answers ? STATEMENT_BY_SEQ : STATEMENT_BY_TIME;
    buffer_t sql = {0};
    buffer_str(&sql, "SELECT seq, at, CASE WHEN 1");
    statement_add_match(&sql, filter);
    buffer_printf(&sql, " THEN %s END%s FROM event_states AS s", columns.match, columns.more);
    statement_add_range(&sql, filter, by);
    if (search->by_answers)
        buffer_str(&sql, " AND (ref, event) IN (SELECT answers_ref, answers FROM events WHERE answers <> '')");
    if (search->from_place) search_add_place(search, &sql);
    buffer_str(&sql, search_order(search));
    sqlite3_stmt *stmt = statement_prepare(search->audit, buffer_text(&sql), why);
    buffer_free(&sql);
    if (!stmt) return NULL;
    statement_bind_filter(stmt, filter);
    statement_bind_number(stmt, ":place_at", place->at);
    statement_bind_number(stmt, ":place_seq", place->seq);
    const char *removed = filter->oldest_first ? "" : NULL, *queue = search->queue ? search->queue : removed;
    const char *reason = search->reason ? search->reason : removed;
    if (queue) statement_bind_text(stmt, ":place_queue", slice_text(queue));
    if (reason) statement_bind_text(stmt, ":place_reason", slice_text(reason));
    return stmt;
}

// Looks at one row at least, so that slices of any length come to the end.
static bool search_take_rows(const search_t *search, sqlite3_stmt *stmt, audit_place_t *place, int64_t slice_us,
                             search_step_fn *step, void *self, buffer_t *why) {
    mono_t end = slice_us ? mono_add(mono_now(), slice_us * NS_PER_US) : mono_never();
    int64_t taken = 0, limit = search->filter->limit;
    int code;
    for (place->more = false; !place->more && (code = sqlite3_step(stmt)) == SQLITE_ROW;) {
        bool matches = sqlite3_column_type(stmt, SEARCH_MATCH) != SQLITE_NULL, go_on = true;
        place->more = matches && limit && taken == limit;
        if (place->more) break;
        place->seq = sqlite3_column_int64(stmt, SEARCH_SEQ);
        place->at = sqlite3_column_int64(stmt, SEARCH_AT);
        if (matches && !step(self, stmt, &go_on, why)) {
            sqlite3_finalize(stmt);
            return false;
        }
        taken += matches;
        place->more = !go_on || (slice_us && mono_reached(end, mono_now()));
    }
    return statement_finish(search->audit, stmt, code, why);
}

static bool search_begin(search_t *search, const audit_place_t *place, int64_t slice_us, buffer_t *why) {
    const char *state = search->filter->state;
    if (search->from_place && !search_read_place(search, place, why)) return false;
    return !state || strcmp(state, "failed") == 0 || search->filter->job ||
           search_count_answers(search->audit, slice_us ? FEW_ANSWERS_SLICE : FEW_ANSWERS, &search->by_answers, why);
}

bool search_run(audit_t *audit, const audit_filter_t *filter, audit_place_t *place, int64_t slice_us, search_columns_t columns,
                search_step_fn *step, void *self, buffer_t *why) {
    audit_filter_t rest = *filter;
    search_t search = {.audit = audit, .filter = &rest, .from_place = place->seq != 0};
    if (search.from_place && !rest.oldest_first && rest.until_ms && place->at >= rest.until_ms)
        search.from_place = false; // the search begins behind it
    else if (search.from_place)
        *(rest.oldest_first ? &rest.since_ms : &rest.until_ms) =
            0; // SQLite uses one of two ends for its range, perhaps the farther one
    bool found = search_begin(&search, place, slice_us, why);
    sqlite3_stmt *stmt = found ? search_prepare(&search, place, columns, why) : NULL;
    found = stmt && search_take_rows(&search, stmt, place, slice_us, step, self, why);
    free(search.queue);
    free(search.reason);
    return found;
}

typedef struct search_taker {
    audit_t *audit;
    audit_row_fn *take;
    void *self;
} search_taker_t;

// Reads the row once more, with all columns.
static bool search_take_row(void *self, sqlite3_stmt *found, bool *go_on, buffer_t *why) {
    const search_taker_t *taker = self;
    static const char rows[] = SELECT_ROWS " WHERE seq = ?", heads[] = SELECT_HEADS " WHERE seq = ?";
    sqlite3_stmt *stmt = audit_statement(taker->audit, taker->audit->head_bytes ? heads : rows, why);
    audit_row_t row;
    if (!stmt) return false;
    sqlite3_bind_int64(stmt, 1, sqlite3_column_int64(found, SEARCH_SEQ));
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) code = statement_take_row(taker->audit, stmt, &row);
    if (code == SQLITE_ROW) *go_on = taker->take(taker->self, &row);
    return audit_finish(taker->audit, stmt, code, "read from it", why);
}

bool audit_search(audit_t *audit, const audit_filter_t *filter, audit_place_t *place, int64_t slice_us, audit_row_fn *take,
                  void *self, buffer_t *why) {
    search_taker_t taker = {.audit = audit, .take = take, .self = self};
    return search_run(audit, filter, place, slice_us, (search_columns_t){"1", ""}, search_take_row, &taker, why);
}

typedef struct search_matcher {
    audit_t *audit;
    audit_match_fn *take;
    void *self;
} search_matcher_t;

// Copies of a job without an id have its digest as id, and each of them may have failed.
static bool search_take_match(void *self, sqlite3_stmt *found, bool *go_on, buffer_t *why) {
    const search_matcher_t *matcher = self;
    static const char sql[] =
        "SELECT queue, state, created > 0 AND job <> sha256 AND EXISTS (SELECT 1 FROM events AS later WHERE"
        " later.job = s.job AND later.at > s.at AND later.kind = 'failed' AND later.queue = s.queue AND later.sha256 = s.sha256"
        " AND later.created = s.created), " ANY_ERASED " AND EXISTS (SELECT 1 FROM events AS e WHERE e.answers = s.event"
        " AND e.answers <> '' AND e.kind = 'erased'), event FROM event_states AS s WHERE seq = ?";
    sqlite3_stmt *stmt = audit_statement(matcher->audit, sql, why);
    if (!stmt) return false;
    audit_match_t match = {.seq = sqlite3_column_int64(found, SEARCH_SEQ), .at = sqlite3_column_int64(found, SEARCH_AT)};
    sqlite3_bind_int64(stmt, 1, match.seq);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) {
        match.queue = statement_bytes(stmt, 0);
        match.state = statement_bytes(stmt, 1);
        match.superseded = sqlite3_column_int(stmt, 2) != 0;
        match.erased = sqlite3_column_int(stmt, 3) != 0;
        match.event = statement_bytes(stmt, 4);
        *go_on = matcher->take(matcher->self, &match);
    }
    return audit_finish(matcher->audit, stmt, code, "read from it", why);
}

bool audit_select(audit_t *audit, const audit_filter_t *filter, audit_place_t *place, int64_t slice_us, audit_match_fn *take,
                  void *self, buffer_t *why) {
    search_matcher_t matcher = {.audit = audit, .take = take, .self = self};
    audit_filter_t failures = *filter;
    failures.kind = NULL;
    failures.all_kinds = false;
    failures.oldest_first = true;
    return search_run(audit, &failures, place, slice_us, (search_columns_t){"1", ""}, search_take_match, &matcher, why);
}
