// Statements of queries: prepared, bound by name, finished.
#pragma once

#include "audit/query/filter.h"
#include "audit/query/row.h"
#include "audit/store.h"

// Prepares a statement that is used once; owned: free it with statement_finish. NULL with *why if SQLite cannot prepare it.
sqlite3_stmt *statement_prepare(audit_t *audit, const char *sql, buffer_t *why);
// The order in which a statement reads rows, and the index that it may use.
typedef enum statement_index { STATEMENT_BY_TIME, STATEMENT_BY_SEQ } statement_index_t;
// Prepares `select`, WHERE with the conditions of the filter, and `rest`, which may use :limit. Borrows the filter's
// texts until the statement is finished.
sqlite3_stmt *statement_prepare_filtered(audit_t *audit, const char *select, const audit_filter_t *filter, statement_index_t by,
                                         const char *rest, buffer_t *why);
// The two parts of such a condition, for statements that need them apart: first WHERE with what an index has (kind, job, queue,
// time), then what is read row by row. Only the conditions that the filter has, so that the planner sees the right index.
void statement_add_range(buffer_t *sql, const audit_filter_t *filter, statement_index_t by);
void statement_add_match(buffer_t *sql, const audit_filter_t *filter);
void statement_bind_filter(sqlite3_stmt *stmt, const audit_filter_t *filter); // borrows its texts

// Frees the statement. `code` is the result of its last step. False with *why if that step failed.
bool statement_finish(audit_t *audit, sqlite3_stmt *stmt, int code, buffer_t *why);

void statement_bind_number(sqlite3_stmt *stmt, const char *name, int64_t number);
void statement_bind_text(sqlite3_stmt *stmt, const char *name, slice_t text); // borrows

// Reads the fields of an event from the columns *at and following, in the order of event.h; moves *at behind them. Borrowed until
// the next step. Clears what event_check would refuse of rows of 0.1.0, which recorded any date of a job.
event_t statement_event(sqlite3_stmt *stmt, int *at);

// The raw bytes of a column; borrowed until the next step.
slice_t statement_bytes(sqlite3_stmt *stmt, int at);

// A column of the last event of these kinds that names a failure; NULL if there is none.
#define LAST_OF(name, kinds)                                                                                                     \
    "(SELECT a." name " FROM events AS a WHERE a.answers = s.event AND a.answers <> '' AND a.kind IN (" kinds                    \
    ") ORDER BY a.at DESC, a.event DESC LIMIT 1)"
#define ANSWER(name) ", " LAST_OF(name, "'requeued', 'discarded'")
// Few logs have erasures, so look for that of a row only if there are some: the fact is read once.
#define ANY_ERASED    "(SELECT 1 FROM facts WHERE name = 'erasures')"
#define ERASURE(name) ", CASE WHEN " ANY_ERASED " THEN " LAST_OF(name, "'erased'") " END"

// Selects seq, the columns of event.h, ref, state, the answer and the erasure, in the order in which statement_row reads them.
// The state of a gap is `filled` if an event of kind `filled` names it.
#define SELECT_ROWS SELECT_COLUMNS(EVENT_COLUMNS)
#define SELECT_COLUMNS(columns)                                                                                                  \
    "SELECT seq" columns ", ref, CASE kind WHEN 'gap' THEN iif(EXISTS (SELECT 1 FROM events AS a WHERE a.answers = "             \
    "s.event AND a.answers <> '' AND a.kind = 'filled'), 'filled', 'open') ELSE state END" ANSWER("at") ANSWER("worker")         \
        ANSWER("reason") ERASURE("at") ERASURE("worker") ERASURE("reason") " FROM event_states AS s"

// The same without payloads, for statement_take_row. An empty payload has the type of the real one.
#define HEAD_payload            ~, "iif(typeof(payload) = 'text', '', x'')"
#define HEAD_SECOND(a, b, ...)  b
#define HEAD_PICK(...)          HEAD_SECOND(__VA_ARGS__, ~)
#define HEAD_COLUMN(name, help) ", " HEAD_PICK(HEAD_##name, "\"" #name "\"")
#define SELECT_HEADS            SELECT_COLUMNS(EVENT_TEXTS(HEAD_COLUMN) EVENT_NUMBERS(EVENT_COLUMN))

static inline const char *statement_rows(const audit_t *audit) { return audit->head_bytes ? SELECT_HEADS : SELECT_ROWS; }

// Reads the row of such a statement; borrowed until the next step. Returns SQLITE_ROW, or the code of an error.
int statement_take_row(audit_t *audit, sqlite3_stmt *stmt, audit_row_t *row);
