// Records in requests to the scripts that write the failure stream. The scripts add `at` and `error`.
#pragma once

#include "model/event.h"
#include "redis/conn.h"

// Bytes of all values that record_append appends.
size_t record_bytes(const event_t *event);

// Logs a final failure with its ref, so that people can find it by `audit show`.
void record_log_failure(const char *role, const char *queue, const event_t *event);

// Appends the names and values of a record.
void record_append(conn_t *conn, const event_t *event);

// The same for many records of one request: once the values that all records of a queue and a term share, and for each record
// its other values. Each part begins with the number of its names and values.
void record_append_shared(conn_t *conn, const event_t *event);
void record_append_own(conn_t *conn, const event_t *event);

// The fields of the records of one request. Bit n stands for field n of EVENT_TEXTS and EVENT_NUMBERS, in their order.
typedef struct record_form {
    uint32_t shared; // fields that have the same value in all records
    uint32_t own;    // the other fields that a record has
} record_form_t;

// Adds the fields of `event` to the form of the records before it, the first of which is `first`. All members of the form are 0
// at the beginning. The payload is no field of a form.
void record_form_add(record_form_t *form, const event_t *first, const event_t *event);
// Appends names and values of the shared fields, and then the names of the others. Each part begins with the number of its
// arguments.
void record_append_form(conn_t *conn, const record_form_t *form, const event_t *first);
// Appends the values of the other fields; an empty one = the record does not have the field.
void record_append_values(conn_t *conn, const record_form_t *form, const event_t *event);
