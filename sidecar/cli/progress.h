// A line on a terminal that says how far a long command is. Nothing where standard error is not a terminal.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

typedef struct progress {
    const char *what; // "exporting"
    bool enabled;
    bool shown;
    int64_t start; // what was done before it began, which is no speed
    mono_t began;
    mono_t next; // when it is printed again
} progress_t;

progress_t progress_begin(const char *what);
void progress_show(progress_t *progress, int64_t done, int64_t total); // total 0 = unknown
void progress_end(progress_t *progress);                               // clears the line
