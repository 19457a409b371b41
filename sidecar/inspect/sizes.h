// The sizes of each queue, for /metrics and `status`. One read-only script reads the ends of keys. Only stamps are read whole.
#pragma once

#include "queue/call.h"

// A number that is unknown, or that the queue's dialect does not have.
enum { SIZES_UNKNOWN = -1 };

// Times are ms since 1970 by Redis's clock.
typedef struct sizes {
    int64_t now_ms; // time of the read
    // Jobs in delayed: not yet due, or due and not yet moved. delayed_queue: includes jobs that a handler runs. kmqueue and
    // private_queues have no delayed jobs: unknown.
    int64_t delayed;
    int64_t ready; // jobs that wait for a worker, in all ready lists; bull: also while the queue is paused
    // Jobs that workers have taken, without the marker. After somebody deletes the list or pushes its marker, the number may
    // be one off until a scan has ended. private_queues: counted by stamps, so it may lag by two scans. delayed_queue: unknown.
    int64_t in_progress;
    int64_t next_due_ms;     // due time of the first delayed job, at least 0; INT64_MAX = never; unknown if no job is delayed
    int64_t behind_large_ms; // next_due_ms behind the entries that are larger than max_payload, after sizes_read_behind
    // Start time of the oldest job in progress. bull: the time that its worker wrote. Other dialects: the time at which a scan
    // first read the job, from its stamp. That stamp may belong to a job that ended up to two scans ago. Unknown if no
    // job is in progress.
    int64_t oldest_in_progress_ms;
    int64_t records;      // entries of the failure stream
    int64_t record_bytes; // bytes of their values, which stream.max_bytes limits
    redis_error_t error;  // of the first unknown number; OUTCOME_OK = every number is known
} sizes_t;
extern const sizes_t sizes_unknown; // without any number

typedef enum sizes_depth {
    SIZES_READY,  // only the ready lists; every other number is unknown
    SIZES_JOBS,   // like SIZES_ENDS without the failure stream
    SIZES_ENDS,   // a fixed amount of work for each queue; numbers from stamps are unknown
    SIZES_STAMPS, // reads stamps too if a queue has at most SIZES_STAMPS_MAX: about 1 ms of Redis for 3,000
} sizes_depth_t;

enum { SIZES_STAMPS_MAX = 20000 };

// Field of the queue's meta hash: "<time of the leader's last count, ms> <for how long no count was below the one before, ms>
// <length>" of a ready list that only grows.
#define READY_GROWS "ready_grows"
enum { READY_GROWS_VALID_MS = 90000 }; // a field that is older says nothing

// Reads the sizes of `count` queues from call->queue on, some in each request. `out` has room for them. A refused key sets the
// error of its queue; the other numbers of that queue are valid. After OUTCOME_RETRY and OUTCOME_DISCONNECTED `out` is not
// valid.
outcome_t sizes_read(const call_t *call, size_t count, sizes_depth_t depth, sizes_t *out);

// Sets out->behind_large_ms of call->queue, in whose delayed `skip` such entries stay. Unknown after an error.
outcome_t sizes_read_behind(const call_t *call, int64_t skip, sizes_t *out);

// The time by which the first delayed job is overdue, in ms; 0 = it is not overdue.
int64_t sizes_overdue_ms(const sizes_t *sizes);
