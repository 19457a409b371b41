// The name of a log, and whether the log belongs at its path. The auditor acknowledges under this name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/lock.h"
#include "audit/store.h"

bool audit_read_instance(audit_t *audit, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    const char sql[] = "SELECT value FROM facts WHERE name = 'instance'";
    free(audit->instance);
    audit->instance = NULL;
    if (sqlite3_prepare_v2(audit->db, sql, -1, &of, NULL) == SQLITE_OK && sqlite3_step(of) == SQLITE_ROW)
        audit->instance = mem_str((const char *)sqlite3_column_text(of, 0));
    else
        audit_fail(audit, "read its name", why);
    sqlite3_finalize(of);
    return audit->instance != NULL;
}

bool audit_note_loss(audit_lock_t *lock, const char *reason, buffer_t *why) {
    if (!*lock->instance || *lock->reason) return true;
    snprintf(lock->reason, sizeof lock->reason, "%s", reason);
    return audit_lock_write(lock, why);
}

// An older copy of this log is in its place. The copy takes the name of the log again, and the auditor fills the copy.
static bool instance_restore(audit_t *audit, buffer_t *why) {
    int64_t same = 0;
    char *sql = sqlite3_mprintf("SELECT count(*) FROM facts WHERE name = 'copy_of' AND value = %Q", audit->lock->instance);
    bool done = sql && audit_query_number(audit, sql, &same, why);
    sqlite3_free(sql);
    if (!done || same == 0) return done;
    sql = sqlite3_mprintf("UPDATE facts SET value = %Q WHERE name = 'instance'", audit->lock->instance);
    done = sql && audit_exec(audit, sql, "name it", why);
    sqlite3_free(sql);
    return done && audit_read_instance(audit, why);
}

// Records that the log at the path belongs there and nothing is lost.
static bool instance_confirm(audit_t *audit, buffer_t *why) {
    audit_lock_t *lock = audit->lock;
    snprintf(lock->instance, sizeof lock->instance, "%s", audit->instance);
    *lock->reason = *lock->set_aside_as = '\0';
    audit->loss = (audit_loss_t){0};
    return audit_lock_write(lock, why);
}

bool audit_compare_instance(audit_t *audit, buffer_t *why) {
    audit_lock_t *lock = audit->lock;
    if (!audit_read_instance(audit, why)) return false;
    if (!*lock->instance) return instance_confirm(audit, why);
    audit->file.former_instance = mem_str(audit->instance);
    if (!*lock->reason && strcmp(lock->instance, audit->instance) != 0 && !instance_restore(audit, why)) return false;
    // A lost log is no longer lost once somebody puts it back.
    if (strcmp(lock->instance, audit->instance) == 0) return !*lock->reason || instance_confirm(audit, why);
    if (!*lock->reason &&
        (!audit_note_loss(lock, AUDIT_REPLACED, why) || !audit_rename_instance(audit, why) || !audit_read_instance(audit, why)))
        return false;
    audit->loss = (audit_loss_t){.instance = lock->instance, .reason = lock->reason, .set_aside_as = lock->set_aside_as};
    return true;
}

const char *audit_instance(const audit_t *audit) { return audit->instance; }
const audit_loss_t *audit_loss(const audit_t *audit) { return audit->loss.instance ? &audit->loss : NULL; }
bool audit_clear_loss(audit_t *audit, buffer_t *why) { return instance_confirm(audit, why); }
