// The audit log: one SQLite file with every event in the lives of failed jobs. Only the files of this folder use SQLite.
//
// One thread writes: the auditor. Each reader opens its own connection. An import may write meanwhile. Errors: text in *why.
#pragma once

#include <stdatomic.h>

#include "base/buffer.h"
#include "model/event.h"

typedef struct audit audit_t;

typedef enum audit_mode {
    AUDIT_WRITE,  // creates and migrates the log; only one process at a time may use it, see lock.h
    AUDIT_READ,   // changes nothing; fails if there is no log
    AUDIT_IMPORT, // like AUDIT_WRITE, but for a short time, while another process may hold the lock
    AUDIT_PEER,   // like AUDIT_READ, but reads what is left of a truncated log
} audit_mode_t;

// Opens the log at `path`: WAL, synchronous=FULL. Refuses files of other programs and of newer versions. NULL with *why.
audit_t *audit_open(const char *path, audit_mode_t mode, buffer_t *why) __attribute__((warn_unused_result));
void audit_close(audit_t *audit);          // NULL is fine
void audit_release_memory(audit_t *audit); // frees SQLite's cached pages, up to 8 MiB after a storm, and some after a migration

// Syncs the directory of the file: only then is the name of a new or renamed file on disk. False with errno.
bool audit_sync_directory(const char *path);
bool audit_is_same_file(const char *a, const char *b); // compares inodes: one file may have two paths

// The lock of a log, see lock.h. The auditor also holds it while the log is closed.
typedef struct audit_lock audit_lock_t;
audit_lock_t *audit_lock_new(const char *path);    // owned; not locked yet
void audit_lock_free(audit_lock_t *lock);          // releases the lock; NULL is fine
bool audit_lock_is_ours(const audit_lock_t *lock); // this process holds it

typedef struct audit_open_options {
    bool check;              // read every page first: takes seconds for a large log
    bool set_aside;          // the log was found damaged: set it aside and begin a new one
    bool overwritten;        // the file was overwritten: set aside its -wal and -shm files, which belong to the former log
    bool keep_file;          // do not rewrite a file of schema 1, because an earlier rewrite failed
    int64_t max_bytes;       // audit.retain_bytes; 0 = no limit
    const atomic_bool *stop; // true ends a check, a migration and a wait for another writer; outlives the log; may be NULL
} audit_open_options_t;
// Opens the log for the auditor; acquires `lock`. Sets a damaged log aside. Begins a new log if there is none: see audit_loss.
audit_t *audit_open_locked(audit_lock_t *lock, const audit_open_options_t *options, buffer_t *why)
    __attribute__((warn_unused_result));

bool audit_is_damaged(const audit_t *audit);         // the log was found damaged while open: open it again with .set_aside
bool audit_is_in_place(audit_t *audit);              // false: the file was removed, replaced, emptied or overwritten
bool audit_is_overwritten(const audit_t *audit);     // emptied or overwritten: open it again with .overwritten
bool audit_has_no_auto_vacuum(const audit_t *audit); // an older version made the file, so the file cannot shrink

// The lost log that was at this path before. Every opening reports the loss until audit_clear_loss.
typedef struct audit_loss {
    char instance[40];      // name of the lost log; its acknowledgements must be revoked
    char reason[40];        // AUDIT_DAMAGED, AUDIT_MISSING or AUDIT_REPLACED
    char set_aside_as[320]; // file name in the same directory; "" = the log was not set aside
} audit_loss_t;
#define AUDIT_DAMAGED  "log_damaged"
#define AUDIT_MISSING  "log_missing"
#define AUDIT_REPLACED "log_replaced"                 // by another log, or by a copy of one
const audit_loss_t *audit_loss(const audit_t *audit); // NULL = no log was lost
bool audit_clear_loss(audit_t *audit, buffer_t *why); // writes to the lock file: this log belongs here, none is lost

// Whether the log is read as a file that nobody writes to, for lack of rights to its directory. It then never shows newer rows.
bool audit_is_immutable(const audit_t *audit);

// A random name, made together with the file. The auditor acknowledges under this name.
const char *audit_instance(const audit_t *audit);

enum { AUDIT_POSITION_SIZE = 48 };
// Id of the last stream entry of `queue` in the log; "0-0" = none yet.
bool audit_position(audit_t *audit, slice_t queue, char position[AUDIT_POSITION_SIZE], buffer_t *why);

// One transaction: begin, any number of inserts and positions, then commit. If one of them returns false: rollback.
bool audit_begin(audit_t *audit, buffer_t *why);
// Inserts an event, unless the log already has its id. So a second read of a stream is harmless. *added, if not NULL: the event
// was new. Refuses an event without an id (see event_ref). Keeps bytes that are not UTF-8 exactly in payload and error. Escapes
// them in other columns.
bool audit_insert(audit_t *audit, const event_t *event, bool *added, buffer_t *why);
// The same, but the row is written by audit_flush, or by audit_commit at the latest: a transaction of many events is faster so.
// Until then no other function knows the event.
bool audit_insert_later(audit_t *audit, const event_t *event, buffer_t *why);
bool audit_flush(audit_t *audit, buffer_t *why);
int64_t audit_added(const audit_t *audit); // new rows of the open transaction, less those removed
// *fits = false: the event is an answer to an event of another job, or to one that is no failure. If the log lacks that event,
// *fits is true.
bool audit_answer_fits(audit_t *audit, const event_t *event, bool *fits, buffer_t *why);
// Whether retention has removed rows with this `at` or a later one. If so, an event that was in the log before may have been
// removed. For a new event the answer means nothing: after a clock went back, a new event has an old `at`.
bool audit_has_removed(const audit_t *audit, int64_t at);
bool audit_set_position(audit_t *audit, const char *queue, const char *position, buffer_t *why);
bool audit_commit(audit_t *audit, buffer_t *why); // on disk when it returns true
void audit_rollback(audit_t *audit);

// Number of erasures since the last audit_scrub: parts of their texts may still be in the files of the log.
bool audit_count_unscrubbed(audit_t *audit, int64_t *count, buffer_t *why);
typedef enum audit_scrub {
    AUDIT_SCRUBBED,
    AUDIT_SCRUB_LATER,  // another process needs the -wal file or writes, or `stop` is set: try again
    AUDIT_SCRUB_FAILED, // with *why; also if the disk has no room for two more logs
} audit_scrub_t;
// Writes the whole log anew and empties its -wal file, so that nothing of an erased text stays. Takes seconds for a large log;
// readers go on meanwhile, other writers wait.
audit_scrub_t audit_scrub(audit_t *audit, buffer_t *why);

// Merges the -wal file into the log. This writes its pages again: after a failed fsync some may be in the page cache only.
bool audit_checkpoint(audit_t *audit, buffer_t *why);

// Retention. 0 = no limit.
typedef struct audit_limits {
    int64_t retain_ms;
    int64_t rows;
    int64_t bytes;
    // Redis's time plus a tolerance; 0 = unknown. A newer row means that the clock went back: remove rows in order of arrival.
    int64_t latest_ms;
} audit_limits_t;
typedef struct audit_usage {
    int64_t rows;
    int64_t bytes;      // of the file and its -wal
    int64_t used_bytes; // bytes without free pages; the limit applies to this number
    int64_t oldest_ms;  // `at` of the oldest row; INT64_MAX = none
} audit_usage_t;
bool audit_measure(audit_t *audit, audit_usage_t *out, buffer_t *why);
// Size of the -wal file if a long read prevents its checkpoint; otherwise 0.
int64_t audit_pinned_wal_bytes(audit_t *audit);

typedef struct audit_retain_result {
    int64_t removed; // rows
    bool more;       // more rows or pages are left to free
} audit_retain_result_t;
// Makes one step of about budget_us, with a commit. Removes, in one transaction, the rows of the lowest `at` (see latest_ms)
// while they are too old or the log is too large. Otherwise returns free pages to the file system. now_ms by Redis's clock; 0 =
// unknown: then no row is too old.
bool audit_retain(audit_t *audit, const audit_limits_t *limits, int64_t now_ms, int64_t budget_us, audit_retain_result_t *out,
                  buffer_t *why);

// Sets how long to wait for another writer, in ms. The default is 5,000.
void audit_set_busy_timeout(audit_t *audit, int ms);

typedef void backup_progress_fn(void *self, int64_t pages, int64_t of);
// Copies the present content of the log into the empty file `path`, and checks the copy (PRAGMA quick_check). The copy gets its
// own instance name, because two logs of one name would acknowledge for each other. The copy is not yet forced to disk. False
// with *why: the file is useless.
bool audit_backup(audit_t *audit, const char *path, backup_progress_fn *progress, void *self, buffer_t *why);

// Checks whether a sidecar could keep an audit log at `path`: the directory, the file, its lock, and the free space for
// `max_bytes` (audit.retain_bytes; 0 = no limit). Changes nothing. Calls `report` at least once.
typedef enum audit_severity { AUDIT_OK, AUDIT_WARNING, AUDIT_ERROR } audit_severity_t;
typedef void audit_path_check_fn(void *self, audit_severity_t severity, const char *text);
void audit_check_path(const char *path, int64_t max_bytes, audit_path_check_fn *report, void *self);
