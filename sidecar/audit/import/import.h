// Imports events of another log, or of an export, into this log. It works beside a running sidecar: it makes small transactions,
// and the auditor writes in the pauses between them.
#pragma once

#include "audit/audit.h"

enum { IMPORT_MAX_PAYLOAD = 256 * 1024 * 1024 }; // bytes; the config allows twice as much, but no user has such jobs

typedef struct import_counts {
    int64_t added;
    int64_t known;        // events whose ids this log already has
    int64_t refused;      // rows that are not events
    int64_t gaps_skipped; // gaps of the other log in ranges where this log is complete
    int64_t gaps_filled;  // gaps of this log in ranges where the other log is complete
} import_counts_t;

// Whether an event of a foreign file may come into the log. If not, *why has the fault.
bool import_validate(const event_t *event, buffer_t *why);

typedef struct import import_t;
import_t *import_begin(audit_t *audit); // borrows a log that is open for writing; owned
void import_free(import_t *import);     // takes; drops events that were not flushed; NULL is fine

// Copies a valid event. Some calls write to the log. False: the log refuses to be written.
bool import_add(import_t *import, const event_t *event, buffer_t *why);
// Whether import_flush is due. For a caller that must not write during the read of a row.
bool import_is_full(const import_t *import);
// Commits the added events.
bool import_flush(import_t *import, buffer_t *why);
void import_count_refused(import_t *import);
const import_counts_t *import_counted(const import_t *import);

// `refused` gets the first and the last seq of a run of rows that cannot be imported, and why; `filled` a gap of this log.
typedef struct import_listener {
    void *self;
    void (*refused)(void *self, int64_t seq, int64_t last, const char *reason);
    void (*filled)(void *self, const event_t *gap);
    void (*progress)(void *self, int64_t done, int64_t of); // seqs
} import_listener_t;

// Imports all rows of another log of this schema or an older one, without a change to that log. Then imports its gaps. Reports
// and skips rows that a damaged file does not return. False: the file is not a log, or this log refuses.
bool import_log(import_t *import, const char *path, const import_listener_t *listener, buffer_t *why);

// Ends an export whose events were all added: imports its gaps, unless this log has their events.
bool import_finish_export(import_t *import, buffer_t *why);
