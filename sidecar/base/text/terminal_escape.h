// Text from outside, made safe for a terminal.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

// Appends text that cannot move the cursor, change colours, reverse the direction or hide: such characters, and bytes that are
// not UTF-8, become \n, \x1b, \u202e. keep_lines: line feeds stay.
void terminal_escape(buffer_t *out, slice_t bytes, bool keep_lines);

// Whether to write colours: the descriptor is a terminal that knows them, and NO_COLOR is unset or empty (no-color.org).
bool terminal_takes_colours(int fd);
