// Types and functions that the files of audit/ share: the open database, its prepared statements, and the texts of its errors.
#pragma once

#include <sqlite3.h>
#include <sys/stat.h>

#include "audit/audit.h"
#include "base/clock.h"

enum { AUDIT_APPLICATION_ID = 0x51534155 }; // "QSAU", as in 001_init.sql

// The last known state of the file. replaced.c compares it to detect that the file was overwritten.
typedef struct audit_file {
    bool overwritten;
    char *former_instance; // the log's name before this opening, if this opening may rename it; otherwise NULL; owned
    struct stat inspected; // state of the file at the last successful read of its facts
    struct stat suspect;   // state of the file at the last failed read of its facts
    int64_t commits;       // number of commits in the file at that successful read
} audit_file_t;

typedef struct audit_retention {
    int64_t dropped;                    // highest `at` that retention has removed; INT64_MIN = nothing counts as removed
    int64_t page_bytes;                 // PRAGMA page_size
    int64_t wal_limit;                  // a -wal file of at most this many bytes is no reason to remove rows
    bool removing_rows, removing_bytes; // removal has begun; ends when a share of the limit is free
    bool vacuuming;                     // a vacuum has begun; ends when few pages are free
    bool no_auto_vacuum;                // the file cannot shrink
} audit_retention_t;

// See transaction.c.
typedef struct audit_pending audit_pending_t;
typedef struct pending {
    audit_pending_t *rows; // owned
    size_t count;
    buffer_t texts; // of all rows
} pending_t;

typedef struct statement {
    const char *sql; // a literal
    sqlite3_stmt *prepared;
} statement_t;

struct audit {
    sqlite3 *db;
    char *path;              // owned
    char *instance;          // owned
    statement_t *statements; // see audit_statement; owned
    size_t statement_count;
    buffer_t scratch;         // for texts on their way into a row
    bool exclusive;           // opened by the auditor, which holds the lock
    bool is_ours;             // the header of the file is that of an audit log
    bool damaged;             // SQLite has found the file damaged
    int head_bytes;           // of a payload, for rows; 0 = all
    bool has_functions;       // SQL functions of queries are registered
    int64_t added;            // rows of this transaction, less those removed
    pending_t pending;        // events of this transaction that are not in the table yet
    int64_t last_seq;         // the highest seq that was ever given; read at the beginning of each transaction
    int64_t erasures;         // number of erasures that the log has seen; read with last_seq
    int64_t rewritten;        // number of erasures before this opening has rewritten the file last
    const atomic_bool *stop;  // ends a wait for another writer; borrowed; NULL = only the default busy timeout does
    audit_lock_t *lock;       // borrowed; NULL when opened for reading
    audit_lock_t *owned_lock; // `lock` if audit_open made it; otherwise NULL
    audit_file_t file;
    audit_retention_t retention;
};

static inline bool audit_mode_reads(audit_mode_t mode) { return mode == AUDIT_READ || mode == AUDIT_PEER; }

// Opens `name`, a path or a URI, and sets the default busy timeout.
bool audit_open_database(audit_t *audit, const char *name, int flags, buffer_t *why);
// Reads every page. False: the file is damaged (audit->damaged) or unreadable for now.
bool audit_check_pages(audit_t *audit, buffer_t *why);

// The statement of `sql`, a literal; borrowed. It is prepared once and stays until the log is closed. NULL with *why if SQLite
// cannot prepare it.
sqlite3_stmt *audit_statement(audit_t *audit, const char *sql, buffer_t *why);
// Binds a value to a column that takes only text. Escapes bytes that are not UTF-8.
void audit_bind_text(audit_t *audit, sqlite3_stmt *stmt, int at, slice_t value);
// Binds a value, which must live until the statement has run, to a column of type ANY: bytes that are not text as a BLOB.
void audit_bind_bytes(sqlite3_stmt *stmt, int at, slice_t value);
// Resets a statement of audit_statement. `code` is the result of its last step. False with *why if that step failed.
bool audit_finish(audit_t *audit, sqlite3_stmt *stmt, int code, const char *doing, buffer_t *why);
// Runs a statement. Binds `number` to its parameter, if it has one.
bool audit_run(audit_t *audit, const char *sql, int64_t number, const char *doing, buffer_t *why);
// The first `count` columns of the one row of a statement.
bool audit_read_numbers(audit_t *audit, const char *sql, int64_t *const *out, int count, buffer_t *why);
// The first column of the one row of a statement.
bool audit_read_number(audit_t *audit, const char *sql, int64_t *out, buffer_t *why);
// Reads a number from the table facts. Returns `otherwise` if the table has no such name.
bool audit_read_fact(audit_t *audit, const char *name, int64_t otherwise, int64_t *out, buffer_t *why);
// Runs statements that are used once.
bool audit_exec(audit_t *audit, const char *sql, const char *doing, buffer_t *why);

int64_t audit_wal_bytes(const audit_t *audit); // size of the -wal file; 0 = no such file

// Whether the event may be inserted now: it has an id, and a transaction is open.
bool audit_check_insert(audit_t *audit, const event_t *event, buffer_t *why);
// Writes the row of an event, unless the log has its id. Counts it in audit->added if it is new. Leaves out texts that an erasure
// has removed, and removes texts if the event is an erasure.
bool audit_insert_row(audit_t *audit, const event_t *event, int64_t seq, buffer_t *why);
// Removes texts from rows that the log has, in the open transaction.
bool audit_erase(audit_t *audit, const event_t *erasure, buffer_t *why);
// Whether an erasure in the log removes the texts of this event.
bool audit_is_erased(audit_t *audit, const event_t *event, bool *erased, buffer_t *why);
// Applies all erasures of the log once more.
bool audit_erase_again(audit_t *audit, buffer_t *why);
// Waits for another writer as long as at the opening.
void audit_set_default_wait(audit_t *audit);
// While `watch` is true, `stop` ends a long statement with SQLITE_INTERRUPT.
void audit_watch_stop(audit_t *audit, bool watch);
void pending_clear(pending_t *pending); // keeps the memory
void pending_free(pending_t *pending);

// Append path, failed action and remedy to *why. `doing` follows the word "cannot". Always false. audit_fail also marks the log
// as damaged if SQLite says so.
bool audit_fail(audit_t *audit, const char *doing, buffer_t *why);
bool audit_fail_with(const char *path, int code, int os_error, const char *doing, const char *detail, buffer_t *why);
bool audit_fail_errno(const char *path, const char *doing, buffer_t *why);
bool audit_refuse(const char *path, buffer_t *why, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Whether an audit log can be at `path`. Call this before SQLite opens the file.
bool audit_path_is_usable(const char *path, audit_mode_t mode, buffer_t *why);
// Name of the file system of this f_type (see statfs(2)) if a write-ahead log is not safe on it; otherwise NULL.
const char *audit_network_filesystem(unsigned long type);
// The directory of a path; owned.
char *audit_directory(const char *path);
// True if this user cannot make the -wal and -shm files beside `path`.
bool audit_directory_is_read_only(const char *path);

// Whether a sidecar can use the file at `path`: an empty file, or a log of any schema that this version knows. Changes nothing.
// Call audit_path_is_usable first.
bool audit_is_log(const char *path, buffer_t *why);
// Refuses files of other programs and of newer versions. Accepts an empty file. *schema: 0 = empty.
bool audit_check_schema(audit_t *audit, int *schema, buffer_t *why);
// Brings an empty or older file to the newest schema, in one transaction.
bool audit_migrate(audit_t *audit, int schema, buffer_t *why);
// Lets the queries of this version read an older log.
bool audit_adapt_older(audit_t *audit, int schema, buffer_t *why);
// Gives the log a new random name.
bool audit_rename_instance(audit_t *audit, buffer_t *why);

// Moves the log and the files beside it to <path>.corrupt-<UTC time>. The lock file records the name first. So an interrupted
// move continues under the same name. Only for the holder of the lock.
bool audit_set_aside(audit_lock_t *lock, const char *reason, buffer_t *why);
// Moves only the -wal and -shm files: they belong to the log that was overwritten.
bool audit_set_wal_aside(audit_lock_t *lock, buffer_t *why);
// Whether there is a -wal or -shm file without a log.
bool audit_has_orphan_wal(const char *path);

// The beginning of the file, by SQLite's descriptor: closing one of our own would drop SQLite's locks. Returns a code of SQLite.
enum { AUDIT_HEADER_SIZE = 72, AUDIT_HEADER_APPLICATION = 68 }; // sqlite.org/fileformat.html, 1.3
int audit_read_header(const audit_t *audit, uint8_t header[AUDIT_HEADER_SIZE]);
uint32_t audit_header_number(const uint8_t *at);

// URI of the file alone, without its -wal, for SQLITE_OPEN_URI; owned.
char *audit_immutable_uri(const char *path);

// The fields of an event as columns of SQL, each after a comma.
#define EVENT_COLUMN(name, help) ", \"" #name "\""
#define EVENT_COLUMNS            EVENT_TEXTS(EVENT_COLUMN) EVENT_NUMBERS(EVENT_COLUMN)
