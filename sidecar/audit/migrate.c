// Refuses files of other programs. Migrates older logs to the newest schema.
#include "audit/migrations.h"
#include "audit/store.h"
#include "base/failpoint.h"

enum { SCHEMA_RELEASED = 2, SCHEMA_EVENTS = 7 }; // of 0.1.0; 007_events.sql

// Builds between 0.1.0 and this version made schemas 3 to 6, which differ in more than one way from both.
static bool migrate_refuse_unreleased(const audit_t *audit, int schema, buffer_t *why) {
    return audit_refuse(
        audit->path, why,
        "has schema %d, which no release had: move it away, and bring its rows over with the version that wrote it "
        "(`queue-sidecar audit export --db OLD rows.jsonl`) and this one (`queue-sidecar audit import rows.jsonl`), "
        "or by SQL alone, as sql/README.md says below \"Merge two logs\"",
        schema);
}

bool audit_check_schema(audit_t *audit, int *schema, buffer_t *why) {
    // One statement: a sidecar may create the log, or migrate it, between two. Schema 3 had the user_version of 0.1.0.
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
    if (version > SCHEMA_RELEASED && version < SCHEMA_EVENTS) return migrate_refuse_unreleased(audit, *schema, why);
    return version <= newest ||
           audit_refuse(
               audit->path, why,
               "has schema %lld, this version knows up to %d: run the newer queue-sidecar that wrote it, or move it away",
               (long long)version, newest);
}

bool audit_adapt_older(audit_t *audit, int schema, buffer_t *why) {
    static const char columns[] =
        "CREATE TEMP VIEW event_states AS SELECT *, '' AS \"group\", '' AS traceparent FROM main.event_states";
    return schema >= SCHEMA_EVENTS || audit_exec(audit, columns, "read it", why);
}

bool audit_rename_instance(audit_t *audit, buffer_t *why) {
    return audit_exec(audit, "UPDATE facts SET value = lower(hex(randomblob(16))) WHERE name = 'instance'", "name it", why);
}

// Reads the schema again inside the transaction, because another process may have migrated the file meanwhile.
static bool migrate_apply(audit_t *audit, buffer_t *why) {
    int schema = 0;
    if (!audit_check_schema(audit, &schema, why)) return false;
    for (size_t i = 0; i < migration_count; i++)
        if (migrations[i].schema > schema && !audit_exec(audit, migrations[i].sql, migrations[i].name, why)) return false;
    return audit_exec(audit, "INSERT OR IGNORE INTO facts VALUES ('instance', lower(hex(randomblob(16))))", "name it", why);
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
