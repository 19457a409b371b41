// Checks whether the open file is still the log at its path. People remove, replace, empty and overwrite files.

#include "audit/store.h"

// Escapes ? # and %, because they have a meaning in a URI.
char *audit_immutable_uri(const char *path) {
    buffer_t uri = {0};
    buffer_str(&uri, "file:");
    for (; *path; path++) {
        if (strchr("?#%", *path))
            buffer_printf(&uri, "%%%02x", (unsigned)(unsigned char)*path);
        else
            buffer_add(&uri, path, 1);
    }
    buffer_str(&uri, "?immutable=1");
    return uri.data;
}

bool audit_is_immutable(const audit_t *audit) {
    return sqlite3_uri_boolean(sqlite3_db_filename(audit->db, "main"), "immutable", 0);
}

// Reads the name and the number of commits of the file: `alone` or with its -wal. Returns SQLITE_ROW, or an error.
static int replaced_read_facts(const audit_t *audit, bool alone, bool *ours, int64_t *commits) {
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    char *uri = audit_immutable_uri(audit->path);
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | (alone ? SQLITE_OPEN_URI : 0);
    int code = sqlite3_open_v2(alone ? uri : audit->path, &db, flags, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(db,
                                  "SELECT value, coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'commits'), 0) "
                                  "FROM facts WHERE name = 'instance'",
                                  -1, &stmt, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        const char *former = audit->file.former_instance;
        *ours = strcmp(name, audit->instance) == 0 || (former && strcmp(name, former) == 0);
        *commits = sqlite3_column_int64(stmt, 1);
    }
    sqlite3_finalize(stmt);
    sqlite3_close(db); // keeps the locks of the other connection, unlike close(2)
    free(uri);
    return code;
}

static bool replaced_same_stat(const struct stat *a, const struct stat *b) {
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

uint32_t audit_header_number(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

int audit_read_header(const audit_t *audit, uint8_t header[AUDIT_HEADER_SIZE]) {
    sqlite3_file *file = NULL;
    if (!audit->db || sqlite3_file_control(audit->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK || !file ||
        !file->pMethods)
        return SQLITE_ERROR;
    return file->pMethods->xRead(file, header, AUDIT_HEADER_SIZE, 0);
}

// The header of a log is valid at any time, also during a checkpoint, which writes page 1 first. A query would prove nothing
// about the file, because SQLite takes pages from the -wal file.
static bool replaced_header_is_valid(const audit_t *audit) {
    enum { PAGES_AT = 28 };
    static const char magic[] = "SQLite format 3";
    uint8_t header[AUDIT_HEADER_SIZE];
    int code = audit_read_header(audit, header);
    if (code == SQLITE_IOERR_SHORT_READ) return false;
    if (code != SQLITE_OK) return true; // the next statement reports a failing disk
    bool ours = audit_header_number(header + AUDIT_HEADER_APPLICATION) == AUDIT_APPLICATION_ID ||
                audit_header_number(header + PAGES_AT) <= 1;
    return memcmp(header, magic, sizeof magic) == 0 && ours;
}

// Checks the file with its -wal file. Call it if the file alone is unreadable, as in an unfinished checkpoint.
static bool replaced_is_unreadable(audit_t *audit, const struct stat *now) {
    bool ours = false, unchanged = replaced_same_stat(now, &audit->file.suspect);
    int64_t commits;
    if (!replaced_header_is_valid(audit)) return true;
    audit->file.suspect = *now;
    if (!unchanged) return false;
    int code = replaced_read_facts(audit, false, &ours, &commits) & 0xff;
    if (code == SQLITE_ROW && ours)
        audit->file.inspected = *now; // a new log is unreadable alone until its first checkpoint: read it once
    return code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_ERROR || // no such table
           code == SQLITE_DONE;                                                       // no such row
}

// Only checkpoints may change the file, and they never lower the number of commits.
static bool replaced_is_overwritten(audit_t *audit, const struct stat *now) {
    bool ours;
    int64_t commits;
    if (replaced_same_stat(now, &audit->file.inspected)) return false;
    if (replaced_read_facts(audit, true, &ours, &commits) != SQLITE_ROW) return replaced_is_unreadable(audit, now);
    if (!ours || commits < audit->file.commits) return true;
    audit->file.inspected = *now;
    audit->file.commits = commits;
    return false;
}

bool audit_is_in_place(audit_t *audit) {
    struct stat at;
    int moved = 0; // the inode at the path is not the opened one
    if (sqlite3_file_control(audit->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved) return false;
    // For a long time SQLite reads an emptied file from its cache and finds no error. An open log is never empty.
    audit->file.overwritten = stat(audit->path, &at) == 0 && (at.st_size == 0 || replaced_is_overwritten(audit, &at));
    return !audit->file.overwritten;
}

bool audit_is_overwritten(const audit_t *audit) { return audit->file.overwritten; }
