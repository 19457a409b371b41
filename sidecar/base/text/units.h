// Durations and sizes as text: exact, as in a config, and rounded, for people.
#pragma once

#include "base/std.h"

// "250ms", "30s", "3m", "24h", "30d". False: not a number with such a unit, or too large.
bool duration_parse(const char *text, int64_t *ms);
// "500us", "2ms", "1s".
bool micros_parse(const char *text, int64_t *us);
// "512", "64KiB", "16MiB".
bool size_parse(const char *text, int64_t *bytes);

typedef struct units_text {
    char text[32];
} units_text_t;

// In the largest unit that divides the number: 180000 -> 3m, 4096 -> 4KiB. 0 has no unit.
units_text_t duration_exact(int64_t ms);
units_text_t micros_exact(int64_t us);
units_text_t size_exact(int64_t bytes);

units_text_t duration_text(int64_t ms);  // "0.3 s", "12 s", "5 min", "7 h", "3 d"
units_text_t size_text(int64_t bytes);   // "812 bytes", "3.1 MiB"
units_text_t number_text(int64_t count); // "1,234,567"
units_text_t count_text(int64_t count);  // below a million like number_text, then "12.3M"; "?" below 0
