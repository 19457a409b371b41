#include "monitor/scan.h"

enum {
    FIRST_ENTRIES = 16,        // entries of the first page, and two more for each report
    GROWING_PAGES = 4,         // pages until they are as large as those of a scan
    NEAR_ENTRIES = 64,         // entries of a page whose jobs will be settled: Redis finds jobs near the end of a list faster
    SEARCH_SETTLES = 8192,     // after so many settled jobs a search ends, because a scan may be due
    SEARCH_ENTRY_BYTES = 1024, // a larger entry counts as several
    WALK_APART_MS = 250,       // shortest time between two searches that read all of many reports,
    WALK_SHARE = 16,           // and so many times as long as it took
    INSIDE_ENTRIES = 512,      // jobs that a scan reads before a search interrupts it,
    IN_VAIN_ENTRIES = 2048,    // or so many if the last one settled no job
    INSIDE_SETTLES = 2048,     // jobs that this search settles
    AGAIN_SETTLES = 64,        // if it settled so many, others came meanwhile: a further one follows before the scan buries them
    AGAIN_ENTRIES = 256,       // and reads so many entries in vain,
    AGAIN_MAX = 16,            // so often in a row,
    AGAIN_SHARE = 64,          // while searches have taken less than so many times as long as the rest of the scan,
    AGAIN_MS = 100,            // and this
};

static bool scan_search_goes_on(const scan_progress_t *progress, const report_table_t *reports) {
    if (progress->ended || progress->settled >= (progress->inside ? INSIDE_SETTLES : SEARCH_SETTLES)) return false;
    return progress->ends_only ? progress->sought > 0 || progress->found > 0 : report_table_has_sought(reports);
}

// Most jobs of reports are near an end of the list: workers push to the head, and a rotation leaves the jobs that came since the
// rotation before at the tail.
bool scan_search_wanted(scan_t *scan, report_end_t *end) {
    scan_progress_t *progress = &scan->progress;
    if (!scan_search_goes_on(progress, &scan->reports)) return false;
    if (progress->left <= 0 && !progress->tail && !progress->inside) {
        progress->tail = true;
        progress->left = SCAN_SEARCH_ENTRIES;
        progress->read = 0;
    }
    if (progress->left <= 0) return false;
    size_t sought =
        progress->ends_only ? (size_t)(progress->sought > 0 ? progress->sought : 0) : scan->reports.count - scan->reports.removed;
    size_t first = FIRST_ENTRIES + 2 * (sought < BACKUP_PAGE ? sought : BACKUP_PAGE);
    size_t entries = progress->pages_read < GROWING_PAGES ? first << (2 * progress->pages_read) : BACKUP_PAGE;
    end->tail = progress->tail;
    end->skip = progress->read;
    size_t most = progress->pages_read == 0 || progress->found ? NEAR_ENTRIES : BACKUP_PAGE;
    end->count = entries < most ? entries : most;
    end->large = scan_has_large(scan) || scan->reports.large_bytes;
    return true;
}

void scan_search_read(scan_t *scan, const report_end_t *end, const backup_page_t *page) {
    scan_progress_t *progress = &scan->progress;
    progress->read += end->read;
    progress->pages_read++;
    progress->ended = page->ended;
    if (end->largest > scan->page_size.largest[0]) scan->page_size.largest[0] = end->largest;
}

// Settled jobs cost the search nothing, so it goes on while it settles some.
void scan_search_found(scan_t *scan, const report_end_t *end, size_t found, size_t settled) {
    scan_progress_t *progress = &scan->progress;
    size_t in_vain = end->read > settled ? end->read - settled : 0;
    if (in_vain) progress->left -= (int64_t)(in_vain * (1 + end->bytes / end->read / SEARCH_ENTRY_BYTES));
    progress->read -= settled < progress->read ? settled : progress->read;
    progress->found = found;
    progress->sought -= (int64_t)found;
    progress->settled += settled;
}

void scan_requested(scan_t *scan, size_t count) {
    scan->progress.left -= (int64_t)count;
    scan->progress.requested += (int64_t)count;
    scan->progress.pages_requested++;
}

// The scan rotates entries above the jobs that come meanwhile, and Redis looks for each of them from the head. So few entries are
// requested between two searches.
bool scan_search_interrupts(const scan_t *scan) {
    const scan_progress_t *progress = &scan->progress;
    bool reads = scan->phase == SCAN_ROTATE && !progress->read_only && !scan->search_refused;
    bool due =
        progress->again || progress->requested - progress->searched_at >= (progress->in_vain ? IN_VAIN_ENTRIES : INSIDE_ENTRIES);
    return reads && due && (scan->timer.changed || progress->flows) && scan_has_reports(scan) && !scan->reports.large_bytes;
}

void scan_interrupt(scan_t *scan, const backup_status_t *status, mono_t now) {
    const scan_progress_t *progress = &scan->progress;
    if (!scan->interrupted) scan->interrupted = mem_alloc(sizeof *scan->interrupted);
    *scan->interrupted = *progress;
    scan->timer.changed = false;
    scan->timer.search_began = now;
    scan->progress = (scan_progress_t){
        .left = progress->again ? AGAIN_ENTRIES : SCAN_SEARCH_ENTRIES + progress->requested - progress->searched_at,
        .inside = true,
        .ends_only = true,
        .sought = status->reports - report_table_searched(&scan->reports),
        .since = INT64_MAX,
        .next_verdict_at = progress->next_verdict_at,
        .now = status->now,
        .certain_at = progress->certain_at,
    };
    scan->phase = SCAN_SEARCH;
}

static void scan_resume(scan_t *scan, mono_t now) {
    const scan_progress_t search = scan->progress;
    scan_progress_t *progress = &scan->progress;
    *progress = *scan->interrupted;
    progress->searched_at = progress->requested;
    progress->searching_ns += mono_diff(now, scan->timer.search_began);
    progress->in_vain = search.read > 0 && search.settled == 0 && !progress->again;
    if (search.settled > 0)
        progress->flows = SCAN_FLOWS;
    else if (progress->in_vain)
        progress->flows = 0;
    else if (progress->flows > 0)
        progress->flows--;
    int64_t rest_ns = mono_diff(now, scan->timer.began) - progress->searching_ns;
    bool more = search.settled >= AGAIN_SETTLES && progress->again < AGAIN_MAX;
    bool fair =
        progress->searching_ns < AGAIN_SHARE * rest_ns + AGAIN_MS * NS_PER_MS; // rest_ns has waits and turns of other queues
    progress->again = more && fair ? progress->again + 1 : 0;
    progress->reports_left |= search.sought > 0;
    progress->now = search.now;
    progress->next_verdict_at = search.next_verdict_at;
    progress->rescan |= search.rescan;
    if (search.settled >= INSIDE_SETTLES) scan->timer.changed = true; // the next search goes on
    report_table_resume(&scan->reports);
    scan->phase = SCAN_ROTATE;
}

// The pause is as long as the reports took to read, because a search reads again those that it cannot settle.
void scan_search_end(scan_t *scan, mono_t now) {
    scan_timer_t *timer = &scan->timer;
    const scan_progress_t *progress = &scan->progress;
    if (progress->pages_read) scan->search_refused = false;
    if (progress->inside) {
        scan_resume(scan, now);
        return;
    }
    if (progress->ends_only && scan->reports.large_bytes) timer->reports_read = now;
    int64_t pause_ns = mono_diff(timer->reports_read, timer->search_began);
    int64_t apart_ns = WALK_SHARE * pause_ns;
    if (apart_ns < WALK_APART_MS * NS_PER_MS) apart_ns = WALK_APART_MS * NS_PER_MS;
    if (pause_ns < SCAN_PAUSE_MIN_MS * NS_PER_MS) pause_ns = SCAN_PAUSE_MIN_MS * NS_PER_MS;
    scan->phase = SCAN_WAIT;
    timer->earliest = mono_add(now, pause_ns);
    if (!progress->ends_only) timer->walk = mono_add(now, apart_ns);
    if (timer->changed || progress->rescan) timer->search = timer->earliest;
    if (scan->refusals.first) scan_apply_refusals(scan, now);
    if (progress->settled >= SEARCH_SETTLES) return; // the next search goes on
    report_table_end_search(&scan->reports);
    if (progress->ends_only && progress->sought > 0) // their jobs are elsewhere
        timer->search = mono_min(timer->search, mono_max(timer->earliest, timer->walk));
    // Of more reports than the table holds a search may find few. Then a scan settles more of them for its time.
    bool few = scan->reports.full && progress->settled < SCAN_SEARCH_ENTRIES;
    mono_t scan_at = few ? timer->earliest : timer->report_scan;
    if (report_table_awaits_scan(&scan->reports)) timer->next = mono_min(timer->next, scan_at);
}
