// Text and tables on a terminal.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/slice.h"

// Appends text that cannot move the cursor, change colours or reverse the direction: such characters, and bytes that are not
// UTF-8, become \n, \x1b, \u202e. keep_lines: line feeds stay.
void terminal_escape(buffer_t *out, slice_t bytes, bool keep_lines);

// Columns that escaped text takes, and how many of its bytes fit into `columns`.
size_t terminal_width(slice_t text);
size_t terminal_fit(slice_t text, size_t columns);

// Columns of the terminal that `out` is, or $COLUMNS; 0 = neither, any width will do.
size_t terminal_columns(FILE *out);
// Whether they are too few for dates with year and seconds: time_shorten.
bool terminal_is_narrow(FILE *out);
