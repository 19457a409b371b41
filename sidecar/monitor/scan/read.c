// A scan reads all jobs in progress: how much it requests, and what it keeps of them.
#include "monitor/scan/scan.h"

enum {
    PAGE_BYTES = 1024 * 1024, // bytes of the entries of one request
    LARGE = 64 * 1024,        // bytes; few entries this large fit into a page
    SMALL = 16 * 1024,        // a page of smaller entries needs no limit of bytes
    UNKNOWN_STEP = 64,        // entries that Redis reads in one step where sizes are unknown
};

// The next request waits for the reply to the last one, which shows how large entries are and where the next page begins.
size_t scan_entries_wanted(const scan_t *scan) {
    const scan_pass_t *pass = &scan->of.pass;
    if (scan->state != SCAN_READ || pass->ended || pass->left <= 0 || pass->asked != pass->answered) return 0;
    return pass->left < (int64_t)scan->page_size.entries ? (size_t)pass->left : scan->page_size.entries;
}

void scan_requested(scan_t *scan, size_t count) {
    scan_pass(scan)->left -= (int64_t)count;
    scan_pass(scan)->asked++;
}

static size_t scan_largest(const scan_t *scan) {
    const size_t *largest = scan->page_size.largest;
    return largest[0] > largest[1] ? largest[0] : largest[1];
}

size_t scan_page_bytes(const scan_t *scan) { return scan->page_size.entries * (scan_largest(scan) + 1); }
bool scan_has_large(const scan_t *scan) { return scan_largest(scan) >= LARGE; }

// If the last scan met small entries only, unknown entries are probably small, too.
size_t scan_page_step(const scan_t *scan) {
    size_t largest = scan_largest(scan), step = PAGE_BYTES / (largest + 1);
    if (largest < SMALL) return scan->page_size.largest[1] ? 0 : UNKNOWN_STEP;
    return step ? step : 1;
}

size_t scan_small_entries(const scan_t *scan) { return scan_largest(scan) == 0 ? 0 : PAGE_BYTES / (scan_largest(scan) + 1); }
size_t scan_page_small_entries(const backup_page_t *page) { return PAGE_BYTES / (page->largest + 1); }

// The size of an entry is unknown until the entry is read. So pages grow step by step. Small entries predict little about the
// entries behind them. After a large entry, pages stay small for a while. In place, list_page.lua limits their bytes: they keep
// so many entries that they overlap, or one large job in a long list would let the scan lose its place each time.
static size_t scan_next_page_entries(const scan_t *scan, const backup_page_t *page) {
    size_t most = page->bytes && page->count ? PAGE_BYTES / (page->bytes / page->count + 1) : BACKUP_PAGE;
    size_t fits = PAGES_BYTES / (scan_largest(scan) + 1);
    size_t next = scan->page_size.entries * 4;
    if (next > fits) next = fits;
    if (next > BACKUP_PAGE) next = BACKUP_PAGE;
    if (next > most) next = most;
    size_t least = page->in_place && scan->ops->rotation ? PLACE_KNOWN : 1;
    return next > least ? next : least;
}

static void scan_note_sizes(scan_t *scan, backup_page_t *page) {
    size_t *largest = &scan->page_size.largest[0];
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].bytes.len > page->largest) page->largest = page->entries[i].bytes.len;
    if (page->largest > *largest) *largest = page->largest;
    scan->page_size.entries = scan_next_page_entries(scan, page);
}

static void scan_note_entries(scan_pass_t *pass, const backup_page_t *page) {
    for (size_t i = 0; i < page->count; i++) {
        const entry_t *entry = &page->entries[i];
        pass->bytes += (int64_t)entry->bytes.len;
        if (entry->bytes.len >= LARGE) pass->large_bytes += (int64_t)entry->bytes.len;
        if (entry->kind != ENTRY_MARKER) continue;
        pass->saw_marker = true;
        if (!pass->in_place) pass->ended = true; // in place a marker may be anywhere
    }
}

// All jobs that the scan has met are gone, or far from where they were: it would count those again, and take them for duplicates.
static void scan_read_again(scan_t *scan) {
    scan_pass_t *pass = scan_pass(scan);
    duplicates_begin(&scan->duplicates, (size_t)scan->status.entries);
    pass->jobs = pass->bytes = pass->oversized = pass->endless_heartbeats = pass->undated = 0;
    pass->since = INT64_MAX;
    pass->left = scan->status.entries;
}

void scan_read_page(scan_t *scan, backup_page_t *page, size_t requested, size_t skip) {
    scan_pass_t *pass = scan_pass(scan);
    place_found_t found = PLACE_FOUND;
    bool goes_back =
        page->bytes <= page->count * SMALL; // a way back over large entries would cost more than jobs that are missed
    scan_note_sizes(scan, page);
    if (page->in_place && scan->ops->rotation) found = place_read(&pass->place, page, skip, goes_back);
    if (found == PLACE_AGAIN) scan_read_again(scan);
    if (found == PLACE_MOVED) pass->incomplete = true;
    scan_note_entries(pass, page);
    size_t taken = page->count + page->vacant;
    pass->answered++;
    // Request again the entries that a full Redis refused, and those in whose place the page had entries that were met before.
    pass->left += (int64_t)requested - (int64_t)taken;
    if (scan->status.open && pass->left < BACKUP_PAGE) pass->left = BACKUP_PAGE;
    if (page->ended && found != PLACE_LOST) pass->ended = true;
}

bool scan_note_repeats(scan_t *scan) {
    const int64_t entries = scan->status.entries;
    const scan_pass_t *pass = scan_pass(scan);
    bool early = pass->saw_marker && entries > BACKUP_PAGE && pass->jobs < entries / 2;
    scan->timer.short_scans = early ? scan->timer.short_scans + 1 : 0;
    return scan->timer.short_scans > 1; // workers may have finished half of the jobs during one scan
}

bool scan_note_job(scan_t *scan, const entry_t *entry) {
    const digest_t *digest = &entry->digest;
    if (scan->state == SCAN_SEARCH) return duplicates_known(&scan->duplicates, digest);
    scan_pass(scan)->jobs++;
    report_table_note_seen(&scan->reports, entry_reported(entry));
    return entry->behind ? duplicates_add_again(&scan->duplicates, digest) : duplicates_add(&scan->duplicates, digest);
}

void scan_note_since(scan_t *scan, int64_t since) {
    if (scan->state == SCAN_SEARCH) return;
    if (since <= 0 || since > scan->clock.now) since = scan->clock.now;
    if (since < scan_pass(scan)->since) scan_pass(scan)->since = since;
}

void scan_note_verdict(scan_t *scan, const verdict_t *verdict) {
    int64_t at = INT64_MAX; // the other verdicts do not depend on a later time
    if (verdict->kind == VERDICT_LEAVE || verdict->kind == VERDICT_PRESENT) at = verdict->again;
    if (verdict->kind == VERDICT_STAMP || verdict->kind == VERDICT_SEEN)
        at = scan->clock.now + scan->config->policy.protected_timeout_ms;
    if (at < scan->clock.next_verdict_at) scan->clock.next_verdict_at = at;
}

// settle.lua finds every duplicate in one list of at most SETTLE_EXACT_ENTRIES. Otherwise only scans find them.
bool scan_may_end(const scan_t *scan) {
    bool exact = scan->ops->rotation && scan->status.entries <= SETTLE_EXACT_ENTRIES;
    return exact || scan->completed >= SCAN_SURE_SCANS;
}
