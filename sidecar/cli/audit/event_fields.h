// The fields of an event in JSON and CSV: the same names in both, those of the view failed_jobs first.
#pragma once

#include "audit/query/query.h"
#include "cli/audit/records.h"

typedef struct event_record {
    audit_row_t row;
    int64_t failed_at; // 0 = not a final failure
} event_record_t;

enum { EVENT_FIELDS = 26 };
extern const field_t event_fields[EVENT_FIELDS]; // of an event_record_t

// The `kind` of the last line of an export. It is not an event and has no id; its size is the number of events before it.
#define EXPORT_END_KIND "end"

records_t event_records(audit_format_t format); // to begin with
void event_records_add(records_t *records, const audit_row_t *row);
void event_write_json(buffer_t *out, const audit_row_t *row);

// Reads an object that event_write_json wrote; fields that are unknown are ignored. Texts of *event are borrowed from *text until
// the next call. False with *why: it is not such an object.
bool event_read_json(slice_t line, buffer_t *text, event_t *event, buffer_t *why);
