// A copy of the audit log, made while others write to the log.

#include "audit/store.h"

enum { STEP_PAGES = 2000 }; // some 8 MB between two reports of progress

static bool backup_copy_pages(audit_t *audit, audit_t *copy, backup_progress_fn *progress, void *self, buffer_t *why) {
    sqlite3_backup *backup = sqlite3_backup_init(copy->db, "main", audit->db, "main");
    if (!backup) return audit_fail(copy, "begin to copy to it", why);
    int code;
    while ((code = sqlite3_backup_step(backup, STEP_PAGES)) == SQLITE_OK)
        if (progress) {
            int of = sqlite3_backup_pagecount(backup);
            progress(self, of - sqlite3_backup_remaining(backup), of);
        }
    sqlite3_backup_finish(backup);
    if (code == SQLITE_DONE) return true;
    // SQLite does not report which of both databases has failed. The connection of the copy keeps its own error.
    if (sqlite3_errcode(copy->db) != SQLITE_OK) return audit_fail(copy, "copy to it", why);
    return audit_fail_with(audit->path, code, 0, "copy it", sqlite3_errstr(code), why);
}

// A write between two steps would restart the copy (sqlite.org/c3ref/backup_finish.html). One read transaction around all steps
// prevents that. Its only cost: the -wal file is not emptied meanwhile.
static bool backup_copy(audit_t *audit, audit_t *copy, backup_progress_fn *progress, void *self, buffer_t *why) {
    if (!audit_exec(audit, "BEGIN; SELECT count(*) FROM sqlite_schema", "read from it", why)) return false;
    bool done = backup_copy_pages(audit, copy, progress, self, why);
    sqlite3_exec(audit->db, "COMMIT", NULL, NULL, NULL);
    return done;
}

// Keeps the log's name as `copy_of`: the auditor restores it if somebody puts the copy in the log's place.
static bool backup_rename_instance(audit_t *copy, buffer_t *why) {
    return audit_exec(copy, "INSERT OR REPLACE INTO facts SELECT 'copy_of', value FROM facts WHERE name = 'instance'",
                      "name the copy", why) &&
           audit_rename_instance(copy, why);
}

// The copy has what scrub.c would remove from the log.
static bool backup_scrub(audit_t *copy, buffer_t *why) {
    static const char sql[] = "VACUUM; INSERT OR REPLACE INTO facts SELECT 'scrubbed', value FROM facts WHERE name = 'erasures'";
    int64_t count;
    return audit_count_unscrubbed(copy, &count, why) && (count == 0 || audit_exec(copy, sql, "rewrite it", why));
}

static bool backup_check(audit_t *copy, buffer_t *why) {
    if (audit_check_pages(copy, why)) return true;
    if (!copy->damaged) return false;
    buffer_clear(why);
    return audit_refuse(copy->path, why,
                        "the copy is damaged, so the log must be, too: restart its sidecar, which checks the log");
}

bool audit_backup(audit_t *audit, const char *path, backup_progress_fn *progress, void *self, buffer_t *why) {
    audit_t *copy = mem_alloc(sizeof *copy);
    copy->path = mem_str(path);
    // An unfinished copy is deleted, so it needs no journal.
    bool done = audit_open_database(copy, path, SQLITE_OPEN_READWRITE, why) &&
                audit_exec(copy, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", "set it up", why) &&
                backup_copy(audit, copy, progress, self, why) && backup_rename_instance(copy, why) && backup_scrub(copy, why) &&
                backup_check(copy, why);
    audit_close(copy);
    return done;
}
