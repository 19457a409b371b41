// Checks whether a path can be an audit log, before SQLite opens it.
#include <libgen.h>
#include <sys/statfs.h>

#include "audit/store.h"

// WAL needs memory that all processes share, and machines share none (sqlite.org/wal.html). The numbers are from statfs(2).
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

char *audit_directory(const char *path) {
    char *copy = mem_str(path), *dir = mem_str(dirname(copy));
    free(copy);
    return dir;
}

bool audit_is_same_file(const char *a, const char *b) {
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

bool audit_directory_is_read_only(const char *path) {
    char *dir = audit_directory(path);
    bool read_only = access(dir, W_OK) != 0;
    free(dir);
    return read_only;
}

static bool path_directory_is_usable(const char *path, const char *dir, buffer_t *why) {
    struct stat at;
    struct statfs system;
    if (stat(dir, &at) != 0)
        return audit_refuse(path, why, "the directory %s %s", dir,
                            errno == ENOENT ? "does not exist: create it, or set audit.path" : strerror(errno));
    if (!S_ISDIR(at.st_mode)) return audit_refuse(path, why, "%s is no directory: set audit.path", dir);
    if (statfs(dir, &system) != 0) return true; // SQLite will report the error
    const char *name = audit_network_filesystem((unsigned long)system.f_type & 0xffffffffUL);
    return !name ||
           audit_refuse(path, why, "is on %s, where SQLite's write-ahead log is not safe: set audit.path to a local disk", name);
}

static bool path_permission_denied(const char *path, audit_mode_t mode, buffer_t *why) {
    if (mode != AUDIT_WRITE) return audit_refuse(path, why, "permission denied: run as the user of the sidecar, or as root");
    return audit_refuse(path, why,
                        "permission denied: let user %lu enter every directory above it and write to the last one, or set "
                        "audit.path",
                        (unsigned long)geteuid());
}

bool audit_path_is_usable(const char *path, audit_mode_t mode, buffer_t *why) {
    bool reads = audit_mode_reads(mode);
    struct stat at;
    // The lock file lies beside the path, not beside the file that a link names. So two links would be two locks of one log.
    if (!reads && lstat(path, &at) == 0 && S_ISLNK(at.st_mode))
        return audit_refuse(path, why, "is a symbolic link: set audit.path to the file that it names");
    if (stat(path, &at) == 0) {
        if (!S_ISREG(at.st_mode)) return audit_refuse(path, why, "is no regular file: name a file");
        if (reads && at.st_size == 0) return audit_refuse(path, why, "is empty: no sidecar has written to it yet");
    } else if (errno == EACCES) {
        return path_permission_denied(path, mode, why);
    } else if (reads) {
        return audit_refuse(path, why, "no such file: no sidecar has written to it yet");
    }
    if (reads) return true;
    char *dir = audit_directory(path);
    bool usable = path_directory_is_usable(path, dir, why);
    free(dir);
    return usable;
}
