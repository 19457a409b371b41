// Sets aside a damaged log, or the files that a lost log left. Deletes nothing: people may want to examine the files.
#include <fcntl.h>
#include <sys/stat.h>

#include "audit/lock.h"
#include "audit/store.h"
#include "base/failpoint.h"

static bool set_aside_exists(const char *path, const char *suffix) {
    struct stat at;
    char *name = mem_printf("%s%s", path, suffix);
    bool exists = lstat(name, &at) == 0;
    free(name);
    return exists;
}

// <path>.corrupt-<UTC time>, with a number if that name exists; owned.
static char *set_aside_free_name(const char *path) {
    time_t now = time(NULL);
    struct tm utc;
    char when[32];
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", &utc);
    char *name = mem_printf("%s.corrupt-%s", path, when);
    for (int n = 2; set_aside_exists(name, ""); n++) {
        free(name);
        name = mem_printf("%s.corrupt-%s.%d", path, when, n);
    }
    return name;
}

static bool set_aside_move(const char *path, const char *to, const char *suffix, buffer_t *why) {
    char *from = mem_printf("%s%s", path, suffix);
    char *target = mem_printf("%s%s", to, suffix);
    bool done = rename(from, target) == 0 || errno == ENOENT || audit_fail_errno(path, "set it aside", why);
    free(from);
    free(target);
    return done;
}

bool audit_sync_directory(const char *path) {
    char *dir = audit_directory(path);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) close(fd);
    free(dir);
    return done;
}

// SQLite finds the -wal and -shm files by the name of the database, so these files get the new name too.
static bool set_aside_move_wal(const char *path, const char *to, buffer_t *why) {
    return set_aside_move(path, to, "-wal", why) && set_aside_move(path, to, "-shm", why) &&
           (audit_sync_directory(path) || audit_fail_errno(path, "set it aside", why));
}

// Moves the database first. After a crash the next opening finds files without a database and moves these files too.
static bool set_aside_move_all(const char *path, const char *to, buffer_t *why) {
    failpoint("audit_set_aside_before");
    if (!set_aside_move(path, to, "", why)) return false;
    failpoint("audit_set_aside_database");
    if (!set_aside_move_wal(path, to, why)) return false;
    failpoint("audit_set_aside_moved");
    return true;
}

bool audit_set_aside(audit_lock_t *lock, const char *reason, buffer_t *why) {
    char *to = NULL;
    bool database = set_aside_exists(lock->log, "");
    if (!audit_lock_exclude_writers(lock, why)) return false;
    if (!database && *lock->loss.set_aside_as) { // continues a move after a crash
        char *dir = audit_directory(lock->log);
        to = mem_printf("%s/%s", dir, lock->loss.set_aside_as);
        free(dir);
    } else {
        to = set_aside_free_name(lock->log);
    }
    if (!*lock->loss.reason || database) snprintf(lock->loss.reason, sizeof lock->loss.reason, "%s", reason);
    snprintf(lock->loss.set_aside_as, sizeof lock->loss.set_aside_as, "%s", strrchr(to, '/') ? strrchr(to, '/') + 1 : to);
    bool done = audit_lock_write(lock, why) && set_aside_move_all(lock->log, to, why);
    audit_lock_admit_writers(lock);
    free(to);
    return done;
}

bool audit_set_wal_aside(audit_lock_t *lock, buffer_t *why) {
    if (!audit_lock_exclude_writers(lock, why)) return false;
    char *to = set_aside_free_name(lock->log);
    bool done = set_aside_move_wal(lock->log, to, why);
    audit_lock_admit_writers(lock);
    free(to);
    return done;
}

bool audit_has_orphan_wal(const char *path) {
    return !set_aside_exists(path, "") && (set_aside_exists(path, "-wal") || set_aside_exists(path, "-shm"));
}
