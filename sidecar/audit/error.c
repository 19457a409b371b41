// Turns errors of SQLite into texts with a remedy.

#include "audit/store.h"

static const char *error_advice(int code, int os_error) {
    if (code == SQLITE_IOERR_GETTEMPPATH) return "no directory for temporary files is writable: set TMPDIR to one";
    switch (code & 0xff) {
    case SQLITE_FULL: return "the disk is full: make room, or set audit.retain_bytes lower than the disk";
    case SQLITE_READONLY: return "the file, its directory or the file system is read-only: make them writable for this user";
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return "is locked by another process: end the second sidecar or the sqlite3 shell that holds it";
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        if (os_error == EROFS) return "cannot be opened: the file system is read-only";
        if (os_error == EACCES || os_error == EPERM)
            return "permission denied: this user must be able to write to the file and its directory";
        return "cannot be opened: check the rights of the file and of its directory";
    case SQLITE_NOTADB: return "is no SQLite database: move it away, or set audit.path";
    case SQLITE_CORRUPT: return "is damaged: its sidecar sets it aside and begins a new one; then `audit import` the old one";
    case SQLITE_IOERR: return os_error == ENOSPC ? "the disk is full: make room" : "the disk failed: check the kernel's log";
    default: return NULL;
    }
}

bool audit_refuse(const char *path, buffer_t *why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    buffer_printf(why, "audit log %s: ", path);
    buffer_vprintf(why, format, args);
    va_end(args);
    return false;
}

bool audit_fail_with(const char *path, int code, int os_error, const char *doing, const char *detail, buffer_t *why) {
    const char *advice = error_advice(code, os_error);
    if (advice) return audit_refuse(path, why, "%s (%s: %s)", advice, doing, detail);
    return audit_refuse(path, why, "cannot %s: %s", doing, detail);
}

bool audit_fail_errno(const char *path, const char *doing, buffer_t *why) {
    int error = errno;
    int code = error == ENOSPC || error == EDQUOT                    ? SQLITE_FULL
               : error == EACCES || error == EPERM || error == EROFS ? SQLITE_CANTOPEN
                                                                     : SQLITE_IOERR;
    return audit_fail_with(path, code, error, doing, strerror(error), why);
}

bool audit_fail(audit_t *audit, const char *doing, buffer_t *why) {
    int code = sqlite3_errcode(audit->db) & 0xff;
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) audit->damaged = true;
    return audit_fail_with(audit->path, sqlite3_extended_errcode(audit->db), sqlite3_system_errno(audit->db), doing,
                           sqlite3_errmsg(audit->db), why);
}
