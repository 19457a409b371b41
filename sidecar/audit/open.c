// Opening the log: whose file it is, whether it is whole, and which one was here before.
#include <fcntl.h>
#include <libgen.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/lock.h"
#include "audit/migrations.h"
#include "audit/store.h"
#include "base/failpoint.h"

enum {
    BUSY_TIMEOUT_MS = 5000,
    FILE_MODE = 0640,  // jobs may be private: others have no business there
    PAGE_BYTES = 4096, // SQLite's default since 3.12
    CHECKPOINT_MAX_PAGES =
        4000, // pages of the file beside the log at which it is merged into it: rows of many transactions share pages
    CHECKPOINT_MIN_PAGES = 64, // the same where the log must stay small
    CHECKPOINT_SHARE = 16,     // and in between it is this part of audit.retain_bytes
    CHECK_STEPS = 100000,      // of SQLite's machine between two looks at whether to stop
};

// A file that did not exist gets our rights. An existing one is not opened here: closing it again would drop the locks that
// another connection of this process holds on it (sqlite.org/howtocorrupt.html).
static void open_create_file(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd >= 0) close(fd);
}

static bool open_database(audit_t *audit, const char *name, int flags, buffer_t *why) {
    int code = sqlite3_open_v2(name, &audit->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (!audit->db) return audit_fail_with(audit->path, code, 0, "open it", sqlite3_errstr(code), why);
    if (code != SQLITE_OK) return audit_fail(audit, "open it", why);
    sqlite3_busy_timeout(audit->db, BUSY_TIMEOUT_MS);
    return true;
}

// FULL: what commit says is on disk. auto_vacuum only means something while the file is empty, and before WAL makes its first
// page.
static bool open_configure(audit_t *audit, int64_t max_bytes, bool empty, buffer_t *why) {
    int64_t pages = max_bytes / CHECKPOINT_SHARE / PAGE_BYTES;
    if (max_bytes == 0 || pages > CHECKPOINT_MAX_PAGES) pages = CHECKPOINT_MAX_PAGES;
    if (pages < CHECKPOINT_MIN_PAGES) pages = CHECKPOINT_MIN_PAGES;
    audit->wal_limit = pages * PAGE_BYTES;
    buffer_t sql = {0};
    buffer_printf(&sql,
                  "%sPRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                  "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cache_size = -8192;"
                  "PRAGMA wal_autocheckpoint = %lld; PRAGMA journal_size_limit = %lld",
                  empty ? "PRAGMA auto_vacuum = INCREMENTAL;" : "", (long long)pages, (long long)audit->wal_limit);
    bool done = audit_exec(audit, buffer_text(&sql), "set it up", why);
    buffer_free(&sql);
    return done;
}

static int open_check_stopped(void *stop) { return atomic_load(*(const atomic_bool **)stop); }

// Reads every page, if that is asked for. False: it is damaged (and then says so), or cannot be read now.
static bool open_check_pages(audit_t *audit, const audit_open_options_t *options, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    const atomic_bool *stop = options->stop;
    if (!options->check) return true;
    if (stop) sqlite3_progress_handler(audit->db, CHECK_STEPS, open_check_stopped, &stop);
    bool whole = false;
    int code = sqlite3_prepare_v2(audit->db, "PRAGMA quick_check(1)", -1, &of, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(of);
    const char *said = code == SQLITE_ROW ? (const char *)sqlite3_column_text(of, 0) : NULL;
    if (said && strcmp(said, "ok") == 0)
        whole = true;
    else if (said)
        audit_fail_with(audit->path, SQLITE_CORRUPT, 0, "check it", said, why);
    else
        audit_fail(audit, "check it", why);
    audit->damaged = audit->damaged || said != NULL;
    if (whole) audit->damaged = false;
    sqlite3_finalize(of);
    sqlite3_progress_handler(audit->db, 0, NULL, NULL);
    return whole;
}

// A file of schema 1 was made without room for an incremental vacuum: it is written anew once. Where that fails (it takes as much
// disk again) the log works on without, and its file does not shrink.
static void open_enable_auto_vacuum(audit_t *audit, bool try) {
    int64_t mode = 0;
    buffer_t why = {0};
    if (audit_query_number(audit, "PRAGMA auto_vacuum", &mode, &why) && mode == 0) {
        failpoint("audit_convert_before");
        audit->no_auto_vacuum = !try || !audit_exec(audit, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM", "write it anew", &why);
        failpoint("audit_converted");
    }
    buffer_free(&why);
}

static bool open_read_instance(audit_t *audit, buffer_t *why) {
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

static bool open_note_loss(audit_lock_t *lock, const char *reason, buffer_t *why) {
    if (!*lock->instance || *lock->reason) return true;
    snprintf(lock->reason, sizeof lock->reason, "%s", reason);
    return audit_lock_write(lock, why);
}

// An older copy of the log that was here last, in its place: it is that log again, which has only to be filled up.
static bool open_restore_instance(audit_t *audit, buffer_t *why) {
    int64_t same = 0;
    char *sql = sqlite3_mprintf("SELECT count(*) FROM facts WHERE name = 'copy_of' AND value = %Q", audit->lock->instance);
    bool done = sql && audit_query_number(audit, sql, &same, why);
    sqlite3_free(sql);
    if (!done || same == 0) return done;
    sql = sqlite3_mprintf("UPDATE facts SET value = %Q WHERE name = 'instance'", audit->lock->instance);
    done = sql && audit_exec(audit, sql, "name it", why);
    sqlite3_free(sql);
    return done && open_read_instance(audit, why);
}

// Whether this is the log that was here last. A copy of another one gets a name of its own: two that acknowledge by one name
// would vouch for each other.
static bool open_compare_instance(audit_t *audit, buffer_t *why) {
    audit_lock_t *lock = audit->lock;
    if (!open_read_instance(audit, why)) return false;
    if (!*lock->instance) {
        snprintf(lock->instance, sizeof lock->instance, "%s", audit->instance);
        return audit_lock_write(lock, why);
    }
    audit->former_instance = mem_str(audit->instance);
    if (!*lock->reason && strcmp(lock->instance, audit->instance) != 0 && !open_restore_instance(audit, why)) return false;
    if (strcmp(lock->instance, audit->instance) == 0) {
        bool clean = !*lock->reason; // a log that was given up for lost, and put back
        *lock->reason = *lock->set_aside_as = '\0';
        return clean || audit_lock_write(lock, why);
    }
    if (!*lock->reason &&
        (!open_note_loss(lock, AUDIT_REPLACED, why) || !audit_rename_instance(audit, why) || !open_read_instance(audit, why)))
        return false;
    audit->loss = (audit_loss_t){.instance = lock->instance, .reason = lock->reason, .set_aside_as = lock->set_aside_as};
    return true;
}

static bool open_file(audit_t *audit, const audit_open_options_t *options, buffer_t *why) {
    int schema = 0;
    open_create_file(audit->path);
    if (!open_database(audit, audit->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, why)) return false;
    if (options->busy_timeout_ms) audit_set_busy_timeout(audit, options->busy_timeout_ms);
    if (!audit_check_schema(audit, &schema, why)) return false; // before anything is changed: it may belong to others
    audit->is_ours = schema > 0;
    if (sqlite3_db_readonly(audit->db, "main") == 1)
        return audit_fail_with(audit->path, SQLITE_READONLY, 0, "open it", "opened without the right to write", why);
    if (audit->exclusive && schema == 0 && !open_note_loss(audit->lock, AUDIT_MISSING, why)) return false;
    if (!open_check_pages(audit, options, why) || !open_configure(audit, options->max_bytes, schema == 0, why) ||
        !audit_migrate(audit, schema, why))
        return false;
    if (audit->exclusive) open_enable_auto_vacuum(audit, !options->keep_file);
    return (audit->exclusive ? open_compare_instance(audit, why) : open_read_instance(audit, why)) &&
           audit_read_facts(audit, why);
}

static void close_database(audit_t *audit) {
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3_finalize(audit->statements[i]);
        audit->statements[i] = NULL;
    }
    // A damaged log is left as it was found, with what lies beside it; and what belongs to one does not go into another.
    if (audit->damaged || audit->overwritten) sqlite3_db_config(audit->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(audit->db);
    audit->db = NULL;
}

// Damaged, and surely a log of ours: by its head, or because ours lay here before.
static bool open_must_set_aside(audit_t *audit) {
    if (!audit->exclusive || !audit->damaged) return false;
    return audit->is_ours || *audit->lock->instance;
}

static bool open_for_writing(audit_t *audit, const audit_open_options_t *options, buffer_t *why) {
    audit_lock_t *lock = audit->lock;
    if (!(audit->exclusive ? audit_lock_acquire(lock, why) : audit_lock_acquire_shared(lock, why))) return false;
    if (!audit->exclusive && *lock->instance && access(audit->path, F_OK) != 0) {
        buffer_printf(why, "audit log %s: is gone: let its sidecar make a new one first", audit->path);
        return false;
    }
    if (audit->exclusive && audit_has_orphan_wal(audit->path) && !audit_set_aside(lock, AUDIT_MISSING, why)) return false;
    if (audit->exclusive && options->overwritten && !audit_set_wal_aside(lock, why)) return false;
    if (audit->exclusive && options->set_aside && !audit_set_aside(lock, AUDIT_DAMAGED, why)) return false;
    if (open_file(audit, options, why)) return true;
    if (!open_must_set_aside(audit)) return false;
    close_database(audit);
    buffer_clear(why);
    audit->damaged = audit->is_ours = false;
    return audit_set_aside(lock, AUDIT_DAMAGED, why) && open_file(audit, options, why);
}
static bool open_wal_has_rows(const char *path) {
    struct stat at;
    char *wal = mem_printf("%s-wal", path);
    bool has = stat(wal, &at) == 0 && at.st_size > 0;
    free(wal);
    return has;
}

// A log in WAL mode wants a -shm file beside it even to be read. Where none can be made nobody writes either, and the file can be
// read as it is, unless a -wal file holds rows that are not in it yet.
static bool open_immutable(audit_t *audit, int *schema, buffer_t *why) {
    if (!audit_directory_is_read_only(audit->path)) return false;
    if (open_wal_has_rows(audit->path)) {
        buffer_clear(why);
        buffer_printf(
            why,
            "audit log %s: the newest rows are in %s-wal, which cannot be read in a directory that is not writable: copy "
            "both files to one that is, and read them there",
            audit->path, audit->path);
        return false;
    }
    sqlite3_close(audit->db);
    audit->db = NULL;
    buffer_clear(why);
    char *uri = audit_immutable_uri(audit->path);
    bool done = open_database(audit, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, why) && audit_check_schema(audit, schema, why);
    free(uri);
    return done;
}

// SQLite refuses every page of a file that is shorter than its head says, unless the schema may be written: the connection is for
// reading only, so here nothing may. A log that was cut short on its way gives what has come of it.
static bool open_truncated(audit_t *audit, int *schema, buffer_t *why) {
    int on = 0;
    buffer_clear(why);
    audit->damaged = true;
    sqlite3_db_config(audit->db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, &on);
    return audit_check_schema(audit, schema, why);
}

static bool open_for_reading(audit_t *audit, bool older, buffer_t *why) {
    int schema = 0, newest = migrations[migration_count - 1].schema;
    if (!open_database(audit, audit->path, SQLITE_OPEN_READONLY, why)) return false;
    bool read = audit_check_schema(audit, &schema, why);
    int code = sqlite3_errcode(audit->db) & 0xff;
    if (!read && (code == SQLITE_CANTOPEN || code == SQLITE_READONLY)) read = open_immutable(audit, &schema, why);
    if (!read && older && code == SQLITE_CORRUPT) read = open_truncated(audit, &schema, why);
    if (!read) return false;
    if (schema == newest || (older && schema > 0)) return true;
    if (schema == 0)
        buffer_printf(why, "audit log %s: is empty: no sidecar has written to it yet", audit->path);
    else
        buffer_printf(why,
                      "audit log %s: has schema %d, this version reads %d: let `queue-sidecar run` of this version open it once",
                      audit->path, schema, newest);
    return false;
}

static bool open_is_read_only(audit_mode_t mode) { return mode == AUDIT_READ || mode == AUDIT_PEER; }

// SQLite sorts in a temporary file what does not fit into memory. Where the root is read-only none of the places may be writable
// at which it makes one (sqlite.org/tempfiles.html, 5): then the log's own directory is. The name is kept for the life of the
// process, as SQLite wants it.
static void open_choose_temp_directory(const char *path) {
    const char *const usual[] = {getenv("SQLITE_TMPDIR"), getenv("TMPDIR"), "/var/tmp", "/usr/tmp", "/tmp", "."};
    if (sqlite3_temp_directory) return;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (usual[i] && access(usual[i], W_OK | X_OK) == 0) return;
    }
    char *copy = mem_str(path);
    sqlite3_temp_directory = sqlite3_mprintf("%s", dirname(copy));
    free(copy);
}

static audit_t *open_log(audit_t *audit, audit_mode_t mode, const audit_open_options_t *options, buffer_t *why) {
    bool opened = audit_path_is_usable(audit->path, mode, why);
    open_choose_temp_directory(audit->path);
    if (opened && open_is_read_only(mode))
        opened = open_for_reading(audit, mode == AUDIT_PEER, why) && open_read_instance(audit, why);
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
    if (!open_is_read_only(mode)) audit->lock = audit->owned_lock = audit_lock_new(path);
    return open_log(audit, mode, &none, why);
}

audit_t *audit_open_locked(audit_lock_t *lock, const audit_open_options_t *options, buffer_t *why) {
    audit_t *audit = mem_alloc(sizeof *audit);
    *audit = (audit_t){.path = mem_str(lock->log), .exclusive = true, .lock = lock};
    return open_log(audit, AUDIT_WRITE, options, why);
}

void audit_close(audit_t *audit) {
    if (!audit) return;
    close_database(audit);
    audit_lock_free(audit->owned_lock);
    free(audit->path);
    free(audit->instance);
    free(audit->former_instance);
    buffer_free(&audit->scratch);
    free(audit);
}

const char *audit_instance(const audit_t *audit) { return audit->instance; }
bool audit_is_damaged(const audit_t *audit) { return audit->damaged; }
bool audit_has_no_auto_vacuum(const audit_t *audit) { return audit->no_auto_vacuum; }
const audit_loss_t *audit_loss(const audit_t *audit) { return audit->loss.instance ? &audit->loss : NULL; }

bool audit_clear_loss(audit_t *audit, buffer_t *why) {
    audit_lock_t *lock = audit->lock;
    snprintf(lock->instance, sizeof lock->instance, "%s", audit->instance);
    *lock->reason = *lock->set_aside_as = '\0';
    audit->loss = (audit_loss_t){0};
    return audit_lock_write(lock, why);
}

void audit_set_busy_timeout(audit_t *audit, int ms) { sqlite3_busy_timeout(audit->db, ms); }
