#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/audit/audit.h"

enum { PERIOD_MS = 200 };

progress_t progress_begin(const char *what) {
    return (progress_t){.what = what, .wanted = isatty(STDERR_FILENO) == 1, .next = mono_add(mono_now(), PERIOD_MS * NS_PER_MS)};
}

void progress_show(progress_t *progress, int64_t done, int64_t of) {
    char text[COUNT_TEXT_SIZE], all[COUNT_TEXT_SIZE];
    if (!progress->wanted || !mono_reached(progress->next, mono_now())) return;
    progress->next = mono_add(mono_now(), PERIOD_MS * NS_PER_MS);
    progress->shown = true;
    count_format(done, text);
    count_format(of, all);
    fprintf(stderr, "\r\x1b[K%s: %s", progress->what, text);
    if (of > 0) fprintf(stderr, " of %s (%d %%)", all, (int)(100.0 * (double)done / (double)of));
}

void progress_end(progress_t *progress) {
    if (progress->shown) fputs("\r\x1b[K", stderr);
    progress->shown = false;
}
