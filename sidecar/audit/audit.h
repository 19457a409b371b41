// The audit log: one SQLite file with every event in the lives of failed jobs. Only this folder knows SQLite.
//
// One thread writes (the auditor). Readers open the log for themselves, and an import may write beside the auditor. Errors come
// back as text in *why, which says what to do.
#ifndef QS_AUDIT_AUDIT_H
#define QS_AUDIT_AUDIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "model/event.h"

typedef struct audit audit_t;

typedef enum audit_mode {
    AUDIT_WRITE,  // creates and migrates the log; for one process at a time, see lock.h
    AUDIT_READ,   // changes nothing; fails where there is no log
    AUDIT_IMPORT, // as AUDIT_WRITE, but for a short time, beside the process that holds the log
    AUDIT_PEER,   // as AUDIT_READ, and takes older schemas too: they have the table `events`
} audit_mode_t;

// Opens the log at `path`: WAL, synchronous=FULL. Refuses foreign and newer files. Returns owned, or NULL with *why.
audit_t *audit_open(const char *path, audit_mode_t mode, buffer_t *why) __attribute__((warn_unused_result));
void audit_close(audit_t *audit); // takes; NULL is fine

// The auditor keeps the lock while the log is closed.
typedef struct audit_lock audit_lock_t;
audit_lock_t *audit_lock_new(const char *path); // owned; not locked yet
void audit_lock_free(audit_lock_t *lock);       // takes, and releases; NULL is fine

typedef struct audit_open_options {
    bool check;              // read every page first: takes seconds for a large log
    bool set_aside;          // the log was found damaged: begin a new one
    bool overwritten;        // the file was overwritten: the files beside it belong to the former log
    bool keep_file;          // do not rewrite a file of schema 1: that failed before
    int64_t max_bytes;       // audit.retain_bytes; 0 = no limit
    const atomic_bool *stop; // ends a check; may be NULL
    int busy_timeout_ms;     // see audit_set_busy_timeout; 0 = 5,000
} audit_open_options_t;
// Opens the log for the holder of `lock`. Sets a damaged log, or files left behind by a log, aside and begins a new one: see
// audit_loss.
audit_t *audit_open_locked(audit_lock_t *lock, const audit_open_options_t *options, buffer_t *why)
    __attribute__((warn_unused_result));

bool audit_is_damaged(const audit_t *audit);         // found while in use: open it again with .set_aside
bool audit_is_in_place(audit_t *audit);              // false: the file was removed, replaced, emptied or overwritten
bool audit_is_overwritten(const audit_t *audit);     // emptied or overwritten: open it again with .overwritten
bool audit_has_no_auto_vacuum(const audit_t *audit); // an older version made the file: it cannot shrink

// The log that lay here before and is lost. Every opening reports it until audit_clear_loss.
typedef struct audit_loss {
    const char *instance;     // its name, which must acknowledge nothing any more
    const char *reason;       // AUDIT_DAMAGED, AUDIT_MISSING or AUDIT_REPLACED
    const char *set_aside_as; // file name in the same directory; "" = it was not set aside
} audit_loss_t;
#define AUDIT_DAMAGED  "log_damaged"
#define AUDIT_MISSING  "log_missing"
#define AUDIT_REPLACED "log_replaced"                 // by another log, or by a copy of one
const audit_loss_t *audit_loss(const audit_t *audit); // NULL = none
bool audit_clear_loss(audit_t *audit, buffer_t *why);

// A random name made with the file. The auditor acknowledges under it.
const char *audit_instance(const audit_t *audit);

enum { AUDIT_POSITION_SIZE = 48 };
// Id of the last stream entry of `queue` in the log; "0-0" = none yet.
bool audit_position(audit_t *audit, const char *queue, char position[AUDIT_POSITION_SIZE], buffer_t *why);

// One transaction: begin, any number of inserts and positions, then commit; after a false anywhere, rollback.
bool audit_begin(audit_t *audit, buffer_t *why);
// Leaves an event alone that is there already, by its id: reading a stream again is harmless. *added, where not NULL: it was new.
// Refuses an event without an id (see event_ref). Keeps bytes that are no UTF-8 exactly in payload and error, escaped elsewhere.
bool audit_insert(audit_t *audit, const event_t *event, bool *added, buffer_t *why);
// Whether retention has removed rows of this time or later. An event that was here before and is not here now was removed then.
// Says nothing of an event that was never here: clocks go back.
bool audit_has_removed(const audit_t *audit, int64_t at);
bool audit_set_position(audit_t *audit, const char *queue, const char *position, buffer_t *why);
bool audit_commit(audit_t *audit, buffer_t *why); // on disk when it returns true
void audit_rollback(audit_t *audit);

// Writes committed pages to disk again. After a failed fsync, pages may be lost although they can still be read.
bool audit_checkpoint(audit_t *audit, buffer_t *why);

// Retention. 0 = no limit.
typedef struct audit_limits {
    int64_t retain_ms;
    int64_t rows;
    int64_t bytes;
    int64_t latest_ms; // no row should be newer. Where one is, the clock went back, and rows go in the order of arrival
} audit_limits_t;
typedef struct audit_usage {
    int64_t rows;
    int64_t bytes;      // of the file and its -wal
    int64_t used_bytes; // the same without free pages: this is what the limit is about
    int64_t oldest_ms;  // `at` of the oldest row; INT64_MAX = none
} audit_usage_t;
bool audit_measure(audit_t *audit, audit_usage_t *out, buffer_t *why);
// Size of the -wal file where a reader that does not end keeps it from being checkpointed; 0 = nothing unusual.
int64_t audit_pinned_wal_bytes(audit_t *audit);

typedef struct audit_retain_result {
    int64_t removed; // rows
    bool more;       // there is more to do
} audit_retain_result_t;
// One step of about budget_us and a commit. Removes, in one transaction, the rows of the lowest `at` (see latest_ms) while they
// are too old or the log is too large; else returns free pages to the file system. now_ms by Redis's clock; 0 = unknown, and no
// row is too old.
bool audit_retain(audit_t *audit, const audit_limits_t *limits, int64_t now_ms, int64_t budget_us, audit_retain_result_t *out,
                  buffer_t *why);

// How long to wait for another writer, in ms; 5,000 at first.
void audit_set_busy_timeout(audit_t *audit, int ms);

#endif
