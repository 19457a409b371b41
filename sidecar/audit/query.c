#include "audit/query.h"

#include <inttypes.h>
#include <stdlib.h>

#include "audit/store.h"

enum { SELECT_PAGE = 20000 };

// What the last answer to a failure says; NULL where there is none.
#define ANSWER(name)                                                                                                             \
    ", (SELECT a." name " FROM events AS a WHERE a.answers = event_states.event AND a.answers <> '' "                            \
    "AND a.kind IN ('requeued', 'discarded') ORDER BY a.at DESC, a.event DESC LIMIT 1)"

// All columns of an event by the lists of event.h, then ref and state, and the answer: read_row counts on this order.
#define EVENT_COLUMN(name, help) #name ", "
#define ROW_COLUMNS                                                                                                              \
    EVENT_TEXTS(EVENT_COLUMN) EVENT_NUMBERS(EVENT_COLUMN) "ref, state, seq" ANSWER("at") ANSWER("worker") ANSWER("reason")

static bool prepare(audit_t *audit, const char *sql, sqlite3_stmt **out, buffer_t *why) {
    return sqlite3_prepare_v2(audit->db, sql, -1, out, NULL) == SQLITE_OK || audit_fail(audit, "ask it", why);
}

// Ends a question: `code` is what its last step returned.
static bool finish(audit_t *audit, sqlite3_stmt *of, int code, buffer_t *why) {
    bool done = code == SQLITE_DONE || code == SQLITE_ROW || audit_fail(audit, "read from it", why);
    sqlite3_finalize(of);
    return done;
}

static slice_t column(sqlite3_stmt *of, int at) {
    const char *data = sqlite3_column_blob(of, at); // of a text too: its bytes as they are
    return (slice_t){data ? data : "", (size_t)sqlite3_column_bytes(of, at)};
}

static audit_row_t read_row(sqlite3_stmt *of) {
    audit_row_t row = {.error_is_text = true, .payload_is_text = true};
    int at = 0;
#define X(name, help)                                                                                                            \
    if (sqlite3_column_type(of, at) == SQLITE_BLOB) {                                                                            \
        if (&row.event.name == &row.event.error) row.error_is_text = false;                                                      \
        if (&row.event.name == &row.event.payload) row.payload_is_text = false;                                                  \
    }                                                                                                                            \
    row.event.name = column(of, at++);
    EVENT_TEXTS(X)
#undef X
#define X(name, help) row.event.name = sqlite3_column_int64(of, at++);
    EVENT_NUMBERS(X)
#undef X
    row.ref = column(of, at++);
    row.state = column(of, at++);
    row.seq = sqlite3_column_int64(of, at++);
    row.answered_at = sqlite3_column_int64(of, at++);
    row.answered_by = column(of, at++);
    row.answer_reason = column(of, at);
    return row;
}

static bool each_row(audit_t *audit, sqlite3_stmt *of, audit_row_fn *take, void *self, buffer_t *why) {
    int code;
    while ((code = sqlite3_step(of)) == SQLITE_ROW) {
        audit_row_t row = read_row(of);
        if (!take(self, &row)) break;
    }
    return finish(audit, of, code, why);
}

// Only conditions that are asked for stand in the text, so that the planner sees which index serves them.
static void add_conditions(buffer_t *sql, const audit_filter_t *filter) {
    buffer_str(sql, " WHERE kind = 'failed'");
    if (filter->queue) buffer_str(sql, " AND queue = :queue");
    if (filter->reason) buffer_str(sql, " AND reason = :reason");
    if (filter->since_ms) buffer_str(sql, " AND at >= :since");
    if (filter->until_ms) buffer_str(sql, " AND at < :until");
    if (filter->grep)
        buffer_str(sql, " AND (instr(CAST(payload AS BLOB), :grep) OR instr(CAST(error AS BLOB), :grep)"
                        " OR instr(CAST(job AS BLOB), :grep))");
}

static void bind_text(sqlite3_stmt *of, const char *name, const char *value) {
    if (value) sqlite3_bind_text(of, sqlite3_bind_parameter_index(of, name), value, -1, SQLITE_STATIC);
}

static void bind_filter(sqlite3_stmt *of, const audit_filter_t *filter) {
    bind_text(of, ":queue", filter->queue);
    bind_text(of, ":reason", filter->reason);
    sqlite3_bind_int64(of, sqlite3_bind_parameter_index(of, ":since"), filter->since_ms);
    sqlite3_bind_int64(of, sqlite3_bind_parameter_index(of, ":until"), filter->until_ms);
    if (filter->grep)
        sqlite3_bind_blob64(of, sqlite3_bind_parameter_index(of, ":grep"), filter->grep, strlen(filter->grep), SQLITE_STATIC);
    sqlite3_bind_int64(of, sqlite3_bind_parameter_index(of, ":limit"), filter->limit > 0 ? filter->limit : -1);
}

bool audit_list(audit_t *audit, const audit_filter_t *filter, audit_row_fn *take, void *self, buffer_t *why) {
    buffer_t sql = {0};
    sqlite3_stmt *of = NULL;
    buffer_str(&sql, "SELECT " ROW_COLUMNS " FROM event_states");
    add_conditions(&sql, filter);
    buffer_str(&sql,
               " ORDER BY at DESC, queue DESC, reason DESC LIMIT :limit"); // as the index has it: nothing is sorted
    bool done = prepare(audit, buffer_text(&sql), &of, why);
    buffer_free(&sql);
    if (!done) return false;
    bind_filter(of, filter);
    return each_row(audit, of, take, self, why);
}

bool audit_find(audit_t *audit, const char *prefix, int64_t limit, audit_row_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    // '{' comes right behind 'z', and all digits of a ref are below.
    const char sql[] =
        "SELECT " ROW_COLUMNS " FROM event_states WHERE ref >= :prefix AND ref < :prefix || '{' ORDER BY ref, event "
        "LIMIT :limit";
    if (!prepare(audit, sql, &of, why)) return false;
    bind_text(of, ":prefix", prefix);
    sqlite3_bind_int64(of, sqlite3_bind_parameter_index(of, ":limit"), limit);
    return each_row(audit, of, take, self, why);
}

bool audit_history(audit_t *audit, slice_t queue, slice_t job, audit_row_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    const char sql[] = "SELECT " ROW_COLUMNS " FROM event_states WHERE job = :job AND queue = :queue ORDER BY at, seq";
    if (!prepare(audit, sql, &of, why)) return false;
    sqlite3_bind_text64(of, sqlite3_bind_parameter_index(of, ":job"), job.data, job.len, SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_text64(of, sqlite3_bind_parameter_index(of, ":queue"), queue.data, queue.len, SQLITE_STATIC, SQLITE_UTF8);
    return each_row(audit, of, take, self, why);
}

// Answered failures are few: they are counted on their own, by the refs that the answers give, and the rest comes from an index
// alone.
static void stats_sql(buffer_t *sql, const audit_filter_t *filter) {
    const char by[] = " GROUP BY at / 3600000, queue, reason";
    buffer_str(sql,
               "WITH answered AS MATERIALIZED (SELECT at / 3600000 AS hour, queue, reason, sum(state = 'requeued') AS requeued,"
               " sum(state = 'discarded') AS discarded FROM event_states");
    add_conditions(sql, filter);
    buffer_str(sql, " AND (ref, event) IN (SELECT answers_ref, answers FROM events WHERE answers <> '')");
    buffer_str(sql, by);
    buffer_str(sql, "), failures AS (SELECT at / 3600000 AS hour, queue, reason, count(*) AS failures, min(at) AS first,"
                    " max(at) AS last FROM events");
    add_conditions(sql, filter);
    buffer_str(sql, by);
    buffer_str(sql, ") SELECT hour * 3600000, queue, reason, failures, coalesce(requeued, 0), coalesce(discarded, 0), first, last"
                    " FROM failures LEFT JOIN answered USING (hour, queue, reason)"
                    " ORDER BY hour DESC, queue, failures DESC, reason LIMIT :limit");
}

bool audit_stats(audit_t *audit, const audit_filter_t *filter, audit_count_fn *take, void *self, buffer_t *why) {
    buffer_t sql = {0};
    sqlite3_stmt *of = NULL;
    stats_sql(&sql, filter);
    bool done = prepare(audit, buffer_text(&sql), &of, why);
    buffer_free(&sql);
    if (!done) return false;
    bind_filter(of, filter);
    int code;
    while ((code = sqlite3_step(of)) == SQLITE_ROW) {
        const audit_count_t count = {.hour_ms = sqlite3_column_int64(of, 0),
                                     .queue = column(of, 1),
                                     .reason = column(of, 2),
                                     .failures = sqlite3_column_int64(of, 3),
                                     .requeued = sqlite3_column_int64(of, 4),
                                     .discarded = sqlite3_column_int64(of, 5),
                                     .first_ms = sqlite3_column_int64(of, 6),
                                     .last_ms = sqlite3_column_int64(of, 7)};
        if (!take(self, &count)) break;
    }
    return finish(audit, of, code, why);
}

bool audit_queues(audit_t *audit, audit_name_fn *take, void *self, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    // From one queue to the next by the index, instead of a look at every failure.
    const char sql[] =
        "WITH RECURSIVE names(name) AS (SELECT min(queue) FROM events WHERE kind = 'failed' UNION ALL "
        "SELECT (SELECT min(queue) FROM events WHERE kind = 'failed' AND queue > name) FROM names WHERE name IS NOT NULL)"
        " SELECT name FROM names WHERE name IS NOT NULL";
    if (!prepare(audit, sql, &of, why)) return false;
    int code;
    while ((code = sqlite3_step(of)) == SQLITE_ROW)
        if (!take(self, (const char *)sqlite3_column_text(of, 0))) break;
    return finish(audit, of, code, why);
}

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
    add_conditions(&sql, filter);
    if (place->queue) buffer_str(&sql, " AND at >= :at AND (at, queue, reason, seq) > (:at, :after_queue, :after_reason, :seq)");
    buffer_str(&sql, " ORDER BY at, queue, reason, seq LIMIT :limit"); // as the index has it
    bool done = prepare(audit, buffer_text(&sql), &of, why);
    buffer_free(&sql);
    if (!done) return false;
    bind_filter(of, filter);
    sqlite3_bind_int64(of, sqlite3_bind_parameter_index(of, ":at"), place->at);
    sqlite3_bind_int64(of, sqlite3_bind_parameter_index(of, ":seq"), place->seq);
    if (place->queue) {
        sqlite3_bind_text(of, sqlite3_bind_parameter_index(of, ":after_queue"), place->queue, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(of, sqlite3_bind_parameter_index(of, ":after_reason"), place->reason, -1, SQLITE_TRANSIENT);
    }
    while ((code = sqlite3_step(of)) == SQLITE_ROW) {
        const audit_match_t match = {.seq = sqlite3_column_int64(of, 0), .queue = column(of, 2), .state = column(of, 4)};
        if (!take(self, &match)) break;
        if (++*taken == filter->limit) place_move(place, of);
    }
    return finish(audit, of, code, why);
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

bool audit_rows(audit_t *audit, const int64_t *seqs, size_t count, audit_row_fn *take, void *self, buffer_t *why) {
    buffer_t sql = {0};
    sqlite3_stmt *of = NULL;
    buffer_str(&sql, "SELECT " ROW_COLUMNS " FROM event_states WHERE seq IN (");
    for (size_t i = 0; i < count; i++) buffer_printf(&sql, "%s%" PRId64, i ? "," : "", seqs[i]);
    buffer_str(&sql, ") ORDER BY seq");
    bool done = prepare(audit, buffer_text(&sql), &of, why);
    buffer_free(&sql);
    return done && each_row(audit, of, take, self, why);
}
