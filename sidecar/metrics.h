// What is counted, in one list: each row declares, names and explains one number. Writers are the roles; a reader may look at any
// time (relaxed atomics). Durations are microseconds, sizes bytes.
#ifndef QS_METRICS_H
#define QS_METRICS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

// X(name, help): of the instance.
#define METRICS_INSTANCE(X)                                                                                                      \
    X(leading, "locks held now")                                                                                                 \
    X(terms, "terms begun")                                                                                                      \
    X(terms_lost, "terms that ended otherwise than by our own release")                                                          \
    X(clock_steps_healed, "locks removed that a clock step had left behind")                                                     \
    X(unserved, "own queues that the leader of the group does not serve, or that another group owns")                            \
    X(reconnects, "connections opened after one was lost")                                                                       \
    X(preflight_faults, "faults found by the latest preflight")                                                                  \
    X(safety_polls, "looks at all delayed heads without being woken")                                                            \
    X(audit_rows, "rows written to the audit log")                                                                               \
    X(audit_lag_ms, "age of the newest entry of a failure stream not yet in the audit log, in ms; 0 = all are")                  \
    X(audit_faults, "times that the audit log, or a failure stream, could not be used")                                          \
    X(gaps, "stretches of a failure stream that this audit log may lack")                                                        \
    X(audit_bytes, "size of the audit log on disk")                                                                              \
    X(audit_kept_rows, "rows that the audit log holds")                                                                          \
    X(audit_full_percent, "rows or bytes of the audit log in percent of their limit, the greater of both; 0 = no limit")         \
    X(audit_oldest_ms, "when the oldest row of the audit log happened, ms since 1970; 0 = there is none")                        \
    X(audit_dropped, "rows that retention has removed from the audit log")                                                       \
    X(audit_lost, "audit logs found damaged, removed or replaced, and begun anew")                                               \
    X(reloads, "new configurations taken while running")                                                                         \
    X(reload_faults, "new configurations refused")                                                                               \
    X(config_bad, "1 while the newest configuration is refused and an older one is in effect")                                   \
    X(config_loaded_ms, "when the configuration in effect was read, ms since 1970 by the machine's clock")

// X(name, help): of each queue.
#define METRICS_QUEUE(X)                                                                                                         \
    X(promoted, "jobs moved from delayed to ready")                                                                              \
    X(batches, "promote scripts that moved something")                                                                           \
    X(empty, "promote scripts that found nothing due")                                                                           \
    X(wakeups, "changes of the delayed zset that Redis told us of")                                                              \
    X(missed, "changes that only a safety poll found")                                                                           \
    X(full_us, "time for which due jobs waited because ready was at ready_limit")                                                \
    X(large, "entries left in delayed because they are larger than max_payload")                                                 \
    X(passes, "complete passes over the backup list")                                                                            \
    X(pass_us, "time that they took")                                                                                            \
    X(in_progress, "jobs that the last pass met")                                                                                \
    X(stalled, "executions found stalled")                                                                                       \
    X(retried, "jobs given back to the workers")                                                                                 \
    X(retried_unrecorded, "of them, while the failure stream was full")                                                          \
    X(ended, "final failures")                                                                                                   \
    X(failed_recorded, "failures that workers decided, and that were recorded")                                                  \
    X(stray_reports, "reports removed because no pass met their job")                                                            \
    X(sentinels, "sentinels planted")                                                                                            \
    X(old_sentinels, "sentinels removed because there was a newer one")                                                          \
    X(duplicates_dropped, "jobs dropped because they were done already when they were to be given back or ended")                \
    X(stale_unique, "ids of unique tasks without a task, in a group of lists that is empty")                                     \
    X(copies, "jobs not ended because others of the same bytes were in progress")                                                \
    X(faults, "requests refused by a fault of keys, rights or configuration")                                                    \
    X(lateness_us, "sum of lateness; each job of a batch counts as late as the oldest one in it")                                \
    X(lateness_max_us, "greatest lateness seen")

// Upper bounds of the lateness histogram, in us; one more bucket holds what is above.
#define METRICS_LATENESS_BOUNDS                                                                                                  \
    { 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 1000000, 5000000, 30000000, 60000000, 600000000 }
enum { METRICS_LATENESS_BUCKETS = 16 };

typedef _Atomic int64_t metric_t;

// A place for the numbers of one queue. It stays where it is and keeps its numbers when the queue is configured anew, or removed
// and added again.
typedef struct metrics_queue {
#define X(name, help) metric_t name;
    METRICS_QUEUE(X)
#undef X
    metric_t lateness[METRICS_LATENESS_BUCKETS]; // jobs, not cumulative
    char *name;                                  // of the queue; NULL = the place is free. Owned; guarded by the metrics' mutex
    bool served;                                 // stands in the configuration in effect; likewise
} metrics_queue_t;

typedef struct metrics {
#define X(name, help) metric_t name;
    METRICS_INSTANCE(X)
#undef X
    metrics_queue_t *queues; // owned; in the order in which they were first asked for
    size_t queue_count;      // places
    pthread_mutex_t mutex;   // guards names and `served`
} metrics_t;

metrics_t *metrics_new(size_t places); // owned; for twice as many queues as one configuration has
void metrics_free(metrics_t *metrics); // takes; NULL is fine

// The numbers of this queue: those it had, or a free place, or else one whose queue is no longer served. NULL when all places are
// taken by queues that are served. Called before roles start.
metrics_queue_t *metrics_queue(metrics_t *metrics, const char *name);

// These queues are served from now on, and no others.
void metrics_serve(metrics_t *metrics, const config_t *config);

static inline void metric_add(metric_t *metric, int64_t n) { atomic_fetch_add_explicit(metric, n, memory_order_relaxed); }
static inline void metric_set(metric_t *metric, int64_t n) { atomic_store_explicit(metric, n, memory_order_relaxed); }
static inline int64_t metric_get(const metric_t *metric) { return atomic_load_explicit(metric, memory_order_relaxed); }

// Records that `jobs` reached ready at most `us` after their due time; a negative `us` counts as 0.
void metrics_lateness(metrics_queue_t *queue, int64_t us, int64_t jobs);

// An upper bound, in us, that the share `quantile` (0 to 1) of all recorded jobs kept; INT64_MAX above the last bound; 0 without
// jobs.
int64_t metrics_lateness_quantile(const metrics_queue_t *queue, double quantile);

#endif
