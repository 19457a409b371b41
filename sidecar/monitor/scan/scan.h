// The scans of one queue: when the next scan begins, how much it reads, and what it decides about each job. No I/O, so that
// tests reach every case.
#pragma once

#include "base/clock.h"
#include "base/condition.h"
#include "dialects/dialect.h"
#include "model/anomaly.h"
#include "model/metrics.h"
#include "model/verdict.h"
#include "monitor/scan/duplicates.h"
#include "monitor/scan/place.h"
#include "monitor/scan/report_table.h"
#include "monitor/scan/workers.h"
#include "queue/report_end.h"

enum {
    SCAN_SAFETY_S = 60,               // an idle queue is read this often, because a wake-up may be lost
    SCAN_REFUSED_MS = 5000,           // pause after a refusal
    SCAN_BLOCKS_MAX = 16,             // kinds of settle that one scan can block
    SCAN_PAUSE_MIN_MS = 10,           // shortest pause between two scans
    SCAN_SEARCH_ENTRIES = 1024,       // at each end of the list, entries that a search reads in vain
    SCAN_SURE_SCANS = 2,              // complete scans of this term before a job of more than SETTLE_EXACT_ENTRIES may end
    SCAN_LARGE_BYTES_PER_S = 4 << 20, // large jobs are read at this rate on average: scans of them are farther apart
};

// The state of a queue. scan_enter (scan.c) makes every change, and asserts that it is one of these:
//
//   WAIT -> READ     a scan is due
//   WAIT -> SEARCH   a report came
//   READ -> PRUNE    there is no further entry to read
//   SEARCH, PRUNE -> WAIT   it is done
//   READ, SEARCH, PRUNE -> WAIT   it was broken off
typedef enum scan_state {
    SCAN_WAIT,   // waits for timer.next or timer.search
    SCAN_READ,   // reads all jobs in progress
    SCAN_SEARCH, // looks for the jobs of reports at the ends of the list
    SCAN_PRUNE,  // removes stamps without a job
} scan_state_t;

typedef struct scan_timer {
    mono_t began;         // when the last scan began
    mono_t next;          // when the next scan begins
    mono_t search;        // when the next search begins; mono_never() = no report asks for one
    mono_t earliest;      // no search begins before this
    mono_t read_all_from; // until then a search reads all reports only if they are few
    mono_t report_scan;   // before this, unsettled reports begin no scan
    mono_t blocked_until; // no request before this: Redis refused one
    mono_t reports_read;  // when the reports were last read
    bool changed;         // a report may have come since the scan or the search began
    bool rescan;          // begin the next scan or search after a short pause
    bool idle;            // no job is in progress, so a change of the list begins a scan
    unsigned empty_scans; // scans in a row without a job and without a report
    unsigned short_scans; // scans in a row that the marker ended before half of the list
} scan_timer_t;

// Redis's clock, in ms.
typedef struct scan_clock {
    int64_t now;             // in the last reply
    int64_t certain_at;      // a missing heartbeat counts from this time on
    int64_t next_verdict_at; // the earliest time at which a verdict of the last scan could change; 0 = no scan yet
} scan_clock_t;

// A scan: SCAN_READ and SCAN_PRUNE.
typedef struct scan_pass {
    bool in_place;     // without rotation: the list is long, Redis is full, or the dialect has no rotation
    bool reports_kept; // uses the reports of an earlier scan: to read them again would take Redis too long
    bool saw_marker;
    bool ended;                 // request no further entry
    bool incomplete;            // it may have missed jobs, because the list moved too far
    int64_t left;               // entries that the scan may still request
    unsigned asked;             // pages requested
    unsigned answered;          // pages read
    int64_t jobs;               // jobs that were read
    int64_t bytes;              // bytes of the entries that were read
    int64_t large_bytes;        // bytes of those that are large
    int64_t oversized;          // entries above max_payload
    int64_t endless_heartbeats; // jobs whose heartbeat has no TTL
    int64_t undated;            // jobs that scan_dates_t counts too
    int64_t since;              // start time of the oldest of these jobs, in ms by Redis's clock; INT64_MAX = no job was read
    place_t place;              // in place, of a backup list
    uint64_t cursor;            // of stamps_prune
} scan_pass_t;

// A search: SCAN_SEARCH.
typedef struct scan_search {
    mono_t began;
    bool knows_all; // it has read all reports; otherwise it knows those of the jobs that it meets
    bool tail;      // it has come to the tail
    bool ended;     // the list has no further entry
    unsigned pages; // pages read
    int64_t budget; // entries that it may still read in vain at this end
    size_t place;   // entries that it has read at this end and that are still there
    int64_t sought; // unless it knows_all: reports whose jobs it has not met yet
    size_t found;   // reported jobs in the last page
    size_t settled; // jobs that it has settled
} scan_search_t;

// Jobs of which created_path has told the time, or not: those of this term; of older ones less and less.
typedef struct scan_dates {
    int64_t dated, undated;
} scan_dates_t;

typedef struct scan_page_size {
    size_t entries;    // entries of the next request
    size_t largest[2]; // bytes of the largest entry of this scan, and of the last one; 0 = unknown
    int64_t average;   // bytes of an entry in the last scan
} scan_page_size_t;

// A kind of settle that Redis refuses because of one key.
typedef struct scan_block {
    const char *ready; // ready list of the settle; borrowed from the config
    bool retries;      // true: retries are blocked; false: ends
} scan_block_t;

typedef struct scan_refusals {
    condition_t condition;
    redis_error_t *first;  // owned; the first reason of the current scan; NULL = none
    scan_block_t *blocked; // owned; blocked kinds of settle in the current scan
    size_t blocked_count;  // at most SCAN_BLOCKS_MAX
} scan_refusals_t;

typedef struct scan {
    const queue_config_t *config;
    const scan_ops_t *ops; // NULL: the dialect has no scans
    metrics_queue_t *metrics;
    int64_t interval_ms;
    int64_t rotation; // a longer list is read in place
    bool is_long;     // the list was longer, and since then has had at least half of that
    scan_state_t state;
    union {
        scan_pass_t pass;     // of SCAN_READ and SCAN_PRUNE; see scan_pass
        scan_search_t search; // of SCAN_SEARCH; see scan_search
    } of;
    unsigned completed;     // complete scans of this term
    mono_t server_since;    // when this process first reached the server that the scans read
    mono_t whole_began;     // when the last complete scan began
    backup_status_t status; // state of the list, as the current or the last scan read it
    scan_timer_t timer;
    scan_clock_t clock;
    scan_page_size_t page_size;
    scan_dates_t dates;
    duplicates_t duplicates;
    report_table_t reports;
    workers_t workers; // the worker whose heartbeat was last read for a job
    scan_refusals_t refusals;
} scan_t;

// The current scan or search. Asserts that there is one.
static inline scan_pass_t *scan_pass(scan_t *scan) {
    assert(scan->state == SCAN_READ || scan->state == SCAN_PRUNE);
    return &scan->of.pass;
}
static inline scan_search_t *scan_search(scan_t *scan) {
    assert(scan->state == SCAN_SEARCH);
    return &scan->of.search;
}
// Whether the scan reads a backup list in place, so that its settles must know where the jobs of a page are.
static inline bool scan_has_place(const scan_t *scan) {
    return scan->state == SCAN_READ && scan->of.pass.in_place && scan->ops->rotation;
}

// Whether the queue has an errors hash.
static inline bool scan_has_reports(const scan_t *scan) {
    return scan->ops && scan->ops->rotation && scan->ops->rotation->reports;
}

// Without rotation a scan of all jobs finds the jobs of reports.
static inline bool scan_scans_for_reports(const scan_t *scan) { return scan->ops && scan->ops->reports; }

// `rotation`: a longer list is read in place.
void scan_init(scan_t *scan, const queue_config_t *config, metrics_queue_t *metrics, int64_t scan_interval_ms, int64_t rotation);
void scan_free(scan_t *scan);

// Drops cached facts about jobs and keys, because they may be out of date after a new term or a new connection.
void scan_reset(scan_t *scan);
// The only way from one state to another. The new state's members in scan->of are 0.
void scan_enter(scan_t *scan, scan_state_t state);
// Ends a scan whose pages are lost. Another one begins at once.
void scan_abandon(scan_t *scan);
// Call it when the errors hash (`report`) or the backup list has changed.
void scan_changed(scan_t *scan, bool report, mono_t now);
// The safety poll: makes a scan of an idle queue due.
void scan_safety(scan_t *scan, mono_t now);

// Logs a new reason, or with NULL that the refusal has ended.
void scan_log_refusal(condition_t *refused, const char *queue, const redis_error_t *error);
// Handles a refusal that concerns the whole queue. Breaks the scan off, reports a new reason and sends no request for
// SCAN_REFUSED_MS.
void scan_refused(scan_t *scan, const redis_error_t *error, mono_t now);
// Stores a refusal that concerns one job. The scan continues, because the error of one job must not delay the others.
void scan_note_refusal(scan_t *scan, const redis_error_t *error);
// Ends a scan. Reports its first stored refusal, or that refusals have ended.
void scan_apply_refusals(scan_t *scan, mono_t now);
// Stores the kind of a settle that failed at a key of the wrong type. The scan skips other settles of the same kind.
void scan_block(scan_t *scan, bool retries, const char *ready);
bool scan_blocked(const scan_t *scan, bool retries, const char *ready);

bool scan_wants(const scan_t *scan, mono_t now); // whether a step of the scan, or a new scan, is due
mono_t scan_next(const scan_t *scan);            // when the next step or scan is due

// Stores a new state of the list. Then scan_begin or scan_search_begin follows.
void scan_take_status(scan_t *scan, const backup_status_t *status, mono_t now);
// Begins a scan. False: it has no work and is over.
bool scan_begin(scan_t *scan, mono_t now);
bool scan_is_empty(const scan_t *scan);      // the list had no job when its state was read, and no report is there
mono_t scan_reports_due(const scan_t *scan); // when the reports may be read again

size_t scan_entries_wanted(const scan_t *scan); // entries to request next; 0 = none, or none before the next reply
size_t scan_page_bytes(const scan_t *scan);     // estimate of the bytes of the next page
bool scan_has_large(const scan_t *scan);        // entries are so large that few fit into a page
size_t scan_page_step(const scan_t *scan);      // see backup_range_append
size_t scan_small_entries(const scan_t *scan);  // entries of the list that one request may return; 0 = their size is unknown
size_t scan_page_small_entries(const backup_page_t *page); // entries like those of the page that one request may return
void scan_requested(scan_t *scan, size_t count);
// Applies a page. `requested`: how many new entries were asked for. A marker ends the scan. In place, the page was read behind
// `skip` entries, and entries that were met before are removed from it.
void scan_read_page(scan_t *scan, backup_page_t *page, size_t requested, size_t skip);
// Counts scans that ended early. True: the list seems to hold repeats of the marker, and jobs between them would be met too
// seldom to keep their stamps. Call it once at the end of a scan.
bool scan_note_repeats(scan_t *scan);

// A search: search.c.
bool scan_search_due(const scan_t *scan, mono_t now); // whether a search begins in place of a scan: only reports ask for one
bool scan_search_begin(scan_t *scan, mono_t now);     // false: it has no work and is over
// Whether a search that begins now reads all reports first.
bool scan_search_reads_all(const scan_t *scan, int64_t reports, mono_t now);
// Sets the end and the number of entries to read next; false = the search is over. Call scan_search_read and scan_search_found
// for each page.
bool scan_search_wanted(scan_t *scan, report_end_t *end);
void scan_search_read(scan_t *scan, const report_end_t *end, const backup_page_t *page);
// Of the page, so many jobs were sought, and so many of them are settled.
void scan_search_found(scan_t *scan, const report_end_t *end, size_t found, size_t settled);
void scan_search_end(scan_t *scan, mono_t now);

// Counts one job; a search counts nothing. True: another entry probably has the same bytes.
bool scan_note_job(scan_t *scan, const entry_t *entry);
// Stores the start time of the job that was counted last, in ms by Redis's clock; 0 = now.
void scan_note_since(scan_t *scan, int64_t since);
void scan_note_date(scan_t *scan, bool undated);
void scan_note_verdict(scan_t *scan, const verdict_t *verdict);
// Whether enough scans have searched for duplicates to end a job.
bool scan_may_end(const scan_t *scan);

// Enters SCAN_PRUNE. True: there may be stamps to remove; false: call scan_end at once.
bool scan_all_read(scan_t *scan);
bool scan_keeps_stamp(void *scan, const uint8_t field[KEY_BYTES], stamp_t *stamp); // stamp_keep_fn
void scan_end(scan_t *scan, mono_t now);
