// How far something is, on standard error, when that is a terminal; otherwise nothing.
#ifndef QS_CLI_PROGRESS_H
#define QS_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

typedef struct progress {
    const char *what; // "exporting"
    bool wanted;
    bool shown;
    mono_t next; // not before this
} progress_t;

progress_t progress_begin(const char *what);
void progress_show(progress_t *progress, int64_t done, int64_t of); // of: 0 = not known
void progress_end(progress_t *progress);                            // leaves an empty line to write on

#endif
