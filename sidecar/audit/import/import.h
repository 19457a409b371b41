// Events of another log, or of an export, brought into this one. Beside a running sidecar: they come in small transactions with
// pauses between them, so that the auditor has its turn.
#ifndef QS_AUDIT_IMPORT_IMPORT_H
#define QS_AUDIT_IMPORT_IMPORT_H

#include "audit/audit.h"

enum { IMPORT_MAX_PAYLOAD = 256 * 1024 * 1024 }; // bytes; config allows jobs of twice that, which nobody has

typedef struct import_counts {
    int64_t added;
    int64_t known;        // were there already, by their ids: left alone
    int64_t refused;      // are no events
    int64_t gaps_skipped; // gaps of the other log that are none of this one
    int64_t gaps_filled;  // gaps of this log that the other one fills
} import_counts_t;

// Whether an event of a foreign file may come into the log; else *why says what is wrong with it.
bool import_validate(const event_t *event, buffer_t *why);

typedef struct import import_t;
import_t *import_begin(audit_t *audit); // borrows a log that is open for writing; owned
void import_free(import_t *import);     // takes; what was not flushed is left out; NULL is fine

// Takes a copy of an event that fits. Writes now and then; false: the log refuses, *why says why.
bool import_add(import_t *import, const event_t *event, buffer_t *why);
// Whether enough was taken that import_flush is due: ask it where a row of another log is being read.
bool import_is_full(const import_t *import);
// Commits what was taken.
bool import_flush(import_t *import, buffer_t *why);
void import_count_refused(import_t *import); // counts one
const import_counts_t *import_counted(const import_t *import);

// What is told of a row that cannot be taken: its seq, the last seq of a run of them, and why. And of a gap that was filled.
typedef struct import_listener {
    void *self;
    void (*refused)(void *self, int64_t seq, int64_t last, const char *reason);
    void (*filled)(void *self, const event_t *gap);
    void (*progress)(void *self, int64_t done, int64_t of); // seqs
} import_listener_t;

// All rows of another log, of this schema or an older one, that is only read. Rows that cannot be read, because the file is
// damaged, are told and passed over. Ends with the gaps. False: the file is no log, or the log refuses.
bool import_log(import_t *import, const char *path, const import_listener_t *listener, buffer_t *why);

// The end of an export, whose events are all taken: gaps that it told of come into this log unless it has their events.
bool import_finish_export(import_t *import, buffer_t *why);

#endif
