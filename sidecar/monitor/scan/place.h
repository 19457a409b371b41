// The place of a scan in a list that it reads from the tail, page by page, while workers push jobs and remove them. A removed job
// moves all jobs above it one place to the tail, so each page begins with the last entries of the page before it: they show
// how far the list has moved. No I/O.
#pragma once

#include "queue/backup.h"

enum { PLACE_KNOWN = 32 }; // entries that the next page reads again; more may move between two pages, see place_read

// Begin with {0}.
typedef struct place {
    size_t next;                 // entries between the tail and the first entry that the scan has not met
    size_t back;                 // further entries to read again: no known entry was found
    size_t removed;              // jobs that the scan has settled; all were below `next`
    size_t count;                // of `known`
    uint32_t known[PLACE_KNOWN]; // the last entries before `next`, the last one at the end; see place_settled for 0
} place_t;

// The part of the list to request for `wanted` entries (1 to BACKUP_PAGE) that the scan has not met. The caller sets `step`.
backup_range_t place_request(const place_t *place, size_t wanted);
typedef enum place_found {
    PLACE_FOUND,
    PLACE_LOST,  // more has moved than the page overlaps: the page is empty now, and the next request begins nearer to the tail
    PLACE_MOVED, // the same, but the scan goes on: the page may lack some jobs
    PLACE_AGAIN, // no known entry is left up to the tail: the scan begins again with this page
} place_found_t;

// Removes from the page the entries that the scan has met before, and stores where the others are. `skip`: of the request.
// `goes_back`: entries are so small that a way back costs little.
place_found_t place_read(place_t *place, backup_page_t *page, size_t skip, bool goes_back);
// The distance of an entry of the page from the tail, as far as the scan knows.
size_t place_of(const place_t *place, const backup_page_t *page, const entry_t *entry);
// The scan has removed this job. `replaced`: another job, which the scan has met, stands in its place.
void place_settled(place_t *place, const digest_t *digest, bool replaced);
