// The lock file beside the log, <path>.lock. It names the process that writes the log, the log that belongs at the path, and a
// log that was lost there.
//
// Locks belong to the open file (fcntl(2), F_OFD_SETLK) and cover two of its bytes. The auditor holds the first byte during its
// whole life. Other writers (imports) share the second byte. The process that sets the log aside needs the second byte alone.
#pragma once

#include <stdbool.h>

#include "audit/audit.h"

enum { LOCK_NAME_SIZE = 40, LOCK_FILE_SIZE = 320 };

struct audit_lock {
    char *log;                         // path of the log, owned
    char *path;                        // of the lock file, owned
    int fd;                            // -1 = closed
    bool held;                         // this process holds the first byte
    char instance[LOCK_NAME_SIZE];     // name of the log that belongs here; "" = no log was made yet
    char reason[LOCK_NAME_SIZE];       // why that log is lost; "" = it is not lost
    char set_aside_as[LOCK_FILE_SIZE]; // name of the file that the log was moved to; "" = the log was not moved
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

// Writes instance, reason and set_aside_as to disk. Only for the holder.
bool audit_lock_write(audit_lock_t *lock, buffer_t *why);
