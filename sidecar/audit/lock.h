// The lock file beside the log, <path>.lock: which process writes the log, which log belongs at the path, and which log was lost
// there.
//
// Locks belong to the open file (fcntl(2), F_OFD_SETLK), on two of its bytes. The auditor holds the first as long as it lives.
// Writers beside it (imports) share the second; setting the log aside needs the second alone.
#ifndef QS_AUDIT_LOCK_H
#define QS_AUDIT_LOCK_H

#include <stdbool.h>

#include "audit/audit.h"

enum { LOCK_NAME_SIZE = 40, LOCK_FILE_SIZE = 320 };

struct audit_lock {
    char *log;                         // path of the log, owned
    char *path;                        // of the lock file, owned
    int fd;                            // -1 = closed
    bool held;                         // we hold the first byte
    char instance[LOCK_NAME_SIZE];     // of the log that belongs here; "" = none was made yet
    char reason[LOCK_NAME_SIZE];       // why that log is lost; "" = it is not
    char set_aside_as[LOCK_FILE_SIZE]; // name of the file that it was moved to; "" = it was not moved
};

// Holds the log for writing until the lock is freed. True at once where it is held already. False with *why, which names the
// holder.
bool audit_lock_acquire(audit_lock_t *lock, buffer_t *why);
// Shares the log with other writers until the lock is freed.
bool audit_lock_acquire_shared(audit_lock_t *lock, buffer_t *why);
// Keeps writers that share the log out, and admits them again.
bool audit_lock_exclude_writers(audit_lock_t *lock, buffer_t *why);
void audit_lock_admit_writers(audit_lock_t *lock);

// Whether a process holds the log at this path. `holder` is its name in the lock file. Makes no file.
enum { LOCK_HOLDER_SIZE = 513 };
bool audit_lock_is_held(const char *log, char holder[LOCK_HOLDER_SIZE]);

// Writes instance, reason and set_aside_as to disk. Only for the holder.
bool audit_lock_write(audit_lock_t *lock, buffer_t *why);

#endif
