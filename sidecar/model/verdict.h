// Decides what becomes of a job in progress: a pure function, without I/O.
//
// All times are milliseconds since 1970 by Redis's clock, unless said otherwise; 0 = not known.
#pragma once

#include "config/config.h"

// A stamp: the sidecar's own facts about a job in progress.
typedef struct stamp {
    int64_t born_us;    // when this life began, in us; 0 = there is no stamp yet
    int64_t seen;       // when this execution was first seen; 0 = returned, no worker has taken it yet
    int64_t missing;    // when it was first found overdue without a heartbeat
    int64_t retries;    // in this life, within retry_window
    int64_t retried_at; // the last retry; before the first: the requeue
    bool requeued;      // an operator began this life, so ignore the age in the job
} stamp_t;

typedef enum heartbeat {
    HEARTBEAT_UNKNOWN, // not asked yet
    HEARTBEAT_NONE,    // this queue has no heartbeats
    HEARTBEAT_GONE,
    HEARTBEAT_THERE,
} heartbeat_t;

typedef enum report {
    REPORT_NONE,
    REPORT_RETRY, // the worker reports a failure
    REPORT_END,   // and forbids a retry
} report_t;

// A job as a scan met it.
typedef struct observation {
    stamp_t stamp;
    int64_t now;   // of the reply that brought the stamp
    int64_t began; // when this scan began
    // Read from the job itself.
    int64_t created;
    int64_t executed; // when this execution began
    bool has_retries_in_job;
    int64_t retries_in_job; // retries by its own count, which retry_window does not limit
    bool unreadable;        // not a job of this dialect: it cannot be retried
    bool foreign;           // its list is not configured: it cannot be retried
    heartbeat_t heartbeat;
    int64_t silence_ms; // the heartbeat is the worker's: without it for this time the worker is gone, before the timeout too;
                        // 0 = the heartbeat is the job's, and counts once the protected timeout is over
    report_t report;
    bool has_duplicates; // another entry of the same bytes is in progress
} observation_t;

typedef enum verdict_kind {
    VERDICT_LEAVE,
    VERDICT_LOOK,    // read the heartbeat and ask again
    VERDICT_STAMP,   // begin a life
    VERDICT_SEEN,    // note a new execution
    VERDICT_MISSING, // note that the heartbeat is missing; a later scan decides
    VERDICT_PRESENT, // remove that note
    VERDICT_RETRY,
    VERDICT_END,
} verdict_kind_t;

typedef struct verdict {
    verdict_kind_t kind;
    const char *reason; // of RETRY and END: for the record; static
    int64_t attempts;   // of RETRY and END: executions that count so far; of RETRY also the number of this retry
    int64_t delay_ms;   // of RETRY: 0 = at once; without jitter
    bool needs_silence; // of RETRY and END: only while there is no heartbeat
    int64_t again;      // of LEAVE, MISSING and PRESENT: the verdict may differ from then on; INT64_MAX = never by time
} verdict_t;

verdict_t verdict(const observation_t *observation, const queue_policy_t *policy);

// The delay of the retry number `retry` (from 1), in ms, without jitter.
int64_t verdict_delay_ms(const queue_policy_t *policy, int64_t retry);

// Adds the jitter to a delay; `share`, from -1 to 1, is random. The result is at most retry_delay_max: an excess is mirrored
// below it.
int64_t verdict_jitter_ms(const queue_policy_t *policy, int64_t delay_ms, double share);
