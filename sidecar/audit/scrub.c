// Removes what erasures leave of their texts in the files of the log.
//
// SQLite writes zeros over what it removes (PRAGMA secure_delete), but not over the former place of a row that it has moved to
// another page (rebuildPage in btree.c), and older pages stay in the -wal file. So VACUUM writes the rows of the whole log into
// new pages. The fact `scrubbed` is the number of erasures before the last rewrite.
#include <sys/statvfs.h>

#include "audit/store.h"
#include "base/failpoint.h"

enum { MIB = 1024 * 1024, SPARE_MIB = 16 };

bool audit_count_unscrubbed(audit_t *audit, int64_t *count, buffer_t *why) {
    static const char sql[] = "SELECT coalesce(sum(iif(name = 'erasures', 1, -1) * CAST(value AS INTEGER)), 0) FROM facts"
                              " WHERE name IN ('erasures', 'scrubbed')";
    return audit_read_number(audit, sql, count, why);
}

// VACUUM first writes all rows to a temporary file, then to the -wal file.
static bool scrub_check_space(audit_t *audit, buffer_t *why) {
    audit_usage_t usage;
    struct statvfs log, temporary;
    if (!audit_measure(audit, &usage, why)) return false;
    if (statvfs(audit->path, &log) != 0 || statvfs(sqlite3_temp_directory, &temporary) != 0) return true; // VACUUM reports it
    const bool one = log.f_fsid == temporary.f_fsid;
    const int64_t needed = usage.used_bytes + (int64_t)SPARE_MIB * MIB, in_log = (int64_t)(log.f_bavail * log.f_frsize),
                  in_temporary = (int64_t)(temporary.f_bavail * temporary.f_frsize);
    if (in_log >= (one ? 2 : 1) * needed && in_temporary >= needed) return true;
    return audit_refuse(audit->path, why, "a rewrite needs %lld MiB in its directory and %lld MiB more in %s: make room",
                        (long long)(needed / MIB), (long long)(needed / MIB), sqlite3_temp_directory);
}

static int scrub_rewrite(audit_t *audit, buffer_t *why) {
    audit_watch_stop(audit, true);
    int code = sqlite3_exec(audit->db, "VACUUM", NULL, NULL, NULL) & 0xff;
    if (code != SQLITE_OK && code != SQLITE_BUSY && code != SQLITE_INTERRUPT) audit_fail(audit, "rewrite it", why);
    audit_watch_stop(audit, false);
    failpoint("audit_scrub_rewritten");
    return code;
}

static int scrub_empty_wal(audit_t *audit, buffer_t *why) {
    sqlite3_busy_timeout(audit->db, 0); // a reader may take long
    int code = sqlite3_wal_checkpoint_v2(audit->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) & 0xff;
    if (code != SQLITE_OK && code != SQLITE_BUSY) audit_fail(audit, "empty its -wal file", why);
    audit_set_default_wait(audit);
    return code;
}

static audit_scrub_t scrub_result(int code) {
    return code == SQLITE_OK                                 ? AUDIT_SCRUBBED
           : code == SQLITE_BUSY || code == SQLITE_INTERRUPT ? AUDIT_SCRUB_LATER
                                                             : AUDIT_SCRUB_FAILED;
}

audit_scrub_t audit_scrub(audit_t *audit, buffer_t *why) {
    static const char sql[] = "INSERT OR REPLACE INTO facts VALUES ('scrubbed', CAST(? AS TEXT))";
    int64_t erasures;
    if (!audit_read_fact(audit, "erasures", 0, &erasures, why)) return AUDIT_SCRUB_FAILED;
    failpoint("audit_scrub_before");
    // A reader that needs the -wal file would let it grow by the whole log.
    int code = scrub_empty_wal(audit, why);
    if (code == SQLITE_OK && audit->rewritten != erasures) {
        if (!scrub_check_space(audit, why)) return AUDIT_SCRUB_FAILED;
        code = scrub_rewrite(audit, why);
        if (code == SQLITE_OK) audit->rewritten = erasures;
        int emptied = scrub_empty_wal(audit, why); // also after a full disk
        if (code == SQLITE_OK) code = emptied;
    }
    if (code != SQLITE_OK) return scrub_result(code);
    return audit_run(audit, sql, erasures, "note the rewrite", why) ? AUDIT_SCRUBBED : AUDIT_SCRUB_FAILED;
}
