// Opening the log, and writing to it.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/migrations.h"
#include "audit/store.h"
#include "audit/text.h"
#include "base/utf8.h"

enum { PATIENCE_MS = 5000, FILE_MODE = 0640 }; // jobs may be private: others have no business there

// FULL: what commit says is on disk. Checkpoints are rare enough that rows of many transactions share their pages, and the file
// beside the log stays below 16 MiB.
static const char settings[] =
    "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
    "PRAGMA cache_size = -8192; PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 16777216";

static const char put_sql[] = "INSERT INTO events (ref, answers_ref"
#define X(name, help) ", " #name
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        ") VALUES (?, ?"
#define X(name, help) ", ?"
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        ")";

static const char *const sql_of[STATEMENT_COUNT] = {
    [STATEMENT_BEGIN] = "BEGIN IMMEDIATE",
    [STATEMENT_COMMIT] = "COMMIT",
    [STATEMENT_KNOWN] = "SELECT 1 FROM events WHERE ref = ? AND event = ?",
    [STATEMENT_PUT] = put_sql,
    [STATEMENT_MOVE] = "INSERT INTO positions VALUES (?, ?) ON CONFLICT (queue) DO UPDATE SET position = excluded.position",
    [STATEMENT_POSITION] = "SELECT position FROM positions WHERE queue = ?",
};

// NULL with *why when it cannot be made; borrowed.
static sqlite3_stmt *statement(audit_t *audit, audit_statement_t which, buffer_t *why) {
    sqlite3_stmt **at = &audit->statements[which];
    if (!*at && sqlite3_prepare_v3(audit->db, sql_of[which], -1, SQLITE_PREPARE_PERSISTENT, at, NULL) != SQLITE_OK)
        audit_fail(audit, "prepare a statement", why);
    return *at;
}

// Runs a statement that returns no row, and makes it ready for the next time.
static bool run(audit_t *audit, sqlite3_stmt *of, const char *doing, buffer_t *why) {
    int code = sqlite3_step(of);
    if (code != SQLITE_DONE) audit_fail(audit, doing, why); // before the reset: that may change the error
    sqlite3_reset(of);
    return code == SQLITE_DONE;
}

// A file that did not exist gets our rights. An existing one is not opened here: closing it again would drop the locks that
// another connection of this process holds on it (sqlite.org/howtocorrupt.html).
static void make_file(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd >= 0) close(fd);
}

static bool open_database(audit_t *audit, const char *name, int flags, buffer_t *why) {
    int code = sqlite3_open_v2(name, &audit->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (!audit->db) return audit_fail_code(audit->path, code, 0, "open it", sqlite3_errstr(code), why);
    if (code != SQLITE_OK) return audit_fail(audit, "open it", why);
    sqlite3_busy_timeout(audit->db, PATIENCE_MS);
    return true;
}

static bool open_for_writing(audit_t *audit, buffer_t *why) {
    int schema = 0;
    make_file(audit->path);
    if (!open_database(audit, audit->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, why)) return false;
    if (!audit_check_file(audit, &schema, why)) return false; // before anything is changed: it may belong to others
    if (sqlite3_db_readonly(audit->db, "main") == 1)
        return audit_fail_code(audit->path, SQLITE_READONLY, 0, "open it", "opened without the right to write", why);
    if (sqlite3_exec(audit->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(audit->db, settings, NULL, NULL, NULL) != SQLITE_OK)
        return audit_fail(audit, "set it up", why);
    return audit_migrate(audit, schema, why);
}

// Appends a path as a URI of SQLite, which keeps ? # and % for itself.
static char *immutable_uri(const char *path) {
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

static bool has_unmerged_rows(const char *path) {
    struct stat at;
    char *wal = mem_printf("%s-wal", path);
    bool has = stat(wal, &at) == 0 && at.st_size > 0;
    free(wal);
    return has;
}

// A log in WAL mode wants a -shm file beside it even to be read. Where none can be made nobody writes either, and the file can be
// read as it is, unless a -wal file holds rows that are not in it yet.
static bool reopen_immutable(audit_t *audit, int *schema, buffer_t *why) {
    if (!audit_directory_is_closed(audit->path)) return false;
    if (has_unmerged_rows(audit->path)) {
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
    char *uri = immutable_uri(audit->path);
    bool done = open_database(audit, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, why) && audit_check_file(audit, schema, why);
    free(uri);
    return done;
}

static bool open_for_reading(audit_t *audit, bool older, buffer_t *why) {
    int schema = 0, newest = migrations[migration_count - 1].schema;
    if (!open_database(audit, audit->path, SQLITE_OPEN_READONLY, why)) return false;
    bool read = audit_check_file(audit, &schema, why);
    int code = sqlite3_errcode(audit->db) & 0xff;
    if (!read && (code == SQLITE_CANTOPEN || code == SQLITE_READONLY)) read = reopen_immutable(audit, &schema, why);
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

static bool read_instance(audit_t *audit, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    const char sql[] = "SELECT value FROM facts WHERE name = 'instance'";
    if (sqlite3_prepare_v2(audit->db, sql, -1, &of, NULL) == SQLITE_OK && sqlite3_step(of) == SQLITE_ROW)
        audit->instance = mem_str((const char *)sqlite3_column_text(of, 0));
    else
        audit_fail(audit, "read its name", why);
    sqlite3_finalize(of);
    return audit->instance != NULL;
}

audit_t *audit_open(const char *path, audit_mode_t mode, buffer_t *why) {
    audit_t *audit = mem_alloc(sizeof *audit);
    audit->path = mem_str(path);
    bool opened = audit_file_fits(path, mode, why) &&
                  (mode == AUDIT_WRITE ? open_for_writing(audit, why) : open_for_reading(audit, mode == AUDIT_PEER, why)) &&
                  read_instance(audit, why);
    if (opened) return audit;
    audit_close(audit);
    return NULL;
}

void audit_close(audit_t *audit) {
    if (!audit) return;
    for (size_t i = 0; i < STATEMENT_COUNT; i++) sqlite3_finalize(audit->statements[i]);
    sqlite3_close(audit->db);
    free(audit->path);
    free(audit->instance);
    buffer_free(&audit->scratch);
    free(audit);
}

const char *audit_instance(const audit_t *audit) { return audit->instance; }

void audit_patience(audit_t *audit, int ms) { sqlite3_busy_timeout(audit->db, ms); }

bool audit_position(audit_t *audit, const char *queue, char position[AUDIT_POSITION_SIZE], buffer_t *why) {
    sqlite3_stmt *of = statement(audit, STATEMENT_POSITION, why);
    if (!of) return false;
    sqlite3_bind_text(of, 1, queue, -1, SQLITE_STATIC);
    int code = sqlite3_step(of);
    if (code != SQLITE_ROW && code != SQLITE_DONE) audit_fail(audit, "read a position", why);
    const char *found = code == SQLITE_ROW ? (const char *)sqlite3_column_text(of, 0) : "0-0";
    memcpy(position, found, strnlen(found, AUDIT_POSITION_SIZE - 1) + 1);
    position[AUDIT_POSITION_SIZE - 1] = '\0';
    sqlite3_reset(of);
    return code == SQLITE_ROW || code == SQLITE_DONE;
}

bool audit_begin(audit_t *audit, buffer_t *why) {
    sqlite3_stmt *of = statement(audit, STATEMENT_BEGIN, why);
    return of && run(audit, of, "begin to write", why);
}

// Bytes that are no text are kept as they are, as a BLOB, where the column takes any; elsewhere as a text that shows where they
// were.
static void bind(audit_t *audit, sqlite3_stmt *of, int at, slice_t value, bool any) {
    const char *data = value.len ? value.data : "";
    if (text_is_clean(value)) {
        sqlite3_bind_text64(of, at, data, value.len, SQLITE_STATIC, SQLITE_UTF8);
    } else if (any) {
        sqlite3_bind_blob64(of, at, data, value.len, SQLITE_STATIC);
    } else {
        buffer_clear(&audit->scratch);
        utf8_escape(&audit->scratch, data, value.len, "");
        sqlite3_bind_text64(of, at, audit->scratch.data, audit->scratch.len, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
}

static void bind_event(audit_t *audit, sqlite3_stmt *of, const event_t *event) {
    int at = 3; // behind the refs
#define X(name, help)                                                                                                            \
    bind(audit, of, at, event->name, &event->name == &event->payload || &event->name == &event->error);                          \
    at++;
    EVENT_TEXTS(X)
#undef X
#define X(name, help) sqlite3_bind_int64(of, at++, event->name);
    EVENT_NUMBERS(X)
#undef X
}

// Whether an event is there already. False with *why when that cannot be told.
static bool look(audit_t *audit, const char *ref, slice_t id, bool *known, buffer_t *why) {
    sqlite3_stmt *of = statement(audit, STATEMENT_KNOWN, why);
    if (!of) return false;
    sqlite3_bind_text(of, 1, ref, -1, SQLITE_STATIC);
    sqlite3_bind_text64(of, 2, id.data, id.len, SQLITE_STATIC, SQLITE_UTF8);
    int code = sqlite3_step(of);
    *known = code == SQLITE_ROW;
    bool done = *known || code == SQLITE_DONE || audit_fail(audit, "look for an event", why);
    sqlite3_reset(of);
    return done;
}

bool audit_put(audit_t *audit, const event_t *event, bool *added, buffer_t *why) {
    char ref[EVENT_REF_SIZE], answers[EVENT_REF_SIZE] = "";
    bool known = false;
    if (added) *added = false;
    if (!event_ref(event->event, ref) || sqlite3_get_autocommit(audit->db)) {
        buffer_printf(why, "audit log %s: an event without an id, or outside of a transaction, cannot be kept", audit->path);
        return false;
    }
    if (!look(audit, ref, event->event, &known, why)) return false;
    if (known) return true;
    sqlite3_stmt *of = statement(audit, STATEMENT_PUT, why);
    if (!of) return false;
    if (!event_ref(event->answers, answers)) *answers = '\0';
    sqlite3_bind_text(of, 1, ref, -1, SQLITE_STATIC);
    sqlite3_bind_text(of, 2, answers, -1, SQLITE_STATIC);
    bind_event(audit, of, event);
    bool done = run(audit, of, "write an event", why);
    sqlite3_clear_bindings(of); // they are borrowed
    if (added) *added = done;
    return done;
}

bool audit_move(audit_t *audit, const char *queue, const char *position, buffer_t *why) {
    sqlite3_stmt *of = statement(audit, STATEMENT_MOVE, why);
    if (!of) return false;
    sqlite3_bind_text(of, 1, queue, -1, SQLITE_STATIC);
    sqlite3_bind_text(of, 2, position, -1, SQLITE_STATIC);
    bool done = run(audit, of, "write a position", why);
    sqlite3_clear_bindings(of);
    return done;
}

bool audit_commit(audit_t *audit, buffer_t *why) {
    sqlite3_stmt *of = statement(audit, STATEMENT_COMMIT, why);
    return of && run(audit, of, "commit", why);
}

void audit_rollback(audit_t *audit) {
    if (!sqlite3_get_autocommit(audit->db)) sqlite3_exec(audit->db, "ROLLBACK", NULL, NULL, NULL);
}
