// The audit writer. It opens the audit log, writes to it, closes it after a failure, and keeps it within its limits. For one
// thread.
//
// A failure closes the log and is reported once. After a back-off the writer opens the log again. Each failure is handled in
// this way: a full disk, a lock, a lost file. At the reopening the writer sets a damaged log aside.
#pragma once

#include <stdatomic.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/condition.h"
#include "config/config.h"
#include "model/metrics.h"

enum { SLOWEST_DISK_MIB_S = 1 }; // a slower disk counts as hanging

typedef struct log_file {
    bool checked;     // this process has read every page once
    bool damaged;     // set the log aside at the next opening
    bool overwritten; // set the files beside the log aside at the next opening
    bool other;       // the last opening found another log than the one before
    mono_t check_at;  // when to check next that the file is in place
} log_file_t;

typedef struct log_transaction {
    bool open;
    mono_t began_at;
    int64_t took_us; // duration of the last transaction
} log_transaction_t;

// Erased texts of which parts may still be in the files of the log.
typedef struct log_scrub {
    int64_t erasures;  // number of them; 0 = nothing is left
    mono_t at;         // when to rewrite the log
    mono_t latest_at;  // the same if further erasures come all the time
    condition_t waits; // another process reads or writes the log
    condition_t fails; // with the reason
} log_scrub_t;

typedef struct log_retention {
    audit_limits_t limits;
    mono_t next_at;      // when to check the limits next
    mono_t expire_at;    // no row is removed for its age alone before this
    mono_t check_wal_at; // when to check next whether a reader pins the -wal file
    bool falling_behind; // rows arrive faster than they are removed: a limit is exceeded by some percent
    int64_t owed_us;     // duration of the transactions for which no rows were removed yet
    condition_t nearly_full;
    condition_t rows_expire;  // the oldest rows reach audit.retain
    condition_t clocks_apart; // Redis's clock and the clock of this machine are too far apart
    condition_t wal_pinned;   // a reader lets the -wal file grow
    log_scrub_t scrub;
    int64_t removed;  // rows removed since the last report
    mono_t report_at; // when to report removed rows next
} log_retention_t;

typedef struct audit_writer {
    const char *path; // borrowed
    metrics_t *metrics;
    const atomic_bool *stop; // ends a long check; borrowed
    const config_t *to_keep; // no copy of it is beside the log yet; borrowed; NULL = none is missing
    audit_lock_t *lock;      // owned
    audit_t *audit;          // owned; NULL = closed
    unsigned opened;         // counts the openings
    char instance[80];       // name of the last open log; "" = no log was open
    buffer_t why;            // reason of the failure that audit_writer_fail reports
    condition_t failure;     // the log cannot be written
    backoff_t backoff;       // no attempt before its retry_at
    log_file_t file;
    log_transaction_t transaction;
    log_retention_t retention;
} audit_writer_t;

void audit_writer_init(audit_writer_t *writer, const char *path, const audit_limits_t *limits, metrics_t *metrics,
                       const atomic_bool *stop);
void audit_writer_close(audit_writer_t *writer);  // keeps the lock
void audit_writer_finish(audit_writer_t *writer); // closes the log for good; a second call is harmless

// Opens the log if it is closed. False: the log cannot be opened before backoff.retry_at.
bool audit_writer_open(audit_writer_t *writer);

// Checks once a second that the file is in place. Closes the log if the file is gone or changed.
void audit_writer_check_file(audit_writer_t *writer);

// If one of these functions returns false, the transaction has ended and the log is closed.
bool audit_writer_position(audit_writer_t *writer, const char *queue, char position[AUDIT_POSITION_SIZE]);
bool audit_writer_begin(audit_writer_t *writer); // does nothing in a transaction
bool audit_writer_answer_fits(audit_writer_t *writer, const event_t *event, bool *fits);
bool audit_writer_insert(audit_writer_t *writer, const event_t *event, bool *added);
bool audit_writer_insert_later(audit_writer_t *writer, const event_t *event); // see audit_insert_later
bool audit_writer_flush(audit_writer_t *writer);
bool audit_writer_set_position(audit_writer_t *writer, const char *queue, const char *position);
bool audit_writer_commit(audit_writer_t *writer);
bool audit_writer_clear_loss(audit_writer_t *writer);
void audit_writer_rollback(audit_writer_t *writer); // does nothing outside of a transaction

// Handles a failure of the log: closes it until the back-off ends. Logs writer->why, unless it equals the last reason. Always
// false.
bool audit_writer_fail(audit_writer_t *writer);

// Keeps the log within its limits. Makes one step of a few ms if it is due. now_ms is Redis's time, 0 = unknown. True: the next
// step is due at once.
bool audit_writer_retain(audit_writer_t *writer, int64_t now_ms);

// Called after a commit of copied records: measures the log.
void audit_writer_note_added(audit_writer_t *writer);

// True: the log is far over a limit, so steps of audit_writer_retain come before the next transaction. False after they have
// taken some times as long as the last ones: new failures come in even after a limit was lowered by far.
bool audit_writer_must_shrink(const audit_writer_t *writer);

// Whether Redis's clock and the clock of this machine differ by at most a day and by at most half of audit.retain. While they
// differ by more, no row expires.
bool audit_writer_clocks_agree(const audit_writer_t *writer, int64_t redis_ms);
