#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text/units.h"
#include "cli/terminal.h"

enum { PERIOD_MS = 200 };

static mono_t progress_next(void) { return mono_add(mono_now(), PERIOD_MS * NS_PER_MS); }

progress_t progress_begin(const char *what) {
    return (progress_t){.what = what, .enabled = isatty(STDERR_FILENO) == 1, .began = mono_now(), .next = progress_next()};
}

void progress_show(progress_t *progress, int64_t done, int64_t total) {
    if (!progress->enabled || !mono_reached(progress->next, mono_now())) return;
    progress->next = progress_next();
    progress->shown = true;
    int64_t ms = mono_diff(mono_now(), progress->began) / NS_PER_MS + 1, own = done - progress->start;
    fprintf(stderr, "\r\x1b[K%s: %s", progress->what, number_text(done).text);
    if (total > 0)
        fprintf(stderr, " of %s (%d %%), %s/s, %" PRId64 " s left", number_text(total).text,
                (int)(100.0 * (double)done / (double)total), number_text(own * 1000 / ms).text,
                own > 0 ? (total - done) * ms / own / 1000 : 0);
    fflush(stderr);
}

void progress_end(progress_t *progress) {
    if (progress->shown) fputs("\r\x1b[K", stderr);
    progress->shown = false;
}
