// The audit log: one SQLite file that holds every event in the lives of failed jobs. The only room that knows SQLite.
//
// One thread writes (the auditor); readers open it for themselves, and an import may write beside it. Errors come back as text in
// *why, which says what to do.
#ifndef QS_AUDIT_AUDIT_H
#define QS_AUDIT_AUDIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "model/event.h"

typedef struct audit audit_t;

typedef enum audit_mode {
    AUDIT_WRITE,  // creates and migrates what is not there; by one process at a time, see lock.h
    AUDIT_READ,   // changes nothing; fails where there is no log
    AUDIT_IMPORT, // as AUDIT_WRITE, but beside the one that holds it and for a short time
    AUDIT_PEER,   // as AUDIT_READ, and takes older schemas too: their table `events` is there
} audit_mode_t;

// Opens the log at `path`. WAL, synchronous=FULL, foreign or newer files are refused. Returns owned, or NULL with the reason.
audit_t *audit_open(const char *path, audit_mode_t mode, buffer_t *why) __attribute__((warn_unused_result));
void audit_close(audit_t *audit); // takes; NULL is fine

// For the auditor, who keeps the lock while the log is closed. A damaged log of ours (SQLite says so, or a check does), and what
// is left of one, is moved aside and a new one is made: see audit_loss.
typedef struct audit_lock audit_lock_t;
audit_lock_t *audit_lock_new(const char *path); // owned; takes nothing yet
void audit_lock_free(audit_lock_t *lock);       // takes, and lets go; NULL is fine

typedef struct audit_open_options {
    bool check;              // reads every page first: some seconds for a large log
    bool set_aside;          // it was found damaged: begin a new one
    bool overwritten;        // something was written over it: what lies beside it belongs to what is gone
    bool keep_file;          // a file of schema 1 is not written anew, which was tried before
    int64_t max_bytes;       // audit.retain_bytes; 0 = no limit
    const atomic_bool *stop; // ends a check; may be NULL
    int busy_timeout_ms;     // as audit_set_busy_timeout, from the beginning; 0 = 5,000
} audit_open_options_t;
audit_t *audit_open_locked(audit_lock_t *lock, const audit_open_options_t *options, buffer_t *why)
    __attribute__((warn_unused_result));

bool audit_is_damaged(const audit_t *audit);         // found while it was used: open it again with .aside
bool audit_is_in_place(audit_t *audit);              // false: the file was removed, replaced, emptied or written over since
bool audit_is_overwritten(const audit_t *audit);     // and it was one of the last two: open it again with .overwritten
bool audit_has_no_auto_vacuum(const audit_t *audit); // it was made by an older version and cannot shrink

// The log that lay here before and is lost; reported at every opening until it is settled.
typedef struct audit_loss {
    const char *instance;     // its name, which must acknowledge nothing any more
    const char *reason;       // one of these
    const char *set_aside_as; // name of the file that it was moved to, in the same directory; "" = it was not
} audit_loss_t;
#define AUDIT_DAMAGED  "log_damaged"
#define AUDIT_MISSING  "log_missing"
#define AUDIT_REPLACED "log_replaced"                 // by another log, or by a copy of one
const audit_loss_t *audit_loss(const audit_t *audit); // NULL = none
bool audit_clear_loss(audit_t *audit, buffer_t *why);

// A random text made with the file: who acknowledges.
const char *audit_instance(const audit_t *audit);

enum { AUDIT_POSITION_SIZE = 48 };
// The id of the last stream entry of `queue` that is in the log; "0-0" when there is none yet.
bool audit_position(audit_t *audit, const char *queue, char position[AUDIT_POSITION_SIZE], buffer_t *why);

// One transaction: begin, any number of puts and moves, then commit; after a false anywhere, rollback. An event that is there
// already is left alone (by its id), so reading a stream again is harmless. *added, where not NULL, tells whether it was new. An
// event without an id (event_ref says so) is refused: pass over those of strangers. Bytes that are no UTF-8 are kept exactly in
// payload and error, and escaped in all other texts.
bool audit_begin(audit_t *audit, buffer_t *why);
bool audit_insert(audit_t *audit, const event_t *event, bool *added, buffer_t *why);
// Whether retention has removed rows of this time or a later one: an event that was here before and is not here now was removed.
// Of one that was never here it says nothing: clocks are set back.
bool audit_has_removed(const audit_t *audit, int64_t at);
bool audit_set_position(audit_t *audit, const char *queue, const char *position, buffer_t *why);
bool audit_commit(audit_t *audit, buffer_t *why); // on disk when it returns true
void audit_rollback(audit_t *audit);

// Makes what was committed durable anew, after a failure: what an fsync has failed on may be lost although it can be read.
bool audit_checkpoint(audit_t *audit, buffer_t *why);

// Retention. 0 = no limit.
typedef struct audit_limits {
    int64_t retain_ms;
    int64_t rows;
    int64_t bytes;
    int64_t latest_ms; // no row should be newer; where one is, the clock went back, and the rows that came first go first
} audit_limits_t;
typedef struct audit_usage {
    int64_t rows;
    int64_t bytes;      // of the file, and of what lies beside it
    int64_t used_bytes; // the same without free pages, which is what the limit is about
    int64_t oldest_ms;  // `at` of the oldest row; INT64_MAX = none
} audit_usage_t;
bool audit_measure(audit_t *audit, audit_usage_t *out, buffer_t *why);
// The bytes that lie beside the log because a reader who does not end keeps them from being merged into it; 0 = nothing unusual.
int64_t audit_pinned_wal_bytes(audit_t *audit);

typedef struct audit_retain_result {
    int64_t dropped; // rows
    bool more;       // there is more to do
} audit_retain_result_t;
// One short step: removes the rows of the lowest `at` (see latest_ms) while they are older than allowed or the log is too large,
// in one transaction, or else gives free pages back to the file system; for about budget_us, and a commit. now_ms by Redis's
// clock; 0 = unknown, and nothing is too old.
bool audit_retain(audit_t *audit, const audit_limits_t *limits, int64_t now_ms, int64_t budget_us, audit_retain_result_t *out,
                  buffer_t *why);

// How long another writer is waited for, in ms; 5,000 if not told.
void audit_set_busy_timeout(audit_t *audit, int ms);

#endif
