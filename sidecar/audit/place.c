// Whether the file that is open is still the log at its path: files are removed, replaced, emptied, and written over.
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

// What the file itself says, without what lies beside it. False: that cannot be told, such as while others merge that into it.
static bool read_file(const audit_t *audit, bool *ours, int64_t *commits) {
    sqlite3 *db = NULL;
    sqlite3_stmt *of = NULL;
    char *uri = audit_immutable_uri(audit->path);
    bool read = sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK &&
                sqlite3_prepare_v2(db,
                                   "SELECT value, coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'commits'), 0) "
                                   "FROM facts WHERE name = 'instance'",
                                   -1, &of, NULL) == SQLITE_OK &&
                sqlite3_step(of) == SQLITE_ROW;
    if (read) {
        const char *name = (const char *)sqlite3_column_text(of, 0);
        *ours = strcmp(name, audit->instance) == 0 || (audit->former && strcmp(name, audit->former) == 0);
        *commits = sqlite3_column_int64(of, 1);
    }
    sqlite3_finalize(of);
    sqlite3_close(db); // which leaves the locks of the other connection alone, unlike a close(2) of ours
    free(uri);
    return read;
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

// Only a merge of what lies beside the file changes it, and a merge never takes the number of commits back.
static bool is_written_over(audit_t *audit, const struct stat *now) {
    bool ours;
    int64_t commits;
    if (is_same(now, &audit->seen) || !read_file(audit, &ours, &commits)) return false;
    if (!ours || commits < audit->merged) return true;
    audit->seen = *now;
    audit->merged = commits;
    return false;
}

bool audit_is_in_place(audit_t *audit) {
    struct stat at;
    int moved = 0; // sqlite3.h: whether the inode at the path is another one than was opened
    if (sqlite3_file_control(audit->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved) return false;
    // A log is never empty once it is open: SQLite works on for long, on what it remembers of one that was emptied.
    audit->overwritten = stat(audit->path, &at) == 0 && (at.st_size == 0 || is_written_over(audit, &at));
    return !audit->overwritten;
}

bool audit_is_overwritten(const audit_t *audit) { return audit->overwritten; }
