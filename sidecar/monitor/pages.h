// Inside of the monitor: the pages of a pass that are on their way. Redis is asked ahead, so that it has work while a page is
// judged: the stamps of the page that came last, and the entries of another one, in one request, and two of these at a time.
#ifndef QS_MONITOR_PAGES_H
#define QS_MONITOR_PAGES_H

#include "monitor/scan.h"

// One page, with what Redis holds of its jobs.
typedef struct stamped {
    backup_page_t page;
    stamp_t stamps[BACKUP_PAGE];
    stamp_raw_t raws[BACKUP_PAGE];
    int64_t now; // ms by Redis's clock, of the reply that brought the stamps
} stamped_page_t;

// Pages of one queue at a time.
typedef struct pages pages_t;

pages_t *pages_new(const keyspace_t *keys); // borrows the keys; owned
void pages_free(pages_t *pages);            // takes; NULL is fine

// A look at a queue whose pass may begin, as its dialect makes it. `known`: what the last look found, and passes since.
void pages_append_look(pages_t *pages, const call_t *call, const backup_look_t *known, bool arm);
outcome_t pages_read_look(pages_t *pages, const call_t *call, const backup_look_t *known, bool arm, backup_look_t *out);
// What is known of where the jobs of this queue are may be wrong. No page of it is in hand.
void pages_forget(pages_t *pages, size_t queue);

bool pages_empty(const pages_t *pages); // nothing is in hand, nor on its way
// Requests whose replies are awaited: until there are none nothing else may be asked on the connection.
size_t pages_in_flight(const pages_t *pages);

// Sends what comes next of the scan, as far as there is room; `more`: another page may be asked for, too.
outcome_t pages_request(pages_t *pages, const call_t *call, scan_t *scan, bool more);

// Reads the replies to the oldest request. After a fault of it the pages are of no use: pages_drop.
outcome_t pages_read_reply(pages_t *pages, const call_t *call, scan_t *scan);
// The same for all requests, so that something else can be asked.
outcome_t pages_read_all(pages_t *pages, const call_t *call, scan_t *scan);

const stamped_page_t *pages_ready(const pages_t *pages); // the oldest page, once its stamps are known; NULL = it is still to come
void pages_done(pages_t *pages);                         // with that one

// Forgets all of it. What is under way is read and thrown away.
void pages_drop(pages_t *pages, conn_t *conn);

#endif
