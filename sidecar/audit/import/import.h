// Imports events of another log, or of an export, into this log. A sidecar may run meanwhile: an import makes small transactions,
// and the auditor writes in the pauses between them.
#pragma once

#include "audit/audit.h"

typedef struct import_counts {
    int64_t added;
    int64_t known;        // events whose ids this log already has
    int64_t refused;      // invalid rows; a run of unreadable rows counts as one
    int64_t gaps_skipped; // gaps of other logs: this log has an auditor, which notes its own
    int64_t gaps_filled;  // gaps of this log in ranges where the other log is complete
} import_counts_t;

typedef struct import import_t;
import_t *import_begin(audit_t *audit); // borrows a log that is open for writing; owned
void import_free(import_t *import);     // drops events that were not flushed; NULL is fine

// Whether an answer is of the job whose failure it names, if this log or the batch has that failure. False with *why.
bool import_answer_fits(import_t *import, const event_t *event, buffer_t *why);
// Adds a copy of a valid event to the batch. Writes a full batch to the log first. False: the log cannot be written.
bool import_add(import_t *import, const event_t *event, buffer_t *why);
// Commits the added events.
bool import_flush(import_t *import, buffer_t *why);
void import_count_refused(import_t *import);
const import_counts_t *import_counted(const import_t *import);

// `refused` gets the first and last seq of rows that cannot be imported, and why. `filled` gets a gap that the import has filled.
typedef struct import_listener {
    void *self;
    void (*refused)(void *self, int64_t seq, int64_t last, const char *reason);
    void (*filled)(void *self, const event_t *gap);
    void (*progress)(void *self, int64_t done, int64_t of); // seqs
} import_listener_t;

// Imports all rows of another log of this schema or an older one, without a change to that log. Then fills gaps. Reports and
// skips rows that a damaged file does not return. False: the file is not a log, or this log cannot be written.
bool import_log(import_t *import, const char *path, const import_listener_t *listener, buffer_t *why);
