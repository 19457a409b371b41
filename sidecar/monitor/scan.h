// What the monitor knows of one queue, and what follows from what a pass met. No I/O: a test can walk through every case.
#ifndef QS_MONITOR_SCAN_H
#define QS_MONITOR_SCAN_H

#include "base/clock.h"
#include "base/keyset.h"
#include "model/metrics.h"
#include "model/verdict.h"
#include "monitor/workers.h"
#include "queue/backup.h"
#include "queue/settle.h"

enum {
    SCAN_SAFETY_S = 60, // how often an idle queue is looked at without a change
    SCAN_REFUSED_MS = 5000,
    SCAN_BLOCKS_MAX = 16,
    SCAN_PAUSE_MIN_MS = 10,   // between the end of a pass and the begin of the next
    SCAN_SURE_SCANS = 2,      // complete passes of this term before a long list's jobs are ended
    SCAN_EXACT_ENTRIES = 4096 // so many entries settle looks through by itself
};

typedef enum scan_phase {
    SCAN_WAIT,   // for `next`
    SCAN_ROTATE, // a pass is under way
    SCAN_PRUNE,  // it has met every entry, and goes through the stamps
} scan_phase_t;

// A report that the errors hash holds.
typedef struct scan_add_report {
    digest_t digest; // of its job
    char sha1[SHA1_HEX_SIZE];
    bool ends;
    int missed;      // complete passes in a row that did not meet its job
    bool met;        // by the pass under way
    unsigned listed; // the pass that last found it in the hash
    bool out;        // it was taken out
} scan_report_t;

// One kind of settle.
typedef struct scan_block {
    const char *ready; // where a retry goes; borrowed from the config
    bool retries;
} scan_block_t;

typedef struct scan {
    const queue_config_t *config;
    metrics_queue_t *metrics;
    int64_t interval_ms;
    scan_phase_t phase;
    mono_t next;          // when the next pass begins; while one is under way, 0
    mono_t blocked_until; // no request before this: at fault
    mono_t earliest;      // no pass before this: a pause as long as the last one took
    bool changed;         // a report came since the pass began
    bool idle;            // nothing is in progress, and a wake-up is armed
    unsigned empty_scans; // passes in a row that met no job and no report
    unsigned passes;      // complete ones in this term
    // of the pass under way
    mono_t began;
    backup_look_t look;
    int64_t left;      // entries that it may still ask for
    unsigned asked;    // pages asked for
    unsigned met;      // pages that have come
    size_t page;       // entries to ask for at once
    size_t largest[2]; // bytes of the largest entry that this pass has met, and the last complete one
    size_t read;       // entries read from the tail, where Redis is full and refuses to rotate
    bool read_only;
    bool met_sentinel;
    bool ended;              // no further entry is wanted
    int64_t jobs;            // that it met
    int64_t since;           // since when the oldest of them is in progress, in ms by Redis's clock; INT64_MAX = it met none
    int64_t next_verdict_at; // the earliest time, in ms by Redis's clock, at which a verdict could change
    int64_t now;             // the last time that Redis told
    bool rescan;             // something is to be looked at again at once
    char *refused;           // owned; why Redis refused what was to be done about a job, while the pass goes on; NULL = nothing
    scan_block_t blocked[SCAN_BLOCKS_MAX]; // settles that a key of the wrong type stands in the way of
    size_t block_count;
    uint64_t cursor;  // of the sweep
    char logged[256]; // the fault that was said last; "" = the last pass or look met none
    // from pass to pass
    keyfilter_t seen[2]; // by this pass, and by the last complete one
    keymap_t suspects;   // digests that may be there more than once -> times met in this pass
    keymap_t suspects_next;
    keymap_t copies;            // digests that the last complete pass met more than once
    workers_t workers;          // whose heartbeat was last seen on a job, as long as passes meet that
    keymap_t reports;           // digest of the job -> index in report_list + 1
    scan_report_t *report_list; // owned
    size_t report_count;
    bool reports_full; // no more can be noted: others wait for the next pass
    size_t report_room;
} scan_t;

void scan_init(scan_t *scan, const queue_config_t *config, metrics_queue_t *metrics, int64_t scan_interval_ms);
void scan_free(scan_t *scan);

// Everything known may be wrong: a new term, a reconnect. What was learnt of copies and sightings is forgotten.
void scan_reset(scan_t *scan);
// Redis told of a change: of the errors, or of the backup list.
void scan_changed(scan_t *scan, bool report, mono_t now);
// An idle queue is looked at once in SCAN_SAFETY_S, all of them together, for what no wake-up told.
void scan_safety(scan_t *scan, mono_t now);
// Redis refuses something for good: said once for each reason, until a pass meets no fault. The queue is left alone for a while.
void scan_refused(scan_t *scan, const char *reason, mono_t now);
// At the end of a look or a pass: what was refused meanwhile is such a fault; where nothing was, that is said once, too.
void scan_log_refusals(scan_t *scan, mono_t now);

bool scan_wants(const scan_t *scan, mono_t now); // the next step of a pass, or a new one
mono_t scan_next(const scan_t *scan);

// A pass begins with what a look found. False: there is nothing to do, and the pass is over.
bool scan_begin(scan_t *scan, const backup_look_t *look, mono_t now);
// Reports, as the scan of the errors hash finds them (report_fn), and its end: what it did not find is forgotten.
void scan_add_report(void *scan, const report_ref_t *report);
void scan_reports_end(scan_t *scan);
const scan_report_t *scan_report_of(const scan_t *scan, const digest_t *digest); // NULL = none

// How many entries to ask for next; 0 = no more, or not before what is under way has come.
size_t scan_entries_wanted(const scan_t *scan);
// Bytes that they may have, as far as passes have met any.
size_t scan_page_bytes(const scan_t *scan);
// Whether such large ones are among them that few fit into a page.
bool scan_has_large(const scan_t *scan);
// Notes that they were asked for, and then what came of them. Sentinels end the pass.
void scan_requested(scan_t *scan, size_t count);
void scan_read_page(scan_t *scan, const backup_page_t *page, size_t asked);
// Notes one job; tells whether there is, as far as is known, another of the same bytes.
bool scan_note_job(scan_t *scan, const digest_t *digest);
// Since when the job that was just met is in progress, in ms by Redis's clock; 0 = since now.
void scan_note_since(scan_t *scan, int64_t since);
void scan_verdict(scan_t *scan, const verdict_t *verdict);
// A key of the wrong type was in the way of one settle: for the rest of the pass others of its kind need not be tried.
void scan_block(scan_t *scan, bool retries, const char *ready);
bool scan_blocked(const scan_t *scan, bool retries, const char *ready);
// Whether a job may be ended yet.
bool scan_may_end(const scan_t *scan);

// Every entry was met. True: stamps should be swept.
bool scan_all_read(scan_t *scan);
// Whether a stamp is still of use: stamp_keep_fn.
bool scan_keeps_stamp(void *scan, const uint8_t field[STAMP_FIELD_BYTES], const stamp_t *stamp);
// The pass is over.
void scan_end(scan_t *scan, mono_t now);
// Whether there are reports whose jobs two complete passes did not meet, and the one of this job, if it is such a stray, until it
// is dropped; borrowed.
bool scan_has_orphan_reports(const scan_t *scan);
const scan_report_t *scan_orphan_report(const scan_t *scan, const digest_t *digest);
void scan_drop_report(scan_t *scan, const scan_report_t *report);

#endif
