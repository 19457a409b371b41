/* The setup for tests of a scan: one queue, a clock, and calls that begin, fill and end scans. */
#pragma once

#include "dialects/registry.h"
#include "monitor/scan/scan.h"
#include "suite.h"

enum { INTERVAL = 1000, REDIS_NOW = 5000000, ROTATION = 1000 };

static queue_config_t config;
static char empty[] = "";
static metrics_queue_t metrics;
static scan_t scan;
static int64_t now_ms;

static inline mono_t now(void) { return (mono_t){(1000000 + now_ms) * NS_PER_MS}; }
static inline int64_t next_ms(void) { return mono_diff(scan_next(&scan), now()) / NS_PER_MS; }

static inline void begin(void) {
    config = (queue_config_t){.name = "email", .dialect = dialect_list.settings, .backup = "email:backup"};
    config.policy.protected_timeout_ms = 10000;
    config.policy.created_path = empty;
    config.policy.retry.window_ms = 60000;
    metrics = (metrics_queue_t){0};
    now_ms = 0;
    scan_init(&scan, &config, &metrics, INTERVAL, ROTATION);
}

static inline void end(void) { scan_free(&scan); }

static inline digest_t job(int number) { return digest_of(&number, sizeof number); }

static inline backup_status_t status_of(int64_t entries) {
    return (backup_status_t){.entries = entries, .now = REDIS_NOW + now_ms, .armed = true};
}

/* As the monitor does. */
static inline bool begin_with(const backup_status_t *found) {
    bool search = scan_search_due(&scan, now());
    scan_take_status(&scan, found, now());
    return search ? scan_search_begin(&scan, now()) : scan_begin(&scan, now());
}

/* Breaks off the scan in progress, if there is one. */
static inline bool begin_scan(int64_t entries, int64_t stamps, int64_t reports, bool alone) {
    if (scan.state != SCAN_WAIT) scan_enter(&scan, SCAN_WAIT);
    backup_status_t found = status_of(entries);
    found.stamps = stamps;
    found.reports = reports;
    found.marker_alone = alone;
    return begin_with(&found);
}

static inline bool begin_scan_unarmed(void) {
    backup_status_t found = status_of(0);
    found.armed = false;
    return begin_with(&found);
}

/* Adds a page with `jobs` jobs and a sentinel at index `sentinel` (-1 = no sentinel). */
static inline void add_page(size_t jobs, int sentinel, size_t bytes) {
    static backup_page_t p;
    p = (backup_page_t){.count = jobs + (sentinel >= 0), .jobs = jobs, .bytes = bytes};
    for (size_t i = 0; i < p.count; i++) p.entries[i].kind = (int)i == sentinel ? ENTRY_MARKER : ENTRY_JOB;
    scan_requested(&scan, p.count);
    scan_read_page(&scan, &p, p.count, 0);
}

/* Runs a whole scan over these jobs. The scan takes 1 ms. */
static inline void scan_jobs(const int *jobs, size_t count) {
    cr_assert(begin_scan((int64_t)count + 1, 0, 0, false));
    for (size_t i = 0; i < count; i++) {
        digest_t digest = job(jobs[i]);
        scan_note_job(&scan, &(entry_t){.digest = digest});
    }
    now_ms++;
    scan.clock.now = REDIS_NOW + now_ms;
    scan_all_read(&scan);
    scan_end(&scan, now());
}
#define SCAN_JOBS(...) scan_jobs((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

enum { LONG = 100000, ALL = -1 };

/* Reads a page of `jobs` reported jobs, of which `settled` are settled; false = the search is over. */
static inline bool search_page(report_end_t *end, size_t jobs, int settled, size_t bytes, bool ended) {
    static backup_page_t p;
    if (!scan_search_wanted(&scan, end)) return false;
    cr_assert(end->count > 0 && end->count <= BACKUP_PAGE);
    p = (backup_page_t){.count = jobs, .jobs = jobs, .in_place = true, .ended = ended};
    end->read = end->count;
    end->bytes = end->count * bytes;
    scan_search_read(&scan, end, &p);
    scan_search_found(&scan, end, jobs, settled == ALL ? end->count : (size_t)settled);
    return true;
}

/* Reads both ends in vain. */
static inline void search_in_vain(size_t bytes, size_t read[2]) {
    report_end_t end;
    read[0] = read[1] = 0;
    while (search_page(&end, 0, 0, bytes, false)) {
        cr_assert_eq(end.skip, read[end.tail], "each page begins behind the last one");
        read[end.tail] += end.count;
    }
}

/* The report of a job in a page. */
static inline bool meet(int number) {
    static char id[] = "0123456789012345678901234567890123456789";
    digest_t digest = job(number);
    return report_table_found(&scan.reports, &digest, &(report_ref_t){.id = id});
}

/* A report that a search has read. */
static inline void list_report(int number) {
    static char id[] = "0123456789012345678901234567890123456789";
    report_table_add(&scan.reports, &(report_ref_t){.job = {(const char *)&number, sizeof number}, .id = id});
}
