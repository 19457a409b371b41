// A search looks for the jobs of reports at the ends of the list. Most of them are near an end: workers push to the head, and
// rotation of a short list leaves new jobs at the tail.
#include "monitor/scan/scan.h"

enum {
    FEW_REPORTS = 16,          // a search always reads so few reports: Redis needs one short script for them
    FIRST_ENTRIES = 16,        // entries of the first page, and two more for each report
    GROWING_PAGES = 4,         // pages until they are as large as those of a scan
    NEAR_ENTRIES = 64,         // entries of a page whose jobs will be settled: Redis finds jobs near the end of a list faster
    SEARCH_SETTLES = 8192,     // after so many settled jobs a search ends, because a scan may be due
    SEARCH_ENTRY_BYTES = 1024, // a larger entry counts as several
    READ_APART_MS = 250,       // shortest time between two searches that read all of many reports,
    READ_SHARE = 16,           // and so many times as long as it took
};

// A search meets a job at an end together with its report. It needs all reports only for jobs that are at neither end.
bool scan_search_reads_all(const scan_t *scan, int64_t reports, mono_t now) {
    // The table has as many reports as the hash, so none is new: the text of one has changed.
    bool none_sought = reports <= (int64_t)(scan->reports.count - scan->reports.removed);
    return reports <= FEW_REPORTS || none_sought || scan->reports.large_bytes || mono_reached(scan->timer.read_all_from, now);
}

bool scan_search_due(const scan_t *scan, mono_t now) {
    return mono_reached(scan->timer.search, now) && !mono_reached(scan->timer.next, now);
}

bool scan_search_begin(scan_t *scan, mono_t now) {
    scan_timer_t *timer = &scan->timer;
    int64_t reports = scan->status.reports;
    mono_t due = scan_reports_due(scan);
    // The last job may have left the list: a scan makes the queue idle.
    if (scan_is_empty(scan)) timer->next = mono_min(timer->next, mono_max(timer->report_scan, now));
    if (reports > 0 && !mono_reached(due, now)) timer->search = due;
    if (reports == 0 || !mono_reached(due, now)) return false;
    bool knows_all = scan_search_reads_all(scan, reports, now);
    if (knows_all)
        report_table_begin(&scan->reports);
    else
        report_table_begin_search(&scan->reports);
    scan_enter(scan, SCAN_SEARCH);
    *scan_search(scan) = (scan_search_t){.began = now,
                                         .knows_all = knows_all,
                                         .budget = SCAN_SEARCH_ENTRIES,
                                         .sought = reports - report_table_searched(&scan->reports)};
    return true;
}

static bool scan_search_goes_on(const scan_search_t *search, const report_table_t *reports) {
    if (search->ended || search->settled >= SEARCH_SETTLES) return false;
    return search->knows_all ? report_table_has_sought(reports) : search->sought > 0 || search->found > 0;
}

bool scan_search_wanted(scan_t *scan, report_end_t *end) {
    scan_search_t *search = scan_search(scan);
    if (!scan_search_goes_on(search, &scan->reports)) return false;
    if (search->budget <= 0 && !search->tail) {
        search->tail = true;
        search->budget = SCAN_SEARCH_ENTRIES;
        search->place = 0;
    }
    if (search->budget <= 0) return false;
    size_t sought =
        search->knows_all ? scan->reports.count - scan->reports.removed : (size_t)(search->sought > 0 ? search->sought : 0);
    size_t first = FIRST_ENTRIES + 2 * (sought < BACKUP_PAGE ? sought : BACKUP_PAGE);
    size_t entries = search->pages < GROWING_PAGES ? first << (2 * search->pages) : BACKUP_PAGE;
    size_t most = search->pages == 0 || search->found ? NEAR_ENTRIES : BACKUP_PAGE;
    end->tail = search->tail;
    end->skip = search->place;
    end->count = entries < most ? entries : most;
    end->large = scan_has_large(scan) || scan->reports.large_bytes;
    return true;
}

void scan_search_read(scan_t *scan, const report_end_t *end, const backup_page_t *page) {
    scan_search_t *search = scan_search(scan);
    search->place += end->read;
    search->pages++;
    search->ended = page->ended;
    if (end->largest > scan->page_size.largest[0]) scan->page_size.largest[0] = end->largest;
}

// Settled jobs cost the search nothing, so it goes on while it settles some.
void scan_search_found(scan_t *scan, const report_end_t *end, size_t found, size_t settled) {
    scan_search_t *search = scan_search(scan);
    size_t in_vain = end->read > settled ? end->read - settled : 0;
    if (in_vain) search->budget -= (int64_t)(in_vain * (1 + end->bytes / end->read / SEARCH_ENTRY_BYTES));
    search->place -= settled < search->place ? settled : search->place;
    search->found = found;
    search->sought -= (int64_t)found;
    search->settled += settled;
}

// The pause is as long as the reports took to read, because a search reads again those that it cannot settle.
void scan_search_end(scan_t *scan, mono_t now) {
    scan_timer_t *timer = &scan->timer;
    const scan_search_t search = *scan_search(scan);
    if (!search.knows_all && scan->reports.large_bytes) timer->reports_read = now;
    int64_t pause_ns = mono_diff(timer->reports_read, search.began);
    int64_t apart_ns = READ_SHARE * pause_ns;
    if (apart_ns < READ_APART_MS * NS_PER_MS) apart_ns = READ_APART_MS * NS_PER_MS;
    if (pause_ns < SCAN_PAUSE_MIN_MS * NS_PER_MS) pause_ns = SCAN_PAUSE_MIN_MS * NS_PER_MS;
    scan_enter(scan, SCAN_WAIT);
    timer->earliest = mono_add(now, pause_ns);
    if (search.knows_all) timer->read_all_from = mono_add(now, apart_ns);
    if (timer->changed || timer->rescan) timer->search = timer->earliest;
    if (scan->refusals.first) scan_apply_refusals(scan, now);
    if (search.settled >= SEARCH_SETTLES) return; // the next search goes on
    report_table_end_search(&scan->reports);
    if (!search.knows_all && search.sought > 0) // their jobs are elsewhere
        timer->search = mono_min(timer->search, mono_max(timer->earliest, timer->read_all_from));
    // Of more reports than the table holds a search may find few. Then a scan settles more of them for its time.
    bool few = scan->reports.full && search.settled < SCAN_SEARCH_ENTRIES;
    mono_t scan_at = few ? timer->earliest : timer->report_scan;
    if (report_table_awaits_scan(&scan->reports)) timer->next = mono_min(timer->next, scan_at);
}
