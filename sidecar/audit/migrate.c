// Refuses files of other programs. Migrates older logs to the newest schema.
#include "audit/migrations.h"
#include "audit/store.h"
#include "base/clock.h"
#include "base/failpoint.h"

enum { SCHEMA_GROUP = 3 };

bool audit_check_schema(audit_t *audit, int *schema, buffer_t *why) {
    // One statement: a sidecar may create the log, or migrate it, between two. Version 0.1.0 wrote 2 for schema 3, too
    // (003_group.sql).
    static const char sql[] = "SELECT application_id, CASE WHEN user_version <> 2 THEN user_version"
                              " WHEN EXISTS (SELECT 1 FROM pragma_table_info('events') WHERE name = 'group') THEN 3 ELSE 2 END,"
                              " EXISTS (SELECT 1 FROM sqlite_schema) FROM pragma_application_id, pragma_user_version";
    int64_t application = 0, version = 0, objects = 0;
    int newest = migrations[migration_count - 1].schema;
    if (!audit_read_numbers(audit, sql, (int64_t *const[]){&application, &version, &objects}, 3, why)) return false;
    *schema = (int)version;
    if (application == 0 && version == 0 && objects == 0) return true;
    if (application != AUDIT_APPLICATION_ID)
        return audit_refuse(audit->path, why, "is the database of another program: set audit.path to another file");
    return version <= newest ||
           audit_refuse(
               audit->path, why,
               "has schema %lld, this version knows up to %d: run the newer queue-sidecar that wrote it, or move it away",
               (long long)version, newest);
}

bool audit_adapt_older(audit_t *audit, int schema, buffer_t *why) {
    static const char group[] = "CREATE TEMP VIEW event_states AS SELECT *, '' AS \"group\" FROM main.event_states";
    static const char compact[] =
        "CREATE TEMP VIEW records AS SELECT * FROM main.events;"
        "CREATE TEMP VIEW answers AS SELECT seq, answers, answers_ref FROM main.events WHERE answers <> '';";
    static const char answered[] =
        "CREATE TEMP VIEW answered_seqs AS SELECT r.seq FROM main.events AS a CROSS JOIN main.refs AS r"
        " ON r.ref = a.answers_ref WHERE a.answers <> ''";
    static const char unindexed[] = "CREATE TEMP VIEW answered_seqs AS SELECT seq FROM main.events";
    static const char refs[] = "CREATE TEMP VIEW refs AS SELECT ref AS prefix, seq FROM main.refs";
    if (schema >= SCHEMA_COMPACT) return true;
    return audit_exec(audit, compact, "read it", why) && (schema < SCHEMA_LOOKUP || audit_exec(audit, refs, "read it", why)) &&
           audit_exec(audit, schema < SCHEMA_LOOKUP ? unindexed : answered, "read it", why) &&
           (schema >= SCHEMA_GROUP || audit_exec(audit, group, "read it", why));
}

// Gives the log a random name. `sql` is a printf format for the two halves of that name.
static bool migrate_set_instance(audit_t *audit, const char *sql, buffer_t *why) {
    uint64_t random[2];
    random_bytes(random, sizeof random);
    char *text = sqlite3_mprintf(sql, (unsigned long long)random[0], (unsigned long long)random[1]);
    bool done = text && audit_exec(audit, text, "name it", why);
    sqlite3_free(text);
    return done;
}

bool audit_rename_instance(audit_t *audit, buffer_t *why) {
    return migrate_set_instance(audit, "UPDATE facts SET value = '%016llx%016llx' WHERE name = 'instance'", why);
}

// Reads the schema again inside the transaction, because another process may have migrated the file meanwhile.
static bool migrate_apply(audit_t *audit, buffer_t *why) {
    int schema = 0;
    if (!audit_check_schema(audit, &schema, why)) return false;
    for (size_t i = 0; i < migration_count; i++)
        if (migrations[i].schema > schema && !audit_exec(audit, migrations[i].sql, migrations[i].name, why)) return false;
    return migrate_set_instance(audit, "INSERT OR IGNORE INTO facts VALUES ('instance', '%016llx%016llx')", why);
}

bool audit_migrate(audit_t *audit, int schema, buffer_t *why) {
    if (schema == migrations[migration_count - 1].schema) return true;
    if (!audit_exec(audit, "BEGIN IMMEDIATE", "begin to migrate it", why)) return false;
    bool ready = migrate_apply(audit, why);
    failpoint("audit_migrate_before_commit");
    if (ready && audit_exec(audit, "COMMIT", "migrate it", why)) {
        failpoint("audit_migrated");
        return true;
    }
    sqlite3_exec(audit->db, "ROLLBACK", NULL, NULL, NULL);
    return false;
}
