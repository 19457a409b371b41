#include "audit/query/query.h"

#include <inttypes.h>

#include "audit/query/statement.h"

enum { PAGE_ROWS = 1000 };

// What the last answer to a failure says; NULL where there is none.
#define ANSWER(name)                                                                                                             \
    ", (SELECT a." name                                                                                                          \
    " FROM events AS a WHERE a.answers = s.event AND a.answers <> '' AND a.kind IN ('requeued', 'discarded') "                   \
    "ORDER BY a.at DESC, a.event DESC LIMIT 1)"

// All columns of an event by the lists of event.h, then ref, state, seq and the answer: query_read_row counts on this order. A
// gap is filled when an event says so.
#define EVENT_COLUMN(name, help) #name ", "
#define SELECT_ROWS                                                                                                              \
    "SELECT " EVENT_TEXTS(EVENT_COLUMN) EVENT_NUMBERS(EVENT_COLUMN) "ref, CASE kind WHEN 'gap' THEN iif(EXISTS (SELECT 1 FROM "  \
                                                                    "events AS a WHERE a.answers = s.event AND a.answers <> '' " \
                                                                    "AND a.kind = 'filled'), 'filled', 'open') ELSE state END, " \
                                                                    "seq" ANSWER("at") ANSWER("worker")                          \
                                                                        ANSWER("reason") " FROM event_states AS s"

static audit_row_t query_read_row(sqlite3_stmt *of) {
    audit_row_t row = {.error_is_text = true, .payload_is_text = true};
    int at = 0;
#define X(name, help)                                                                                                            \
    if (sqlite3_column_type(of, at) == SQLITE_BLOB) {                                                                            \
        if (&row.event.name == &row.event.error) row.error_is_text = false;                                                      \
        if (&row.event.name == &row.event.payload) row.payload_is_text = false;                                                  \
    }                                                                                                                            \
    row.event.name = statement_bytes(of, at++);
    EVENT_TEXTS(X)
#undef X
#define X(name, help) row.event.name = sqlite3_column_int64(of, at++);
    EVENT_NUMBERS(X)
#undef X
    row.ref = statement_bytes(of, at++);
    row.state = statement_bytes(of, at++);
    row.seq = sqlite3_column_int64(of, at++);
    row.answered_at = sqlite3_column_int64(of, at++);
    row.answered_by = statement_bytes(of, at++);
    row.answer_reason = statement_bytes(of, at);
    return row;
}

// Until there are no more, or `take` wants none; what the last step returned.
static int query_take_rows(sqlite3_stmt *of, audit_row_fn *take, void *self) {
    int code;
    while ((code = sqlite3_step(of)) == SQLITE_ROW) {
        audit_row_t row = query_read_row(of);
        if (!take(self, &row)) break;
    }
    return code;
}

static bool query_each_row(audit_t *audit, sqlite3_stmt *of, audit_row_fn *take, void *self, buffer_t *why) {
    return statement_finish(audit, of, query_take_rows(of, take, self), why);
}

// ROWS with the filter's conditions and `more`; owned by *out.
static bool query_prepare_rows(audit_t *audit, const audit_filter_t *filter, const char *more, sqlite3_stmt **out,
                               buffer_t *why) {
    buffer_t sql = {0};
    buffer_str(&sql, SELECT_ROWS);
    statement_where(&sql, filter);
    buffer_str(&sql, more);
    bool done = statement_prepare(audit, buffer_text(&sql), out, why);
    buffer_free(&sql);
    if (done) statement_bind_filter(*out, filter);
    return done;
}

bool audit_list(audit_t *audit, const audit_filter_t *filter, audit_row_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    const char order[] = " ORDER BY at DESC, queue DESC, reason DESC LIMIT :limit"; // as the index has it: nothing is sorted
    return query_prepare_rows(audit, filter, order, &of, why) && query_each_row(audit, of, take, self, why);
}

bool audit_find_ref(audit_t *audit, const char *prefix, int64_t limit, audit_row_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    // '{' comes right behind 'z', and all digits of a ref are below.
    const char sql[] = SELECT_ROWS " WHERE ref >= :prefix AND ref < :prefix || '{' ORDER BY ref, event LIMIT :limit";
    if (!statement_prepare(audit, sql, &of, why)) return false;
    statement_bind_text(of, ":prefix", slice_text(prefix));
    statement_bind_number(of, ":limit", limit);
    return query_each_row(audit, of, take, self, why);
}

bool audit_history(audit_t *audit, slice_t queue, slice_t job, audit_row_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    const char sql[] = SELECT_ROWS " WHERE job = :job AND queue = :queue ORDER BY at, seq";
    if (!statement_prepare(audit, sql, &of, why)) return false;
    statement_bind_text(of, ":job", job);
    statement_bind_text(of, ":queue", queue);
    return query_each_row(audit, of, take, self, why);
}

bool audit_rows(audit_t *audit, const int64_t *seqs, size_t count, audit_row_fn *take, void *self, buffer_t *why) {
    buffer_t sql = {0};
    sqlite3_stmt *of = NULL;
    buffer_str(&sql, SELECT_ROWS " WHERE seq IN (");
    for (size_t i = 0; i < count; i++) buffer_printf(&sql, "%s%" PRId64, i ? "," : "", seqs[i]);
    buffer_str(&sql, ") ORDER BY seq");
    bool done = statement_prepare(audit, buffer_text(&sql), &of, why);
    buffer_free(&sql);
    return done && query_each_row(audit, of, take, self, why);
}

bool audit_bounds(audit_t *audit, int64_t after, int64_t *first, int64_t *last, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    const char sql[] = "SELECT (SELECT min(seq) FROM events WHERE seq > :after), (SELECT max(seq) FROM events)";
    if (!statement_prepare(audit, sql, &of, why)) return false;
    statement_bind_number(of, ":after", after);
    int code = sqlite3_step(of);
    bool some = code == SQLITE_ROW && sqlite3_column_type(of, 0) != SQLITE_NULL;
    *first = some ? sqlite3_column_int64(of, 0) : 0;
    *last = some ? sqlite3_column_int64(of, 1) : after;
    return statement_finish(audit, of, code, why);
}

// Events of the filter with first <= seq <= last.
static bool query_range(audit_t *audit, const audit_filter_t *filter, int64_t first, int64_t last, audit_row_fn *take, void *self,
                        buffer_t *why) {
    sqlite3_stmt *of = NULL;
    if (!query_prepare_rows(audit, filter, " AND seq BETWEEN :first AND :last ORDER BY seq", &of, why)) return false;
    statement_bind_number(of, ":first", first);
    statement_bind_number(of, ":last", last);
    return query_each_row(audit, of, take, self, why);
}

// Prepared once: a damaged log is asked for one row after the other.
static sqlite3_stmt *query_range_statement(audit_t *audit, buffer_t *why) {
    sqlite3_stmt **at = &audit->statements[STATEMENT_RANGE];
    if (!*at) statement_prepare(audit, SELECT_ROWS " WHERE seq BETWEEN :first AND :last ORDER BY seq", at, why);
    return *at;
}

bool audit_range(audit_t *audit, int64_t first, int64_t last, audit_row_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *of = query_range_statement(audit, why);
    if (!of) return false;
    statement_bind_number(of, ":first", first);
    statement_bind_number(of, ":last", last);
    int code = query_take_rows(of, take, self);
    bool done = code == SQLITE_DONE || code == SQLITE_ROW || audit_fail(audit, "read from it", why);
    sqlite3_reset(of);
    return done;
}

// A row on its way to who asked for a page.
typedef struct page {
    audit_row_fn *take;
    void *self;
    int64_t stopped; // the seq at which it did not want more
    bool ended;
} query_page_t;

static bool query_take_of_page(void *self, const audit_row_t *row) {
    query_page_t *page = self;
    if (page->take(page->self, row)) return true;
    page->ended = true;
    page->stopped = row->seq;
    return false;
}

static bool query_read_page(audit_t *audit, const audit_filter_t *filter, int64_t *after, query_page_t *page, bool *more,
                            buffer_t *why) {
    int64_t first, last;
    if (!audit_bounds(audit, *after, &first, &last, why)) return false;
    if (last <= *after) return true;
    int64_t to = (uint64_t)last - (uint64_t)first < PAGE_ROWS ? last : first + PAGE_ROWS - 1;
    if (!query_range(audit, filter, first, to, query_take_of_page, page, why)) return false;
    *after = page->ended ? page->stopped : to;
    *more = *after < last;
    return true;
}

bool audit_page(audit_t *audit, const audit_filter_t *filter, int64_t *after, audit_row_fn *take, void *self, bool *more,
                buffer_t *why) {
    query_page_t page = {.take = take, .self = self};
    *more = false;
    // In one transaction: a row that comes in between must not be passed over.
    if (sqlite3_exec(audit->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK) return audit_fail(audit, "ask it", why);
    bool done = query_read_page(audit, filter, after, &page, more, why);
    sqlite3_exec(audit->db, "COMMIT", NULL, NULL, NULL);
    return done;
}

bool audit_find_last(audit_t *audit, const audit_filter_t *filter, int64_t count, int64_t *after, buffer_t *why) {
    buffer_t sql = {0};
    sqlite3_stmt *of = NULL;
    buffer_str(&sql, "SELECT min(seq) - 1, (SELECT max(seq) FROM events) FROM (SELECT seq FROM events");
    statement_where(&sql, filter);
    buffer_str(&sql, " ORDER BY seq DESC LIMIT :count)");
    bool done = statement_prepare(audit, buffer_text(&sql), &of, why);
    buffer_free(&sql);
    if (!done) return false;
    statement_bind_filter(of, filter);
    statement_bind_number(of, ":count", count);
    int code = sqlite3_step(of);
    *after = sqlite3_column_int64(of, sqlite3_column_type(of, 0) == SQLITE_NULL); // none of them: behind all others
    return statement_finish(audit, of, code, why);
}

bool audit_queues(audit_t *audit, audit_name_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    // From one queue to the next by the index, instead of a look at every failure.
    const char sql[] =
        "WITH RECURSIVE names(name) AS (SELECT min(queue) FROM events WHERE kind = 'failed' UNION ALL "
        "SELECT (SELECT min(queue) FROM events WHERE kind = 'failed' AND queue > name) FROM names WHERE name IS NOT NULL)"
        " SELECT name FROM names WHERE name IS NOT NULL";
    if (!statement_prepare(audit, sql, &of, why)) return false;
    int code;
    while ((code = sqlite3_step(of)) == SQLITE_ROW)
        if (!take(self, (const char *)sqlite3_column_text(of, 0))) break;
    return statement_finish(audit, of, code, why);
}

bool audit_commits(audit_t *audit, int64_t *commits, buffer_t *why) {
    return audit_query_number(audit, "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'commits'), 0)",
                              commits, why);
}
