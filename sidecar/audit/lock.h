// The lock file beside the log, <path>.lock. It names the process that writes the log, the log that belongs at the path, and a
// log that was lost there.
//
// Locks belong to the open file (fcntl(2), F_OFD_SETLK) and cover two of its bytes. The auditor holds the first byte during its
// whole life. Other writers (imports) share the second byte. The process that sets the log aside needs the second byte alone.
#pragma once

#include "audit/audit.h"

struct audit_lock {
    char *log;         // path of the log, owned
    char *path;        // of the lock file, owned
    int fd;            // -1 = closed
    bool held;         // this process holds the first byte
    audit_loss_t loss; // of the log that belongs here; instance "" = no log was made yet; reason "" = it is not lost
};

// Holds the log for writing until the lock is freed. True at once if this process already holds it. False with *why, which names
// the holder.
bool audit_lock_acquire(audit_lock_t *lock, buffer_t *why);
// Shares the log with other writers until the lock is freed.
bool audit_lock_acquire_shared(audit_lock_t *lock, buffer_t *why);
// Keeps out the writers that share the log, and admits them again.
bool audit_lock_exclude_writers(audit_lock_t *lock, buffer_t *why);
void audit_lock_admit_writers(audit_lock_t *lock);

// Whether a process holds the log at this path. `holder` is its name in the lock file. Makes no file.
enum { LOCK_HOLDER_SIZE = 513 };
bool audit_lock_is_held(const char *log, char holder[LOCK_HOLDER_SIZE]);

// Writes `loss` to disk. Only for the holder.
bool audit_lock_write(audit_lock_t *lock, buffer_t *why);
