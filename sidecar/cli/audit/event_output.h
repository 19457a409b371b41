// Events as a table for people, as JSON or as CSV, and the reading of exports.
#pragma once

#include "audit/query/query.h"
#include "cli/audit/records.h"
#include "cli/table.h"
#include "cli/time_text.h"

typedef struct event_record {
    audit_row_t row;
    int64_t failed_at; // 0 = not a final failure
} event_record_t;

// The same names in JSON and CSV, those of the view failed_jobs first.
enum { EVENT_FIELDS = 26 };
extern const field_t event_fields[EVENT_FIELDS]; // of an event_record_t

// The `kind` of the last line of an export. It is not an event and has no id; its size is the number of events before it.
#define EXPORT_END_KIND "end"

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
    slice_t marked;    // id of an event; borrowed
    records_t records; // of other formats than a table
    size_t count;      // of cells in a row
    event_cell_t cells[TABLE_COLUMNS];
    table_column_t columns[TABLE_COLUMNS];
    char time_title[sizeof(time_text_t) + 24];
    table_t *table; // NULL in other formats
} event_output_t;

// The members up to `marked` are set. A narrow table leaves out the cells whose bits (1 << CELL) are in `same`. The output must
// not move until its end: its table refers to its columns.
void event_output_begin(event_output_t *output, const event_column_t *columns, size_t count, unsigned same, FILE *out);
void event_output_add(event_output_t *output, const audit_row_t *row);
// Prints the rest and frees what the output owns.
void event_output_end(event_output_t *output);

void event_write_json(buffer_t *out, const audit_row_t *row);
// Reads an object that event_write_json wrote; fields that are unknown are ignored. Texts of *event are borrowed from *text until
// the next call. False with *why: it is not such an object.
bool event_read_json(slice_t line, buffer_t *text, event_t *event, buffer_t *why);

// Bytes of one line: an event with a payload of 16 MiB fits in any encoding, and most with 256 MiB.
#define LINE_MAX_BYTES ((size_t)400 * 1024 * 1024)

typedef enum line_result {
    LINE_READ,
    LINE_TOO_LONG,
    LINE_END,   // of the file
    LINE_FAILED // errno says why
} line_result_t;

typedef struct line_reader {
    FILE *in; // borrowed
    size_t max_bytes;
    int64_t number;  // of the line that came last, from 1
    buffer_t buffer; // owned
} line_reader_t;

// Reads a line of a file in bounded memory. Skips the end of a longer line: *line is its beginning. *line has no line end and no
// byte order mark; it is borrowed until the next call.
line_result_t line_reader_next(line_reader_t *reader, slice_t *line);
