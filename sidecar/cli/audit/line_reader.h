// Reads the lines of a file in bounded memory. A longer line is reported and skipped.
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
    int fd; // borrowed
    size_t max_bytes;
    int64_t number; // of the line that came last, from 1
    buffer_t window;
    size_t at;  // in the window: where the next line begins
    bool ended; // the file has no more bytes
    int error;  // errno of a failed read; 0 = none
} line_reader_t;

line_reader_t line_reader_new(int fd);
void line_reader_free(line_reader_t *reader); // leaves the file open

// The first bytes of the file, up to the first line feed or 256 KiB, without a byte order mark. Call it before line_reader_next.
slice_t line_reader_peek(line_reader_t *reader);
// *line has no line end; it is borrowed until the next call.
line_result_t line_reader_next(line_reader_t *reader, slice_t *line);
