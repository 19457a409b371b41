// The auditor's pen: the audit log, with what the auditor does when it cannot be written. Used by one thread.
//
// After any failure the log is closed, said once, and opened again by backoff: whatever was wrong (a full disk, a lock, a file
// that went away), the same way leads back.
#ifndef QS_AUDITOR_LOG_H
#define QS_AUDITOR_LOG_H

#include <stdbool.h>

#include "audit/audit.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "metrics.h"

typedef struct pen {
    const char *path; // borrowed
    metrics_t *metrics;
    audit_t *audit;    // owned; NULL = closed
    char instance[80]; // of the log that was last open; "" = none was
    bool writing;      // a transaction is under way
    bool failed;       // it cannot be written, and this was said
    char reason[256];  // what was said
    mono_t retry_at;   // no attempt before this
    backoff_t backoff;
} pen_t;

void pen_init(pen_t *pen, const char *path, metrics_t *metrics);
void pen_close(pen_t *pen);

// Opens the log if it is closed. *fresh: it was; *other: it is another log than the last one. False: not now, see retry_at.
bool pen_open(pen_t *pen, bool *fresh, bool *other);

// A false of these has ended the transaction, closed the log and put it off.
bool pen_position(pen_t *pen, const char *queue, char position[AUDIT_POSITION_SIZE]);
bool pen_begin(pen_t *pen); // nothing when a transaction is under way
bool pen_put(pen_t *pen, const event_t *event, bool *added);
bool pen_move(pen_t *pen, const char *queue, const char *position);
bool pen_commit(pen_t *pen);
void pen_rollback(pen_t *pen); // nothing when there is no transaction

#endif
