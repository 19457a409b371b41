// The pages of one queue's scan. A request asks for the stamps of the last page and the entries of the next page. A list that is
// read in place is requested ahead, so that Redis works while the monitor judges a page. A rotation is not: it would put further
// entries above the jobs that the monitor settles.
#pragma once

#include "monitor/scan/scan.h"

// One page, with the stamps of its jobs.
typedef struct stamped_page {
    backup_page_t page;
    stamp_t stamps[BACKUP_PAGE];
    stamp_raw_t raws[BACKUP_PAGE];
    int64_t now_us; // Redis's clock, of the reply that brought the stamps
} stamped_page_t;

typedef struct pages pages_t;

pages_t *pages_new(const keyspace_t *keys); // borrows the keys; owned
void pages_free(pages_t *pages);            // NULL is fine

// Reads the state of a queue whose scan may begin. `known` is the last state, with the markers that scans have found since.
void pages_append_status(pages_t *pages, const call_t *call, const backup_status_t *known, bool arm);
outcome_t pages_read_status(pages_t *pages, const call_t *call, const backup_status_t *known, bool arm, backup_status_t *out);
// Drops the cached state of the queue's lists. Call it while no page of this queue is in memory.
void pages_forget(pages_t *pages, size_t queue);

bool pages_empty(const pages_t *pages);     // no page is in memory or requested
bool pages_in_flight(const pages_t *pages); // a request is unanswered: the connection is not free for another

// Sends the next request of the scan, unless one is in flight. Without `more` it requests stamps only.
outcome_t pages_request(pages_t *pages, const call_t *call, scan_t *scan, bool more);

// Reads the replies to the request in flight. After an error call pages_drop.
outcome_t pages_read_reply(pages_t *pages, const call_t *call, scan_t *scan);
outcome_t pages_read_all(pages_t *pages, const call_t *call, scan_t *scan);

const stamped_page_t *pages_ready(const pages_t *pages); // the oldest page, if its stamps have come; NULL = not yet
void pages_done(pages_t *pages);                         // removes the oldest page

// Drops all pages. Reads the outstanding replies and discards them. call->queue must be the queue of the pages.
void pages_drop(pages_t *pages, const call_t *call);
