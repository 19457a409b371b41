// A file of exported events, cut into its records: lines of JSON, or records of CSV that may be of several lines. Any bytes may
// come; memory is bounded by the largest record, and what is no record is passed over.
#ifndef QS_CLI_AUDIT_RECORDS_H
#define QS_CLI_AUDIT_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

// Of one record: a payload of 16 MiB fits in all encodings, and most of 256 MiB.
#define RECORD_MOST ((size_t)400 * 1024 * 1024)

typedef enum records_form {
    RECORDS_EMPTY,
    RECORDS_JSON,
    RECORDS_CSV,
    RECORDS_SQLITE,
    RECORDS_ARRAY, // JSON, but not by lines
    RECORDS_UNKNOWN
} records_form_t;

typedef enum records_result {
    RECORDS_ONE,  // here is one
    RECORDS_BAD,  // this is none, *reason says why; the next one may be good
    RECORDS_END,  // there are no more
    RECORDS_FAULT // the file cannot be read: errno
} records_result_t;

typedef struct records {
    int fd; // borrowed
    records_form_t form;
    size_t most;     // bytes of a record
    buffer_t window; // what was read
    size_t at;       // where the next record begins in it
    bool ended;      // there is no more to read
    int error;       // errno of the read that failed; 0 = none
    int64_t line;    // of `at`, from 1
} records_t;

typedef struct record {
    slice_t bytes; // without the end of its line; borrowed until the next one
    int64_t line, last_line;
    const char *reason; // of a bad one
} record_t;

// Looks at the first bytes of a file that is open for reading. Free with records_free, which leaves the file open.
records_t records_open(int fd);
void records_free(records_t *records);
records_result_t records_next(records_t *records, record_t *record);

#endif
