// Searches the ends of a backup list for the jobs of reports, and settles those that it finds. It reads the list where it is. A
// step reads one page.
#include "base/failpoint.h"
#include "monitor/internal.h"

// The stamp of a job may be one that the first round corrects.
enum { SEARCH_ROUNDS = 2 };

static bool search_wants(const scan_t *scan, const entry_t *entry) {
    const worker_report_t *report = report_table_find(&scan->reports, &entry->digest);
    return report && worker_report_is_sought(report);
}

// The page keeps only jobs that a settle may take.
static void search_keep_sought(const scan_t *scan, backup_page_t *page) {
    size_t kept = 0;
    for (size_t i = 0; i < page->count; i++)
        if (search_wants(scan, &page->entries[i])) page->entries[kept++] = page->entries[i];
    page->count = page->jobs = kept;
}

// Notes the reports of the page. The page keeps only jobs that a settle may take.
static void search_note_reports(scan_t *scan, const report_end_t *end, backup_page_t *page) {
    size_t kept = 0;
    report_table_make_room(&scan->reports);
    for (size_t i = 0; i < page->count; i++) {
        const entry_t *entry = &page->entries[i];
        bool oversized = (int64_t)entry->bytes.len > scan->config->policy.max_payload;
        if (!oversized && report_table_found(&scan->reports, &entry->digest, &end->reports[i])) page->entries[kept++] = *entry;
    }
    page->count = page->jobs = kept;
}

// The last entry of a page is the nearest to the head, as after a rotation. At the tail the first entry is the nearest.
static outcome_t search_apply(monitor_t *m, const call_t *call, stamped_page_t *stamped) {
    scan_t *scan = &m->scans[call->queue];
    apply_t apply = monitor_apply(m, call, &stamped->page, scan_search(scan)->tail);
    stamps_append(call, &stamped->page);
    if (stamps_read(call, &stamped->page, stamped->stamps, stamped->raws, &stamped->now_us) != OUTCOME_OK)
        return call->error->outcome;
    scan->clock.now = stamped->now_us / 1000;
    apply.births_us = stamped->now_us;
    size_t count = apply_classify(&apply, &stamped->page, stamped->stamps, stamped->raws);
    return count ? apply_verdicts(&apply, count) : OUTCOME_OK;
}

// False: the connection is unusable for now.
static bool search_settle(monitor_t *m, const call_t *call, const report_end_t *end, stamped_page_t *stamped) {
    scan_t *scan = &m->scans[call->queue];
    search_note_reports(scan, end, &stamped->page);
    size_t removed = scan->reports.removed, found = stamped->page.count;
    for (int round = 0; round < SEARCH_ROUNDS && stamped->page.count; round++) {
        search_apply(m, call, stamped);
        if (!monitor_handle_job_outcome(m, call)) return false;
        if (scan->state != SCAN_SEARCH) return true; // fenced
        search_keep_sought(scan, &stamped->page);
    }
    scan_search_found(scan, end, found, scan->reports.removed - removed);
    return true;
}

bool monitor_step_search(monitor_t *m) {
    redis_error_t error = {0};
    const call_t call = monitor_call(m, m->turn.queue, m->turn.lease.token, &error);
    scan_t *scan = &m->scans[call.queue];
    report_end_t end;
    backup_page_t *page = &m->search->page;
    if (!scan_search_wanted(scan, &end)) {
        scan_search_end(scan, mono_now());
        return true;
    }
    backup_page_clear(page);
    if (report_end_read(&call, &scan->status, &end, page) != OUTCOME_OK)
        return monitor_handle_outcome(m, &call, m->turn.lease.term);
    scan_search_read(scan, &end, page);
    failpoint("search_answered");
    bool usable = search_settle(m, &call, &end, m->search);
    backup_page_clear(page);
    return usable;
}
