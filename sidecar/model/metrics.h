// All metrics: each row declares, names and explains one number. The roles write, and any thread may read at any time (relaxed
// atomics). Durations are microseconds, sizes bytes.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "config/config.h"

// X(name, kind, family, scale, help): of the instance.
// A row: the field; its kind; the family after METRICS_PREFIX ("" = not exposed as it is); the divisor that gives the base unit;
// the help. A kind is COUNTER or GAUGE, or for a queue also LEVEL, a gauge that is exposed only while the queue's sizes are known
// and the number is not negative, or SINCE, a LEVEL that holds a time by Redis's clock in ms (INT64_MAX = none) and is exposed as
// an age.
#define METRICS_PREFIX "queue_sidecar_"

#define METRICS_INSTANCE(X)                                                                                                      \
    X(leading, GAUGE, "leader", 1, "locks held now")                                                                             \
    X(standing_by, GAUGE, "standby", 1, "locks that another instance holds while this one stands by, or never leads")            \
    X(redis_up, GAUGE, "redis_up", 1, "1 while the leader role has a connection to Redis")                                       \
    X(writes_refused, GAUGE, "redis_writes_refused", 1,                                                                          \
      "primaries that take no writes (MISCONF, NOREPLICAS), as the leader role sees them")                                       \
    X(terms, COUNTER, "terms_total", 1, "terms begun")                                                                           \
    X(terms_lost, COUNTER, "terms_lost_total", 1, "terms that ended without a release by this instance")                         \
    X(clock_steps_healed, COUNTER, "clock_steps_healed_total", 1, "stale locks removed after a clock step")                      \
    X(unserved, GAUGE, "queues_unserved", 1,                                                                                     \
      "configured queues that are not served: the leader lacks them, another group owns them, or the preflight disabled them")   \
    X(reconnects, COUNTER, "reconnects_total", 1, "connections lost, and failed attempts to reconnect")                          \
    X(connections, GAUGE, "redis_connections", 1, "open connections to Redis; those to sentinels are not among them")            \
    X(primaries_missing, GAUGE, "redis_primaries_missing", 1,                                                                    \
      "primaries that cannot be reached, or that nobody names: their queues stand still; a plain Redis is one primary")          \
    X(primary_changes, COUNTER, "redis_primary_changes_total", 1, "times that another server became the primary")                \
    X(redis_clock_step_ms, GAUGE, "redis_clock_step_seconds", 1000,                                                              \
      "the last step of Redis's clock of more than a second, as of a failover to a server with another clock; 0 = none")         \
    X(sentinels_answering, GAUGE, "redis_sentinels_answering", 1,                                                                \
      "sentinels that answered the last question; 0 without Sentinel")                                                           \
    X(certificate_end_s, GAUGE, "redis_certificate_end_timestamp_seconds", 1,                                                    \
      "when the first certificate in use ends, of servers, sentinels or this client, since 1970; as seen at the last connects; " \
      "0 = no TLS")                                                                                                              \
    X(preflight_faults, GAUGE, "preflight_faults", 1,                                                                            \
      "problems of Redis, ACL rights or keys that the preflight found; it checks them again until they are solved")              \
    X(tracking_refused, GAUGE, "wakeups_refused", 1, "roles whose wake-ups Redis refuses: they find changes by polling only")    \
    X(safety_polls, COUNTER, "safety_polls_total", 1, "polls of all delayed keys without a wake-up")                             \
    X(audit_rows, COUNTER, "audit_rows_total", 1, "rows written to the audit log")                                               \
    X(audit_lag_ms, GAUGE, "audit_lag_seconds", 1000,                                                                            \
      "for how long the audit log has lacked an entry of a failure stream, or could not be compared with it; 0 = it is "         \
      "complete")                                                                                                                \
    X(audit_faults, COUNTER, "audit_faults_total", 1, "failed uses of the audit log or of a failure stream")                     \
    X(audit_bad, GAUGE, "audit_unwritable", 1, "1 while the audit log cannot be written")                                        \
    X(gaps, COUNTER, "audit_gaps_total", 1, "ranges of a failure stream that this audit log may lack")                           \
    X(audit_bytes, GAUGE, "audit_bytes", 1, "size of the audit log on disk")                                                     \
    X(audit_kept_rows, GAUGE, "audit_kept_rows", 1, "rows that the audit log holds")                                             \
    X(audit_full_percent, GAUGE, "audit_full_ratio", 100,                                                                        \
      "rows or bytes of the audit log as a share of their limit, the greater of both; 0 = no limit")                             \
    X(audit_oldest_ms, GAUGE, "audit_oldest_timestamp_seconds", 1000,                                                            \
      "time of the oldest row of the audit log, since 1970; 0 = no rows")                                                        \
    X(audit_dropped, COUNTER, "audit_dropped_rows_total", 1, "rows that retention has removed from the audit log")               \
    X(audit_lost, COUNTER, "audit_logs_lost_total", 1,                                                                           \
      "audit logs started anew because the old one was damaged, removed or replaced")                                            \
    X(tokens_refused, COUNTER, "http_tokens_refused_total", 1,                                                                   \
      "requests with a token that http.token_file does not have; from ten a minute on, all requests with a token are slowed")    \
    X(reloads, COUNTER, "reloads_total", 1, "configurations reloaded")                                                           \
    X(reload_faults, COUNTER, "reload_faults_total", 1, "reloads refused because of errors")                                     \
    X(config_bad, GAUGE, "config_refused", 1, "1 while the newest configuration is refused and an older one is in effect")       \
    X(config_loaded_ms, GAUGE, "config_loaded_timestamp_seconds", 1000,                                                          \
      "when the configuration in effect was read, since 1970 by the machine's clock")

#define COUNTED " (exposed by the leader only)"
// X(name, kind, family, scale, help): of each queue.
#define METRICS_QUEUE(X)                                                                                                         \
    X(promoted, COUNTER, "promoted_total", 1, "jobs moved from delayed to ready")                                                \
    X(batches, COUNTER, "promote_batches_total", 1, "promote scripts that moved jobs")                                           \
    X(empty, COUNTER, "promote_empty_total", 1, "promote scripts that found no due job")                                         \
    X(wakeups, COUNTER, "wakeups_total", 1, "changes of the delayed zset that Redis announced")                                  \
    X(missed, COUNTER, "wakeups_missed_total", 1, "changes that only a safety poll found")                                       \
    X(full_us, COUNTER, "ready_limit_wait_seconds_total", 1000000,                                                               \
      "time for which due jobs waited because ready was at ready_limit")                                                         \
    X(large, LEVEL, "large_entries", 1, "entries larger than max_payload, left where they are, at the last look" COUNTED)        \
    X(endless_heartbeats, LEVEL, "endless_heartbeats", 1,                                                                        \
      "jobs whose heartbeat has no TTL, so that they never count as stalled, at the last scan" COUNTED)                          \
    X(undated, COUNTER, "undated_jobs_total", 1, "jobs without a time at created_path, while most jobs have none")               \
    X(early, COUNTER, "early_jobs_total", 1, "promotions of a job whose score is no time: it ran at once")                       \
    X(passes, COUNTER, "passes_total", 1, "complete scans of the backup list")                                                   \
    X(pass_us, COUNTER, "pass_seconds_total", 1000000, "time spent in scans")                                                    \
    X(in_progress, GAUGE, "", 1, "jobs that the last scan saw")                                                                  \
    X(in_progress_since_ms, GAUGE, "", 1, "since when the oldest job has been in progress, by Redis's clock; 0 = unknown")       \
    X(stalled, COUNTER, "", 1, "executions found stalled, whatever the cause")                                                   \
    X(retried, COUNTER, "retries_total", 1, "jobs given back to the workers")                                                    \
    X(retried_unrecorded, COUNTER, "retries_unrecorded_total", 1,                                                                \
      "retries without a record, because the failure stream was full")                                                           \
    X(ends_held, COUNTER, "ends_held_total", 1,                                                                                  \
      "times that a job was not ended, or its failure not recorded, because the failure stream was full")                        \
    X(trimmed_early, COUNTER, "trimmed_early_total", 1,                                                                          \
      "records trimmed before stream.retain, because the stream was above half of stream.max_bytes, or Redis nearly full")       \
    X(ended, COUNTER, "", 1, "final failures, whatever the reason")                                                              \
    X(failed_recorded, COUNTER, "", 1, "final failures that workers decided, with a record")                                     \
    X(stray_reports, COUNTER, "stray_reports_total", 1, "orphan reports removed: no scan saw their job")                         \
    X(sentinels, COUNTER, "sentinels_planted_total", 1, "markers pushed, the entries that close one rotation")                   \
    X(old_sentinels, COUNTER, "sentinels_removed_total", 1, "markers removed because there was a newer one")                     \
    X(duplicates_dropped, COUNTER, "duplicates_dropped_total", 1, "duplicates dropped because their job was already done")       \
    X(stale_unique, LEVEL, "stale_unique", 1, "ids without a task in the sets of unique tasks" COUNTED)                          \
    X(copies, COUNTER, "copies_left_total", 1, "jobs not ended because duplicates of them were in progress")                     \
    X(faults, COUNTER, "faults_total", 1, "requests that Redis refused because of keys, rights or configuration")                \
    X(lateness_us, COUNTER, "", 1000000, "sum of lateness; each job of a batch counts as late as the oldest one in it")          \
    X(lateness_max_us, GAUGE, "lateness_max_seconds", 1000000, "greatest lateness seen")                                         \
    X(lateness_step_us, GAUGE, "", 1, "greatest lateness since the last step of the history")

// The leader of a queue reads its sizes every few seconds while /metrics is being scraped (leader/sizes.h).
#define METRICS_SIZES(X)                                                                                                         \
    X(delayed_jobs, LEVEL, "delayed_jobs", 1, "jobs in delayed" COUNTED)                                                         \
    X(ready_jobs, LEVEL, "ready_jobs", 1, "jobs in ready, which wait for a worker" COUNTED)                                      \
    X(in_progress_jobs, LEVEL, "in_progress_jobs", 1, "jobs that workers have taken" COUNTED)                                    \
    X(next_due_ms, LEVEL, "next_due_timestamp_seconds", 1000,                                                                    \
      "when the first job in delayed falls due, since 1970 by Redis's clock; absent where there is none")                        \
    X(due_since_ms, SINCE, "oldest_due_age_seconds", 1000,                                                                       \
      "for how long the first delayed job has been due but not moved; 0 = none is due" COUNTED)                                  \
    X(running_since_ms, SINCE, "oldest_in_progress_age_seconds", 1000,                                                           \
      "for how long the oldest job has been seen in progress; 0 = none is" COUNTED)                                              \
    X(stream_records, LEVEL, "failure_stream_records", 1, "entries of the failure stream" COUNTED)                               \
    X(stream_bytes, LEVEL, "failure_stream_bytes", 1, "bytes of the values in the failure stream" COUNTED)                       \
    X(stream_full_percent, LEVEL, "failure_stream_full_ratio", 100,                                                              \
      "share of stream.max_bytes in use; no job is ended while the next record does not fit" COUNTED)

// Settings in effect, to see when a new configuration takes effect: X(name, family, scale, config key, help). A dialect without
// the key has no sample.
#define METRICS_SETTINGS(X)                                                                                                      \
    X(set_protected_ms, "protected_timeout_seconds", 1000, "protected_timeout", "the protected_timeout in effect")               \
    X(set_alive_ms, "alive_timeout_seconds", 1000, "alive_timeout", "the alive_timeout in effect; 0 = off")                      \
    X(set_stalled_ms, "stalled_interval_seconds", 1000, "stalled_interval", "the stalled_interval in effect (bull, bullmq)")     \
    X(set_retries, "retry_times", 1, "retry_times", "the retry_times in effect")

// Counters of a queue with one more label: X(name, family, label, values, help). Every value is exposed from the start.
#define METRICS_BY_LABEL(X)                                                                                                      \
    X(ended_by, "final_failures_total", "reason", METRICS_REASONS, "final failures: records that went into the failure stream")  \
    X(stalled_by, "stalled_total", "cause", METRICS_CAUSES,                                                                      \
      "executions found stalled: timeout = past protected_timeout, no heartbeats; heartbeat_lost = past it, heartbeat gone; "    \
      "worker_gone = the worker's heartbeat is gone; lock_lost = the lock in Bull is gone; alive_timeout = past alive_timeout")

// Counters of the instance with a label, in the same form.
#define METRICS_INSTANCE_BY_LABEL(X)                                                                                             \
    X(redirects, "redis_redirects_total", "kind", METRICS_REDIRECTS,                                                             \
      "answers of a Cluster instead of a result: moved = another node has the slot; ask = another node has the key while the "   \
      "slot moves; tryagain = the keys of a request are on two nodes while the slot moves")

#define METRICS_REDIRECTS(X)                                                                                                     \
    X(moved)                                                                                                                     \
    X(ask)                                                                                                                       \
    X(tryagain)

// Reasons of records of kind `failed`.
#define METRICS_REASONS(X)                                                                                                       \
    X(retries_exhausted)                                                                                                         \
    X(reported)                                                                                                                  \
    X(alive_timeout)                                                                                                             \
    X(unreadable)                                                                                                                \
    X(invalid_target)                                                                                                            \
    X(dead_letter)                                                                                                               \
    X(worker_failed)

#define METRICS_CAUSES(X)                                                                                                        \
    X(timeout)                                                                                                                   \
    X(heartbeat_lost)                                                                                                            \
    X(worker_gone)                                                                                                               \
    X(lock_lost)                                                                                                                 \
    X(alive_timeout)

typedef enum metrics_reason {
#define X(value) REASON_##value,
    METRICS_REASONS(X)
#undef X
        METRICS_REASON_COUNT
} metrics_reason_t;

typedef enum metrics_cause {
#define X(value) CAUSE_##value,
    METRICS_CAUSES(X)
#undef X
        METRICS_CAUSE_COUNT
} metrics_cause_t;

typedef enum metrics_redirect {
#define X(value) REDIRECTED_##value,
    METRICS_REDIRECTS(X)
#undef X
        METRICS_REDIRECT_COUNT
} metrics_redirect_t;

// Upper bounds of the lateness histogram, in us; one more bucket is unbounded.
#define METRICS_LATENESS_BOUNDS                                                                                                  \
    { 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 1000000, 5000000, 30000000, 60000000, 600000000 }
enum { METRICS_LATENESS_BUCKETS = 16 };

typedef _Atomic int64_t metric_t;

// The counters of a queue as a scrape shows them. An instance that has never led counts nothing, and many such instances would
// cost Prometheus many series. Without a 0 before the first number `rate` and `increase` would miss what a new leader counted
// before its first scrape, so scrapes show 0 first: for long enough that each of two Prometheus servers gets it.
typedef enum metrics_shown { METRICS_UNSEEN, METRICS_WITHHELD, METRICS_ZERO, METRICS_AS_COUNTED } metrics_shown_t;

// The metrics of a queue. Their place and numbers stay when the queue is configured anew, or removed and added again.
typedef struct metrics_queue {
#define X(name, kind, family, scale, help) metric_t name;
    METRICS_QUEUE(X)
    METRICS_SIZES(X)
#undef X
#define X(name, family, scale, key, help) metric_t name; // negative: the dialect has no such setting
    METRICS_SETTINGS(X)
#undef X
    metric_t ended_by[METRICS_REASON_COUNT];
    metric_t stalled_by[METRICS_CAUSE_COUNT];
    metric_t led;                                // 1 = this instance has led the queue: only a leader counts
    metric_t shown;                              // a metrics_shown_t
    metric_t shown_ns;                           // mono_t.ns of the first scrape after METRICS_WITHHELD; 0 = none yet
    metric_t refused_ns;                         // mono_t.ns of the last refused request for the queue; 0 = never
    metric_t counted_ns;                         // mono_t.ns when the sizes were read; 0 = they are unknown
    metric_t lateness[METRICS_LATENESS_BUCKETS]; // jobs, not cumulative
    void *anomalies;                             // of model/anomaly.c, which guards it; owned; NULL = none yet
    char *name;                                  // of the queue; NULL = the place is free. Owned; guarded by the metrics' mutex
    bool served;                                 // the configuration in effect has it; same guard
} metrics_queue_t;

// Problems whose reason /readyz shows.
typedef enum metrics_why { WHY_REDIS, WHY_AUDIT } metrics_why_t;

typedef struct metrics_complaint {
    metrics_why_t of;
    const void *teller;
    char *text; // owned
} metrics_complaint_t;

typedef struct metrics {
#define X(name, kind, family, scale, help) metric_t name;
    METRICS_INSTANCE(X)
#undef X
    metric_t redirects[METRICS_REDIRECT_COUNT];
    metric_t audit_lacks_ns;      // mono_t.ns since when the audit log may lack an entry of a failure stream; 0 = it has them all
    metric_t scraped_ns;          // mono_t.ns of the last request of /metrics; 0 = none
    metric_t redis_ahead_ms;      // Redis's clock minus mono_now() in ms, when the sizes were last read
    metrics_queue_t *queues;      // owned; the places
    size_t queue_count;           // of places
    metrics_complaint_t *reasons; // of problems, the oldest first; owned; guarded by the mutex
    size_t reason_count;
    pthread_mutex_t mutex; // guards names and `served`, too
} metrics_t;

metrics_t *metrics_new(size_t places); // owned; `places`: of two configurations, since a reload may replace all queues
void metrics_free(metrics_t *metrics); // NULL is fine

// Returns the place of this queue: the one it had, a free one, or one of a queue that is no longer served. NULL: all places
// belong to served queues. Call it before roles start.
metrics_queue_t *metrics_queue(metrics_t *metrics, const char *name);

// Marks exactly these queues as served, and notes their settings.
void metrics_serve(metrics_t *metrics, const config_t *config);

// Calls `visit` for each served queue, under the mutex: none is added or removed meanwhile.
void metrics_each(metrics_t *metrics, void (*visit)(void *self, const metrics_queue_t *queue), void *self);

static inline void metric_add(metric_t *metric, int64_t n) { atomic_fetch_add_explicit(metric, n, memory_order_relaxed); }
static inline void metric_set(metric_t *metric, int64_t n) { atomic_store_explicit(metric, n, memory_order_relaxed); }
static inline int64_t metric_get(const metric_t *metric) { return atomic_load_explicit(metric, memory_order_relaxed); }

// Begins a scrape: decides what it shows of each queue.
void metrics_begin_scrape(metrics_t *metrics, mono_t now);
// Notes a request of /metrics. True: the last one was so long ago that the leader must be woken to read the sizes.
bool metrics_scraped(metrics_t *metrics, mono_t now);
// Whether /metrics was requested recently, so that the sizes are worth reading.
bool metrics_wanted(const metrics_t *metrics, mono_t now);
// Whether the sizes of this queue are recent enough to be exposed.
bool metrics_counted(const metrics_queue_t *queue, mono_t now);
// The time since `since_ms`, by Redis's clock; 0 = `since_ms` is in the future.
int64_t metrics_age_ms(const metrics_t *metrics, int64_t since_ms, mono_t now);

// Notes that Redis refused a request for this queue.
void metrics_refused(metrics_queue_t *queue, mono_t now);
bool metrics_is_refused(const metrics_queue_t *queue, mono_t now); // in the last 15 s
// Returns the number of refused queues, and the name of the first one (owned; NULL = none).
size_t metrics_refusing(metrics_t *metrics, mono_t now, char **first);

// Sets the reason of a problem as one teller sees it, copied; NULL = it is over. `teller` is any pointer that identifies it: each
// shard has tellers of its own. NULL before the teller is freed.
void metrics_say(metrics_t *metrics, metrics_why_t of, const void *teller, const char *reason);
// Appends ": " and the reason, the oldest of several and their number; without one ": the log says why".
void metrics_tell(metrics_t *metrics, metrics_why_t of, buffer_t *out);

// Updates numbers that grow with time. Call it before they are read.
void metrics_grow(metrics_t *metrics, mono_t now);

// Counts `n` final failures. A reason that is not in METRICS_REASONS counts as worker_failed.
void metrics_end(metrics_queue_t *queue, const char *reason, int64_t n);
// Counts a stalled execution.
void metrics_stall(metrics_queue_t *queue, metrics_cause_t cause);

// Records that `jobs` reached ready at most `us` after their due time; a negative `us` counts as 0.
void metrics_lateness(metrics_queue_t *queue, int64_t us, int64_t jobs);
