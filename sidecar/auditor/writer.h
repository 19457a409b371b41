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
#include "model/metrics.h"

typedef struct pen {
    const char *path; // borrowed
    metrics_t *metrics;
    audit_limits_t limits;
    const atomic_bool *stop; // ends a long check; borrowed
    audit_lock_t *lock;      // owned
    audit_t *audit;          // owned; NULL = closed
    char instance[80];       // of the log that was last open; "" = none was
    bool writing;            // a transaction is under way
    bool failed;             // it cannot be written, and this was said
    char *reason;            // what was said, owned
    bool checked;            // every page was read once by this process
    bool damaged;            // it is to be moved aside
    bool overwritten;        // what lies beside it is
    mono_t retry_at;         // no attempt before this
    backoff_t backoff;
    mono_t began_at;   // of the transaction under way
    int64_t write_us;  // that the last one took
    mono_t watch_at;   // next look at whether the file is still there
    mono_t retain_at;  // next look at the limits
    mono_t expire_at;  // no row is removed for its age alone before this
    bool pressed;      // more comes in than goes out: a limit is exceeded by some percent
    bool warned_full;  // it was said that a limit is near
    bool warned_age;   // and that rows reach their age
    bool warned_clock; // and that the clocks disagree
    bool warned_pin;   // and that a reader lets the file beside the log grow
    mono_t pin_at;     // next look at that
    int64_t dropped;   // rows, since it was said last
    mono_t say_at;     // not again before this
} pen_t;

void pen_init(pen_t *pen, const char *path, const audit_limits_t *limits, metrics_t *metrics, const atomic_bool *stop);
void pen_close(pen_t *pen); // the lock is kept
void pen_end(pen_t *pen);   // for good; a second time is fine

// Opens the log if it is closed. *fresh: it was; *other: it is another log than the last one. False: not now, see retry_at.
bool pen_open(pen_t *pen, bool *fresh, bool *other);

// Sees once a second that the file is still there; otherwise closes the log.
void pen_watch(pen_t *pen);

// A false of these has ended the transaction, closed the log and put it off.
bool pen_position(pen_t *pen, const char *queue, char position[AUDIT_POSITION_SIZE]);
bool pen_begin(pen_t *pen); // nothing when a transaction is under way
bool pen_put(pen_t *pen, const event_t *event, bool *added);
bool pen_move(pen_t *pen, const char *queue, const char *position);
bool pen_commit(pen_t *pen);
bool pen_settle_loss(pen_t *pen); // what audit_loss told of has been dealt with
void pen_rollback(pen_t *pen);    // nothing when there is no transaction

// The log has failed: ends the transaction, closes it and puts it off. Takes the reason, and says it unless it is the same as
// before. Always false.
bool pen_fail(pen_t *pen, buffer_t *why);

// Keeps the log within its limits, in one step of a few ms, when that is due. now_ms is Redis's clock, 0 = unknown. *more: there
// is more to do at once.
bool pen_retain(pen_t *pen, int64_t now_ms, bool *more);

// Whether Redis's clock and this machine's are no more than a day apart, and half of audit.retain. While they are further apart
// nothing counts as old.
bool pen_clocks_agree(const pen_t *pen, int64_t redis_ms);

#endif
