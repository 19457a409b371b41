#include "audit/lock.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "audit/store.h"

// The lock file is one block, written by one pwrite(2). So a process that is killed meanwhile leaves the old text or the new one.
enum { BLOCK_SIZE = LOCK_HOLDER_SIZE - 1, FILE_MODE = 0640, BYTE_HOLDER = 0, BYTE_WRITERS = 1, HOST_SIZE = 65 };

static const char UNKNOWN_HOLDER[] = "its lock file names no process";

audit_lock_t *audit_lock_new(const char *log) {
    audit_lock_t *lock = mem_alloc(sizeof *lock);
    *lock = (audit_lock_t){.log = mem_str(log), .path = mem_printf("%s.lock", log), .fd = -1};
    return lock;
}

static void lock_release(audit_lock_t *lock) {
    if (lock->fd >= 0) close(lock->fd); // also unlocks
    lock->fd = -1;
    lock->held = false;
}

void audit_lock_free(audit_lock_t *lock) {
    if (!lock) return;
    lock_release(lock);
    free(lock->log);
    free(lock->path);
    free(lock);
}

bool audit_lock_is_ours(const audit_lock_t *lock) { return lock->held; }

static bool lock_range(const audit_lock_t *lock, int byte, short type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(lock->fd, F_OFD_SETLK, &range) == 0;
}

// A replaced lock file no longer counts, because two processes could each hold one.
static bool lock_file_is_current(const audit_lock_t *lock) {
    struct stat ours;
    struct stat there;
    return lock->fd >= 0 && fstat(lock->fd, &ours) == 0 && stat(lock->path, &there) == 0 && ours.st_dev == there.st_dev &&
           ours.st_ino == there.st_ino;
}

// A write through a link would overwrite a foreign file, and a directory or a FIFO is no failure of the disk.
static bool lock_file_is_usable(const audit_lock_t *lock, buffer_t *why) {
    struct stat at;
    if (lstat(lock->path, &at) != 0) return true; // it is made, or the error is reported then
    if (S_ISREG(at.st_mode) && at.st_nlink <= 1) return true;
    const char *kind = S_ISREG(at.st_mode)   ? "a hard link of another file"
                       : S_ISLNK(at.st_mode) ? "a symbolic link"
                       : S_ISDIR(at.st_mode) ? "a directory"
                                             : "no regular file";
    return audit_refuse(lock->log, why, "its lock file %s is %s: remove it, and its sidecar makes a new one", lock->path, kind);
}

static bool lock_open_file(audit_lock_t *lock, buffer_t *why) {
    for (int attempts = 0; attempts < 3; attempts++) {
        if (lock_file_is_current(lock)) return true;
        lock_release(lock);
        if (!lock_file_is_usable(lock, why)) return false;
        lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
        if (lock->fd < 0) return audit_fail_errno(lock->log, "make its lock file", why);
    }
    errno = ESTALE;
    return audit_fail_errno(lock->log, "open its lock file", why);
}

// Reads the lock file. Unknown text leaves `holder` and the loss empty.
static void lock_read(audit_lock_t *lock, char holder[BLOCK_SIZE]) {
    char text[BLOCK_SIZE + 1] = "";
    char *rest = text;
    ssize_t got = pread(lock->fd, text, BLOCK_SIZE, 0);
    text[got > 0 ? got : 0] = '\0';
    *holder = '\0';
    lock->loss = (audit_loss_t){0};
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        int at = 0;
        if (strncmp(line, "held by ", 8) == 0) snprintf(holder, BLOCK_SIZE, "%s", line + 8);
        if (sscanf(line, "instance %39[0-9a-f]", lock->loss.instance) == 1) continue;
        if (sscanf(line, "lost %39[a-z_] %n", lock->loss.reason, &at) == 1 && at > 0)
            snprintf(lock->loss.set_aside_as, sizeof lock->loss.set_aside_as, "%s", line + at);
    }
}

bool audit_lock_write(audit_lock_t *lock, buffer_t *why) {
    char block[BLOCK_SIZE];
    char host[HOST_SIZE] = "";
    gethostname(host, sizeof host - 1);
    memset(block, '\n', sizeof block);
    int used = snprintf(block, sizeof block, "held by pid %ld on %s\n", (long)getpid(), host);
    if (*lock->loss.instance) used += snprintf(block + used, sizeof block - (size_t)used, "instance %s\n", lock->loss.instance);
    if (*lock->loss.reason)
        used += snprintf(block + used, sizeof block - (size_t)used, "lost %s %s\n", lock->loss.reason, lock->loss.set_aside_as);
    if (used < BLOCK_SIZE) block[used] = '\n'; // over the NUL of snprintf
    if (pwrite(lock->fd, block, sizeof block, 0) == BLOCK_SIZE && fsync(lock->fd) == 0) return true;
    return audit_fail_errno(lock->log, "write its lock file", why);
}

bool audit_lock_acquire(audit_lock_t *lock, buffer_t *why) {
    char holder[BLOCK_SIZE];
    if (lock->held && lock_file_is_current(lock)) return true;
    const audit_loss_t before = lock->loss;
    if (!lock_open_file(lock, why)) return false;
    bool taken = lock_range(lock, BYTE_HOLDER, F_WRLCK);
    int error = errno;
    lock_read(lock, holder);
    if (taken) {
        // A new lock file names no log. If somebody has removed the old file, this process still knows the log and its loss.
        if (!*lock->loss.instance && !*lock->loss.reason) lock->loss = before;
        lock->held = audit_lock_write(lock, why);
    } else if (error == EAGAIN || error == EACCES) {
        audit_refuse(lock->log, why, "is written by another sidecar (%s): give each an audit.path of its own, or end one of them",
                     *holder ? holder : UNKNOWN_HOLDER);
    } else {
        errno = error;
        audit_fail_errno(lock->log, "lock it", why);
    }
    if (!lock->held) lock_release(lock);
    return lock->held;
}

bool audit_lock_is_usable(const char *log, buffer_t *why) {
    audit_lock_t *lock = audit_lock_new(log);
    bool usable = lock_file_is_usable(lock, why);
    audit_lock_free(lock);
    return usable;
}

bool audit_lock_is_held(const char *log, char holder[LOCK_HOLDER_SIZE]) {
    audit_lock_t *lock = audit_lock_new(log);
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = BYTE_HOLDER, .l_len = 1};
    char text[BLOCK_SIZE] = "";
    lock->fd = open(lock->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool held = lock->fd >= 0 && fcntl(lock->fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
    if (held) lock_read(lock, text);
    snprintf(holder, LOCK_HOLDER_SIZE, "%s", *text ? text : UNKNOWN_HOLDER);
    audit_lock_free(lock);
    return held;
}

bool audit_lock_acquire_shared(audit_lock_t *lock, buffer_t *why) {
    char holder[BLOCK_SIZE];
    if (!lock_open_file(lock, why)) return false;
    if (!lock_range(lock, BYTE_WRITERS, F_RDLCK)) {
        lock_release(lock);
        return audit_refuse(lock->log, why, "is being set aside by its sidecar: try again in a moment");
    }
    lock_read(lock, holder);
    return true;
}

bool audit_lock_exclude_writers(audit_lock_t *lock, buffer_t *why) {
    if (lock_range(lock, BYTE_WRITERS, F_WRLCK)) return true;
    return audit_refuse(lock->log, why, "must be set aside, but `audit import` writes to it: wait for the import, or end it");
}

void audit_lock_admit_writers(audit_lock_t *lock) { lock_range(lock, BYTE_WRITERS, F_UNLCK); }
