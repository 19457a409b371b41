// Queries of the audit log, for the command line. Rows come one by one; they borrow until the callback returns.
#ifndef QS_AUDIT_QUERY_QUERY_H
#define QS_AUDIT_QUERY_QUERY_H

#include "audit/audit.h"
#include "audit/query/filter.h"

typedef struct audit_row {
    event_t event;
    slice_t ref;
    slice_t state;       // of a failed event: failed, requeued or discarded; of a gap: open or filled; else empty
    int64_t answered_at; // by the last answer to it; 0 = there is none
    slice_t answered_by;
    slice_t answer_reason;
    int64_t seq; // the order of arrival in this log
    bool error_is_text, payload_is_text;
} audit_row_t;

// Takes one row. False ends the query, which succeeds.
typedef bool audit_row_fn(void *self, const audit_row_t *row);

// Events, newest first.
bool audit_list(audit_t *audit, const audit_filter_t *filter, audit_row_fn *take, void *self, buffer_t *why);

// Events of any kind whose ref begins with `prefix`, in the order of their refs, at most `limit`.
bool audit_find_ref(audit_t *audit, const char *prefix, int64_t limit, audit_row_fn *take, void *self, buffer_t *why);

// One final failure without its texts.
typedef struct audit_match {
    int64_t seq;
    int64_t at;
    slice_t queue;
    slice_t state;
} audit_match_t;
typedef bool audit_match_fn(void *self, const audit_match_t *match);

// The same failures as audit_list, oldest first. Read in pages: no reader keeps the log from being checkpointed.
bool audit_select(audit_t *audit, const audit_filter_t *filter, audit_match_fn *take, void *self, buffer_t *why);

// The events of these seqs, 1 to 1000 of them, that are still there, lowest first.
bool audit_rows(audit_t *audit, const int64_t *seqs, size_t count, audit_row_fn *take, void *self, buffer_t *why);

// All events of one job of a queue, oldest first.
bool audit_history(audit_t *audit, slice_t queue, slice_t job, audit_row_fn *take, void *self, buffer_t *why);

// The lowest and the highest seq above `after`; *first 0 and *last = after when there is none.
bool audit_bounds(audit_t *audit, int64_t after, int64_t *first, int64_t *last, buffer_t *why);
// Number of commits to this log. Fewer than before: an older copy is in its place.
bool audit_commits(audit_t *audit, int64_t *commits, buffer_t *why);
// Events of all kinds with first <= seq <= last, in the order of arrival.
bool audit_range(audit_t *audit, int64_t first, int64_t last, audit_row_fn *take, void *self, buffer_t *why);
// The next events above *after in the order of arrival: one read transaction over at most 1,000 rows. *after moves behind the
// rows that were read, so that the next call goes on; behind the row for which `take` said false. *more: there may be others.
bool audit_page(audit_t *audit, const audit_filter_t *filter, int64_t *after, audit_row_fn *take, void *self, bool *more,
                buffer_t *why);
// *after: the last `count` events of the filter are above it, or all where there are fewer.
bool audit_find_last(audit_t *audit, const audit_filter_t *filter, int64_t count, int64_t *after, buffer_t *why);

typedef struct audit_count {
    int64_t hour_ms; // its beginning
    slice_t queue;
    slice_t reason;
    int64_t failures;
    int64_t requeued, discarded; // of these
    int64_t first_ms, last_ms;
} audit_count_t;
typedef bool audit_count_fn(void *self, const audit_count_t *count);

// Final failures by hour, queue and reason, newest hour first; limit counts rows.
bool audit_stats(audit_t *audit, const audit_filter_t *filter, audit_count_fn *take, void *self, buffer_t *why);

// Final failures and retries at or after since_ms, counted by queue, kind and reason.
typedef void audit_recent_fn(void *self, slice_t queue, slice_t kind, slice_t reason, int64_t count);
bool audit_recent(audit_t *audit, int64_t since_ms, audit_recent_fn *take, void *self, buffer_t *why);

// Whether retention has removed rows of since_ms or later: audit_recent counts too few then.
bool audit_has_removed_since(audit_t *audit, int64_t since_ms, bool *has, buffer_t *why);

// Number of open gaps.
bool audit_open_gaps(audit_t *audit, int64_t *count, buffer_t *why);

// Names of the queues with final failures in the log, sorted.
typedef bool audit_name_fn(void *self, const char *name);
bool audit_queues(audit_t *audit, audit_name_fn *take, void *self, buffer_t *why);

#endif
