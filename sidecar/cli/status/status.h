// queue-sidecar status: what its parts share. status_read gathers facts, status_diagnose makes findings of them and of nothing
// else, and they are printed as text or as JSON. Times are ms since 1970 by Redis's clock; a number that is not known is -1.
#ifndef QS_CLI_STATUS_STATUS_H
#define QS_CLI_STATUS_STATUS_H

#include <stdatomic.h>

#include "audit/audit.h"
#include "cli/args.h"
#include "cli/load_config.h"
#include "inspect/preflight.h"
#include "inspect/sizes.h"
#include "inspect/snapshot.h"

enum { STATUS_UNKNOWN = -1, STATUS_RECENT_MS = 3600000, STATUS_REASONS = 8, STATUS_CHECKS = 8 };

// Reasons of final failures, by name; the last one stands for all others.
extern const char *const status_reasons[STATUS_REASONS];

// What happened to the jobs of one queue in the last STATUS_RECENT_MS.
typedef struct status_recent {
    int64_t retried, failed; // unknown where nobody can tell
    int64_t reasons[STATUS_REASONS];
    bool more; // there is more than was read
} status_recent_t;

typedef enum status_source { STATUS_FROM_NOTHING, STATUS_FROM_LOG, STATUS_FROM_STREAM } status_source_t;

// What a preflight that only reads has found.
typedef struct status_preflight {
    finding_t kind;
    size_t queue; // index; SIZE_MAX = of the server
    char *text;   // owned
} status_preflight_t;

// One check of /readyz.
typedef struct local_instance_check {
    char name[32];
    bool ok;
    char why[512];
    char state[512]; // "" = it tells none
} local_check_t;

// The instance whose http.port the config names, on this machine.
typedef struct local_instance {
    bool asked, answered, ready;
    bool unresponsive; // something listens, and does not answer
    bool unrelated;    // another program or group answers: nothing is known of ours
    char why[400];     // it did not answer
    local_check_t checks[STATUS_CHECKS];
    size_t count;
} local_instance_t;

// The check of that name; NULL = it was not told.
const local_check_t *local_instance_check(const local_instance_t *here, const char *name);

// The audit log at audit.path, if it can be read here.
typedef struct status_log {
    bool there;
    bool absent;       // there is no such file
    char why[256];     // it cannot be read
    char instance[48]; // its name, by which it acknowledges
    int64_t open_gaps;
} status_log_t;

typedef struct status {
    const config_t *config; // borrowed
    const keyspace_t *keys; // borrowed
    bool reached;           // else nothing of Redis is known
    redis_error_t error;    // why not
    char server[64], target[256];
    int64_t wall_ms;               // by this machine's clock
    overview_t view;               // owned
    census_t *counts;              // owned; of each queue
    status_recent_t *recent;       // owned; of each queue
    status_source_t source;        // of `recent`
    status_preflight_t *preflight; // owned
    size_t preflight_count;
    status_log_t log;
    local_instance_t here;
} status_t;

typedef enum status_severity { STATUS_NOTE, STATUS_WARNING, STATUS_FAULT } status_severity_t;

typedef struct status_finding {
    status_severity_t severity;
    const char *code; // for programs; stable
    size_t *queues;   // owned; indices of the queues that it is about, the worst first; none: of all, or of the server
    size_t queue_count;
    char *what, *why, *next; // owned; what is wrong (with the first of them), why it matters, what to do
} status_finding_t;

typedef struct status_findings {
    status_finding_t *items; // owned; faults first
    size_t count;
    size_t faults, warnings, notes;
} status_findings_t;

// Pure. wanted[i]: queue i is asked about; NULL = all are.
status_findings_t status_diagnose(const status_t *status, const bool *wanted);
void status_findings_free(status_findings_t *findings);
int status_exit(const status_t *status, const status_findings_t *findings); // a code of cli_exit_t

// Reads everything once. What costs more than a look (the preflight, gaps) is kept from the last time for STATUS_SLOW_MS.
enum { STATUS_SLOW_MS = 30000 };
typedef struct status_reader status_reader_t;
status_reader_t *status_reader_new(const config_t *config, const atomic_bool *stop); // owned
void status_reader_free(status_reader_t *reader);                                    // takes
const status_t *status_read(status_reader_t *reader);                                // borrowed until the next call
// Asks the instance here alone.
void local_instance_read(const config_t *config, local_instance_t *here);

// Final failures and retries of the last hour from the failure streams, as far as a bounded reading goes. What it cannot read is
// unknown.
void status_read_streams(conn_t *conn, status_t *status);
// The same from a log.
bool status_read_log(audit_t *audit, status_t *status, buffer_t *why);
void status_count(status_recent_t *recent, slice_t kind, slice_t reason, int64_t count);

// How it is printed.
typedef struct status_view {
    const bool *wanted; // as for status_diagnose
    size_t width;       // columns; 0 = any
    size_t rows;        // lines at the most; 0 = any
    bool colour;
    bool utc;
} status_view_t;
// The part above the queues.
void status_head(const status_t *status, const status_view_t *view, buffer_t *out);
void status_text(const status_t *status, const status_findings_t *findings, const status_view_t *view, buffer_t *out);
// One object on one line.
void status_json(const status_t *status, const status_findings_t *findings, const bool *wanted, buffer_t *out);

// Draws again and again until it is interrupted, which sets *stop. `draw` appends one frame of `width` columns and at the most
// `rows` lines (0 = any). Returns an exit code.
typedef struct status_watch {
    int64_t interval_ms;
    bool in_place; // standard output is a terminal that obeys; else frame follows frame
    bool colour;
} status_watch_t;
typedef void status_draw_fn(void *self, size_t width, size_t rows, bool colour, buffer_t *out);
int status_watch(const status_watch_t *watch, atomic_bool *stop, status_draw_fn *draw, void *self);

#endif
