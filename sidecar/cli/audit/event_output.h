// Prints events as a table for people, as JSON or as CSV. Reads exports.
#pragma once

#include "audit/query/query.h"
#include "cli/audit/records.h"
#include "cli/table.h"
#include "cli/time_text.h"

typedef struct event_record {
    audit_row_t row;
    int64_t failed_at; // 0 = not a final failure
} event_record_t;

// The fields of JSON and CSV; the columns of the SQL view failed_jobs come first.
enum { EVENT_FIELDS = 27 };
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
    const char *group; // own group: a queue of another one is printed as GROUP/QUEUE; NULL = not known; borrowed
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
// Prints the rest and frees what the output owns.
void event_output_end(event_output_t *output);

void event_add_tries(buffer_t *out, const event_t *event); // "-" = unknown

void event_write_json(buffer_t *out, const audit_row_t *row);
// Reads an object that event_write_json wrote; ignores unknown fields. Texts of *event are borrowed from *text until the next
// call. False with *why: the line is not such an object.
bool event_read_json(slice_t line, buffer_t *text, event_t *event, buffer_t *why);

// Bytes of one line: an event with a payload of 16 MiB fits in any encoding, and most with 256 MiB.
#define LINE_MAX_BYTES ((size_t)400 * 1024 * 1024)

typedef enum line_result {
    LINE_READ,
    LINE_TOO_LONG,
    LINE_FOREIGN, // the input is no export; its rest was not read
    LINE_END,     // of the file
    LINE_FAILED   // errno says why
} line_result_t;

typedef struct line_reader {
    FILE *in; // borrowed
    size_t max_bytes;
    int64_t number;  // of the line that was read last, from 1
    buffer_t buffer; // owned
} line_reader_t;

// Reads the next line of a file. Of a line longer than max_bytes, *line is the beginning; the rest is skipped. *line has no line
// end and no byte order mark; it is borrowed until the next call.
line_result_t line_reader_next(line_reader_t *reader, slice_t *line);
