#include "monitor/scan.h"

enum {
    FIRST_ENTRIES = 16,        // entries of the first page, and two more for each report
    GROWING_PAGES = 4,         // pages until they are as large as those of a scan
    SEARCH_ENTRY_BYTES = 1024, // a larger entry counts as several
};

// Most jobs of reports are near an end of the list: workers push to the head, and a rotation leaves the jobs that came since the
// rotation before at the tail.
size_t scan_search_wanted(scan_t *scan) {
    scan_progress_t *progress = &scan->progress;
    if (progress->ended || !report_table_has_sought(&scan->reports)) return 0;
    if (progress->left <= 0 && !progress->tail) {
        progress->tail = true;
        progress->left = SCAN_SEARCH_ENTRIES;
        progress->read = 0;
    }
    if (progress->left <= 0) return 0;
    size_t first = FIRST_ENTRIES + 2 * (scan->reports.count - scan->reports.removed);
    size_t entries = progress->pages_read < GROWING_PAGES ? first << (2 * progress->pages_read) : BACKUP_PAGE;
    return entries < scan->page_size.entries ? entries : scan->page_size.entries;
}

// Settled jobs cost the search nothing, so it goes on while it settles some.
void scan_search_found(scan_t *scan, size_t bytes, size_t settled) {
    scan_progress_t *progress = &scan->progress;
    progress->left += (int64_t)settled - (int64_t)(bytes / SEARCH_ENTRY_BYTES);
    progress->read -= settled < progress->read ? settled : progress->read;
}

// The pause is as long as the reports took to read, because a search reads again those that it cannot settle.
void scan_search_end(scan_t *scan, mono_t now) {
    scan_timer_t *timer = &scan->timer;
    int64_t pause_ns = mono_diff(timer->reports_read, timer->search_began);
    if (pause_ns < SCAN_PAUSE_MIN_MS * NS_PER_MS) pause_ns = SCAN_PAUSE_MIN_MS * NS_PER_MS;
    scan->phase = SCAN_WAIT;
    report_table_end_search(&scan->reports);
    timer->earliest = mono_add(now, pause_ns);
    if (timer->changed || scan->progress.rescan) timer->search = timer->earliest;
    // Of more reports than the table holds a search finds few. Then a scan settles more of them for its time.
    mono_t scan_at = scan->reports.full ? timer->earliest : timer->report_scan;
    if (report_table_awaits_scan(&scan->reports)) timer->next = mono_min(timer->next, scan_at);
    if (scan->refusals.first) scan_apply_refusals(scan, now);
}
