// The auditor's pen: the audit log, with what the auditor does when it cannot be written, and what keeps it within its limits.
// Used by one thread.
//
// After any failure the log is closed, said once, and opened again by backoff: whatever was wrong (a full disk, a lock, a file
// that went away), the same way leads back. A damaged log is moved aside on that way.
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
    bool damaged;     // to be set aside at the next opening
    bool overwritten; // the files beside it are
    mono_t check_at;  // next look at whether it is still there
} log_file_t;

typedef struct log_transaction {
    bool open;
    mono_t began_at;
    int64_t took_us; // of the last one
} log_transaction_t;

typedef struct log_failure {
    bool active;     // the log cannot be written, and that was reported
    char *reason;    // that was reported; owned
    mono_t retry_at; // no attempt before this
    backoff_t backoff;
} log_failure_t;

typedef struct log_retention {
    audit_limits_t limits;
    mono_t next_at;      // next look at the limits
    mono_t expire_at;    // no row is removed for its age alone before this
    mono_t check_wal_at; // next look at what readers keep in the -wal file
    bool falling_behind; // more comes in than goes out: a limit is exceeded by some percent
    condition_t nearly_full;
    condition_t rows_expire; // rows reach audit.retain
    condition_t clocks_apart;
    condition_t wal_pinned; // a reader lets the -wal file grow
    int64_t removed;        // rows, since the last report
    mono_t report_at;       // of removed rows, not before this
} log_retention_t;

typedef struct audit_writer {
    const char *path; // borrowed
    metrics_t *metrics;
    const atomic_bool *stop; // ends a long check; borrowed
    audit_lock_t *lock;      // owned
    audit_t *audit;          // owned; NULL = closed
    char instance[80];       // of the log that was last open; "" = none was
    log_file_t file;
    log_transaction_t transaction;
    log_failure_t failure;
    log_retention_t retention;
} audit_writer_t;

void audit_writer_init(audit_writer_t *writer, const char *path, const audit_limits_t *limits, metrics_t *metrics,
                       const atomic_bool *stop);
void audit_writer_close(audit_writer_t *writer);  // the lock is kept
void audit_writer_finish(audit_writer_t *writer); // for good; a second time is fine

// Opens the log if it is closed. *fresh: it was; *other: it is another log than the last one. False: not now, see retry_at.
bool audit_writer_open(audit_writer_t *writer, bool *fresh, bool *other);

// Sees once a second that the file is still there; otherwise closes the log.
void audit_writer_check_file(audit_writer_t *writer);

// A false of these has ended the transaction, closed the log and put it off.
bool audit_writer_position(audit_writer_t *writer, const char *queue, char position[AUDIT_POSITION_SIZE]);
bool audit_writer_begin(audit_writer_t *writer); // nothing when a transaction is under way
bool audit_writer_insert(audit_writer_t *writer, const event_t *event, bool *added);
bool audit_writer_set_position(audit_writer_t *writer, const char *queue, const char *position);
bool audit_writer_commit(audit_writer_t *writer);
bool audit_writer_clear_loss(audit_writer_t *writer); // what audit_loss told of has been dealt with
void audit_writer_rollback(audit_writer_t *writer);   // nothing when there is no transaction

// The log has failed: ends the transaction, closes it and puts it off. Takes the reason, and says it unless it is the same as
// before. Always false.
bool audit_writer_fail(audit_writer_t *writer, buffer_t *why);

// Keeps the log within its limits, in one step of a few ms, when that is due. now_ms is Redis's clock, 0 = unknown. *more: there
// is more to do at once.
bool audit_writer_retain(audit_writer_t *writer, int64_t now_ms, bool *more);

// Whether Redis's clock and this machine's are no more than a day apart, and half of audit.retain. While they are further apart
// nothing counts as old.
bool audit_writer_clocks_agree(const audit_writer_t *writer, int64_t redis_ms);

#endif
