// The status of a group: status_read reads facts, status_diagnose makes findings of the facts, and status_json writes both.
// Times are ms since 1970 by Redis's clock; an unknown number is -1.
#pragma once

#include <stdatomic.h>

#include "audit/audit.h"
#include "inspect/preflight.h"
#include "inspect/servers.h"
#include "inspect/sizes.h"
#include "inspect/snapshot.h"
#include "operate/shards.h"
#include "operate/status/local_instance.h"

enum { STATUS_UNKNOWN = -1, STATUS_RECENT_MS = 3600000, STATUS_REASONS = 9 };

// Reasons of final failures; the last one is "other".
extern const char *const status_reasons[STATUS_REASONS];

// Counts of one queue for the last STATUS_RECENT_MS.
typedef struct status_recent {
    int64_t retried, failed; // may be STATUS_UNKNOWN
    int64_t answered;        // of the failures, by a requeue or a discard; only the log tells
    int64_t reasons[STATUS_REASONS];
    bool partial; // the counts may be too low: some events were not read
} status_recent_t;

// Final failures that nobody has answered.
static inline int64_t status_open(const status_recent_t *recent) {
    return recent->failed > recent->answered ? recent->failed - recent->answered : 0;
}

typedef enum status_source { STATUS_FROM_NOTHING, STATUS_FROM_LOG, STATUS_FROM_STREAM } status_source_t;

typedef enum slot_state { SLOT_SERVED, SLOT_MOVING, SLOT_CUT_OFF } slot_state_t;

// The place of a queue: slot and primary. Without a Cluster the slot says nothing.
typedef struct status_place {
    unsigned slot;
    size_t primary; // index in the primaries; SIZE_MAX = none was reached
    slot_state_t state;
    char why[160]; // what the queue waits for; "" = for nothing
} status_place_t;

// One result of a preflight that only reads.
typedef struct status_preflight {
    preflight_level_t kind;
    size_t queue;   // index; SIZE_MAX = the server
    size_t primary; // index in the primaries
    char *text;     // owned
} status_preflight_t;

// The audit log at audit.path of this machine.
typedef struct status_log {
    bool readable;
    bool absent;       // no such file exists
    char why[256];     // why it cannot be read
    char instance[48]; // the name under which this log acknowledges records
    int64_t open_gaps;
    int64_t unscrubbed; // see audit_count_unscrubbed
} status_log_t;

typedef struct status {
    const config_t *config; // borrowed
    keyspace_t *keys;       // owned
    bool reached;           // false = nothing of Redis is known
    redis_error_t error;    // why Redis was not reached
    char server[64], target[256];
    int64_t wall_ms;               // by this machine's clock
    servers_t servers;             // owned
    snapshot_t snapshot;           // owned
    status_place_t *places;        // owned; of each queue
    sizes_t *sizes;                // owned; of each queue
    status_recent_t *recent;       // owned; of each queue
    status_source_t source;        // of `recent`
    status_preflight_t *preflight; // owned
    size_t preflight_count;
    status_log_t log;
    local_instance_t local;
    // Of the reader.
    const atomic_bool *stop;
    queue_shards_t *shards; // owned
    unsigned slots_version; // of the last read
    mono_t slow_at;         // when the expensive facts are read again
} status_t;

typedef enum status_severity { STATUS_NOTE, STATUS_WARNING, STATUS_FAULT, STATUS_SEVERITIES } status_severity_t;

typedef struct status_finding {
    status_severity_t severity;
    const char *code; // for programs; stable
    size_t *queues;   // owned; indices of the queues, the worst first; none = all queues, or the server
    size_t queue_count;
    char *what, *why, *next; // owned; the problem (of the first queue), why it matters, what to do
    const char *next_open;   // `next` with {names} instead of paths, keys and hosts; static
} status_finding_t;

typedef struct status_findings {
    status_finding_t *items; // owned; faults first
    size_t count;
    size_t of[STATUS_SEVERITIES]; // count of each severity
} status_findings_t;

// Makes the findings; pure. wanted[i]: the user asks about queue i; `wanted` NULL = about all queues.
status_findings_t status_diagnose(const status_t *status, const bool *wanted);
void status_findings_free(status_findings_t *findings);

// Reads all facts. The expensive ones (preflight, gaps) are read again after STATUS_SLOW_MS only.
enum { STATUS_SLOW_MS = 30000 };
status_t *status_new(const config_t *config, const atomic_bool *stop); // owned; `stop` ends a wait for Redis
void status_free(status_t *status);
void status_read(status_t *status);

// The acknowledgement of this machine's audit log for a queue's stream; NULL = none.
const snapshot_copy_t *status_own_copy(const status_t *s, size_t queue);
// Whether an audit log has the whole stream.
bool status_is_complete(const snapshot_queue_t *queue, const snapshot_copy_t *copy);

// Adds `count` events of this kind and reason to the counts.
void status_count(status_recent_t *recent, slice_t kind, slice_t reason, int64_t count);

// One object on one line.
void status_json(const status_t *status, const status_findings_t *findings, const bool *wanted, buffer_t *out);
// The part that everybody may know: no more than /metrics and /readyz tell.
void status_json_open(const status_t *status, const status_findings_t *findings, buffer_t *out);
