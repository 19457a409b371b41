// The walk of audit_search, for queries that need other columns than those of a row.
#pragma once

#include "audit/query/query.h"
#include "audit/query/statement.h"

// Takes a row that matches; its columns begin at SEARCH_COLUMNS. *go_on is true before: false ends the search behind this row.
typedef bool search_step_fn(void *self, sqlite3_stmt *stmt, bool *go_on, buffer_t *why);

enum { SEARCH_SEQ, SEARCH_AT, SEARCH_MATCH, SEARCH_COLUMNS };

typedef struct search_columns {
    const char *match; // the column SEARCH_MATCH of a row that matches: an expression that is not NULL, read of these rows alone
    const char *more;  // further columns, each after a comma
} search_columns_t;

bool search_run(audit_t *audit, const audit_filter_t *filter, audit_place_t *place, int64_t slice_us, search_columns_t columns,
                search_step_fn *step, void *self, buffer_t *why);

// Whether the log has at most `few` answers. To read and sort them takes 12 us each.
bool search_count_answers(audit_t *audit, int64_t few, bool *are_few, buffer_t *why);
