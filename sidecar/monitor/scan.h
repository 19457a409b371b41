// The scans of one queue: when the next scan begins, how much it reads, and what it decides about each job. No I/O, so that
// tests reach every case.
#pragma once

#include "base/clock.h"
#include "base/condition.h"
#include "dialects/dialect.h"
#include "model/metrics.h"
#include "model/verdict.h"
#include "monitor/duplicates.h"
#include "monitor/report_table.h"
#include "monitor/workers.h"
#include "queue/report_end.h"

enum {
    SCAN_SAFETY_S = 60,         // an idle queue is read this often, because a wake-up may be lost
    SCAN_REFUSED_MS = 5000,     // pause after a refusal
    SCAN_BLOCKS_MAX = 16,       // kinds of settle that one scan can block
    SCAN_PAUSE_MIN_MS = 10,     // shortest pause between two scans
    SCAN_NEAR_PAGES = 4,        // after a page with settled jobs
    SCAN_SEARCH_ENTRIES = 1024, // at each end of the list, entries that a search reads in vain
    SCAN_FLOWS = 8,             // searches that a scan lets begin without a known report, after one that settled jobs
    SCAN_SURE_SCANS = 2,        // complete scans of this term before the monitor ends a job of a long list
};

typedef enum scan_phase {
    SCAN_WAIT,   // waits for timer.next or timer.search
    SCAN_SEARCH, // searches the ends of the list for jobs of reports; no scan
    SCAN_ROTATE, // reads the entries
    SCAN_PRUNE,  // has read all entries and prunes stamps
} scan_phase_t;

typedef struct scan_timer {
    mono_t began;         // when the last scan began
    mono_t next;          // when the next scan begins
    mono_t search;        // when the next search for jobs of reports begins; mono_never() = no report asks for one
    mono_t search_began;  // when the last search began
    mono_t earliest;      // no search begins before this
    mono_t walk;          // before this a search reads only the reports of the jobs that it meets, unless reports are few
    mono_t report_scan;   // no scan begins before this because of reports that searches have not settled
    mono_t blocked_until; // no request before this: Redis refused one
    mono_t reports_read;  // when the reports were last read
    bool changed;         // a report may have come since the scan or the search began
    bool idle;            // no job is in progress, so a change of the list begins a scan
    unsigned empty_scans; // scans in a row without a job and without a report
    unsigned short_scans; // scans in a row that the sentinel ended before half of the list
} scan_timer_t;

// The progress of the current scan.
typedef struct scan_progress {
    int64_t left; // entries that the scan may still request; of a search: entries that it may still read in vain at this end
    unsigned pages_requested;
    unsigned pages_read;
    size_t read;          // entries read without rotation, from the tail; of a search: entries of this end that are still there
    bool tail;            // the search has come to the tail
    bool ends_only;       // the search knows no reports but those of the jobs that it meets
    int64_t sought;       // reports whose jobs such a search has not met yet
    size_t found;         // reported jobs in the last page of a search
    size_t settled;       // jobs that the search has settled
    bool inside;          // the search has interrupted a scan
    int64_t requested;    // of a scan: entries requested
    int64_t searched_at;  // the same when a search last interrupted it
    int64_t searching_ns; // of a scan: the time that these searches took
    bool in_vain;         // the last of them looked for jobs, and settled none
    int flows;            // reports come: so many more searches begin although none is known
    int again;            // searches in a row that settled many: another one follows at once
    bool reports_left;    // one of them has not met the jobs of all reports
    bool read_only;       // without rotation: Redis is full, or the dialect has none
    bool saw_sentinel;
    bool ended;              // request no further entry
    bool reports_kept;       // use the reports of an earlier scan: to read them again would take Redis too long
    bool rescan;             // begin the next scan after a short pause
    int near_pages;          // pages to read one at a time, because some of their jobs will be settled
    int64_t jobs;            // jobs that the scan has read
    int64_t since;           // start time of the oldest of these jobs, in ms by Redis's clock; INT64_MAX = no job was read
    int64_t next_verdict_at; // the earliest time, in ms by Redis's clock, at which a verdict could change
    int64_t now;             // Redis's clock in its last reply, in ms
    int64_t certain_at;      // a missing heartbeat counts from this time on, in ms by Redis's clock
    uint64_t cursor;         // cursor of stamps_prune
} scan_progress_t;

typedef struct scan_page_size {
    size_t entries;    // entries of the next request
    size_t largest[2]; // bytes of the largest entry of this scan, and of the last complete one
} scan_page_size_t;

// A kind of settle that Redis refuses because of one key.
typedef struct scan_block {
    const char *ready; // ready list of the settle; borrowed from the config
    bool retries;      // true: retries are blocked; false: ends
} scan_block_t;

typedef struct scan_refusals {
    condition_t condition;
    char *first;           // owned; the first reason of the current scan; NULL = none
    scan_block_t *blocked; // owned; blocked kinds of settle in the current scan
    size_t blocked_count;  // at most SCAN_BLOCKS_MAX
} scan_refusals_t;

typedef struct scan {
    const queue_config_t *config;
    const scan_ops_t *ops; // NULL: the dialect has no scans
    metrics_queue_t *metrics;
    int64_t interval_ms;
    scan_phase_t phase;
    unsigned completed;     // complete scans of this term
    mono_t server_since;    // when this process first reached the server that the scans read
    mono_t whole_began;     // when the last complete scan began
    backup_status_t status; // state of the list, as the current or the last scan read it
    scan_timer_t timer;
    scan_progress_t progress;
    scan_progress_t *interrupted; // owned; the progress of the scan that a search has interrupted; NULL = none was interrupted
    scan_page_size_t page_size;
    duplicates_t duplicates;
    report_table_t reports;
    workers_t workers; // the worker whose heartbeat was last read for a job
    scan_refusals_t refusals;
    bool search_refused; // Redis has refused the last search: no search interrupts a scan
} scan_t;

// Whether the queue has an errors hash.
static inline bool scan_has_reports(const scan_t *scan) {
    return scan->ops && scan->ops->rotation && scan->ops->rotation->reports;
}

void scan_init(scan_t *scan, const queue_config_t *config, metrics_queue_t *metrics, int64_t scan_interval_ms);
void scan_free(scan_t *scan);

// Drops cached facts about jobs and keys, because they may be out of date after a new term or a new connection.
void scan_reset(scan_t *scan);
// Call it when the errors hash (`report`) or the backup list has changed.
void scan_changed(scan_t *scan, bool report, mono_t now);
// The safety poll: makes a scan of an idle queue due.
void scan_safety(scan_t *scan, mono_t now);

// Logs a new reason, or with NULL that the refusal has ended.
void scan_log_refusal(condition_t *refused, const char *queue, const char *reason);
// Handles a refusal that concerns the whole queue. Breaks the scan off, reports a new reason and sends no request for
// SCAN_REFUSED_MS.
void scan_refused(scan_t *scan, const char *reason, mono_t now);
// Stores a refusal that concerns one job. The scan continues, because the error of one job must not delay the others.
void scan_note_refusal(scan_t *scan, const char *reason);
// Ends a scan. Reports its first stored refusal, or that refusals have ended.
void scan_apply_refusals(scan_t *scan, mono_t now);
// Stores the kind of a settle that failed at a key of the wrong type. The scan skips other settles of the same kind.
void scan_block(scan_t *scan, bool retries, const char *ready);
bool scan_blocked(const scan_t *scan, bool retries, const char *ready);

bool scan_wants(const scan_t *scan, mono_t now); // whether a step of the scan, or a new scan, is due
mono_t scan_next(const scan_t *scan);            // when the next step or scan is due

// Whether a search that begins now reads all reports first.
bool scan_search_walks(const scan_t *scan, int64_t reports, mono_t now);

// Begins a scan, or a search if only reports ask for one. False: it has no work and is over.
bool scan_begin(scan_t *scan, const backup_status_t *status, mono_t now);

size_t scan_entries_wanted(const scan_t *scan); // entries to request next; 0 = none, or none before the next reply
size_t scan_page_bytes(const scan_t *scan);     // estimate of the bytes of the next page
bool scan_has_large(const scan_t *scan);        // entries are so large that few fit into a page
size_t scan_small_entries(const scan_t *scan);  // entries of the list that one request may return; 0 = their size is unknown
void scan_requested(scan_t *scan, size_t count);
// Applies a page of which `requested` entries were requested. A sentinel ends the scan.
void scan_read_page(scan_t *scan, const backup_page_t *page, size_t requested);
// Whether the list seems to hold copies of the sentinel, which end each scan early: jobs between them would be met too seldom to
// keep their stamps. Call it once at the end of a scan.
bool scan_meets_copies(scan_t *scan);

// Sets the end and the number of entries to read next; false = the search is over. Call scan_search_read and scan_search_found
// for each page.
bool scan_search_wanted(scan_t *scan, report_end_t *end);
void scan_search_read(scan_t *scan, const report_end_t *end, const backup_page_t *page);
// Of the page, so many jobs were sought, and so many of them are settled.
void scan_search_found(scan_t *scan, const report_end_t *end, size_t found, size_t settled);
void scan_search_end(scan_t *scan, mono_t now);

// Whether a search at the head should interrupt the scan. Without it rotation would put entries above the jobs of reports that
// come during the scan, and only a further scan would meet these jobs.
bool scan_search_interrupts(const scan_t *scan);
// Begins that search, which reads the head only. No page may be in memory. scan_search_end goes on with the scan.
void scan_interrupt(scan_t *scan, const backup_status_t *status, mono_t now);

// Counts one job; a search counts nothing. True: another entry probably has the same bytes.
bool scan_note_job(scan_t *scan, const digest_t *digest);
// Stores the start time of the job that was counted last, in ms by Redis's clock; 0 = now.
void scan_note_since(scan_t *scan, int64_t since);
void scan_note_verdict(scan_t *scan, const verdict_t *verdict);
// Whether enough scans have searched for duplicates to end a job.
bool scan_may_end(const scan_t *scan);

// Ends the reading of entries. True: prune stamps next.
bool scan_all_read(scan_t *scan);
bool scan_keeps_stamp(void *scan, const uint8_t field[KEY_BYTES], stamp_t *stamp); // stamp_keep_fn
void scan_end(scan_t *scan, mono_t now);
