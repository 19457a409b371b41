// Bytes of jobs, made fit for JSON, CSV and a terminal.
#ifndef QS_CLI_TERMINAL_H
#define QS_CLI_TERMINAL_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/slice.h"

// A field by RFC 4180, quoted where it must be.
void csv_write_field(buffer_t *out, slice_t text);
// For a terminal: what could move the cursor, change colours or turn the direction of text is shown as \n, \x1b, \u202e; so are
// bytes that are no UTF-8. lines: line feeds stay.
void terminal_escape(buffer_t *out, slice_t bytes, bool lines);

// Columns that such a text takes on a terminal, and how many of its bytes fit into `most` of them.
size_t terminal_width(slice_t text);
size_t terminal_fit(slice_t text, size_t most);

#endif
