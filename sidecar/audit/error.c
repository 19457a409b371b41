// Errors of SQLite and of files, as texts that say what to do.
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "audit/store.h"

// WAL needs memory shared by all who have the file open, which these do not have between machines (sqlite.org/wal.html).
// Numbers from statfs(2).
static const struct {
    unsigned long type;
    const char *name;
} network_filesystems[] = {{0x6969, "NFS"},        {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},  {0x517b, "SMB"},
                           {0x65735546, "FUSE"},   {0x01021997, "9p"},   {0x00c36400, "Ceph"}, {0x5346414f, "AFS"},
                           {0x0bd00bd0, "Lustre"}, {0x01161970, "GFS2"}};

const char *audit_network_filesystem(unsigned long type) {
    for (size_t i = 0; i < sizeof network_filesystems / sizeof *network_filesystems; i++)
        if (network_filesystems[i].type == type) return network_filesystems[i].name;
    return NULL;
}

static char *path_directory(const char *path) {
    char *copy = mem_str(path), *dir = mem_str(dirname(copy));
    free(copy);
    return dir;
}

bool audit_directory_is_read_only(const char *path) {
    char *dir = path_directory(path);
    bool closed = access(dir, W_OK) != 0;
    free(dir);
    return closed;
}

static bool path_error(buffer_t *why, const char *path, const char *text) {
    buffer_printf(why, "audit log %s: %s", path, text);
    return false;
}

static bool path_directory_is_usable(const char *path, const char *dir, buffer_t *why) {
    struct stat at;
    struct statfs system;
    if (stat(dir, &at) != 0) {
        int error = errno;
        buffer_printf(why, "audit log %s: the directory %s %s", path, dir,
                      error == ENOENT ? "does not exist: create it, or set audit.path" : strerror(error));
        return false;
    }
    if (!S_ISDIR(at.st_mode)) {
        buffer_printf(why, "audit log %s: %s is no directory: set audit.path", path, dir);
        return false;
    }
    if (statfs(dir, &system) != 0) return true; // SQLite will say what is wrong
    const char *name = audit_network_filesystem((unsigned long)system.f_type & 0xffffffffUL);
    if (!name) return true;
    buffer_printf(why, "audit log %s: lies on %s, where SQLite's write-ahead log is not safe: set audit.path to a local disk",
                  path, name);
    return false;
}

// To the sidecar itself.
static bool path_error_permission(buffer_t *why, const char *path) {
    buffer_printf(
        why,
        "audit log %s: permission denied: let user %lu into every directory above it, and write to the last one, or set "
        "audit.path",
        path, (unsigned long)geteuid());
    return false;
}

bool audit_path_is_usable(const char *path, audit_mode_t mode, buffer_t *why) {
    bool reads = mode == AUDIT_READ || mode == AUDIT_PEER;
    struct stat at;
    char *dir = path_directory(path);
    bool fits = true;
    // SQLite would follow it, and our lock lie elsewhere than its -wal: two links would be two locks of one log.
    if (!reads && lstat(path, &at) == 0 && S_ISLNK(at.st_mode)) {
        fits = path_error(why, path, "is a symbolic link: set audit.path to the file that it names");
    } else if (stat(path, &at) == 0) {
        if (!S_ISREG(at.st_mode)) fits = path_error(why, path, "is no regular file: name a file");
        if (fits && reads && at.st_size == 0) fits = path_error(why, path, "is empty: no sidecar has written to it yet");
    } else if (errno == EACCES) {
        fits = mode == AUDIT_WRITE ? path_error_permission(why, path)
                                   : path_error(why, path, "permission denied: run as the user of the sidecar, or as root");
    } else if (reads) {
        fits = path_error(why, path, "there is no such file: no sidecar has written to it yet, or name it by --db or -c");
    }
    if (fits && !reads) fits = path_directory_is_usable(path, dir, why);
    free(dir);
    return fits;
}

static const char *error_advice(int code, int os_error) {
    if (code == SQLITE_IOERR_GETTEMPPATH) return "no directory for temporary files is writable: set TMPDIR to one";
    switch (code & 0xff) {
    case SQLITE_FULL: return "the disk is full: make room, or set audit.retain_bytes lower than the disk";
    case SQLITE_READONLY: return "the file, its directory or the file system is read-only: make them writable for this user";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "locked by another process for too long: end what holds it (a second sidecar, an open sqlite3 shell)";
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        if (os_error == EROFS) return "cannot be opened: the file system is read-only";
        if (os_error == EACCES || os_error == EPERM)
            return "permission denied: this user must be able to write to the file and its directory";
        return "cannot be opened: look at the rights of the file and of its directory";
    case SQLITE_NOTADB: return "is no SQLite database: move it away, or set audit.path";
    case SQLITE_CORRUPT: return "is damaged: its sidecar moves it aside and begins a new one; try .recover on the old one";
    case SQLITE_IOERR: return os_error == ENOSPC ? "the disk is full: make room" : "the disk failed: look at the kernel's log";
    default: return NULL;
    }
}

bool audit_fail_with(const char *path, int code, int os_error, const char *doing, const char *detail, buffer_t *why) {
    const char *advice = error_advice(code, os_error);
    buffer_printf(why, "audit log %s: ", path);
    if (advice)
        buffer_printf(why, "%s (%s: %s)", advice, doing, detail);
    else
        buffer_printf(why, "cannot %s: %s", doing, detail);
    return false;
}

bool audit_fail(audit_t *audit, const char *doing, buffer_t *why) {
    int code = sqlite3_errcode(audit->db) & 0xff;
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) audit->damaged = true;
    return audit_fail_with(audit->path, sqlite3_extended_errcode(audit->db), sqlite3_system_errno(audit->db), doing,
                           sqlite3_errmsg(audit->db), why);
}
