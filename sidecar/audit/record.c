// Writes events and positions to the log.

#include "audit/lookup.h"
#include "base/failpoint.h"
#include "base/utf8.h"

static const char insert_sql[] = "INSERT INTO events (seq, ref, answers_ref"
#define X(name, help) ", \"" #name "\""
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        ") VALUES (?, ?, ?"
#define X(name, help) ", ?"
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
        ")";

// An older copy that overwrites the open file has fewer commits: see replaced.c.
static const char commits_sql[] = "INSERT INTO facts VALUES ('commits', '1') ON CONFLICT (name) DO UPDATE SET"
                                  " value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)";

bool audit_position(audit_t *audit, slice_t queue, char position[AUDIT_POSITION_SIZE], buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, "SELECT position FROM positions WHERE queue = ?", why);
    if (!stmt) return false;
    sqlite3_bind_text64(stmt, 1, queue.data, queue.len, SQLITE_STATIC, SQLITE_UTF8);
    int code = sqlite3_step(stmt);
    snprintf(position, AUDIT_POSITION_SIZE, "%s", code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : "0-0");
    return audit_finish(audit, stmt, code, "read a position", why);
}

bool audit_begin(audit_t *audit, buffer_t *why) {
    if (!audit_run(audit, "BEGIN IMMEDIATE", 0, "begin to write", why)) return false;
    if (lookup_begin(audit, why)) return true;
    audit_rollback(audit);
    return false;
}

bool audit_catch_up(audit_t *audit, const atomic_bool *stop, buffer_t *why) {
    for (;;) {
        bool complete;
        if (!lookup_refresh(audit, &complete, why)) return false;
        if (complete) return true;
        if (stop && atomic_load(stop)) return audit_refuse(audit->path, why, "stopped while its events were being indexed");
        bool done = audit_run(audit, "BEGIN IMMEDIATE", 0, "begin to index it", why) && lookup_index(audit, why);
        failpoint("audit_catch_up_before_commit");
        if (!done || !audit_commit(audit, why)) {
            audit_rollback(audit);
            return false;
        }
        failpoint("audit_caught_up");
    }
}

// Checks eight bytes at once, because most texts are ASCII without NUL.
static bool record_is_ascii_word(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    uint64_t high = UINT64_C(0x8080808080808080), low = UINT64_C(0x0101010101010101);
    return ((word | (word - low)) & high) == 0;
}

// Whether the bytes are UTF-8 without NUL. In a TEXT of other bytes, SQLite's functions would stop early or read too far.
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

// A column of type ANY keeps bytes that are not text unchanged, as a BLOB. Other columns get these bytes escaped.
static void record_bind(audit_t *audit, sqlite3_stmt *stmt, int at, slice_t value, bool any) {
    const char *data = value.len ? value.data : "";
    if (record_is_text(value)) {
        sqlite3_bind_text64(stmt, at, data, value.len, SQLITE_STATIC, SQLITE_UTF8);
    } else if (any) {
        sqlite3_bind_blob64(stmt, at, data, value.len, SQLITE_STATIC);
    } else {
        buffer_clear(&audit->scratch);
        utf8_escape(&audit->scratch, data, value.len, "");
        sqlite3_bind_text64(stmt, at, audit->scratch.data, audit->scratch.len, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
}

static void record_bind_event(audit_t *audit, sqlite3_stmt *stmt, const event_t *event) {
    int at = 4; // 1 to 3 are seq and the refs
#define X(name, help)                                                                                                            \
    record_bind(audit, stmt, at, event->name, &event->name == &event->payload || &event->name == &event->error);                 \
    at++;
    EVENT_TEXTS(X)
#undef X
#define X(name, help) sqlite3_bind_int64(stmt, at++, event->name);
    EVENT_NUMBERS(X)
#undef X
}

bool audit_has_event(audit_t *audit, slice_t id, bool *exists, buffer_t *why) {
    char ref[EVENT_REF_SIZE];
    int64_t seq;
    *exists = false;
    return !event_ref(id, ref) || lookup_find(audit, ref, id, exists, &seq, why);
}

bool audit_answer_fits(audit_t *audit, const event_t *event, bool *fits, buffer_t *why) {
    static const char sql[] = "SELECT kind = 'failed' AND queue = ? AND job = ? FROM events WHERE seq = ?";
    char ref[EVENT_REF_SIZE];
    bool found;
    int64_t seq;
    *fits = true;
    if (!event_is_answer(event) || !event_ref(event->answers, ref)) return true;
    if (!lookup_find(audit, ref, event->answers, &found, &seq, why)) return false;
    sqlite3_stmt *stmt = found ? audit_statement(audit, sql, why) : NULL;
    if (!found) return true;
    if (!stmt) return false;
    record_bind(audit, stmt, 1, event->queue, false);
    record_bind(audit, stmt, 2, event->job, false);
    sqlite3_bind_int64(stmt, 3, seq);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) *fits = sqlite3_column_int(stmt, 0);
    return audit_finish(audit, stmt, code, "look for a failure", why);
}

bool audit_insert(audit_t *audit, const event_t *event, bool *added, buffer_t *why) {
    char ref[EVENT_REF_SIZE], answers[EVENT_REF_SIZE] = "";
    bool exists = false;
    if (added) *added = false;
    if (!event_ref(event->event, ref) || sqlite3_get_autocommit(audit->db))
        return audit_refuse(audit->path, why, "cannot keep an event without an id, or outside of a transaction");
    if (!audit_has_event(audit, event->event, &exists, why)) return false;
    if (exists) return true;
    sqlite3_stmt *stmt = audit_statement(audit, insert_sql, why);
    if (!stmt) return false;
    if (!event_ref(event->answers, answers)) *answers = '\0';
    int64_t seq = audit->lookup.last_seq + 1;
    sqlite3_bind_int64(stmt, 1, seq);
    sqlite3_bind_text(stmt, 2, ref, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, answers, -1, SQLITE_STATIC);
    record_bind_event(audit, stmt, event);
    bool done = audit_finish(audit, stmt, sqlite3_step(stmt), "write an event", why) && lookup_add(audit, seq, ref, why);
    if (done) audit->added++;
    if (added) *added = done;
    return done;
}

bool audit_set_position(audit_t *audit, const char *queue, const char *position, buffer_t *why) {
    static const char sql[] =
        "INSERT INTO positions VALUES (?, ?) ON CONFLICT (queue) DO UPDATE SET position = excluded.position";
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    if (!stmt) return false;
    sqlite3_bind_text(stmt, 1, queue, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, position, -1, SQLITE_STATIC);
    return audit_finish(audit, stmt, sqlite3_step(stmt), "write a position", why);
}

bool audit_commit(audit_t *audit, buffer_t *why) {
    static const char rows_sql[] = "UPDATE facts SET value = CAST(CAST(value AS INTEGER) + ? AS TEXT) WHERE name = 'rows'";
    if (audit->added && !audit_run(audit, rows_sql, audit->added, "count rows", why)) return false;
    if (audit->added > 0 && !lookup_commit(audit, why)) return false;
    if (!audit_run(audit, commits_sql, 0, "count the commit", why) || !audit_run(audit, "COMMIT", 0, "commit", why)) return false;
    audit->added = 0;
    return true;
}

void audit_rollback(audit_t *audit) {
    audit->added = 0;
    lookup_rollback(audit);
    if (!sqlite3_get_autocommit(audit->db)) sqlite3_exec(audit->db, "ROLLBACK", NULL, NULL, NULL);
}

bool audit_checkpoint(audit_t *audit, buffer_t *why) {
    int code = sqlite3_wal_checkpoint_v2(audit->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return code == SQLITE_OK || code == SQLITE_BUSY || audit_fail(audit, "checkpoint it", why);
}
