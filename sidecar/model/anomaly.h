// Anomalies: what a role sees in a queue that only the owner of the queue can mend. This table tells each one: its metric, its
// log line, and the name under which `status` finds it. A role notes an anomaly, and the leader writes it into the queue's meta
// hash.
#pragma once

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

enum { ANOMALY_SAMPLE = 160, ANOMALY_TEXT = ANOMALY_SAMPLE + 64 };

// Before the name of an anomaly: its field of the queue's meta hash, "<number> <since, ms> <valid until, ms> <sample>". Each
// has its own field, so a new leader keeps what the former leader has told until it is no longer valid.
#define META_ANOMALY "anomaly:"

// Notes an example, for people. The last one of a look stays.
void anomaly_sample(metrics_queue_t *queue, anomaly_kind_t kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
// A look is over and saw `number`. now_ms: by Redis's clock.
void anomaly_set(metrics_queue_t *queue, anomaly_kind_t kind, int64_t number, int64_t now_ms);
void anomaly_add(metrics_queue_t *queue, anomaly_kind_t kind, int64_t events, int64_t now_ms);

const char *anomaly_name(anomaly_kind_t kind);

// False: all fields of the queue are up to date. True: *out is the new value of the field of *name; empty = remove it. Call it
// again for the next one.
bool anomaly_to_tell(metrics_queue_t *queue, mono_t now, const char **name, char out[ANOMALY_TEXT]);

typedef struct anomaly_seen {
    int64_t number;
    int64_t since_ms;
    char sample[ANOMALY_SAMPLE];
} anomaly_seen_t;

// Reads the value of a field. False: it is no longer valid.
bool anomaly_read(const char *field, int64_t now_ms, anomaly_seen_t *out);
