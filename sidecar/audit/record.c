// Writes events and positions to the log, and runs its prepared statements.
#include <stdio.h>
#include <string.h>

#include "audit/store.h"
#include "base/utf8.h"

static const char insert_sql[] = "INSERT INTO events (ref, answers_ref"
#define X(name, help) ", " #name
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        ") VALUES (?, ?"
#define X(name, help) ", ?"
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        ")";

// Each half of the query reads the first entries of an index, in the order of the index.
static const char oldest_sql[] = "SELECT at, seq FROM (SELECT at, seq FROM events WHERE kind = 'failed' ORDER BY at LIMIT ?1)"
                                 " UNION ALL SELECT at, seq FROM (SELECT at, seq FROM events WHERE kind <> 'failed' ORDER BY at"
                                 " LIMIT ?1) ORDER BY 1, 2 LIMIT ?1";
static const char newest_sql[] = "SELECT max(coalesce((SELECT at FROM events WHERE kind = 'failed' ORDER BY at DESC LIMIT 1), 0),"
                                 " coalesce((SELECT at FROM events WHERE kind <> 'failed' ORDER BY at DESC LIMIT 1), 0))";
static const char set_dropped_sql[] = "INSERT INTO facts VALUES ('dropped', CAST(?1 AS TEXT)) ON CONFLICT (name) DO UPDATE SET"
                                      " value = CAST(max(CAST(value AS INTEGER), ?1) AS TEXT)";

// An older copy that overwrites the open file has fewer commits: see replaced.c.
static const char commits_sql[] = "INSERT INTO facts VALUES ('commits', '1') ON CONFLICT (name) DO UPDATE SET"
                                  " value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)";

static const char *const sql_of[STATEMENT_COUNT] = {
    [STATEMENT_BEGIN] = "BEGIN IMMEDIATE",
    [STATEMENT_COMMIT] = "COMMIT",
    [STATEMENT_COUNT_COMMIT] = commits_sql,
    [STATEMENT_EXISTS] = "SELECT 1 FROM events WHERE ref = ? AND event = ?",
    [STATEMENT_INSERT] = insert_sql,
    [STATEMENT_SET_POSITION] =
        "INSERT INTO positions VALUES (?, ?) ON CONFLICT (queue) DO UPDATE SET position = excluded.position",
    [STATEMENT_POSITION] = "SELECT position FROM positions WHERE queue = ?",
    [STATEMENT_ADD_ROWS] = "UPDATE facts SET value = CAST(CAST(value AS INTEGER) + ? AS TEXT) WHERE name = 'rows'",
    [STATEMENT_ROWS] = "SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'rows'",
    [STATEMENT_PAGES] = "PRAGMA page_count",
    [STATEMENT_FREE_PAGES] = "PRAGMA freelist_count",
    [STATEMENT_OLDEST] = oldest_sql,
    [STATEMENT_FIRST_ARRIVED] = "SELECT at, seq FROM events ORDER BY seq LIMIT ?1",
    [STATEMENT_NEWEST] = newest_sql,
    [STATEMENT_REMOVE] = "DELETE FROM events WHERE seq = ?",
    [STATEMENT_SET_DROPPED] = set_dropped_sql,
    [STATEMENT_VACUUM] = "PRAGMA incremental_vacuum",
};

sqlite3_stmt *audit_statement(audit_t *audit, audit_statement_t which, buffer_t *why) {
    sqlite3_stmt **at = &audit->statements[which];
    if (!*at && sqlite3_prepare_v3(audit->db, sql_of[which], -1, SQLITE_PREPARE_PERSISTENT, at, NULL) != SQLITE_OK)
        audit_fail(audit, "prepare a statement", why);
    return *at;
}

static bool record_run(audit_t *audit, sqlite3_stmt *of, const char *doing, buffer_t *why) {
    int code = sqlite3_step(of);
    if (code != SQLITE_DONE) audit_fail(audit, doing, why); // read the error before the reset, because the reset may change it
    sqlite3_reset(of);
    sqlite3_clear_bindings(of); // the bound texts are borrowed
    return code == SQLITE_DONE;
}

bool audit_run(audit_t *audit, audit_statement_t which, int64_t number, const char *doing, buffer_t *why) {
    sqlite3_stmt *of = audit_statement(audit, which, why);
    if (!of) return false;
    if (sqlite3_bind_parameter_count(of)) sqlite3_bind_int64(of, 1, number);
    return record_run(audit, of, doing, why);
}

bool audit_read_number(audit_t *audit, audit_statement_t which, int64_t *out, buffer_t *why) {
    sqlite3_stmt *of = audit_statement(audit, which, why);
    if (!of) return false;
    bool done = sqlite3_step(of) == SQLITE_ROW || audit_fail(audit, "measure it", why);
    if (done) *out = sqlite3_column_int64(of, 0);
    sqlite3_reset(of);
    return done;
}

bool audit_exec(audit_t *audit, const char *sql, const char *doing, buffer_t *why) {
    return sqlite3_exec(audit->db, sql, NULL, NULL, NULL) == SQLITE_OK || audit_fail(audit, doing, why);
}

bool audit_query_number(audit_t *audit, const char *sql, int64_t *out, buffer_t *why) {
    sqlite3_stmt *of = NULL;
    bool done = sqlite3_prepare_v2(audit->db, sql, -1, &of, NULL) == SQLITE_OK && sqlite3_step(of) == SQLITE_ROW;
    if (done)
        *out = sqlite3_column_int64(of, 0);
    else
        audit_fail(audit, "read from it", why);
    sqlite3_finalize(of);
    return done;
}

bool audit_read_fact(audit_t *audit, const char *name, int64_t otherwise, int64_t *out, buffer_t *why) {
    char *sql = sqlite3_mprintf("SELECT coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = %Q), %lld)", name,
                                (long long)otherwise);
    bool done = sql && audit_query_number(audit, sql, out, why);
    sqlite3_free(sql);
    return done;
}

bool audit_position(audit_t *audit, const char *queue, char position[AUDIT_POSITION_SIZE], buffer_t *why) {
    sqlite3_stmt *of = audit_statement(audit, STATEMENT_POSITION, why);
    if (!of) return false;
    sqlite3_bind_text(of, 1, queue, -1, SQLITE_STATIC);
    int code = sqlite3_step(of);
    bool done = code == SQLITE_ROW || code == SQLITE_DONE || audit_fail(audit, "read a position", why);
    snprintf(position, AUDIT_POSITION_SIZE, "%s", code == SQLITE_ROW ? (const char *)sqlite3_column_text(of, 0) : "0-0");
    sqlite3_reset(of);
    return done;
}

bool audit_begin(audit_t *audit, buffer_t *why) { return audit_run(audit, STATEMENT_BEGIN, 0, "begin to write", why); }

// Eight bytes at once, all of them ASCII and none of them NUL: the usual case.
static bool record_is_ascii_word(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    uint64_t high = UINT64_C(0x8080808080808080), low = UINT64_C(0x0101010101010101);
    return ((word | (word - low)) & high) == 0;
}

// Valid UTF-8 without a NUL. SQLite's functions read past or cut off other bytes in a TEXT.
static bool record_is_text(slice_t bytes) {
    for (size_t i = 0; i < bytes.len;) {
        size_t sequence = 0;
        if (bytes.len - i >= sizeof(uint64_t) && record_is_ascii_word(bytes.data + i))
            sequence = sizeof(uint64_t);
        else if (bytes.data[i])
            sequence = utf8_sequence(bytes.data + i, bytes.len - i);
        if (sequence == 0) return false;
        i += sequence;
    }
    return true;
}

// A column that takes any type keeps bytes that are not text unchanged, as a BLOB. Other columns get the bytes escaped.
static void record_bind(audit_t *audit, sqlite3_stmt *of, int at, slice_t value, bool any) {
    const char *data = value.len ? value.data : "";
    if (record_is_text(value)) {
        sqlite3_bind_text64(of, at, data, value.len, SQLITE_STATIC, SQLITE_UTF8);
    } else if (any) {
        sqlite3_bind_blob64(of, at, data, value.len, SQLITE_STATIC);
    } else {
        buffer_clear(&audit->scratch);
        utf8_escape(&audit->scratch, data, value.len, "");
        sqlite3_bind_text64(of, at, audit->scratch.data, audit->scratch.len, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
}

static void record_bind_event(audit_t *audit, sqlite3_stmt *of, const event_t *event) {
    int at = 3; // behind the refs
#define X(name, help)                                                                                                            \
    record_bind(audit, of, at, event->name, &event->name == &event->payload || &event->name == &event->error);                   \
    at++;
    EVENT_TEXTS(X)
#undef X
#define X(name, help) sqlite3_bind_int64(of, at++, event->name);
    EVENT_NUMBERS(X)
#undef X
}

bool audit_has_event(audit_t *audit, slice_t id, bool *exists, buffer_t *why) {
    char ref[EVENT_REF_SIZE];
    sqlite3_stmt *of = audit_statement(audit, STATEMENT_EXISTS, why);
    *exists = false;
    if (!of) return false;
    if (!event_ref(id, ref)) return true;
    sqlite3_bind_text(of, 1, ref, -1, SQLITE_STATIC);
    sqlite3_bind_text64(of, 2, id.data, id.len, SQLITE_STATIC, SQLITE_UTF8);
    int code = sqlite3_step(of);
    *exists = code == SQLITE_ROW;
    bool done = *exists || code == SQLITE_DONE || audit_fail(audit, "look for an event", why);
    sqlite3_reset(of);
    return done;
}

bool audit_insert(audit_t *audit, const event_t *event, bool *added, buffer_t *why) {
    char ref[EVENT_REF_SIZE], answers[EVENT_REF_SIZE] = "";
    bool exists = false;
    if (added) *added = false;
    if (!event_ref(event->event, ref) || sqlite3_get_autocommit(audit->db))
        return audit_refuse(audit->path, why, "cannot keep an event without an id, or outside of a transaction");
    if (!audit_has_event(audit, event->event, &exists, why)) return false;
    if (exists) return true;
    sqlite3_stmt *of = audit_statement(audit, STATEMENT_INSERT, why);
    if (!of) return false;
    if (!event_ref(event->answers, answers)) *answers = '\0';
    sqlite3_bind_text(of, 1, ref, -1, SQLITE_STATIC);
    sqlite3_bind_text(of, 2, answers, -1, SQLITE_STATIC);
    record_bind_event(audit, of, event);
    bool done = record_run(audit, of, "write an event", why);
    if (done) audit->added++;
    if (added) *added = done;
    return done;
}

bool audit_set_position(audit_t *audit, const char *queue, const char *position, buffer_t *why) {
    sqlite3_stmt *of = audit_statement(audit, STATEMENT_SET_POSITION, why);
    if (!of) return false;
    sqlite3_bind_text(of, 1, queue, -1, SQLITE_STATIC);
    sqlite3_bind_text(of, 2, position, -1, SQLITE_STATIC);
    return record_run(audit, of, "write a position", why);
}

bool audit_commit(audit_t *audit, buffer_t *why) {
    if (audit->added && !audit_run(audit, STATEMENT_ADD_ROWS, audit->added, "count rows", why)) return false;
    if (!audit_run(audit, STATEMENT_COUNT_COMMIT, 0, "count the commit", why)) return false;
    if (!audit_run(audit, STATEMENT_COMMIT, 0, "commit", why)) return false;
    audit->added = 0;
    return true;
}

void audit_rollback(audit_t *audit) {
    audit->added = 0;
    if (!sqlite3_get_autocommit(audit->db)) sqlite3_exec(audit->db, "ROLLBACK", NULL, NULL, NULL);
}

bool audit_checkpoint(audit_t *audit, buffer_t *why) {
    int code = sqlite3_wal_checkpoint_v2(audit->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return code == SQLITE_OK || code == SQLITE_BUSY || audit_fail(audit, "checkpoint it", why);
}
