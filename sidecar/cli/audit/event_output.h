// Prints events as a table for people, as JSON or as CSV.
#pragma once

#include "base/text/time_text.h"
#include "cli/audit/audit.h"
#include "cli/table.h"
#include "operate/events/event_json.h"

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

typedef struct event_width {
    size_t min, max, initial; // as in table_column_t
} event_width_t;

typedef struct event_column {
    event_cell_t cell;
    const char *title; // CELL_TIME: "AT" becomes "AT (UTC)" or "FAILED AT (UTC)"
    event_width_t wide, narrow;
    enum { ANY_LAYOUT, ONLY_WIDE, ONLY_NARROW } layout;
} event_column_t;

typedef struct event_output {
    audit_format_t format;
    bool utc;
    bool failures;     // all rows are final failures
    bool narrow;       // times without year and seconds, reasons cut short
    const char *group; // own group: a queue of another one is printed as GROUP/QUEUE; NULL = not known; borrowed
    FILE *out;         // for JSON and CSV; NULL = standard output; borrowed
    slice_t marked;    // id of the event with CELL_MARK; borrowed
    records_t records; // for JSON and CSV; the caller may set `raw`
    size_t count;      // of cells in a row
    event_cell_t cells[TABLE_COLUMNS];
    table_column_t columns[TABLE_COLUMNS];
    char time_title[sizeof(time_text_t) + 24];
    table_t *table; // NULL = JSON or CSV
} event_output_t;

// The caller sets the members up to `marked`. `same` has a bit (1 << CELL) for each cell that is equal in all rows; a narrow
// table omits it. Do not copy *output before its end: the table refers to its columns.
void event_output_begin(event_output_t *output, const event_column_t *columns, size_t count, unsigned same, FILE *out);
void event_output_add(event_output_t *output, const audit_row_t *row);
// Prints the JSON or CSV so far. False when that fails.
bool event_output_print(event_output_t *output);
// Prints the rest and frees what the output owns.
void event_output_end(event_output_t *output);

void event_add_tries(buffer_t *out, const event_t *event); // "-" = unknown
