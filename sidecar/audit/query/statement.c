#include "audit/query/statement.h"

#include "base/text/fold.h"
#include "base/utf8.h"

static slice_t statement_value(sqlite3_value *value) {
    const void *bytes = sqlite3_value_blob(value); // also of a text: its raw bytes
    return (slice_t){bytes, (size_t)sqlite3_value_bytes(value)};
}

// has(bytes, a, b, c): whether one of a, b, c contains the bytes. SQLite's instr() is slower: it goes byte by byte. The function
// `has_folded` ignores case.
static void statement_sql_has(sqlite3_context *context, int count, sqlite3_value **values) {
    slice_t wanted = statement_value(values[0]);
    bool fold = sqlite3_user_data(context) != NULL, found = false;
    for (int i = 1; i < count && !found; i++) {
        slice_t bytes = statement_value(values[i]);
        if (bytes.data && wanted.data)
            found = fold ? fold_find(bytes, wanted) : memmem(bytes.data, bytes.len, wanted.data, wanted.len) != NULL;
    }
    sqlite3_result_int(context, found);
}

static const char VIEW[] = "audit_view"; // the type of the pointer, for SQLite

// seen(view, queue, payload): what the view shows of the payload.
static void statement_sql_seen(sqlite3_context *context, int count, sqlite3_value **values) {
    const audit_view_t *view = sqlite3_value_pointer(values[0], VIEW);
    buffer_t memory = {0};
    (void)count;
    slice_t seen = view->see(view->self, statement_value(values[1]), statement_value(values[2]), &memory);
    sqlite3_result_blob64(context, seen.len ? seen.data : "", seen.len, SQLITE_TRANSIENT);
    buffer_free(&memory);
}

// whole(view, queue, payload): whether the view shows all of it.
static void statement_sql_whole(sqlite3_context *context, int count, sqlite3_value **values) {
    const audit_view_t *view = sqlite3_value_pointer(values[0], VIEW);
    (void)count;
    sqlite3_result_int(context, view->sees_whole(view->self, statement_value(values[1]), statement_value(values[2])));
}

static bool statement_add_functions(audit_t *audit) {
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    return sqlite3_create_function_v2(audit->db, "has", 4, flags, NULL, statement_sql_has, NULL, NULL, NULL) == SQLITE_OK &&
           sqlite3_create_function_v2(audit->db, "has_folded", 4, flags, audit, statement_sql_has, NULL, NULL, NULL) ==
               SQLITE_OK &&
           sqlite3_create_function_v2(audit->db, "seen", 3, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, statement_sql_seen, NULL, NULL,
                                      NULL) == SQLITE_OK &&
           sqlite3_create_function_v2(audit->db, "whole", 3, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, statement_sql_whole, NULL,
                                      NULL, NULL) == SQLITE_OK;
}

sqlite3_stmt *statement_prepare(audit_t *audit, const char *sql, buffer_t *why) {
    sqlite3_stmt *stmt = NULL;
    if (!audit->has_functions) audit->has_functions = statement_add_functions(audit);
    if (sqlite3_prepare_v2(audit->db, sql, -1, &stmt, NULL) != SQLITE_OK) audit_fail(audit, "query it", why);
    return stmt;
}

// A plus sign hides a column from SQLite's planner, which would choose an index by time or queue if it saw the kind. A job has
// few events, so its index is the best one.
void statement_add_range(buffer_t *sql, const audit_filter_t *filter, statement_index_t by) {
    bool hide = filter->job || by == STATEMENT_BY_SEQ, failed = !filter->kind || strcmp(filter->kind, "failed") == 0;
    if (filter->all_kinds)
        buffer_str(sql, " WHERE 1");
    else if (failed)
        buffer_str(sql, hide ? " WHERE +kind = 'failed'" : " WHERE kind = 'failed'");
    else
        buffer_str(sql, hide ? " WHERE +kind = :kind" : " WHERE kind <> 'failed' AND kind = :kind");
    if (filter->job) buffer_str(sql, " AND job = :job");
    if (filter->queue) buffer_str(sql, " AND queue = :queue");
    if (filter->since_ms) buffer_str(sql, " AND at >= :since");
    if (filter->until_ms) buffer_str(sql, " AND at < :until");
}

// Whether the id of a job tells nothing that the view does not.
#define KNOWN_ID "(job <> sha256 OR whole(:view, queue, payload))"

void statement_add_match(buffer_t *sql, const audit_filter_t *filter) {
    if (filter->reason) buffer_str(sql, " AND reason = :reason");
    if (filter->type) buffer_str(sql, " AND type = :type");
    if (filter->worker) buffer_str(sql, " AND worker = :worker");
    if (filter->state) buffer_str(sql, " AND state = :state");
    if (filter->group) buffer_str(sql, " AND \"group\" = :group");
    if (filter->trace) buffer_str(sql, " AND substr(traceparent, 4, 32) = :trace");
    if (filter->job && filter->view) buffer_str(sql, " AND " KNOWN_ID);
    if (filter->grep)
        buffer_printf(sql, " AND %s(:grep, %s, error, %s)", filter->ignore_case ? "has_folded" : "has",
                      filter->view ? "seen(:view, queue, payload)" : "payload",
                      filter->view ? "CASE WHEN " KNOWN_ID " THEN job END" : "job");
}

void statement_bind_filter(sqlite3_stmt *stmt, const audit_filter_t *filter) {
    const struct {
        const char *name, *value;
    } texts[] = {{":kind", filter->kind},   {":queue", filter->queue},   {":reason", filter->reason},
                 {":type", filter->type},   {":worker", filter->worker}, {":state", filter->state},
                 {":group", filter->group}, {":job", filter->job},       {":trace", filter->trace}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].value) statement_bind_text(stmt, texts[i].name, slice_text(texts[i].value));
    statement_bind_number(stmt, ":since", filter->since_ms);
    statement_bind_number(stmt, ":until", filter->until_ms);
    statement_bind_number(stmt, ":limit", filter->limit > 0 ? filter->limit : -1);
    if (filter->view && (filter->grep || filter->job))
        sqlite3_bind_pointer(stmt, sqlite3_bind_parameter_index(stmt, ":view"), (void *)filter->view, VIEW, NULL);
    if (filter->grep)
        sqlite3_bind_blob64(stmt, sqlite3_bind_parameter_index(stmt, ":grep"), filter->grep, strlen(filter->grep), SQLITE_STATIC);
}

sqlite3_stmt *statement_prepare_filtered(audit_t *audit, const char *select, const audit_filter_t *filter, statement_index_t by,
                                         const char *rest, buffer_t *why) {
    buffer_t sql = {0};
    buffer_str(&sql, select);
    statement_add_range(&sql, filter, by);
    statement_add_match(&sql, filter);
    buffer_str(&sql, rest);
    sqlite3_stmt *stmt = statement_prepare(audit, buffer_text(&sql), why);
    buffer_free(&sql);
    if (stmt) statement_bind_filter(stmt, filter);
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

enum {
    COLUMN_seq,
#define X(name, help) COLUMN_##name,
    EVENT_TEXTS(X)
#undef X
};

// Reads only the pages that hold the head: a payload may have hundreds of MiB.
static int statement_read_head(audit_t *audit, audit_row_t *row) {
    char part[16384];
    sqlite3_blob *blob = NULL;
    int code = sqlite3_blob_open(audit->db, "main", "events", "payload", row->seq, 0, &blob);
    int all = code == SQLITE_OK ? sqlite3_blob_bytes(blob) : 0, some = all > audit->head_bytes ? audit->head_bytes + 1 : all;
    buffer_clear(&audit->scratch);
    for (int at = 0, len; code == SQLITE_OK && at < some; at += len) {
        len = some - at < (int)sizeof part ? some - at : (int)sizeof part;
        code = sqlite3_blob_read(blob, part, len, at);
        buffer_add(&audit->scratch, part, (size_t)len);
    }
    sqlite3_blob_close(blob);
    row->payload_cut = all > audit->head_bytes;
    row->event.payload = utf8_head((slice_t){buffer_text(&audit->scratch), audit->scratch.len}, (size_t)audit->head_bytes);
    return code == SQLITE_OK ? SQLITE_ROW : code;
}

static audit_row_t statement_row(sqlite3_stmt *stmt) {
    int at = COLUMN_seq + 1;
    audit_row_t row = {.seq = sqlite3_column_int64(stmt, COLUMN_seq),
                       .error_is_text = sqlite3_column_type(stmt, COLUMN_error) != SQLITE_BLOB,
                       .payload_is_text = sqlite3_column_type(stmt, COLUMN_payload) != SQLITE_BLOB};
    row.event = statement_event(stmt, &at);
    row.ref = statement_bytes(stmt, at++);
    row.state = statement_bytes(stmt, at++);
    row.answered_at = sqlite3_column_int64(stmt, at++);
    row.answered_by = statement_bytes(stmt, at++);
    row.answer_reason = statement_bytes(stmt, at++);
    row.erased_at = sqlite3_column_int64(stmt, at++);
    row.erased_by = statement_bytes(stmt, at++);
    row.erase_reason = statement_bytes(stmt, at);
    return row;
}

int statement_take_row(audit_t *audit, sqlite3_stmt *stmt, audit_row_t *row) {
    *row = statement_row(stmt);
    return audit->head_bytes ? statement_read_head(audit, row) : SQLITE_ROW;
}
