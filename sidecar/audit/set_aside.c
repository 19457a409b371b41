// A log that is damaged, or what is left of one, is moved aside and never deleted: people may want to look into it.
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/lock.h"
#include "audit/store.h"
#include "base/failpoint.h"

static bool there(const char *path) {
    struct stat at;
    return lstat(path, &at) == 0;
}

static bool fail(const char *path, const char *doing, buffer_t *why) {
    int error = errno;
    return audit_fail_code(path, error == ENOSPC ? SQLITE_FULL : SQLITE_CANTOPEN, error, doing, strerror(error), why);
}

// <path>.corrupt-<UTC time>, with a number where that is taken; owned.
static char *free_name(const char *path) {
    time_t now = time(NULL);
    struct tm utc;
    char when[32];
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", &utc);
    char *name = mem_printf("%s.corrupt-%s", path, when);
    for (int n = 2; there(name); n++) {
        free(name);
        name = mem_printf("%s.corrupt-%s.%d", path, when, n);
    }
    return name;
}

// SQLite finds the files beside a database by its name, so they keep belonging to it.
static bool move(const char *path, const char *to, const char *suffix, buffer_t *why) {
    char *from = mem_printf("%s%s", path, suffix);
    char *target = mem_printf("%s%s", to, suffix);
    bool done = rename(from, target) == 0 || errno == ENOENT || fail(path, "move it aside", why);
    free(from);
    free(target);
    return done;
}

static bool sync_directory(const char *path, buffer_t *why) {
    char *copy = mem_str(path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = (fd >= 0 && fsync(fd) == 0) || fail(path, "move it aside", why);
    if (fd >= 0) close(fd);
    free(copy);
    return done;
}

// The database goes first: what is left beside a database that is not there belongs to no other, and is moved at the next
// opening.
static bool move_all(const char *path, const char *to, buffer_t *why) {
    failpoint("audit_aside_before");
    if (!move(path, to, "", why)) return false;
    failpoint("audit_aside_database");
    if (!move(path, to, "-wal", why) || !move(path, to, "-shm", why) || !sync_directory(path, why)) return false;
    failpoint("audit_aside_moved");
    return true;
}

bool audit_move_aside(audit_lock_t *lock, const char *reason, buffer_t *why) {
    char *to = NULL;
    bool database = there(lock->log);
    if (!audit_lock_alone(lock, why)) return false;
    if (!database && *lock->aside) { // a crash was in between: these belong to that one
        char *copy = mem_str(lock->log);
        to = mem_printf("%s/%s", dirname(copy), lock->aside);
        free(copy);
    } else {
        to = free_name(lock->log);
    }
    if (!*lock->reason || database) snprintf(lock->reason, sizeof lock->reason, "%s", reason);
    snprintf(lock->aside, sizeof lock->aside, "%s", strrchr(to, '/') ? strrchr(to, '/') + 1 : to);
    bool done = audit_lock_write(lock, why) && move_all(lock->log, to, why);
    audit_lock_not_alone(lock);
    free(to);
    return done;
}

bool audit_move_beside(audit_lock_t *lock, buffer_t *why) {
    if (!audit_lock_alone(lock, why)) return false;
    char *to = free_name(lock->log);
    bool done = move(lock->log, to, "-wal", why) && move(lock->log, to, "-shm", why) && sync_directory(lock->log, why);
    audit_lock_not_alone(lock);
    free(to);
    return done;
}

bool audit_has_remains(const char *path) {
    if (there(path)) return false;
    char *wal = mem_printf("%s-wal", path);
    char *shm = mem_printf("%s-shm", path);
    bool remains = there(wal) || there(shm);
    free(wal);
    free(shm);
    return remains;
}
