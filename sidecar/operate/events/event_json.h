// Events as JSON objects and rows of CSV: their fields, and the reader of exports.
#pragma once

#include "audit/query/query.h"
#include "operate/events/records.h"

typedef struct event_record {
    audit_row_t row;
    int64_t failed_at; // 0 = not a final failure
} event_record_t;

// The fields of JSON and CSV; the columns of the SQL view failed_jobs come first.
enum { EVENT_FIELDS = 31, EVENT_HEAD_FIELDS };
// Of an event_record_t. The last one, payload_cut, is for rows with heads of payloads.
extern const field_t event_fields[EVENT_HEAD_FIELDS];

// The `kind` of the last line of an export. It is not an event and has no id; its size is the number of events before it.
#define EXPORT_END_KIND "end"

event_record_t event_record(const audit_row_t *row);
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
