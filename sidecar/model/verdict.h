// What becomes of one job in progress: a pure function of what is known, without I/O, so that a table of tests can hold all of
// it.
//
// All times are milliseconds since 1970 by Redis's clock, unless said otherwise; 0 = not known.
#ifndef QS_MODEL_VERDICT_H
#define QS_MODEL_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

// What the sidecar keeps of a job that it saw in progress.
typedef struct stamp {
    int64_t born_us;    // when this life began, in us; 0 = there is no stamp yet
    int64_t seen;       // when this execution was first seen; 0 = given back, and on its way to a worker
    int64_t missing;    // when it was first found overdue without a heartbeat
    int64_t retries;    // in this life, as far as they are not forgotten
    int64_t retried_at; // the last of them; or when it was put back, before the first
    bool requeued;      // an operator began this life: what the job says of its age no longer counts
} stamp_t;

typedef enum heartbeat {
    HEARTBEAT_UNKNOWN, // nobody has looked yet
    HEARTBEAT_NONE,    // this queue has no heartbeats
    HEARTBEAT_GONE,
    HEARTBEAT_THERE,
} heartbeat_t;

typedef enum report {
    REPORT_NONE,
    REPORT_RETRY, // its worker says that it failed
    REPORT_END,   // and that it must not be tried again
} report_t;

// One job as a pass met it.
typedef struct observation {
    stamp_t stamp;
    int64_t now;   // of the reply that brought the stamp
    int64_t began; // when this pass began
    // What the job says of itself, where its dialect reads it.
    int64_t created;
    int64_t executed; // when this execution began
    bool tells_retries;
    int64_t told_retries; // its own count of them, which is never forgotten
    bool unreadable;      // it is no job of this dialect: it cannot be retried
    bool foreign;         // it would go back to a key that is not configured: it cannot, either
    heartbeat_t heartbeat;
    int64_t silence_ms; // a worker is gone once its heartbeat was for so long, however long the job takes; 0 = a job's heartbeat,
                        // which counts when its protected timeout is over, too
    report_t report;
    bool copies; // another entry of the same bytes is in progress
} observation_t;

typedef enum verdict_kind {
    VERDICT_LEAVE,
    VERDICT_LOOK,    // its heartbeat decides: look, and ask again
    VERDICT_STAMP,   // new here: begin a life
    VERDICT_SEEN,    // a new execution begins: set seen
    VERDICT_MISSING, // overdue and silent: note it; a later pass decides
    VERDICT_PRESENT, // its heartbeat came back: forget the note
    VERDICT_RETRY,
    VERDICT_END,
} verdict_kind_t;

typedef struct verdict {
    verdict_kind_t kind;
    const char *reason; // of RETRY and END: as the record says it; static
    int64_t attempts;   // of RETRY and END: executions that count so far; of RETRY also the number of this retry
    int64_t delay_ms;   // of RETRY: 0 = at once; without jitter
    bool needs_silence; // of RETRY and END: only while there is no heartbeat
    int64_t again;      // of LEAVE, MISSING and PRESENT: no earlier verdict differs unless something happens; INT64_MAX = none
} verdict_t;

verdict_t verdict(const observation_t *observation, const queue_policy_t *policy);

// The delay of the retry number `retry` (from 1), in ms, without jitter.
int64_t verdict_delay_ms(const queue_policy_t *policy, int64_t retry);

// A delay with its jitter; `share`, from -1 to 1, is random. retry_delay_max holds: what would exceed it falls short by as much.
int64_t verdict_jitter_ms(const queue_policy_t *policy, int64_t delay_ms, double share);

#endif
