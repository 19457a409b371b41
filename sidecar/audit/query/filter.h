// The conditions of a query.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

// The part of payloads that somebody may see.
typedef struct audit_view {
    // Returns what may be seen of a payload; borrowed from it or from *memory, which comes empty.
    slice_t (*see)(void *self, slice_t queue, slice_t payload, buffer_t *memory);
    // Whether all of it may be seen. Otherwise nothing finds the job by its id if that is the digest of the payload.
    bool (*sees_whole)(void *self, slice_t queue, slice_t payload);
    void *self;
} audit_view_t;

// A text is NULL where any value will do.
typedef struct audit_filter {
    const char *kind;  // NULL = failed
    bool all_kinds;    // ignores `kind`
    const char *state; // of a final failure: failed, requeued or discarded
    const char *queue;
    const char *reason;
    const char *type;
    const char *job;
    const char *worker;
    const char *group;        // of the instance that recorded the event; "" = not known
    const char *trace;        // trace id of the traceparent, 32 hex digits
    int64_t since_ms;         // at or after; 0 = from the beginning
    int64_t until_ms;         // before; 0 = to the end
    const char *grep;         // bytes that payload, error or job id must contain
    const audit_view_t *view; // what `grep` and `job` find of payloads; NULL = all bytes
    bool ignore_case;         // of `grep`: as fold_find does
    bool oldest_first;        // the order of audit_search
    int64_t limit;            // largest number of rows; 0 = all rows
} audit_filter_t;
