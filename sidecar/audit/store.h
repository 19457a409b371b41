// What the files of this room share: the opened database, its prepared statements, and the texts of its errors.
#ifndef QS_AUDIT_STORE_H
#define QS_AUDIT_STORE_H

#include <sqlite3.h>
#include <stdbool.h>

#include "audit/audit.h"

enum { AUDIT_APPLICATION_ID = 0x51534155 }; // "QSAU", as in 001_init.sql

typedef enum audit_statement {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_KNOWN,
    STATEMENT_PUT,
    STATEMENT_MOVE,
    STATEMENT_POSITION
} audit_statement_t;
enum { STATEMENT_COUNT = STATEMENT_POSITION + 1 };

struct audit {
    sqlite3 *db;
    char *path;                                // owned
    char *instance;                            // owned
    sqlite3_stmt *statements[STATEMENT_COUNT]; // prepared at first use, owned
    buffer_t scratch;                          // texts on their way into a row
    bool asks;                                 // functions that questions need are there
};

// Says in *why what failed, for which file, and what to do. `doing` as in "cannot write to". Always false.
bool audit_fail(const audit_t *audit, const char *doing, buffer_t *why);
bool audit_fail_code(const char *path, int code, int os_error, const char *doing, const char *detail, buffer_t *why);

// Sees that `path` can be an audit log before SQLite touches it.
bool audit_file_fits(const char *path, audit_mode_t mode, buffer_t *why);
// What a file system of this f_type (see statfs(2)) is called when it is no place for a write-ahead log; else NULL.
const char *audit_remote_name(unsigned long type);
// Whether nobody can write beside `path`, through us at least: no -wal and -shm can be made there.
bool audit_directory_is_closed(const char *path);

// Refuses what is not ours or newer than we are; an empty file is no fault. *schema: 0 = empty.
bool audit_check_file(audit_t *audit, int *schema, buffer_t *why);
// Brings an empty or older file to the newest schema, in one transaction.
bool audit_migrate(audit_t *audit, int schema, buffer_t *why);

// The first column of the one row of `sql`, a constant. False with *why when there is none.
bool audit_number(audit_t *audit, const char *sql, int64_t *out, buffer_t *why);

#endif
