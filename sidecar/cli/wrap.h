// Breaks text into lines for a terminal.
#pragma once

#include <stdbool.h>

#include "base/buffer.h"

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
// The same with a whole text from column `indent`, where every line begins.
void wrap_at(buffer_t *out, const char *text, size_t indent, size_t width);
