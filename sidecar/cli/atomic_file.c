#include "cli/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "audit/audit.h"

enum { FILE_MODE = 0640, MAX_ATTEMPTS = 100 };

static bool atomic_file_fail(buffer_t *why, const char *path, const char *text) {
    buffer_printf(why, "%s: %s", path, text);
    return false;
}

static bool atomic_file_is_log(const char *path, const char *log) {
    static const char *const suffixes[] = {"", "-wal", "-shm", ".lock", ".in-effect.cfg"};
    bool same = false;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char *of_log = mem_printf("%s%s", log, suffixes[i]);
        same = same || audit_is_same_file(path, of_log);
        free(of_log);
    }
    return same;
}

static bool atomic_file_may_create(const atomic_file_t *file, const char *log, const char *config, buffer_t *why) {
    struct stat at;
    if (stat(file->path, &at) != 0) return errno == ENOENT || atomic_file_fail(why, file->path, strerror(errno));
    if (atomic_file_is_log(file->path, log))
        return atomic_file_fail(why, file->path, "is the audit log itself: name another file");
    if (audit_is_same_file(file->path, config)) return atomic_file_fail(why, file->path, "is the config: name another file");
    if (!S_ISREG(at.st_mode)) return atomic_file_fail(why, file->path, "is not a regular file: name a new file");
    return file->force || atomic_file_fail(why, file->path, "exists: name a new file, or use --force to replace it");
}

// The lock keeps other writers out. Between open and lock the part may have been renamed or removed: then try again. Another user
// who owns the part could read the jobs, or change the complete file. errno is EPERM then. A part made here is ours, although
// some file systems (CIFS, FAT, a squashing NFS server) name one owner for all files.
static int atomic_file_open_part(const char *part) {
    for (int i = 0; i < MAX_ATTEMPTS; i++) {
        struct stat opened, named;
        int fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
        bool made = fd >= 0;
        if (!made && errno == EEXIST) fd = open(part, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno == ENOENT && i == 0) continue; // removed meanwhile, or there is no such directory
        if (fd < 0) return -1;
        bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        int error = errno;
        bool same = locked && fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && stat(part, &named) == 0 &&
                    opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
        if (same && (made || opened.st_uid == geteuid())) return fd;
        close(fd);
        errno = !locked ? error : same ? EPERM : EAGAIN;
        if (!locked || same) break;
    }
    return -1;
}

static void atomic_file_close(atomic_file_t *file) {
    if (file->out) fclose(file->out);
    free(file->path);
    free(file->part);
    *file = (atomic_file_t){0};
}

bool atomic_file_create(atomic_file_t *file, const char *path, const char *log, const char *config, bool force, buffer_t *why) {
    *file = (atomic_file_t){.path = mem_str(path), .part = mem_printf("%s.part", path), .force = force};
    int fd = -1;
    if (atomic_file_may_create(file, log, config, why)) {
        fd = atomic_file_open_part(file->part);
        if (fd < 0)
            atomic_file_fail(why, file->part,
                             errno == EWOULDBLOCK ? "another process is writing it: wait until it ends"
                             : errno == EPERM ? "belongs to another user: remove it, or name a file in a directory of your own"
                                              : strerror(errno));
    }
    file->out = fd >= 0 && ftruncate(fd, 0) == 0 ? fdopen(fd, "w") : NULL;
    if (file->out) return true;
    if (fd >= 0) close(fd);
    atomic_file_close(file);
    return false;
}

// Without `force`, never replaces a file: renameat2, or link on file systems without RENAME_NOREPLACE.
static bool atomic_file_rename(const atomic_file_t *file) {
    if (file->force) return rename(file->part, file->path) == 0;
    if (renameat2(AT_FDCWD, file->part, AT_FDCWD, file->path, RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    return link(file->part, file->path) == 0 && unlink(file->part) == 0;
}

bool atomic_file_end(atomic_file_t *file, bool complete, buffer_t *why) {
    bool renamed = complete && fflush(file->out) == 0 && fsync(fileno(file->out)) == 0 && atomic_file_rename(file);
    if (complete && !renamed)
        atomic_file_fail(why, file->path,
                         errno == EEXIST ? "was created meanwhile: name a new file, or use --force" : strerror(errno));
    bool synced = renamed && (audit_sync_directory(file->path) ||
                              atomic_file_fail(why, file->path, "is written, but its directory cannot be synced to disk"));
    if (!renamed) unlink(file->part);
    atomic_file_close(file);
    return synced;
}
