/* Jobs flow through a sidecar while the primary changes: a producer adds delayed jobs at the primary that the sentinels name, a
 * worker takes them from ready there, and each job's fate is noted. All in the thread of the test. */
#pragma once

#include "daemon.h"
#include "sentinels.h"

#include <stdint.h>

enum { FLOW_JOBS = 200000, FLOW_SIDECARS = 2 };

typedef struct flow {
    sentinels_t *s;
    daemon_t *sidecars[FLOW_SIDECARS];
    int primary;           /* the server that the producer and the worker use */
    redis_t *r;            /* the connection to it; NULL = none now */
    int added;             /* jobs so far; a job's name is its number */
    uint8_t *replicated;   /* all replicas had the job before the next step */
    int64_t *due_ms;       /* by the clock of the server to which the job was added */
    uint8_t *taken;        /* how often the worker got the job */
    uint8_t *reported;     /* the worker reported the job as failed for good, and all replicas had the report */
    int64_t clock_ms;      /* of the present primary, when the worker last looked */
    int64_t clock_us;      /* when that was */
    int64_t former_ms;     /* the latest clock of a former primary; 0 = there was none */
    int first_since;       /* the first job that was added at the present primary */
    int64_t named_us;      /* when the sentinels first named the present primary */
    int64_t first_us;      /* when the first job since then was taken; 0 = none yet */
    long long traps_epoch; /* of the sentinels when the traps were set */
} flow_t;

/* No job may be taken before it is due by the clock of the present primary, or of the one that may have promoted it before. Each
 * worker's step checks that.
 *
 * Starts the servers and two sidecars; `more` are further settings of `redis = { }`. Waits until jobs flow. */
flow_t *flow_begin(const sentinels_options_t *options, const char *more);
/* Waits until each replicated job was taken, each replicated report has become a record, and both audit logs have each record of
 * the stream once; fails otherwise. Ends everything. */
void flow_end(flow_t *f);

/* One step of the producer and of the worker. */
void flow_step(flow_t *f);
/* Steps until `cond` is true; false after timeout_ms (scaled). */
#define flow_until(f, cond, timeout_ms)                                                                                          \
    __extension__({                                                                                                              \
        wait_t flow_wait_ = wait_begin(timeout_ms);                                                                              \
        bool flow_met_;                                                                                                          \
        while (!(flow_met_ = (cond) ? true : false) && wait_again(&flow_wait_)) flow_step(f);                                    \
        flow_met_;                                                                                                               \
    })
/* Steps until the sentinels name another server than `old`, follows them there, and goes on until a job that was added there is
 * taken. Returns the milliseconds from the first name to that job. */
double flow_follow(flow_t *f, int old);
/* Goes on until the sentinels are settled again. */
void flow_settle(flow_t *f);
/* Fails the test with the logs of the sidecars and the sentinels. */
void flow_fail(flow_t *f, const char *why);

typedef enum { FAILOVER_KILL, FAILOVER_FREEZE, FAILOVER_COMMAND, FAILOVER_KINDS } failover_t;
/* Makes another server the primary. The old one comes back and gets jobs of its own, which no sidecar may touch. Returns what
 * flow_follow does. */
double flow_failover(flow_t *f, failover_t kind);
/* The same while all sidecars are frozen, for `frozen_ms` at least: they go on when the old primary is back and has jobs of its
 * own. Returns how many of these jobs were promoted. */
int flow_failover_unseen(flow_t *f, failover_t kind, int frozen_ms);
