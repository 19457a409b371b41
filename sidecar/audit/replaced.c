// Whether the file that is open is still the log at its path: files are removed, replaced, emptied, and written over.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/store.h"

// SQLite keeps ? # and % for itself.
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

// What a file says: its own pages alone, or with what lies beside it. Returns SQLITE_ROW, or why it says nothing.
static int replaced_read_facts(const audit_t *audit, bool alone, bool *ours, int64_t *commits) {
    sqlite3 *db = NULL;
    sqlite3_stmt *of = NULL;
    char *uri = audit_immutable_uri(audit->path);
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | (alone ? SQLITE_OPEN_URI : 0);
    int code = sqlite3_open_v2(alone ? uri : audit->path, &db, flags, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(db,
                                  "SELECT value, coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'commits'), 0) "
                                  "FROM facts WHERE name = 'instance'",
                                  -1, &of, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(of);
    if (code == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(of, 0);
        *ours = strcmp(name, audit->instance) == 0 || (audit->former_instance && strcmp(name, audit->former_instance) == 0);
        *commits = sqlite3_column_int64(of, 1);
    }
    sqlite3_finalize(of);
    sqlite3_close(db); // which leaves the locks of the other connection alone, unlike a close(2) of ours
    free(uri);
    return code;
}

static bool replaced_same_stat(const struct stat *a, const struct stat *b) {
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static uint32_t replaced_read_u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

// Every log begins so at any time, also while others merge into it: page 1 is merged first, and until then is the only one
// (https://www.sqlite.org/fileformat.html#the_database_header). What lies beside the file makes a whole log of any other, too.
static bool replaced_header_is_valid(const audit_t *audit) {
    enum { PAGES_AT = 28, APPLICATION_AT = 68, HEAD = 72 };
    static const char magic[] = "SQLite format 3";
    sqlite3_file *file = NULL;
    uint8_t head[HEAD];
    if (sqlite3_file_control(audit->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK || !file || !file->pMethods)
        return true;
    int code = file->pMethods->xRead(file, head, sizeof head, 0); // by its own descriptor: see sqlite3_close above
    if (code == SQLITE_IOERR_SHORT_READ) return false;
    if (code != SQLITE_OK) return true; // what the disk refuses is told by whoever needs it
    bool ours = replaced_read_u32(head + APPLICATION_AT) == AUDIT_APPLICATION_ID || replaced_read_u32(head + PAGES_AT) <= 1;
    return memcmp(head, magic, sizeof magic) == 0 && ours;
}

// The file alone says nothing of ours. It may be so for a moment while others merge into it, and until that is done again if they
// were killed meanwhile: then what lies beside it makes it whole.
static bool replaced_is_unreadable(audit_t *audit, const struct stat *now) {
    bool ours = false, still = replaced_same_stat(now, &audit->suspect);
    int64_t commits;
    if (!replaced_header_is_valid(audit)) return true;
    audit->suspect = *now;
    if (!still) return false;
    int code = replaced_read_facts(audit, false, &ours, &commits) & 0xff;
    if (code == SQLITE_ROW && ours) audit->inspected = *now; // as it is, so a new log is not read at each look until it is merged
    return code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_ERROR ||
           code == SQLITE_DONE; // no such table, no row
}

// Only a merge of what lies beside the file changes it, and a merge never takes the number of commits back.
static bool replaced_is_overwritten(audit_t *audit, const struct stat *now) {
    bool ours;
    int64_t commits;
    if (replaced_same_stat(now, &audit->inspected)) return false;
    if (replaced_read_facts(audit, true, &ours, &commits) != SQLITE_ROW) return replaced_is_unreadable(audit, now);
    if (!ours || commits < audit->inspected_commits) return true;
    audit->inspected = *now;
    audit->inspected_commits = commits;
    return false;
}

bool audit_is_in_place(audit_t *audit) {
    struct stat at;
    int moved = 0; // sqlite3.h: whether the inode at the path is another one than was opened
    if (sqlite3_file_control(audit->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved) return false;
    // A log is never empty once it is open: SQLite works on for long, on what it remembers of one that was emptied.
    audit->overwritten = stat(audit->path, &at) == 0 && (at.st_size == 0 || replaced_is_overwritten(audit, &at));
    return !audit->overwritten;
}

bool audit_is_overwritten(const audit_t *audit) { return audit->overwritten; }
