// The lock file beside the log, <path>.lock: who writes the log, whose log lies at the path, and which one was lost there.
//
// Locks are of the open file (fcntl(2), F_OFD_SETLK), on two of its bytes: the first is held by the auditor as long as it lives;
// the second is shared by those who write beside it for a short time (an import), and held alone while the log is moved aside.
#ifndef QS_AUDIT_LOCK_H
#define QS_AUDIT_LOCK_H

#include <stdbool.h>

#include "audit/audit.h"

enum { LOCK_NAME_SIZE = 40, LOCK_FILE_SIZE = 320 };

struct audit_lock {
    char *log;                         // path of the log, owned
    char *path;                        // of the lock file, owned
    int fd;                            // -1 = closed
    bool held;                         // the first byte is ours
    char instance[LOCK_NAME_SIZE];     // of the log that belongs here; "" = none has been made yet
    char reason[LOCK_NAME_SIZE];       // why that one is lost; "" = it is not
    char set_aside_as[LOCK_FILE_SIZE]; // name of the file that it was moved to; "" = it was not moved
};

// Holds the log for writing, from now until it is freed; true at once where it is held already. False with who holds it, or why
// not.
bool audit_lock_acquire(audit_lock_t *lock, buffer_t *why);
// Shares the log with other writers until it is freed.
bool audit_lock_acquire_shared(audit_lock_t *lock, buffer_t *why);
// Keeps those who share out, and lets them in again.
bool audit_lock_exclude_writers(audit_lock_t *lock, buffer_t *why);
void audit_lock_admit_writers(audit_lock_t *lock);

// Whether somebody holds the log at this path, and who, as far as the lock file says. Makes nothing.
enum { LOCK_HOLDER_SIZE = 513 };
bool audit_lock_is_held(const char *log, char holder[LOCK_HOLDER_SIZE]);

// Writes instance, reason and aside down; they are on disk when it returns true. Only for who holds it.
bool audit_lock_write(audit_lock_t *lock, buffer_t *why);

#endif
