// Checks whether a sidecar could keep an audit log at a path, before the sidecar starts.
#include <sys/statvfs.h>

#include "audit/lock.h"
#include "audit/store.h"

enum { MIB = 1024 * 1024, FREE_MIN_MIB = 16 };

typedef struct path_check {
    const char *path;
    char *dir; // owned
    int64_t max_bytes;
    audit_path_check_fn *report;
    void *self;
    buffer_t text;
} path_check_t;

static void path_check_report(path_check_t *check, audit_severity_t severity) {
    check->report(check->self, severity, buffer_text(&check->text));
    buffer_clear(&check->text);
}

static bool path_check_is_writable(path_check_t *check) {
    bool exists = access(check->path, F_OK) == 0;
    bool file = !exists || access(check->path, W_OK) == 0, dir = access(check->dir, W_OK | X_OK) == 0;
    if (file && dir) return true;
    buffer_printf(&check->text, "audit log %s: ", check->path);
    if (errno == EROFS)
        buffer_str(&check->text, "the file system is read-only: set audit.path to one that can be written");
    else if (!file)
        buffer_str(&check->text, "this user may not write to the file");
    else
        buffer_printf(&check->text, "this user may not write to the directory %s, where SQLite keeps files beside the log",
                      check->dir);
    path_check_report(check, AUDIT_ERROR);
    return false;
}

static bool path_check_is_log(path_check_t *check) {
    struct stat at;
    bool log = stat(check->path, &at) != 0 || audit_is_log(check->path, &check->text);
    if (log && audit_lock_is_usable(check->path, &check->text)) return true;
    path_check_report(check, AUDIT_ERROR);
    return false;
}

static void path_check_free_space(path_check_t *check) {
    struct statvfs system;
    struct stat at;
    if (statvfs(check->dir, &system) != 0) return;
    int64_t available = (int64_t)system.f_bavail * (int64_t)system.f_frsize;
    int64_t size = stat(check->path, &at) == 0 ? (int64_t)at.st_size : 0;
    int64_t needed = check->max_bytes > 0 ? check->max_bytes - size : 0;
    if (needed < FREE_MIN_MIB * MIB) needed = FREE_MIN_MIB * MIB;
    if (available >= needed) return;
    buffer_printf(&check->text,
                  "audit log %s: the disk has room for %" PRId64 " MiB, the log may grow by %" PRId64
                  " MiB: make room, or set audit.retain_bytes lower",
                  check->path, available / MIB, needed / MIB);
    path_check_report(check, available < MIB ? AUDIT_ERROR : AUDIT_WARNING);
}

void audit_check_path(const char *path, int64_t max_bytes, audit_path_check_fn *report, void *self) {
    path_check_t check = {.path = path, .max_bytes = max_bytes, .report = report, .self = self};
    char holder[LOCK_HOLDER_SIZE];
    check.dir = audit_directory(path);
    if (!audit_path_is_usable(path, AUDIT_WRITE, &check.text)) {
        path_check_report(&check, AUDIT_ERROR);
    } else if (path_check_is_writable(&check) && path_check_is_log(&check)) {
        path_check_free_space(&check);
        if (audit_lock_is_held(path, holder))
            buffer_printf(&check.text, "audit log %s: a sidecar (%s) writes it now; a second one needs its own audit.path", path,
                          holder);
        else
            buffer_printf(&check.text, "audit log %s: can be written, and no sidecar holds it", path);
        path_check_report(&check, AUDIT_OK);
    }
    buffer_free(&check.text);
    free(check.dir);
}
