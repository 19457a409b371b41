// Decides what becomes of a job in progress: a pure function, without I/O.
//
// All times are milliseconds since 1970 by Redis's clock, unless said otherwise; 0 = not known.
#pragma once

#include "config/config.h"

// A stamp: the sidecar's facts about a job. A life begins at the job's first scan or at a requeue, and ends with the job.
typedef struct stamp {
    int64_t born_us;    // when this life began, in us; 0 = there is no stamp yet
    int64_t seen;       // when this execution was first seen; 0 = not seen since the job was returned or left the list
    int64_t missing;    // when the job was first found overdue without a heartbeat; 0 = it was not
    int64_t retries;    // in this life, within retry_window
    int64_t retried_at; // the last retry, or else the requeue; 0 = neither
    bool requeued;      // an operator began this life, so ignore the creation time in the job
} stamp_t;

// Corrects times after `now`, left by a clock that was ahead: each becomes `now`, but a birth becomes 0, so that a new
// life begins. Returns whether there was such a time.
bool stamp_correct(stamp_t *stamp, int64_t now);

typedef enum heartbeat {
    HEARTBEAT_UNKNOWN, // not asked yet
    HEARTBEAT_NONE,    // this queue has no heartbeats
    HEARTBEAT_GONE,
    HEARTBEAT_THERE,
} heartbeat_t;

typedef enum report {
    REPORT_NONE,
    REPORT_RETRY, // the worker reports a failure
    REPORT_END,   // the worker reports a failure and forbids a retry
} report_t;

// A job in progress, as a scan saw it.
typedef struct observation {
    stamp_t stamp;
    int64_t now;   // Redis's clock in the reply that brought the stamp
    int64_t began; // when this scan began
    // Read from the job itself.
    int64_t created;
    int64_t executed; // when this execution began
    bool has_retries_in_job;
    int64_t retries_in_job; // retries by its own count, which retry_window does not limit
    int64_t deliveries; // of this entry, as the server counts them; 0 = this execution is the first since the stamp's last retry
    bool unreadable;    // not a job of this dialect: it cannot be retried
    bool foreign;       // its list is not configured: it cannot be retried
    heartbeat_t heartbeat;
    int64_t certain_at; // a missing heartbeat proves nothing before this: the server is new and may have lost heartbeats
    int64_t silence_ms; // above 0: the heartbeat is of the worker; if it is missing for this long, the worker is gone, even
                        // before the protected timeout; 0: the heartbeat is of the job, and counts after that timeout
    report_t report;
    bool has_duplicates; // another entry of the same bytes is in progress
} observation_t;

typedef enum verdict_kind {
    VERDICT_LEAVE,   // do nothing
    VERDICT_LOOK,    // read the heartbeat and call verdict again
    VERDICT_STAMP,   // begin a life
    VERDICT_SEEN,    // note a new execution, or correct the stamp
    VERDICT_MISSING, // note that the heartbeat is missing; a later scan decides
    VERDICT_PRESENT, // the heartbeat is back: remove the note of MISSING
    VERDICT_RETRY,
    VERDICT_END,
} verdict_kind_t;

typedef struct verdict {
    verdict_kind_t kind;
    const char *reason; // of RETRY and END: for the record; static
    int64_t attempts;   // of RETRY and END: executions that count so far; of RETRY also the number of this retry
    int64_t delay_ms;   // of RETRY: 0 = at once; without jitter
    bool needs_silence; // of RETRY and END: settle only if the heartbeat is still missing
    int64_t again;      // of LEAVE and PRESENT: when the verdict may change; INT64_MAX = time does not change it
} verdict_t;

verdict_t verdict(const observation_t *observation, const queue_policy_t *policy);

// The delay of the retry number `retry` (from 1), in ms, without jitter.
int64_t verdict_delay_ms(const queue_policy_t *policy, int64_t retry);

// Adds the jitter to a delay; `share` is a random number from -1 to 1. With exponential backoff, an excess over retry_delay_max
// is subtracted from retry_delay_max instead.
int64_t verdict_jitter_ms(const queue_policy_t *policy, int64_t delay_ms, double share);
