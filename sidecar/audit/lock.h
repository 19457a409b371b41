// The lock file beside the log, <path>.lock. It names the process that writes the log, the log that belongs at the path, and a
// log that was lost there.
//
// Locks belong to the open file (fcntl(2), F_OFD_SETLK) and cover two of its bytes. The auditor holds the first byte during its
// whole life. Other writers (imports) share the second byte. The process that sets the log aside locks the second byte
// exclusively.
#pragma once

#include "audit/audit.h"

struct audit_lock {
    char *log;         // path of the log, owned
    char *path;        // of the lock file, owned
    int fd;            // -1 = closed
    bool held;         // this process holds the first byte
    audit_loss_t loss; // the log that belongs at the path; instance "" = none yet; reason "" = it is not lost
};

// Acquires the lock for the auditor, until audit_lock_free. True at once if this process already holds the lock. False with *why,
// which names the holder.
bool audit_lock_acquire(audit_lock_t *lock, buffer_t *why);
// Shares the log with other writers until the lock is freed.
bool audit_lock_acquire_shared(audit_lock_t *lock, buffer_t *why);
// Keeps imports out, until audit_lock_admit_writers.
bool audit_lock_exclude_writers(audit_lock_t *lock, buffer_t *why);
void audit_lock_admit_writers(audit_lock_t *lock);

// Whether a lock file can be made at its place, or is there. False with *why.
bool audit_lock_is_usable(const char *log, buffer_t *why);
// Whether a process holds the log at this path. `holder` is its name in the lock file. Makes no file.
enum { LOCK_HOLDER_SIZE = 513 };
bool audit_lock_is_held(const char *log, char holder[LOCK_HOLDER_SIZE]);

// Writes the lock file, with lock->loss, and syncs it. Only for the holder.
bool audit_lock_write(audit_lock_t *lock, buffer_t *why);
