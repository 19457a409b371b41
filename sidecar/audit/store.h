// What the files of this room share: the opened database, its prepared statements, and the texts of its errors.
#ifndef QS_AUDIT_STORE_H
#define QS_AUDIT_STORE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "audit/audit.h"

enum { AUDIT_APPLICATION_ID = 0x51534155 }; // "QSAU", as in 001_init.sql

typedef enum audit_statement {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_COUNT_COMMIT,
    STATEMENT_EXISTS,
    STATEMENT_INSERT,
    STATEMENT_SET_POSITION,
    STATEMENT_POSITION,
    STATEMENT_ADD_ROWS,
    STATEMENT_ROWS,
    STATEMENT_PAGES,
    STATEMENT_FREE_PAGES,
    STATEMENT_OLDEST,
    STATEMENT_FIRST_ARRIVED,
    STATEMENT_NEWEST,
    STATEMENT_REMOVE,
    STATEMENT_SET_DROPPED,
    STATEMENT_VACUUM,
    STATEMENT_RANGE // of query.c
} audit_statement_t;
enum { STATEMENT_COUNT = STATEMENT_RANGE + 1 };

struct audit {
    sqlite3 *db;
    char *path;                                // owned
    char *instance;                            // owned
    sqlite3_stmt *statements[STATEMENT_COUNT]; // prepared at first use, owned
    buffer_t scratch;                          // texts on their way into a row
    bool exclusive;                            // opened by the auditor, which holds the log
    bool is_ours;                              // the file has the head of a log of ours
    bool damaged;                              // SQLite has found it so
    bool no_auto_vacuum;                       // it cannot shrink
    bool overwritten;                          // the file holds something else than was opened
    char *former_instance;                     // the instance that it was until it was named anew, owned; NULL = it was not
    struct stat inspected;                     // of the file, when it was last looked into
    int64_t inspected_commits;                 // the number of commits that was in it then
    struct stat suspect;                       // of the file, when it was last looked into and said nothing
    audit_lock_t *lock;                        // borrowed; NULL when opened for reading
    audit_lock_t *owned_lock;                  // the same, where it is owned; else NULL
    audit_loss_t loss;                         // borrowed from the lock; instance NULL = none
    int64_t dropped;                           // highest `at` that retention has removed; INT64_MIN = nothing counts as removed
    int64_t page_bytes;                        // of the file
    int64_t added;                             // rows of this transaction, less those removed
    int64_t wal_limit;                         // bytes of the file beside the log that are no reason to remove rows
    bool dropping_rows, dropping_bytes;        // until there is some room below the limit
    bool vacuuming;                            // until few free pages are left
    bool has_functions;                        // functions that questions need are there
};

// NULL with *why when it cannot be prepared; borrowed.
sqlite3_stmt *audit_statement(audit_t *audit, audit_statement_t which, buffer_t *why);
// Runs a statement that returns no row, and makes it ready for the next time.
bool audit_run(audit_t *audit, sqlite3_stmt *of, const char *doing, buffer_t *why);

// Runs statements that return no row and are used once.
bool audit_exec(audit_t *audit, const char *sql, const char *doing, buffer_t *why);

// Says in *why what failed, for which file, and what to do. `doing` as in "cannot write to". Always false. Notes damage.
bool audit_fail(audit_t *audit, const char *doing, buffer_t *why);
bool audit_fail_with(const char *path, int code, int os_error, const char *doing, const char *detail, buffer_t *why);

// Sees that `path` can be an audit log before SQLite touches it.
bool audit_path_is_usable(const char *path, audit_mode_t mode, buffer_t *why);
// What a file system of this f_type (see statfs(2)) is called when it is no place for a write-ahead log; else NULL.
const char *audit_network_filesystem(unsigned long type);
// Whether nobody can write beside `path`, through us at least: no -wal and -shm can be made there.
bool audit_directory_is_read_only(const char *path);

// Refuses what is not ours or newer than we are; an empty file is no fault. *schema: 0 = empty.
bool audit_check_schema(audit_t *audit, int *schema, buffer_t *why);
// Brings an empty or older file to the newest schema, in one transaction.
bool audit_migrate(audit_t *audit, int schema, buffer_t *why);

// A new random name for a log that is a copy of another one.
bool audit_rename_instance(audit_t *audit, buffer_t *why);
// Takes over what the file says of itself.
bool audit_read_facts(audit_t *audit, buffer_t *why);

// Moves the log with what lies beside it to <path>.corrupt-<UTC time>, noted in the lock file before; for who holds it. What has
// moved in part is moved on under the same name.
bool audit_set_aside(audit_lock_t *lock, const char *reason, buffer_t *why);
// Moves what lies beside the log aside, under such a name: it belongs to a log that was written over.
bool audit_set_wal_aside(audit_lock_t *lock, buffer_t *why);
// Whether files of a log lie there without the log.
bool audit_has_orphan_wal(const char *path);

// The file alone, without what lies beside it, for SQLITE_OPEN_URI; owned.
char *audit_immutable_uri(const char *path);

// The first column of the one row of `sql`, a constant. False with *why when there is none.
bool audit_query_number(audit_t *audit, const char *sql, int64_t *out, buffer_t *why);

#endif
