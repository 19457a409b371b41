// Durations and sizes as text: exact, as a config says them, and rounded, as people read them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

// "250ms", "30s", "3m", "24h", "30d". False: no number with such a unit, or it does not fit.
bool duration_parse(const char *text, int64_t *ms);
// "512", "64KiB", "16MiB".
bool size_parse(const char *text, int64_t *bytes);

// Appends the number in the largest unit that divides it: 180000 -> 3m, 4096 -> 4KiB. 0 has no unit.
void duration_write(buffer_t *out, int64_t ms);
void size_write(buffer_t *out, int64_t bytes);

enum { UNITS_TEXT_SIZE = 32 };

// "0.3 s", "12 s", "5 min", "7 h", "3 d". Returns text.
const char *duration_text(int64_t ms, char text[UNITS_TEXT_SIZE]);
// "812 bytes", "3.1 MiB". Returns text.
const char *size_text(int64_t bytes, char text[UNITS_TEXT_SIZE]);
