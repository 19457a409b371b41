// Anomalies: what a role sees in a queue that only the owner of the queue can mend. This table tells each one: its metric, its
// log line, and the name under which `status` finds it. A role notes an anomaly, and the leader writes it into the queue's meta
// hash.
#pragma once

#include "base/buffer.h"
#include "model/metrics.h"

// X(name, kind, metric, message). The number of a LOOK is what the last look saw; several may share a metric, which is their sum.
// The number of an EVENT counts events until none has come for an hour, and its metric counts all. Message: the monitor's log
// line when it begins; NULL = the role that sees it writes one with more fields.
#define ANOMALIES(X)                                                                                                             \
    X(large_in_progress, LOOK, large, NULL)                                                                                      \
    X(large_delayed, LOOK, large, NULL)                                                                                          \
    X(large_events, LOOK, large, NULL)                                                                                           \
    X(large_dead_letters, LOOK, large, NULL)                                                                                     \
    X(endless_heartbeats, LOOK, endless_heartbeats, "a heartbeat without a TTL keeps a job in progress")                         \
    X(undated_jobs, EVENT, undated, "created_path yields no time for most jobs; alive_timeout counts from when they were seen")  \
    X(early_jobs, EVENT, early, NULL)                                                                                            \
    X(endless_retries, EVENT, copies, "equal jobs are retried beyond retry_times: none ends while another is in progress")       \
    X(orphan_reports, EVENT, stray_reports, NULL)

typedef enum anomaly_kind {
#define X(name, kind, metric, message) ANOMALY_##name,
    ANOMALIES(X)
#undef X
        ANOMALY_KINDS
} anomaly_kind_t;

enum { ANOMALY_SAMPLE = 160 };

// Field of the queue's meta hash: a line "<name> <number> <since, ms> <valid until, ms> <sample>" of each anomaly.
#define META_ANOMALIES "anomalies"

// Notes an example, for people. The last one of a look stays.
void anomaly_sample(metrics_queue_t *queue, anomaly_kind_t kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
// A look is over and saw `number`. now_ms: by Redis's clock.
void anomaly_set(metrics_queue_t *queue, anomaly_kind_t kind, int64_t number, int64_t now_ms);
void anomaly_add(metrics_queue_t *queue, anomaly_kind_t kind, int64_t events, int64_t now_ms);

// False: the field of the queue is up to date. True: *out is its new value; empty = remove it.
bool anomalies_to_tell(metrics_queue_t *queue, mono_t now, buffer_t *out);

typedef struct anomaly_seen {
    int64_t number;
    int64_t since_ms;
    char sample[ANOMALY_SAMPLE];
} anomaly_seen_t;

// Finds an anomaly in the value of the field. False: it is not there, or no longer valid.
bool anomaly_find(const char *field, anomaly_kind_t kind, int64_t now_ms, anomaly_seen_t *out);
