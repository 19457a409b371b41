// Queries of the audit log. Rows come one by one. A row is valid until the callback returns.
#pragma once

#include "audit/audit.h"
#include "audit/query/filter.h"
#include "audit/query/row.h"

// Rows have from now on the first `bytes` bytes of a payload, and the log's reader no more of it in memory. 0 = all.
void audit_set_head(audit_t *audit, int bytes);

// A place in the order of audit_search. {0} is before the newest event.
typedef struct audit_place {
    int64_t at, seq; // of the last event that the search looked at, whether it matched or not
    bool more;       // events behind it may match
} audit_place_t;

// Reads events, newest first: by `at`, then queue and reason, all descending, then seq; those of one job by `at`, then seq. Or
// all of this ascending (filter->oldest_first). Ends after filter->limit rows, when
// `take` returns false, or after slice_us (0 = no such end) and the row under way; a later call goes on behind *place, which says
// how far the search has looked. The place holds no lock and no snapshot: newer events and retention may change the log
// meanwhile. One call is one read transaction. Of two instances' logs, only that of the place has its seq.
bool audit_search(audit_t *audit, const audit_filter_t *filter, audit_place_t *place, int64_t slice_us, audit_row_fn *take,
                  void *self, buffer_t *why);
// The same from the newest event on, without a slice.
bool audit_list(audit_t *audit, const audit_filter_t *filter, audit_row_fn *take, void *self, buffer_t *why);

// Reads events of any kind whose ref begins with `prefix`, in the order of their refs, at most `limit`.
bool audit_find_ref(audit_t *audit, const char *prefix, int64_t limit, audit_row_fn *take, void *self, buffer_t *why);

// One final failure without its texts.
typedef struct audit_match {
    int64_t seq;
    int64_t at;
    slice_t queue;
    slice_t state;
    slice_t event;   // its id
    bool erased;     // its texts were erased
    bool superseded; // a later failure is of the same life of the same job: a failover had given the job back
} audit_match_t;
typedef bool audit_match_fn(void *self, const audit_match_t *match);

// Reads the same failures as audit_search, oldest first.
bool audit_select(audit_t *audit, const audit_filter_t *filter, audit_place_t *place, int64_t slice_us, audit_match_fn *take,
                  void *self, buffer_t *why);

// Reads the events of these seqs (1 to 1000) that the log still has, lowest first.
bool audit_rows(audit_t *audit, const int64_t *seqs, size_t count, audit_row_fn *take, void *self, buffer_t *why);

// All events of one job of a queue, oldest first.
bool audit_history(audit_t *audit, slice_t queue, slice_t job, audit_row_fn *take, void *self, buffer_t *why);

// Reads the lowest and the highest seq above `after`. If there is none: *first is 0 and *last is `after`.
bool audit_bounds(audit_t *audit, int64_t after, int64_t *first, int64_t *last, buffer_t *why);
// Reads the number of commits to this log. A lower number than before means: an older copy is in the place of the log.
bool audit_commits(audit_t *audit, int64_t *commits, buffer_t *why);
typedef struct audit_cursor {
    int64_t after; // seq of the last event that was read
    bool more;     // further events may follow
} audit_cursor_t;

// Reads the next events in the order of arrival: one read transaction over at most 1,000 rows. The cursor moves behind these
// rows, or behind the row at which `take` returns false.
bool audit_page(audit_t *audit, const audit_filter_t *filter, audit_cursor_t *cursor, audit_row_fn *take, void *self,
                buffer_t *why);
// Sets *after to the seq before the filter's last `count` events, or before all if there are fewer.
bool audit_find_last(audit_t *audit, const audit_filter_t *filter, int64_t count, int64_t *after, buffer_t *why);

typedef struct audit_count {
    int64_t hour_ms; // beginning of the hour
    slice_t queue;
    slice_t reason;
    slice_t error; // see groups.h
    int64_t failures;
    int64_t open, requeued, discarded; // of these failures
    int64_t first_ms, last_ms;
} audit_count_t;
typedef bool audit_count_fn(void *self, const audit_count_t *count);

// Final failures by hour, queue and reason, newest hour first; at most filter->limit rows.
bool audit_stats(audit_t *audit, const audit_filter_t *filter, audit_count_fn *take, void *self, buffer_t *why);

// Final failures and retries at or after since_ms, counted by queue, kind and reason.
typedef void audit_recent_fn(void *self, slice_t queue, slice_t kind, slice_t reason, int64_t count);
bool audit_recent(audit_t *audit, int64_t since_ms, audit_recent_fn *take, void *self, buffer_t *why);

// Whether retention has removed rows of since_ms or later. If so, audit_recent counts too few rows.
bool audit_has_removed_since(audit_t *audit, int64_t since_ms, bool *has, buffer_t *why);

// Number of open gaps.
bool audit_open_gaps(audit_t *audit, int64_t *count, buffer_t *why);

// Names of the queues with final failures in the log, sorted.
typedef bool audit_name_fn(void *self, const char *name);
bool audit_queues(audit_t *audit, audit_name_fn *take, void *self, buffer_t *why);
