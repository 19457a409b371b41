// Finds reported jobs at an end of the backup list, where they are. Their texts stay in Redis.
#pragma once

#include "queue/settle.h"

typedef struct report_end {
    bool tail;
    size_t skip;  // entries of this end to skip
    size_t count; // most entries to read, 1 to BACKUP_PAGE
    bool large;   // jobs or texts are large: read few in one step
    // The reply.
    size_t read;                       // entries that were read
    size_t bytes;                      // of these entries
    size_t largest;                    // bytes of the largest of them
    report_ref_t reports[BACKUP_PAGE]; // the report of each entry of the page
} report_end_t;

// Fills a cleared page with the reported jobs among these entries, from the tail to the head. The page owns what `end` refers to.
outcome_t report_end_read(const call_t *call, const backup_status_t *status, report_end_t *end, backup_page_t *page);
