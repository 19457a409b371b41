// The name of a log, and whether the log belongs at its path. The auditor acknowledges under this name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/lock.h"
#include "audit/store.h"

bool audit_read_instance(audit_t *audit, buffer_t *why) {
    sqlite3_stmt *of = audit_statement(audit, "SELECT value FROM facts WHERE name = 'instance'", why);
    if (!of) return false;
    int code = sqlite3_step(of);
    free(audit->instance);
    audit->instance = code == SQLITE_ROW ? mem_str((const char *)sqlite3_column_text(of, 0)) : NULL;
    return audit_finish(audit, of, code == SQLITE_DONE ? SQLITE_ERROR : code, "read its name", why);
}

bool audit_note_loss(audit_lock_t *lock, const char *reason, buffer_t *why) {
    if (!*lock->loss.instance || *lock->loss.reason) return true;
    snprintf(lock->loss.reason, sizeof lock->loss.reason, "%s", reason);
    return audit_lock_write(lock, why);
}

// An older copy of this log is in its place. The copy takes the name of the log again, and the auditor fills the copy.
static bool instance_restore(audit_t *audit, buffer_t *why) {
    const char *name = audit->lock->loss.instance;
    char *sql = sqlite3_mprintf("UPDATE facts SET value = %Q WHERE name = 'instance' AND EXISTS"
                                " (SELECT 1 FROM facts WHERE name = 'copy_of' AND value = %Q)",
                                name, name);
    bool done = sql && audit_exec(audit, sql, "name it", why);
    sqlite3_free(sql);
    return done && audit_read_instance(audit, why);
}

bool audit_clear_loss(audit_t *audit, buffer_t *why) {
    audit_lock_t *lock = audit->lock;
    snprintf(lock->loss.instance, sizeof lock->loss.instance, "%s", audit->instance);
    *lock->loss.reason = *lock->loss.set_aside_as = '\0';
    return audit_lock_write(lock, why);
}

bool audit_compare_instance(audit_t *audit, buffer_t *why) {
    audit_lock_t *lock = audit->lock;
    if (!audit_read_instance(audit, why)) return false;
    if (!*lock->loss.instance) return audit_clear_loss(audit, why);
    audit->file.former_instance = mem_str(audit->instance);
    if (!*lock->loss.reason && strcmp(lock->loss.instance, audit->instance) != 0 && !instance_restore(audit, why)) return false;
    // A lost log is no longer lost once somebody puts it back.
    if (strcmp(lock->loss.instance, audit->instance) == 0) return !*lock->loss.reason || audit_clear_loss(audit, why);
    return *lock->loss.reason ||
           (audit_note_loss(lock, AUDIT_REPLACED, why) && audit_rename_instance(audit, why) && audit_read_instance(audit, why));
}

const char *audit_instance(const audit_t *audit) { return audit->instance; }
const audit_loss_t *audit_loss(const audit_t *audit) {
    return audit->exclusive && *audit->lock->loss.reason ? &audit->lock->loss : NULL;
}
