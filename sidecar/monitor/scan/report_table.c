#include "monitor/scan/report_table.h"

#include "base/buffer.h"

enum { ORPHAN_SCANS = 2 }; // complete scans that did not see the job

static worker_report_t *report_table_new(report_table_t *table, const digest_t *digest) {
    table->list = mem_grown(table->list, table->count, sizeof *table->list);
    worker_report_t *report = &table->list[table->count++];
    *report = (worker_report_t){.digest = *digest};
    *keymap_put(&table->index, digest->bytes) = (int64_t)table->count;
    return report;
}

static worker_report_t *report_table_at(const report_table_t *table, const digest_t *digest) {
    const int64_t *position = keymap_find(&table->index, digest->bytes);
    return position ? &table->list[*position - 1] : NULL;
}

static void report_note(worker_report_t *report, const report_ref_t *found) {
    bool another = report->removed || strcmp(report->id, found->id) != 0;
    if (another) report->missed = 0;
    if (another) report->met = report->searched = report->tried = false;
    report->removed = false;
    snprintf(report->id, sizeof report->id, "%s", found->id);
    report->large = found->large;
    report->ends = found->ends;
    report->listed = true;
}

void report_table_add(void *self, const report_ref_t *found) {
    report_table_t *table = self;
    digest_t digest = digest_of(found->job.data, found->job.len);
    worker_report_t *report = report_table_at(table, &digest);
    if (!report && table->count >= REPORTS_MAX) {
        table->full = true;
        return;
    }
    if (!report) report = report_table_new(table, &digest);
    report_note(report, found);
    report->tried = report->seen = false;
}

void report_table_keep_listed(report_table_t *table) {
    size_t kept = 0;
    table->large_bytes = 0;
    table->removed = 0;
    for (size_t i = 0; i < table->count; i++) {
        if (!table->list[i].listed || table->list[i].removed) continue;
        table->large_bytes += table->list[i].large;
        table->list[kept++] = table->list[i];
    }
    if (kept == table->count) return;
    table->count = kept;
    keymap_free(&table->index);
    for (size_t i = 0; i < kept; i++) *keymap_put(&table->index, table->list[i].digest.bytes) = (int64_t)i + 1;
}

static void report_table_drop_removed(report_table_t *table) {
    for (size_t i = 0; i < table->count; i++) table->list[i].listed = true;
    report_table_keep_listed(table);
}

void report_table_begin(report_table_t *table) {
    table->full = false;
    report_table_drop_removed(table); // a full table has room again
    for (size_t i = 0; i < table->count; i++) table->list[i].listed = false;
}

void report_table_begin_search(report_table_t *table) {
    table->full = false;
    for (size_t i = 0; i < table->count; i++) table->list[i].tried = false;
    report_table_drop_removed(table);
}

void report_table_make_room(report_table_t *table) {
    if (table->count + BACKUP_PAGE > REPORTS_MAX + REPORTS_ROOM) report_table_keep_listed(table);
}

bool report_table_found(report_table_t *table, const digest_t *digest, const report_ref_t *found) {
    worker_report_t *report = report_table_at(table, digest);
    if (!report && table->count >= REPORTS_MAX + REPORTS_ROOM) return false;
    if (!report) report = report_table_new(table, digest);
    table->removed -= report->removed;
    table->large_bytes += found->large - (report->removed ? 0 : report->large);
    report_note(report, found);
    return worker_report_is_sought(report);
}

const worker_report_t *report_table_find(const report_table_t *table, const digest_t *digest) {
    const worker_report_t *report = report_table_at(table, digest);
    return report && !report->removed ? report : NULL;
}

void report_table_tried(report_table_t *table, const worker_report_t *report) { table->list[report - table->list].tried = true; }

void report_table_note_seen(report_table_t *table, const digest_t *digest) {
    worker_report_t *report = report_table_at(table, digest);
    if (report) report->seen = true;
}

void report_table_end(report_table_t *table) {
    for (size_t i = 0; i < table->count; i++) {
        worker_report_t *report = &table->list[i];
        report->missed = report->seen ? 0 : report->missed + 1;
        report->met = report->searched = report->seen;
    }
}

bool worker_report_is_sought(const worker_report_t *report) { return !report->removed && !report->tried && !report->searched; }

bool report_table_has_sought(const report_table_t *table) {
    for (size_t i = 0; i < table->count; i++)
        if (worker_report_is_sought(&table->list[i])) return true;
    return false;
}

int64_t report_table_searched(const report_table_t *table) {
    int64_t count = 0;
    for (size_t i = 0; i < table->count; i++) count += !table->list[i].removed && !worker_report_is_sought(&table->list[i]);
    return count;
}

void report_table_end_search(report_table_t *table) {
    for (size_t i = 0; i < table->count; i++) table->list[i].searched = true;
}

bool report_table_awaits_scan(const report_table_t *table) {
    for (size_t i = 0; i < table->count; i++) {
        const worker_report_t *report = &table->list[i];
        if (!report->removed && !report->met && report->missed < ORPHAN_SCANS) return true;
    }
    return false;
}

static bool report_is_orphan(const worker_report_t *report) { return !report->removed && report->missed >= ORPHAN_SCANS; }

bool report_table_has_orphans(const report_table_t *table) {
    for (size_t i = 0; i < table->count; i++)
        if (report_is_orphan(&table->list[i])) return true;
    return false;
}

const worker_report_t *report_table_find_orphan(const report_table_t *table, const digest_t *digest) {
    const worker_report_t *report = report_table_at(table, digest);
    return report && report_is_orphan(report) ? report : NULL;
}

void report_table_remove(report_table_t *table, const worker_report_t *report) { // report_table_keep_listed frees its place
    table->large_bytes -= report->large;
    table->list[report - table->list].removed = true;
    table->removed++;
}

void report_table_free(report_table_t *table) {
    keymap_free(&table->index);
    free(table->list);
    *table = (report_table_t){0};
}
