// The sizes of each queue, for /metrics and `status`. One read-only script looks at the ends of keys; only stamps are read whole.
#ifndef QS_INSPECT_SIZES_H
#define QS_INSPECT_SIZES_H

#include <stdint.h>

#include "queue/call.h"

// A number that is unknown, or that the queue's dialect does not have.
enum { SIZES_UNKNOWN = -1 };

// Times are ms since 1970 by Redis's clock.
typedef struct sizes {
    int64_t now_ms;  // when this was read
    int64_t delayed; // jobs not yet due, or due and not yet moved; of delayed_queue also those that a handler is at. kmqueue and
                     // private_queues delay nothing: unknown
    int64_t ready;   // jobs that wait for a worker, in all ready lists; of bull also while the queue is paused
    // Jobs that workers have taken. The sentinel is none of them: where others have deleted a list, or made its marker, this may
    // be one off until a pass has ended. Of private_queues it is known by stamps only, so it may be two passes late.
    // delayed_queue does not tell: unknown.
    int64_t in_progress;
    int64_t next_due_ms; // when the first delayed job falls due, 0 at the least; INT64_MAX = never; unknown where none is delayed
    // Since when the oldest of the jobs in progress is: of bull as its worker says; else since a pass first saw it, by stamps,
    // which may tell of a job that ended since the last pass but one. Unknown where none is.
    int64_t oldest_in_progress_ms;
    int64_t records;      // entries of the failure stream
    int64_t record_bytes; // of their values, as stream.max_bytes limits them
    char error[256];      // the first reason why a number is unknown; "" = none
} sizes_t;

typedef enum sizes_depth {
    SIZES_ENDS,   // a fixed amount of work for each queue; what only stamps tell is unknown
    SIZES_STAMPS, // stamps too, as long as a queue has at most SIZES_STAMPS_MAX: about 1 ms of Redis for 3,000
} sizes_depth_t;

enum { SIZES_STAMPS_MAX = 20000 };

// Reads the sizes of `count` queues from call->queue on, some in each request; `out` has room for them. A refused key sets the
// error of its queue and leaves its other numbers valid. After OUTCOME_RETRY and OUTCOME_DISCONNECTED `out` is not valid.
outcome_t sizes_read(const call_t *call, size_t count, sizes_depth_t depth, sizes_t *out);

// How long the first delayed job is overdue, in ms; 0 = it is not.
int64_t sizes_overdue_ms(const sizes_t *sizes);

#endif
