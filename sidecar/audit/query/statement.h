// Statements of queries: prepared, bound by name, finished.
#ifndef QS_AUDIT_QUERY_STATEMENT_H
#define QS_AUDIT_QUERY_STATEMENT_H

#include "audit/query/filter.h"
#include "audit/store.h"

// False with *why; *out is owned: statement_finish.
bool statement_prepare(audit_t *audit, const char *sql, sqlite3_stmt **out, buffer_t *why);
// Prepares `select`, WHERE with the conditions of the filter, and `rest`, where ":limit" is the filter's. Borrows the filter's
// texts until the statement is finished.
bool statement_prepare_filtered(audit_t *audit, const char *select, const audit_filter_t *filter, const char *rest,
                                sqlite3_stmt **out, buffer_t *why);
// `code` is that of the last step. False with *why when that was a failure.
bool statement_finish(audit_t *audit, sqlite3_stmt *of, int code, buffer_t *why);

void statement_bind_number(sqlite3_stmt *of, const char *name, int64_t number);
void statement_bind_text(sqlite3_stmt *of, const char *name, slice_t text); // borrows

// The bytes of a column as they are; borrowed until the next step.
slice_t statement_bytes(sqlite3_stmt *of, int at);

#endif
