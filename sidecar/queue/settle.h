// A settle gives a stalled or reported job back to the workers, or ends the job with a record in the failure stream. This file
// also reads the reports that workers write into the errors hash.
#pragma once

#include "model/event.h"
#include "queue/stamps.h"

enum {
    REPORT_ID_SIZE = 56,        // id of a report's text; see report_ids.lua
    SETTLE_JOBS = 256,          // most jobs of one request
    SETTLE_BYTES = 1 << 20,     // a request holds jobs of at most this many bytes, and one more job
    SETTLE_EXACT_ENTRIES = 256, // settle.lua finds each duplicate in lists up to this length
};

// The keys and options of one settled job; see settle.lua. All borrowed; NULL = none.
typedef struct settle_where {
    const char *from;    // list
    const char *ready;   // list
    bool takes_left;     // workers take from the left end of ready, so a retry goes there
    const char *delayed; // zset; only where the queue has a backoff
    const char *errors;  // hash of reports
    slice_t again;       // bytes to push at a retry; len 0 = the job's own
    int64_t depth;       // number of entries to search; 0 = settle_ask.depth
    bool forget;         // a retry leaves no stamp, because the same bytes never come back
    const char *mark;    // set from which the settle removes mark_id when the job ends
    slice_t mark_id;
    const char *done; // set of ids of finished jobs; if it holds done_id, the job is dropped without a record
    slice_t done_id;
    // Zset of the SHA-1 of each job that the settle pushes to dlq, so that no scan of dlq records the job again.
    const char *recorded;
    const pending_entry_t *pending; // the entry in the server's own note; NULL = none
} settle_where_t;

typedef struct settle_ask {
    slice_t job;
    const digest_t *digest;
    const settle_where_t *where;
    stamp_raw_t old; // stamp that the verdict rests on
    stamp_raw_t new; // len 0 = the job ends; with where->forget, a retry leaves no stamp
    bool from_tail;  // where to look for the job: at the tail, or else at the head
    bool in_place;   // the job is behind `skip` entries of the tail and among `near`, or gone
    int64_t depth;   // number of entries to search from that end; where->depth overrides it
    int64_t alone;   // an ended job must be the only one of its bytes among so many entries at that end, or, in place, at the
                     // other end; 0 = no check
    int64_t skip;    // in place, see there; otherwise 0
    int64_t near;    // the job is probably among so many entries at that end
    int64_t small;   // so many entries of the list are small enough to be read at once; 0 = unknown
    const char *heartbeat; // key that must not exist; NULL = not checked
    bool blank_is_dead;    // a heartbeat of white space counts as missing
    const char *report;    // id of the report that caused the verdict; "" = no report
    int64_t delay_ms;      // delay of a retry; 0 = at once
    const event_t *event;  // the record; the script adds `at` and `error`; a payload, if any, is the job
} settle_ask_t;

typedef enum settled {
    SETTLED,
    SETTLED_UNRECORDED, // the job was retried; the full stream took no record
    SETTLED_DROPPED,    // `done` held the job's id; the job was dropped
    SETTLED_GONE,       // the worker has finished the job
    SETTLED_CHANGED,    // the stamp or the report has changed since the scan read it
    SETTLED_ALIVE,      // the heartbeat exists
    SETTLED_DUPLICATES, // the list holds another job of equal bytes, so the job was not ended
    SETTLED_FULL,       // the stream is full, so the job was not ended
    SETTLED_TYPE,       // OUTCOME_REFUSED: the error names the key and its type
    SETTLED_REFUSED,    // another error
} settled_t;

// Appends one request for 1 to SETTLE_JOBS jobs of one page, the nearest to the end of its list first; fenced. All jobs have the
// same `in_place`, `delayed`, `errors`, `done`, `recorded`, and `blank_is_dead`.
void settle_append(const call_t *call, const settle_ask_t *const *asks, size_t count);

typedef struct settle_reply {
    int64_t took_us; // time of Redis; 0 = the script refused all jobs, or cannot tell
    size_t replaced; // of the removed jobs, entries of the tail have taken the places of the first ones, so many
} settle_reply_t;

// Reads the reply to settle_append. out[i] tells what became of asks[i]. *call->error keeps the worst error of all jobs. False:
// there are no answers.
bool settle_read_answers(const call_t *call, size_t count, settled_t *out, settle_reply_t *reply);

// Reads the next of several replies of a dialect's own script for one job. False: an error. *call->error keeps the worst error of
// all replies. After the connection is lost, each further call returns false.
bool settle_read(const call_t *call, settled_t *out);

// One report in the errors hash. Its text stays in Redis.
typedef struct report_ref {
    slice_t job;
    const char *id; // of the text
    bool ends;      // the text begins with '!': do not retry
    int64_t large;  // bytes of a text above 64 KiB; 0 = the text is smaller
} report_ref_t;

// Reads the three elements of one report in the replies of reports.lua and list_end.lua. The result borrows them.
report_ref_t report_ref_of(struct redisReply *const *elements);

// Progress of a walk through the reports. All members are 0 at the beginning.
typedef struct reports_walk {
    uint64_t cursor;
    int64_t skip;  // reports of this cursor that were passed to `found`
    int64_t count; // reports of the next request, 1 while jobs are large; 0 = the usual number
    bool ended;
} reports_walk_t;

// Calls `found` for some reports. Call reports_scan again until walk->ended. A report is valid during the call of `found`, which
// may use the connection.
typedef void report_fn(void *self, const report_ref_t *report);
outcome_t reports_scan(const call_t *call, reports_walk_t *walk, report_fn *found, void *self);
enum { REPORT_HEAD = 200 };
typedef struct report_removed {
    bool removed;           // false: the text has changed, so it is still there
    int64_t bytes;          // of the text
    size_t len;             // of `head`
    char head[REPORT_HEAD]; // the beginning of the text
} report_removed_t;

// Removes one report if its text is unchanged; fenced.
outcome_t report_remove(const call_t *call, slice_t job, const char *id, report_removed_t *out);
