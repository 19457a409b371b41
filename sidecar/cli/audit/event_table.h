// Events as rows of a table for people.
#pragma once

#include "audit/query/query.h"
#include "cli/table.h"
#include "cli/time_text.h"

typedef enum event_cell {
    CELL_MARK, // "*" beside the marked event
    CELL_REF,
    CELL_TIME,
    CELL_QUEUE,
    CELL_KIND,
    CELL_REASON,
    CELL_STATE, // "failed", or who answered, when and why
    CELL_TRIES,
    CELL_WORKER,
    CELL_JOB,
    CELL_ERROR,
    CELL_ERROR_OR_PAYLOAD,
    CELL_SUMMARY // the one text of a narrow table: the answer if there is one, else error or payload
} event_cell_t;

typedef struct event_column {
    event_cell_t cell;
    table_column_t look; // CELL_TIME: a title "AT" becomes "AT (UTC)" or "FAILED AT (UTC)"
} event_column_t;

typedef struct event_table {
    bool utc;
    bool failures;  // all rows are final failures
    bool narrow;    // times without year and seconds, reasons cut short
    slice_t marked; // id of an event; borrowed
    size_t count;
    event_cell_t cells[TABLE_COLUMNS];
    table_column_t columns[TABLE_COLUMNS];
    char time_title[TIME_TEXT_SIZE + 24];
    table_t *table;
} event_table_t;

// Leaves out the cells whose bits (1 << CELL) are in `hidden`. The table must not move until table_end(table->table): it refers
// to its own columns.
void event_table_begin(event_table_t *table, const event_column_t *columns, size_t count, unsigned hidden, FILE *out);
void event_table_add(event_table_t *table, const audit_row_t *row);
