// Counts and words as `status` shows them to people.
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/text/units.h"

// "12", "1,204", "12.3M"; "?" = not known. Returns text.
const char *count_text(int64_t number, char text[UNITS_TEXT_SIZE]);

// Appends a word of a command line, in quotes where a shell needs them.
void shell_word(buffer_t *out, const char *text);
