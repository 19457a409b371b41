#include "audit_log.h"
#include "kept.h"

#include <criterion/criterion.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

/* Opens the audit log to read it; NULL: there is no file yet. */
static sqlite3 *reader(const char *path) {
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK) { /* a reader of a WAL may have to write */
        sqlite3_busy_timeout(db, 2000);
        return db;
    }
    sqlite3_close(db);
    return NULL;
}

long long audit_log_int(const char *path, const char *sql) {
    sqlite3 *db = reader(path);
    sqlite3_stmt *statement = NULL;
    long long number = -1;
    if (db && sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

long long audit_log_rows(const char *path) { return audit_log_int(path, "SELECT count(*) FROM events WHERE kind = 'failed'"); }

char *audit_log_word(const char *path, const char *sql) {
    sqlite3 *db = reader(path);
    sqlite3_stmt *statement = NULL;
    cr_assert_not_null(db);
    cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    cr_assert_eq(sqlite3_step(statement), SQLITE_ROW);
    const char *found = (const char *)sqlite3_column_text(statement, 0);
    char *text = strdup(found ? found : "");
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return kept(text);
}

char *audit_log_text(const char *path) {
    return audit_log_word(path, "SELECT group_concat(event || kind || queue || job || at || payload, char(10)) FROM "
                                "(SELECT * FROM events WHERE kind <> 'gap' ORDER BY event)");
}

void audit_log_expect(const char *path, const char *queue, int first, int count) {
    char sql[400];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM events WHERE kind = 'failed' AND queue = '%s' AND cast(job AS INTEGER) BETWEEN %d AND %d",
             queue, first, first + count - 1);
    long long rows = audit_log_int(path, sql);
    cr_assert_eq(rows, count, "%s: %lld rows of %s, %d were expected", path, rows, queue, count);
    snprintf(sql, sizeof sql, "SELECT count(DISTINCT job) FROM events WHERE kind = 'failed' AND queue = '%s'", queue);
    long long jobs = audit_log_int(path, sql);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM events WHERE kind = 'failed' AND queue = '%s'", queue);
    cr_assert_eq(audit_log_int(path, sql), jobs, "%s: a job of %s has two rows", path, queue);
}

void audit_log_feed(redis_t *r, const char *queue, int first, int count, const char *id) {
    static const char script[] =
        "local queue, first, count, ms, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], 0 "
        "local payload = string.rep('p', 92) "
        "for i = first, first + count - 1 do "
        "local id = redis.sha1hex(queue .. i) .. string.format('%024x', i) " /* spread over the index as real ids are */
        "local fields = {'event', id, 'kind', 'failed', "
        "'dialect', 'list', 'queue', queue, 'job', i, 'reason', 'reported', 'error', 'no route to host', 'attempts', '4', "
        "'created', '1700000000000', 'started', '1700000001000', 'at', string.format('%.0f', 1700000002000 + i), "
        "'term', '00112233445566778899aabbccddeeff-5000', 'size', '100', "
        "'payload', payload .. string.format('%08d', i)} "
        "for f = 2, #fields, 2 do bytes = bytes + #tostring(fields[f]) end "
        "redis.call('XADD', KEYS[1], ms == '' and '*' or ms .. '-' .. i, unpack(fields)) end "
        "redis.call('HINCRBY', KEYS[2], 'bytes', bytes)";
    redis_ok(r, "EVAL %s 2 sidecar:%s:failures sidecar:%s:meta %s %d %d %s", script, queue, queue, queue, first, count,
             id ? id : "");
}
