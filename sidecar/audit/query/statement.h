// Statements of queries: prepared, bound by name, finished.
#pragma once

#include "audit/query/filter.h"
#include "audit/store.h"

// Prepares a statement that is used once; owned: free it with statement_finish. NULL with *why if SQLite cannot prepare it.
sqlite3_stmt *statement_prepare(audit_t *audit, const char *sql, buffer_t *why);
// Prepares `select`, WHERE with the conditions of the filter, and `rest`, which may use :limit. Borrows the filter's
// texts until the statement is finished.
sqlite3_stmt *statement_prepare_filtered(audit_t *audit, const char *select, const audit_filter_t *filter, const char *rest,
                                         buffer_t *why);
// Frees the statement. `code` is the result of its last step. False with *why if that step failed.
bool statement_finish(audit_t *audit, sqlite3_stmt *stmt, int code, buffer_t *why);

void statement_bind_number(sqlite3_stmt *stmt, const char *name, int64_t number);
void statement_bind_text(sqlite3_stmt *stmt, const char *name, slice_t text); // borrows

// Reads the fields of an event from the columns *at and following, in the order of event.h; moves *at behind them. Borrowed until
// the next step. Clears what event_check would refuse of rows of 0.1.0, which recorded any date of a job.
event_t statement_event(sqlite3_stmt *stmt, int *at);

// The raw bytes of a column; borrowed until the next step.
slice_t statement_bytes(sqlite3_stmt *stmt, int at);
