// Reads the lines of a file in bounded memory. A longer line is reported and skipped.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/slice.h"

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

// *line has no line end and no byte order mark; it is borrowed until the next call. It is the beginning of a line that is too
// long.
line_result_t line_reader_next(line_reader_t *reader, slice_t *line);
