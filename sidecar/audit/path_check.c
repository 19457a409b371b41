#include "audit/path_check.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "audit/lock.h"
#include "audit/store.h"

enum { MIB = 1024 * 1024, FREE_MIN_MIB = 16 }; // of free room, at which a full disk is near

typedef struct path_check {
    const char *path;
    char *dir; // owned
    int64_t max_bytes;
    audit_path_check_fn *report;
    void *self;
    buffer_t text;
} path_check_t;

static void path_check_report(path_check_t *path_check, audit_severity_t finding) {
    path_check->report(path_check->self, finding, buffer_text(&path_check->text));
    buffer_clear(&path_check->text);
}

static bool path_check_is_writable(path_check_t *path_check) {
    bool there = access(path_check->path, F_OK) == 0;
    bool file = !there || access(path_check->path, W_OK) == 0, dir = access(path_check->dir, W_OK | X_OK) == 0;
    if (file && dir) return true;
    if (errno == EROFS)
        buffer_printf(&path_check->text, "audit log %s: the file system is read-only: set audit.path to one that can be written",
                      path_check->path);
    else if (!file)
        buffer_printf(&path_check->text, "audit log %s: this user may not write to the file", path_check->path);
    else
        buffer_printf(&path_check->text,
                      "audit log %s: this user may not write to the directory %s, where SQLite keeps files beside the log",
                      path_check->path, path_check->dir);
    path_check_report(path_check, AUDIT_ERROR);
    return false;
}

// A log that is there must be one of ours, and not of a newer version.
static bool path_check_is_log(path_check_t *path_check) {
    struct stat at;
    if (stat(path_check->path, &at) != 0 || at.st_size == 0) return true;
    audit_t *audit = audit_open(path_check->path, AUDIT_PEER, &path_check->text);
    if (!audit) path_check_report(path_check, AUDIT_ERROR);
    audit_close(audit);
    return audit != NULL;
}

static int64_t path_check_file_size(const char *path) {
    struct stat at;
    return stat(path, &at) == 0 ? (int64_t)at.st_size : 0;
}

static void path_check_free_space(path_check_t *path_check) {
    struct statvfs system;
    if (statvfs(path_check->dir, &system) != 0) return;
    int64_t room = (int64_t)system.f_bavail * (int64_t)system.f_frsize;
    int64_t wanted = path_check->max_bytes > 0 ? path_check->max_bytes - path_check_file_size(path_check->path) : 0;
    if (wanted < FREE_MIN_MIB * MIB) wanted = FREE_MIN_MIB * MIB;
    if (room >= wanted) return;
    buffer_printf(&path_check->text,
                  "audit log %s: the disk has room for %" PRId64 " MiB, the log may grow by %" PRId64
                  " MiB (audit.retain_bytes): make room, or set that lower",
                  path_check->path, room / MIB, wanted / MIB);
    path_check_report(path_check, room < MIB ? AUDIT_ERROR : AUDIT_WARNING);
}

void audit_check_path(const char *path, int64_t max_bytes, audit_path_check_fn *report, void *self) {
    path_check_t path_check = {.path = path, .max_bytes = max_bytes, .report = report, .self = self};
    char *copy = mem_str(path);
    char holder[LOCK_HOLDER_SIZE];
    path_check.dir = mem_str(dirname(copy));
    if (!audit_path_is_usable(path, AUDIT_WRITE, &path_check.text)) {
        path_check_report(&path_check, AUDIT_ERROR);
    } else if (path_check_is_writable(&path_check) && path_check_is_log(&path_check)) {
        path_check_free_space(&path_check);
        if (audit_lock_is_held(path, holder))
            buffer_printf(&path_check.text,
                          "audit log %s: a sidecar (%s) writes it now; another one needs an audit.path of its own", path, holder);
        else
            buffer_printf(&path_check.text, "audit log %s: can be written, and nobody holds it", path);
        path_check_report(&path_check, AUDIT_OK);
    }
    buffer_free(&path_check.text);
    free(path_check.dir);
    free(copy);
}
