// Brings events of another log, or of an export, into this one. Works beside a running sidecar: small transactions with pauses
// between them leave the auditor its turn.
#ifndef QS_AUDIT_IMPORT_IMPORT_H
#define QS_AUDIT_IMPORT_IMPORT_H

#include "audit/audit.h"

enum { IMPORT_MAX_PAYLOAD = 256 * 1024 * 1024 }; // bytes; config allows jobs of twice that, which nobody has

typedef struct import_counts {
    int64_t added;
    int64_t known;        // already there, by their ids
    int64_t refused;      // are no events
    int64_t gaps_skipped; // of the other log, where this one is complete
    int64_t gaps_filled;  // of this log, where the other one is complete
} import_counts_t;

// Whether an event of a foreign file may come into the log; else *why says what is wrong.
bool import_validate(const event_t *event, buffer_t *why);

typedef struct import import_t;
import_t *import_begin(audit_t *audit); // borrows a log that is open for writing; owned
void import_free(import_t *import);     // takes; drops what was not flushed; NULL is fine

// Copies a valid event. Writes now and then. False: the log refuses it.
bool import_add(import_t *import, const event_t *event, buffer_t *why);
// Whether import_flush is due. For a caller that must not write while it reads a row.
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

// Imports all rows of another log, of this schema or an older one, without changing it; then its gaps. Reports and skips rows
// that a damaged file does not give. False: the file is no log, or this log refuses.
bool import_log(import_t *import, const char *path, const import_listener_t *listener, buffer_t *why);

// Ends an export whose events were all added: imports its gaps, unless this log has their events.
bool import_finish_export(import_t *import, buffer_t *why);

#endif
