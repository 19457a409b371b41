// The audit log of the auditor: opens it, writes to it, closes it after a failure, and keeps it within its limits. For one
// thread.
//
// A failure closes the log, is reported once, and the log is opened again after a back-off. The same way leads back from all
// failures: a full disk, a lock, a file that went away. On that way a damaged log is set aside.
#ifndef QS_AUDITOR_WRITER_H
#define QS_AUDITOR_WRITER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "audit/audit.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/condition.h"
#include "model/metrics.h"

typedef struct log_file {
    bool checked;     // this process has read every page once
    bool damaged;     // set it aside at the next opening
    bool overwritten; // set the files beside it aside at the next opening
    mono_t check_at;  // next look at whether it is in place
} log_file_t;

typedef struct log_transaction {
    bool open;
    mono_t began_at;
    int64_t took_us; // of the last one
} log_transaction_t;

typedef struct log_retention {
    audit_limits_t limits;
    mono_t next_at;      // next look at the limits
    mono_t expire_at;    // no row is removed for its age alone before this
    mono_t check_wal_at; // next look at whether a reader pins the -wal file
    bool falling_behind; // rows arrive faster than they are removed: a limit is exceeded by some percent
    condition_t nearly_full;
    condition_t rows_expire;  // the oldest rows reach audit.retain
    condition_t clocks_apart; // Redis's and ours
    condition_t wal_pinned;   // a reader lets the -wal file grow
    int64_t removed;          // rows, since the last report
    mono_t report_at;         // next report of removed rows
} log_retention_t;

typedef struct audit_writer {
    const char *path; // borrowed
    metrics_t *metrics;
    const atomic_bool *stop; // ends a long check; borrowed
    audit_lock_t *lock;      // owned
    audit_t *audit;          // owned; NULL = closed
    char instance[80];       // of the log that was last open; "" = none was
    condition_t failure;     // the log cannot be written
    backoff_t backoff;       // no attempt before its retry_at
    log_file_t file;
    log_transaction_t transaction;
    log_retention_t retention;
} audit_writer_t;

void audit_writer_init(audit_writer_t *writer, const char *path, const audit_limits_t *limits, metrics_t *metrics,
                       const atomic_bool *stop);
void audit_writer_close(audit_writer_t *writer);  // keeps the lock
void audit_writer_finish(audit_writer_t *writer); // for good; a second time is fine

// Opens the log if it is closed. *fresh: it was; *other: it is another log than the last one. False: not now, see backoff.
bool audit_writer_open(audit_writer_t *writer, bool *fresh, bool *other);

// Checks once a second that the file is in place, and closes the log where it is not.
void audit_writer_check_file(audit_writer_t *writer);

// After a false of these the transaction has ended and the log is closed.
bool audit_writer_position(audit_writer_t *writer, const char *queue, char position[AUDIT_POSITION_SIZE]);
bool audit_writer_begin(audit_writer_t *writer); // does nothing in a transaction
bool audit_writer_insert(audit_writer_t *writer, const event_t *event, bool *added);
bool audit_writer_set_position(audit_writer_t *writer, const char *queue, const char *position);
bool audit_writer_commit(audit_writer_t *writer);
bool audit_writer_clear_loss(audit_writer_t *writer);
void audit_writer_rollback(audit_writer_t *writer); // does nothing outside of a transaction

// The log has failed: closes it until the back-off ends. Takes the reason, and logs it unless it is the last one. Always false.
bool audit_writer_fail(audit_writer_t *writer, buffer_t *why);

// Keeps the log within its limits, in one step of a few ms, when that is due. now_ms is Redis's clock, 0 = unknown. *more: there
// is more to do at once.
bool audit_writer_retain(audit_writer_t *writer, int64_t now_ms, bool *more);

// Whether Redis's clock and ours differ by at most a day, and half of audit.retain. Nothing expires while they differ by more.
bool audit_writer_clocks_agree(const audit_writer_t *writer, int64_t redis_ms);

#endif
