// The pages of one queue's scan. Requests are sent ahead, so that Redis works while a page is judged: each asks for the stamps of
// the last page and the entries of the next one.
#ifndef QS_MONITOR_PAGES_H
#define QS_MONITOR_PAGES_H

#include "monitor/scan.h"

// One page, with the stamps of its jobs.
typedef struct stamped {
    backup_page_t page;
    stamp_t stamps[BACKUP_PAGE];
    stamp_raw_t raws[BACKUP_PAGE];
    int64_t now; // ms by Redis's clock, of the reply that brought the stamps
} stamped_page_t;

typedef struct pages pages_t;

pages_t *pages_new(const keyspace_t *keys); // borrows the keys; owned
void pages_free(pages_t *pages);            // takes; NULL is fine

// Looks at a queue whose scan may begin. `known` is the last look, with what scans have learnt since.
void pages_append_look(pages_t *pages, const call_t *call, const backup_look_t *known, bool arm);
outcome_t pages_read_look(pages_t *pages, const call_t *call, const backup_look_t *known, bool arm, backup_look_t *out);
// Knowledge of the queue's lists may be wrong. Call it while no page of this queue is held.
void pages_forget(pages_t *pages, size_t queue);

bool pages_empty(const pages_t *pages); // no page is held or requested
// Until it is 0 nothing else may be requested on the connection.
size_t pages_in_flight(const pages_t *pages);

// Sends the next requests of the scan, as far as there is room; without `more` only those for stamps.
outcome_t pages_request(pages_t *pages, const call_t *call, scan_t *scan, bool more);

// Reads the replies to the oldest request. After an error call pages_drop.
outcome_t pages_read_reply(pages_t *pages, const call_t *call, scan_t *scan);
outcome_t pages_read_all(pages_t *pages, const call_t *call, scan_t *scan);

const stamped_page_t *pages_ready(const pages_t *pages); // the oldest page, if its stamps have come; NULL = not yet
void pages_done(pages_t *pages);                         // removes it

// Drops all pages. Reads awaited replies and throws them away.
void pages_drop(pages_t *pages, conn_t *conn);

#endif
