// Opens and closes the log: for writing, for reading, and after setting a damaged log aside.
#include <fcntl.h>
#include <pthread.h>

#include "audit/lock.h"
#include "audit/migrations.h"
#include "audit/store.h"
#include "base/failpoint.h"

enum {
    OLDEST_READABLE = 2,          // schema; 0.1.0 has written no other
    FILE_MODE = 0640,             // jobs may be private
    PAGE_BYTES = 4096,            // SQLite's default since 3.12
    CHECKPOINT_MAX_PAGES = 16384, // pages of the -wal file; a page with rows of many commits is written to the log once
    CHECKPOINT_MIN_PAGES = 64,    // pages of the -wal file if the log must stay small
    CHECKPOINT_SHARE = 16,        // between both limits: 1/16 of audit.retain_bytes
};

// Creates the file with the rights of a log. Never opens an existing file, because closing it again would drop the locks of
// another connection of this process (sqlite.org/howtocorrupt.html).
static void open_create_file(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd >= 0) close(fd);
}

bool audit_open_database(audit_t *audit, const char *name, int flags, buffer_t *why) {
    int code = sqlite3_open_v2(name, &audit->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (!audit->db) return audit_fail_with(audit->path, code, 0, "open it", sqlite3_errstr(code), why);
    if (code != SQLITE_OK) return audit_fail(audit, "open it", why);
    audit_set_default_wait(audit);
    return true;
}

// synchronous=FULL: a commit is on disk when it returns. auto_vacuum must be set before WAL makes the first page of the file.
static bool open_configure(audit_t *audit, int64_t max_bytes, bool empty, buffer_t *why) {
    int64_t pages = max_bytes / CHECKPOINT_SHARE / PAGE_BYTES;
    if (max_bytes == 0 || pages > CHECKPOINT_MAX_PAGES) pages = CHECKPOINT_MAX_PAGES;
    if (pages < CHECKPOINT_MIN_PAGES) pages = CHECKPOINT_MIN_PAGES;
    audit->retention.wal_limit = pages * PAGE_BYTES;
    buffer_t sql = {0};
    buffer_printf(&sql,
                  "%sPRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                  "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cache_size = -8192; PRAGMA secure_delete = ON;"
                  "PRAGMA wal_autocheckpoint = %lld; PRAGMA journal_size_limit = %lld",
                  empty ? "PRAGMA auto_vacuum = INCREMENTAL;" : "", (long long)pages, (long long)audit->retention.wal_limit);
    bool done = audit_exec(audit, buffer_text(&sql), "set it up", why);
    buffer_free(&sql);
    return done;
}

bool audit_check_pages(audit_t *audit, buffer_t *why) {
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(audit->db, "PRAGMA quick_check(1)", -1, &stmt, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(stmt);
    const char *result = code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    bool whole = result && strcmp(result, "ok") == 0;
    if (result && !whole)
        audit_fail_with(audit->path, SQLITE_CORRUPT, 0, "check it", result, why);
    else if (!result)
        audit_fail(audit, "check it", why);
    if (result) audit->damaged = !whole;
    sqlite3_finalize(stmt);
    return whole;
}

// Files of schema 1 cannot be vacuumed in steps, so rewrite them once. A rewrite needs twice as much disk again. If it fails, the
// log still works, but its file does not shrink.
static void open_enable_auto_vacuum(audit_t *audit, bool rewrite) {
    int64_t mode = 0;
    buffer_t why = {0};
    if (audit_read_number(audit, "PRAGMA auto_vacuum", &mode, &why) && mode == 0) {
        failpoint("audit_convert_before");
        audit->retention.no_auto_vacuum =
            !rewrite || !audit_exec(audit, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM", "rewrite it", &why);
        failpoint("audit_converted");
    }
    buffer_free(&why);
}

static bool open_read_facts(audit_t *audit, buffer_t *why) {
    audit->retention.dropped = INT64_MIN;
    if (!audit_read_number(audit, "PRAGMA page_size", &audit->retention.page_bytes, why)) return false;
    return !audit->exclusive || audit_read_fact(audit, "dropped", INT64_MIN, &audit->retention.dropped, why);
}

// A log without all its tables, or without a name, counts as damaged: no auditor can use it.
static bool open_lacks(audit_t *audit, const char *what, buffer_t *why) {
    audit->damaged = true;
    return audit_fail_with(audit->path, SQLITE_CORRUPT, 0, "check it", what, why);
}

static bool open_check_tables(audit_t *audit, buffer_t *why) {
    static const char sql[] = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN"
                              " ('events', 'facts', 'positions')";
    int64_t tables = 0;
    if (!audit_read_number(audit, sql, &tables, why)) return false;
    return tables == 3 || open_lacks(audit, "a table is missing", why);
}

// Somebody may have merged another log into this one by SQL, or recovered it. Writes nothing if the number is right.
static bool open_count_rows(audit_t *audit, const audit_open_options_t *options, buffer_t *why) {
    static const char sql[] = "INSERT INTO facts SELECT 'rows', CAST(count(*) AS TEXT) FROM events WHERE true"
                              " ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value <> excluded.value";
    return !options->check || audit_exec(audit, sql, "count its rows", why);
}

// The check and the migration of a large log take seconds. A stop must not wait for them.
static bool open_check_and_migrate(audit_t *audit, const audit_open_options_t *options, int schema, buffer_t *why) {
    audit_watch_stop(audit, true);
    bool done = (!options->check || audit_check_pages(audit, why)) && (schema == 0 || open_check_tables(audit, why)) &&
                open_configure(audit, options->max_bytes, schema == 0, why) && audit_migrate(audit, schema, why) &&
                open_count_rows(audit, options, why) && (!options->check || audit_erase_again(audit, why));
    audit_watch_stop(audit, false);
    return done;
}

static bool instance_read(audit_t *audit, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, "SELECT value FROM facts WHERE name = 'instance'", why);
    if (!stmt) return false;
    int code = sqlite3_step(stmt);
    free(audit->instance);
    audit->instance = code == SQLITE_ROW ? mem_str((const char *)sqlite3_column_text(stmt, 0)) : NULL;
    bool read = audit_finish(audit, stmt, code, "read its name", why);
    return read && (audit->instance || open_lacks(audit, "the row `instance` of `facts` is missing", why));
}

// If the lock file names a log, records there that this log is lost.
static bool instance_note_loss(audit_lock_t *lock, const char *reason, buffer_t *why) {
    if (!*lock->loss.instance || *lock->loss.reason) return true;
    snprintf(lock->loss.reason, sizeof lock->loss.reason, "%s", reason);
    return audit_lock_write(lock, why);
}

// If a backup is in the place of its log, gives it the name of the log again. Then the auditor adds the missing events to it.
static bool instance_restore(audit_t *audit, buffer_t *why) {
    const char *name = audit->lock->loss.instance;
    char *sql = sqlite3_mprintf("UPDATE facts SET value = %Q WHERE name = 'instance' AND EXISTS"
                                " (SELECT 1 FROM facts WHERE name = 'copy_of' AND value = %Q)",
                                name, name);
    bool done = sql && audit_exec(audit, sql, "name it", why);
    sqlite3_free(sql);
    return done && instance_read(audit, why);
}

bool audit_clear_loss(audit_t *audit, buffer_t *why) {
    audit_lock_t *lock = audit->lock;
    snprintf(lock->loss.instance, sizeof lock->loss.instance, "%s", audit->instance);
    *lock->loss.reason = *lock->loss.set_aside_as = '\0';
    return audit_lock_write(lock, why);
}

// Compares the name in the log with the name in the lock file. If another log is at the path, records the loss and gives that log
// a new name: it may be a copy, and two logs of one name would acknowledge for each other.
static bool instance_compare(audit_t *audit, buffer_t *why) {
    audit_lock_t *lock = audit->lock;
    if (!instance_read(audit, why)) return false;
    if (!*lock->loss.instance && !*lock->loss.reason) return audit_clear_loss(audit, why);
    audit->file.former_instance = mem_str(audit->instance);
    if (!*lock->loss.reason && strcmp(lock->loss.instance, audit->instance) != 0 && !instance_restore(audit, why)) return false;
    // Somebody may have put a lost log back.
    if (strcmp(lock->loss.instance, audit->instance) == 0) return !*lock->loss.reason || audit_clear_loss(audit, why);
    return *lock->loss.reason ||
           (instance_note_loss(lock, AUDIT_REPLACED, why) && audit_rename_instance(audit, why) && instance_read(audit, why));
}

static bool open_file(audit_t *audit, const audit_open_options_t *options, buffer_t *why) {
    int schema = 0;
    open_create_file(audit->path);
    if (!audit_open_database(audit, audit->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, why)) return false;
    audit->stop = options->stop;
    audit_set_default_wait(audit);
    // Check this before any change: the file may belong to another program.
    if (!audit_check_schema(audit, &schema, why)) return false;
    audit->is_ours = schema > 0;
    if (sqlite3_db_readonly(audit->db, "main") == 1)
        return audit_fail_with(audit->path, SQLITE_READONLY, 0, "open it", "opened without the right to write", why);
    if (audit->exclusive && schema == 0 && !instance_note_loss(audit->lock, AUDIT_MISSING, why)) return false;
    if (!open_check_and_migrate(audit, options, schema, why)) return false;
    if (audit->exclusive) open_enable_auto_vacuum(audit, !options->keep_file);
    return (audit->exclusive ? instance_compare(audit, why) : instance_read(audit, why)) && open_read_facts(audit, why);
}

static void close_database(audit_t *audit) {
    for (; audit->statement_count; audit->statement_count--)
        sqlite3_finalize(audit->statements[audit->statement_count - 1].prepared);
    // A checkpoint would change a damaged log, or write the pages of one log into another.
    if (audit->damaged || audit->file.overwritten) sqlite3_db_config(audit->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(audit->db);
    audit->db = NULL;
}

// SQLite reads nothing of a truncated file.
static bool open_has_our_header(const audit_t *audit) {
    uint8_t header[AUDIT_HEADER_SIZE];
    return audit_read_header(audit, header) == SQLITE_OK &&
           audit_header_number(header + AUDIT_HEADER_APPLICATION) == AUDIT_APPLICATION_ID;
}

// Never move a file of another program. The header or the lock file shows that the file is, or was, a log of the sidecar.
static bool open_must_set_aside(audit_t *audit) {
    return audit->exclusive && audit->damaged && (audit->is_ours || *audit->lock->loss.instance || open_has_our_header(audit));
}

static bool open_prepare(audit_t *audit, const audit_open_options_t *options, buffer_t *why) {
    audit_lock_t *lock = audit->lock;
    if (!audit->exclusive) {
        if (!audit_lock_acquire_shared(lock, why)) return false;
        return !*lock->loss.instance || access(audit->path, F_OK) == 0 ||
               audit_refuse(audit->path, why, "is gone: let its sidecar make a new one first");
    }
    if (!audit_lock_acquire(lock, why)) return false;
    if (audit_has_orphan_wal(audit->path) && !audit_set_aside(lock, AUDIT_MISSING, why)) return false;
    if (options->overwritten && !audit_set_wal_aside(lock, why)) return false;
    return !options->set_aside || audit_set_aside(lock, AUDIT_DAMAGED, why);
}

// A lock file that was lost with the log names no log. Its acknowledgements can be revoked if the damaged file still has its
// name.
static void open_remember_name(audit_t *audit) {
    audit_loss_t *loss = &audit->lock->loss;
    buffer_t why = {0};
    if (!*loss->instance && audit->db && instance_read(audit, &why))
        snprintf(loss->instance, sizeof loss->instance, "%s", audit->instance);
    buffer_free(&why);
}

static bool open_for_writing(audit_t *audit, const audit_open_options_t *options, buffer_t *why) {
    if (!open_prepare(audit, options, why)) return false;
    if (open_file(audit, options, why)) return true;
    if (!open_must_set_aside(audit)) return false;
    open_remember_name(audit);
    close_database(audit);
    buffer_clear(why);
    audit->damaged = audit->is_ours = false;
    return audit_set_aside(audit->lock, AUDIT_DAMAGED, why) && open_file(audit, options, why);
}

// A read in WAL mode needs a -shm file, which SQLite cannot make in a read-only directory. Nobody can write to the log there
// either. So read the file alone, unless a -wal file has newer rows.
static bool open_immutable(audit_t *audit, int *schema, buffer_t *why) {
    if (!audit_directory_is_read_only(audit->path)) return false;
    buffer_clear(why);
    if (audit_wal_bytes(audit) > 0)
        return audit_refuse(audit->path, why,
                            "the newest rows are in %s-wal, which cannot be read in a directory that is not writable: copy "
                            "both files to one that is, and read them there",
                            audit->path);
    close_database(audit);
    char *uri = audit_immutable_uri(audit->path);
    bool done =
        audit_open_database(audit, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, why) && audit_check_schema(audit, schema, why);
    free(uri);
    return done;
}

// SQLite reads no page of a truncated file unless the schema is writable. That is safe here: the connection is read-only.
static bool open_truncated(audit_t *audit, int *schema, buffer_t *why) {
    buffer_clear(why);
    audit->damaged = true;
    sqlite3_db_config(audit->db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, NULL);
    return audit_check_schema(audit, schema, why);
}

static bool open_read_schema(audit_t *audit, bool damaged, int *schema, buffer_t *why) {
    if (!audit_open_database(audit, audit->path, SQLITE_OPEN_READONLY, why)) return false;
    bool read = audit_check_schema(audit, schema, why);
    int code = sqlite3_errcode(audit->db) & 0xff;
    if (!read && (code == SQLITE_CANTOPEN || code == SQLITE_READONLY)) read = open_immutable(audit, schema, why);
    if (!read && damaged && code == SQLITE_CORRUPT) read = open_truncated(audit, schema, why);
    return read;
}

static bool open_for_reading(audit_t *audit, bool damaged, buffer_t *why) {
    int schema = 0, newest = migrations[migration_count - 1].schema;
    if (!open_read_schema(audit, damaged, &schema, why)) return false;
    if (schema >= OLDEST_READABLE) return audit_adapt_older(audit, schema, why);
    if (schema == 0) return audit_refuse(audit->path, why, "is empty: no sidecar has written to it yet");
    return audit_refuse(audit->path, why,
                        "has schema %d, this version reads %d to %d: let `queue-sidecar run` of this version open it once",
                        schema, OLDEST_READABLE, newest);
}

// SQLite makes temporary files for large sorts and for a rewrite. A sidecar keeps them beside its log: the usual directories may
// be in memory, or not writable. Commands leave the choice to SQLite (sqlite.org/tempfiles.html, 5) if one of its directories is
// writable. SQLite requires that the name lives as long as the process. Threads choose one after the other: several open the log.
static void open_choose_temp_directory(const audit_t *audit) {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    const char *const usual[] = {getenv("SQLITE_TMPDIR"), getenv("TMPDIR"), "/var/tmp", "/usr/tmp", "/tmp", "."};
    const char *dir = NULL;
    pthread_mutex_lock(&one);
    for (size_t i = 0; i < (audit->exclusive ? 2 : sizeof usual / sizeof *usual) && !dir; i++)
        if (usual[i] && access(usual[i], W_OK | X_OK) == 0) dir = usual[i];
    if (!sqlite3_temp_directory && (!dir || audit->exclusive)) {
        char *own = audit_directory(audit->path);
        sqlite3_temp_directory = sqlite3_mprintf("%s", dir ? dir : own);
        free(own);
    }
    pthread_mutex_unlock(&one);
}

static audit_t *open_log(audit_t *audit, audit_mode_t mode, const audit_open_options_t *options, buffer_t *why) {
    bool opened = audit_path_is_usable(audit->path, mode, why);
    open_choose_temp_directory(audit);
    if (opened && audit_mode_reads(mode))
        opened = open_for_reading(audit, mode == AUDIT_PEER, why) && instance_read(audit, why);
    else if (opened)
        opened = open_for_writing(audit, options, why);
    if (opened) return audit;
    audit_close(audit);
    return NULL;
}

audit_t *audit_open(const char *path, audit_mode_t mode, buffer_t *why) {
    static const audit_open_options_t none;
    audit_t *audit = mem_alloc(sizeof *audit);
    *audit = (audit_t){.path = mem_str(path), .exclusive = mode == AUDIT_WRITE};
    if (!audit_mode_reads(mode)) audit->lock = audit->owned_lock = audit_lock_new(path);
    return open_log(audit, mode, &none, why);
}

audit_t *audit_open_locked(audit_lock_t *lock, const audit_open_options_t *options, buffer_t *why) {
    audit_t *audit = mem_alloc(sizeof *audit);
    *audit = (audit_t){.path = mem_str(lock->log), .exclusive = true, .lock = lock};
    return open_log(audit, AUDIT_WRITE, options, why);
}

bool audit_is_log(const char *path, buffer_t *why) {
    int schema = 0;
    audit_t *audit = mem_alloc(sizeof *audit);
    *audit = (audit_t){.path = mem_str(path)};
    bool log = open_read_schema(audit, true, &schema, why);
    audit_close(audit);
    return log;
}

void audit_close(audit_t *audit) {
    if (!audit) return;
    close_database(audit);
    audit_lock_free(audit->owned_lock);
    free(audit->path);
    free(audit->instance);
    free(audit->statements);
    free(audit->file.former_instance);
    buffer_free(&audit->scratch);
    pending_free(&audit->pending);
    free(audit);
}

bool audit_is_damaged(const audit_t *audit) { return audit->damaged; }
void audit_release_memory(audit_t *audit) {
    if (audit->pending.count == 0) pending_free(&audit->pending);
    sqlite3_db_release_memory(audit->db);
}
const char *audit_instance(const audit_t *audit) { return audit->instance; }
const audit_loss_t *audit_loss(const audit_t *audit) {
    return audit->exclusive && *audit->lock->loss.reason ? &audit->lock->loss : NULL;
}
