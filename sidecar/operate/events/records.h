// Rows of a table as JSON or CSV, by one list of fields.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

typedef enum audit_format { FORMAT_TABLE, FORMAT_JSON_ARRAY, FORMAT_JSON_LINES, FORMAT_CSV } audit_format_t;

typedef enum field_kind {
    FIELD_TEXT,
    FIELD_BYTES,    // a slice_t: as it is if it is UTF-8, else in base64. Its FIELD_ENCODING must be the next field
    FIELD_ENCODING, // a bool, whether the field before it is text: "text" or "base64"
    FIELD_NUMBER,
    // 0 = unknown: null in JSON, nothing in CSV.
    FIELD_POSITIVE,
    FIELD_COUNT, // the same of -1
    FIELD_TIME,  // the same of INT64_MAX, which means never
    FIELD_FLAG   // a bool: true or false
} field_kind_t;

typedef struct field {
    const char *name;
    field_kind_t kind;
    size_t offset; // in the row, of a slice_t, a bool or an int64_t
} field_t;

#define FIELD(name_, kind_, row_, member_)                                                                                       \
    { (name_), FIELD_##kind_, offsetof(row_, member_) }

typedef struct records {
    audit_format_t format; // not FORMAT_TABLE
    const field_t *fields; // borrowed
    size_t field_count;
    bool raw; // cells of CSV as they are; false: without formulas
    int64_t count;
    buffer_t text; // owned; the caller takes it when it likes
} records_t;

// Sets all members but `raw`. Appends the header of CSV to the text.
void records_begin(records_t *records, audit_format_t format, const field_t *fields, size_t count);
void records_add(records_t *records, const void *row);
// Appends the end of a JSON array.
void records_end(records_t *records);

// Appends one row as a JSON object.
void record_write_json(buffer_t *out, const field_t *fields, size_t count, const void *row);
