// What the files of this room that ask share: statements, filters, rows.
#ifndef QS_AUDIT_QUERY_STATEMENT_H
#define QS_AUDIT_QUERY_STATEMENT_H

#include "audit/query/filter.h"
#include "audit/store.h"

// Prepares `sql`. False with *why; *out is owned: statement_finish.
bool statement_prepare(audit_t *audit, const char *sql, sqlite3_stmt **out, buffer_t *why);
// Ends a question: `code` is what its last step returned. False with *why when that was a failure.
bool statement_finish(audit_t *audit, sqlite3_stmt *of, int code, buffer_t *why);

// Appends " WHERE ..." for the filter. Only conditions that are asked for stand there, so that the planner sees which index
// serves them.
void statement_where(buffer_t *sql, const audit_filter_t *filter);
// Values for it, and :limit. Borrows them until the statement ends.
void statement_bind_filter(sqlite3_stmt *of, const audit_filter_t *filter);
void statement_bind_number(sqlite3_stmt *of, const char *name, int64_t number);
void statement_bind_text(sqlite3_stmt *of, const char *name, slice_t text);

// The bytes of a column as they are; borrowed until the next step.
slice_t statement_bytes(sqlite3_stmt *of, int at);

#endif
