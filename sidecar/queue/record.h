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

// The fields of the records of one request. Bit n stands for field n of EVENT_TEXTS and EVENT_NUMBERS, in their order.
typedef struct record_form {
    uint32_t shared; // fields that have the same value in all records
    uint32_t own;    // the other fields that a record has
    bool no_payload; // the script adds the payload
} record_form_t;

// Adds the fields of `event` to the form of the records before it, the first of which is `first`. The other members of the form
// are 0 at the beginning.
void record_form_add(record_form_t *form, const event_t *first, const event_t *event);
// Appends names and values of the shared fields, and then the names of the others. Each part begins with the number of its
// arguments. `first` may be NULL if no record was added.
void record_append_form(conn_t *conn, const record_form_t *form, const event_t *first);
// Appends the values of the other fields; an empty one = the record does not have the field.
void record_append_values(conn_t *conn, const record_form_t *form, const event_t *event);
