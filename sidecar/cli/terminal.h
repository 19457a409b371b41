// Text and tables on a terminal.
#pragma once

#include "base/buffer.h"
#include "base/clock.h"
#include "base/slice.h"
#include "base/text/terminal_escape.h"

// Prints text for machines, such as JSON or CSV, and frees it; on a terminal escapes it line by line. In JSON \uXXXX means the
// same character. False: not all could be printed.
bool terminal_print(buffer_t *text, FILE *out);

// Columns that escaped text takes, and how many of its bytes fit into `columns`.
size_t terminal_width(slice_t text);
size_t terminal_fit(slice_t text, size_t columns);

// $COLUMNS, else the columns of the terminal that `out` is; 0 = not known, use any width.
size_t terminal_columns(FILE *out);
// Whether the terminal is too narrow for times with year and seconds (use TIME_SHORT).
bool terminal_is_narrow(FILE *out);

// The rules for breaking text into lines.
typedef struct wrap {
    size_t width;  // columns of a line
    size_t indent; // columns before every line but the first
    size_t column; // where the first line begins
    bool brackets; // words between [ and ] stay together
    bool hard;     // a word that is wider than a line is broken; otherwise it stays whole, so that people can copy it
} wrap_t;

// Adds `len` bytes of text, broken at spaces and ended by a line feed. `QUOTED WORDS` stay together; a line feed in the text
// stays.
void wrap_add(buffer_t *out, const char *text, size_t len, const wrap_t *wrap);
// Like wrap_add, for a whole text; every line begins at column `indent`.
void wrap_at(buffer_t *out, const char *text, size_t indent, size_t width);

// A line on a terminal with the progress of a long command. Prints nothing if stderr is not a terminal.
typedef struct progress {
    const char *what; // "exporting"
    bool enabled;
    bool shown;
    int64_t start; // the `done` to begin with; does not count for the speed
    mono_t began;
    mono_t next; // when to print the line again
} progress_t;

progress_t progress_begin(const char *what);
void progress_show(progress_t *progress, int64_t done, int64_t total); // total 0 = unknown
void progress_end(progress_t *progress);                               // clears the line
