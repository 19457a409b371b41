// The fields of an event in JSON and CSV: the same names in both, those of the view failed_jobs first.
#ifndef QS_CLI_AUDIT_EVENT_FIELDS_H
#define QS_CLI_AUDIT_EVENT_FIELDS_H

#include "audit/query/query.h"

typedef enum event_field_kind {
    FIELD_TEXT,
    FIELD_BYTES,    // as they are where they are UTF-8, else in base64
    FIELD_ENCODING, // of the FIELD_BYTES before it: text or base64
    FIELD_NUMBER,
    FIELD_TIME,
    FIELD_FAILED_AT // the time of a final failure; of other events empty
} event_field_kind_t;

typedef struct event_field {
    const char *name;
    event_field_kind_t kind;
    size_t offset; // of a slice_t or an int64_t in audit_row_t
} event_field_t;

enum { EVENT_FIELDS = 26 };
extern const event_field_t event_fields[EVENT_FIELDS];

// The `kind` of the last line of an export. It is not an event and has no id; its size is the number of events before it.
#define EXPORT_END_KIND "end"

// Each appends one event with all fields: a JSON object, or a CSV record without its line end.
void event_write_json(buffer_t *out, const audit_row_t *row);
void event_write_csv(buffer_t *out, const audit_row_t *row);
void event_write_csv_header(buffer_t *out); // with its line end

// Reads an object that event_write_json wrote, and passes over fields that are unknown. Texts of *event are borrowed from *text
// until the next call. False with *why: it is not such an object.
bool event_read_json(slice_t line, buffer_t *text, event_t *event, buffer_t *why);

#endif
