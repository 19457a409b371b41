// The reports of one queue, by the digest of the job. Texts and jobs stay in Redis. No I/O.
#pragma once

#include "base/keyset.h"
#include "queue/settle.h"

enum {
    REPORTS_MAX = 10000, // of one read of the hash; a search finds jobs of further reports at the ends of the list
    REPORTS_ROOM = 4096, // further reports in the table, which searches have found
};

// One entry of the errors hash.
typedef struct worker_report {
    digest_t digest;         // digest of the job
    char id[REPORT_ID_SIZE]; // of the text
    int64_t large;           // bytes of a large text; 0 = the text is small
    bool ends;               // do not retry
    bool tried;              // a settle has used the report since the hash was read
    int missed;              // complete scans in a row that did not meet the job
    bool seen;               // the scan in progress has read the job
    bool met;                // the last complete scan has read the job
    bool searched;           // a search has not settled the job: a scan will
    bool listed;             // the scan in progress found the report in the hash
    bool removed;            // the monitor has removed the report from the hash
} worker_report_t;

// Begin with {0}.
typedef struct report_table {
    keymap_t index;        // digest of the job -> position in list + 1
    worker_report_t *list; // owned
    size_t count;
    size_t removed;      // reports in list that are removed
    int64_t large_bytes; // bytes of all large texts in the hash
    bool full;           // a report found no room: the table has REPORTS_MAX
} report_table_t;

// A scan or a search reads the hash in three calls: begin, add for each report (report_fn), report_table_keep_listed to drop the
// other reports.
void report_table_begin(report_table_t *table);
void report_table_add(void *table, const report_ref_t *report);
void report_table_keep_listed(report_table_t *table);

// A search that does not read the hash keeps the reports of earlier searches. It adds each report that it meets.
void report_table_begin_search(report_table_t *table);
void report_table_make_room(report_table_t *table); // for one page; call it while no pointer to a report is in use
// False: the search cannot settle the job.
bool report_table_found(report_table_t *table, const digest_t *digest, const report_ref_t *report);

const worker_report_t *report_table_find(const report_table_t *table, const digest_t *digest); // NULL = no report
// Records the use of a report by a settle.
void report_table_tried(report_table_t *table, const worker_report_t *report);
void report_table_note_seen(report_table_t *table, const digest_t *digest); // records that the report's job is in progress
void report_table_end(report_table_t *table);                               // the scan is complete

// Whether a search may find the job of this report, or of some report.
bool worker_report_is_sought(const worker_report_t *report);
bool report_table_has_sought(const report_table_t *table);
int64_t report_table_searched(const report_table_t *table); // reports whose jobs no search will settle
void report_table_end_search(report_table_t *table);        // no later search looks for these jobs until a scan was complete
// Whether some report waits for a scan: no complete scan has met its job, and another scan may.
bool report_table_awaits_scan(const report_table_t *table);

// An orphan is a report whose job two complete scans in a row did not meet.
bool report_table_has_orphans(const report_table_t *table);
const worker_report_t *report_table_find_orphan(const report_table_t *table, const digest_t *digest); // NULL = no orphan report
void report_table_remove(report_table_t *table, const worker_report_t *report); // the report is no longer in the hash

void report_table_free(report_table_t *table); // leaves the table empty, ready for use
