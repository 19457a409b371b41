#include "audit/backup.h"

#include "audit/store.h"
#include "base/clock.h"

enum { STEP_PAGES = 2000 }; // 8 MiB

static bool backup_fail(const char *path, sqlite3 *db, const char *doing, buffer_t *why) {
    return audit_fail_with(path, sqlite3_extended_errcode(db), sqlite3_system_errno(db), doing, sqlite3_errmsg(db), why);
}

static bool backup_copy_pages(audit_t *audit, sqlite3 *to, const char *path, backup_progress_fn *progress, void *self,
                              buffer_t *why) {
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", audit->db, "main");
    if (!backup) return backup_fail(path, to, "begin to copy to it", why);
    int code;
    while ((code = sqlite3_backup_step(backup, STEP_PAGES)) == SQLITE_OK)
        if (progress) {
            int of = sqlite3_backup_pagecount(backup);
            progress(self, of - sqlite3_backup_remaining(backup), of);
        }
    sqlite3_backup_finish(backup);
    if (code == SQLITE_DONE) return true;
    // Whose fault it was is not told: an error of the target is in its handle.
    if (sqlite3_errcode(to) != SQLITE_OK) return backup_fail(path, to, "copy to it", why);
    return audit_fail_with(audit->path, code, 0, "copy it", sqlite3_errstr(code), why);
}

// Between two steps others may write. The copy would begin anew each time (sqlite.org/c3ref/backup_finish.html), if we did not
// hold a read transaction throughout: it is of this moment, and only keeps the -wal file from being emptied for so long.
static bool backup_copy(audit_t *audit, sqlite3 *to, const char *path, backup_progress_fn *progress, void *self, buffer_t *why) {
    if (sqlite3_exec(audit->db, "BEGIN; SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL) != SQLITE_OK)
        return audit_fail(audit, "read from it", why);
    bool done = backup_copy_pages(audit, to, path, progress, self, why);
    sqlite3_exec(audit->db, "COMMIT", NULL, NULL, NULL);
    return done;
}

// A copy is a log of its own; whose copy it is tells audit_open, should it be put in the place of that one.
static bool backup_rename_instance(sqlite3 *to, const char *path, buffer_t *why) {
    uint64_t random[2];
    random_bytes(random, sizeof random);
    char *sql = sqlite3_mprintf("INSERT OR REPLACE INTO facts SELECT 'copy_of', value FROM facts WHERE name = 'instance';"
                                "UPDATE facts SET value = '%016llx%016llx' WHERE name = 'instance'",
                                (unsigned long long)random[0], (unsigned long long)random[1]);
    bool done = sql && sqlite3_exec(to, sql, NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_free(sql);
    return done || backup_fail(path, to, "name the copy", why);
}

static bool backup_check(sqlite3 *to, const char *path, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    if (sqlite3_prepare_v2(to, "PRAGMA quick_check(1)", -1, &of, NULL) != SQLITE_OK || sqlite3_step(of) != SQLITE_ROW) {
        backup_fail(path, to, "check the copy", why);
        sqlite3_finalize(of);
        return false;
    }
    const char *said = (const char *)sqlite3_column_text(of, 0);
    bool good = said && strcmp(said, "ok") == 0;
    if (!good) buffer_printf(why, "the copy %s is damaged, as the log must be: %s", path, said ? said : "no answer");
    sqlite3_finalize(of);
    return good;
}

bool audit_backup(audit_t *audit, const char *path, backup_progress_fn *progress, void *self, buffer_t *why) {
    sqlite3 *to = NULL;
    int code = sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    bool done = code == SQLITE_OK || (to ? backup_fail(path, to, "open it", why)
                                         : audit_fail_with(path, code, 0, "open it", sqlite3_errstr(code), why));
    // A copy that was not finished is thrown away, so it needs no journal of its own.
    if (done) sqlite3_exec(to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", NULL, NULL, NULL);
    done = done && backup_copy(audit, to, path, progress, self, why) && backup_rename_instance(to, path, why) &&
           backup_check(to, path, why);
    if (to && sqlite3_close(to) != SQLITE_OK && done) done = backup_fail(path, to, "close it", why);
    return done;
}
