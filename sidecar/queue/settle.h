// Settling gives a stalled or reported job back to the workers, or ends it with a record in the failure stream. Also: the reports
// that workers leave in the errors hash.
#ifndef QS_QUEUE_SETTLE_H
#define QS_QUEUE_SETTLE_H

#include "model/event.h"
#include "queue/stamps.h"

enum { SHA1_HEX_SIZE = 41 };

typedef struct settle_ask {
    slice_t job;
    const digest_t *digest;
    const settle_where_t *where;
    stamp_raw_t old;
    stamp_raw_t new;       // len 0 = the job ends; where->forget: a retry leaves none, whatever this is
    bool from_tail;        // where the job was just seen
    int64_t depth;         // entries to look at from there; where->depth comes first
    bool alone;            // do not end it while there is another of the same bytes
    const char *heartbeat; // key that must not exist; NULL = not checked
    bool blank_is_dead;    // a heartbeat of nothing but white space is none
    const char *report;    // SHA-1 of the report it rests on; "" = there is none
    int64_t delay_ms;      // of a retry; 0 = at once
    const event_t *event;  // the record; `at` and `error` are added in Redis, and a payload, if it has one, is the job
} settle_ask_t;

typedef enum settled {
    SETTLED,
    SETTLED_UNRECORDED, // a retry; the stream is full
    SETTLED_DROPPED,    // it was done already
    SETTLED_GONE,       // the worker has finished it
    SETTLED_CHANGED,
    SETTLED_ALIVE,
    SETTLED_COPIES,
    SETTLED_FULL, // nothing is ended while the stream is full
    SETTLED_TYPE, // OUTCOME_REFUSED: the error names the key and what it holds
} settled_t;

void settle_append(const call_t *call, const settle_ask_t *ask);
outcome_t settle_read(conn_t *conn, settled_t *out, redis_error_t *error);

// One report in the errors hash. Its text stays in Redis.
typedef struct report_ref {
    slice_t job;
    const char *sha1; // of the text
    bool ends;        // the text begins with '!': do not retry
} report_ref_t;

// Progress of a walk over the reports; all 0 at the beginning.
typedef struct reports_walk {
    uint64_t cursor;
    int64_t skip;  // reports of this cursor that were passed to `found`
    int64_t count; // to ask for at once; large ones come one by one
    bool ended;
} reports_walk_t;

// Calls `found` for some reports in each call, until the walk has ended. A report lasts for the call; `found` may use the
// connection.
typedef void report_fn(void *self, const report_ref_t *report);
outcome_t reports_scan(const call_t *call, reports_walk_t *walk, report_fn *found, void *self);
// Removes one report if it is still the same text; fenced.
outcome_t report_remove(const call_t *call, slice_t job, const char *sha1, bool *removed);

#endif
