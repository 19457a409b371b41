// The columns of an event in JSON and CSV: the same names in both, those of the view failed_jobs first.
#ifndef QS_CLI_AUDIT_FIELDS_H
#define QS_CLI_AUDIT_FIELDS_H

#include <stddef.h>

// BYTES are two columns: NAME, as text where it is text and else in base64, and NAME_encoding, which says which.
typedef enum audit_field_kind { FIELD_TEXT, FIELD_BYTES, FIELD_NUMBER, FIELD_TIME, FIELD_FAILED_AT } audit_field_kind_t;

typedef struct audit_field {
    const char *name;
    audit_field_kind_t kind;
    size_t offset; // of a slice_t or an int64_t in audit_row_t
} audit_field_t;

enum { AUDIT_FIELDS = 24 };
extern const audit_field_t audit_fields[AUDIT_FIELDS];

#endif
