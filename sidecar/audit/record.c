// Writes events and positions to the log.

#include "audit/context.h"
#include "audit/lookup.h"
#include "base/failpoint.h"

static const char insert_sql[] = "INSERT INTO records (seq, id_high, id_low, context, job, worker, sha256, attempts, created,"
                                 " started, at, size, error, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

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
    context_forget(&audit->contexts);
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

// The halves of an event id. An id that is not 64 hex digits stays a text.
static void record_bind_id(audit_t *audit, sqlite3_stmt *stmt, int at, slice_t id) {
    digest_t digest;
    uint64_t high = 0;
    bool valid = digest_parse(id, &digest);
    for (size_t i = 0; i < sizeof high; i++) high = high << 8 | digest.bytes[i];
    sqlite3_bind_int64(stmt, at, (int64_t)high);
    if (valid)
        sqlite3_bind_blob(stmt, at + 1, digest.bytes + sizeof high, (int)(sizeof digest.bytes - sizeof high), SQLITE_TRANSIENT);
    else
        audit_bind_text(audit, stmt, at + 1, id);
}

static void record_bind_digest(audit_t *audit, sqlite3_stmt *stmt, int at, slice_t hex) {
    digest_t digest;
    if (digest_parse(hex, &digest))
        sqlite3_bind_blob(stmt, at, digest.bytes, sizeof digest.bytes, SQLITE_TRANSIENT);
    else
        audit_bind_text(audit, stmt, at, hex);
}

static bool record_write_answer(audit_t *audit, int64_t seq, slice_t answers, buffer_t *why) {
    char ref[EVENT_REF_SIZE] = "";
    sqlite3_stmt *stmt = audit_statement(audit, "INSERT INTO answers VALUES (?, ?, ?)", why);
    if (!stmt) return false;
    if (!event_ref(answers, ref)) *ref = '\0';
    sqlite3_bind_int64(stmt, 1, seq);
    audit_bind_text(audit, stmt, 2, answers);
    sqlite3_bind_text(stmt, 3, ref, -1, SQLITE_STATIC);
    return audit_finish(audit, stmt, sqlite3_step(stmt), "write an answer", why);
}

// Binds how long before `at` a time was. An unknown time stays NULL, which takes no room.
static void record_bind_time(sqlite3_stmt *stmt, int column, int64_t at, int64_t time) {
    char text[24];
    int64_t age;
    if (!time) return;
    if (!__builtin_sub_overflow(at, time, &age)) {
        sqlite3_bind_int64(stmt, column, age);
        return;
    }
    int len = snprintf(text, sizeof text, "%" PRId64, time);
    sqlite3_bind_text(stmt, column, text, len, SQLITE_TRANSIENT);
}

bool audit_write_event(audit_t *audit, int64_t seq, const event_t *event, buffer_t *why) {
    int64_t context;
    sqlite3_stmt *stmt = audit_statement(audit, insert_sql, why);
    if (!stmt || !context_find(audit, event, seq, &context, why)) return false;
    sqlite3_bind_int64(stmt, 1, seq);
    record_bind_id(audit, stmt, 2, event->event);
    sqlite3_bind_int64(stmt, 4, context);
    audit_bind_text(audit, stmt, 5, event->job);
    audit_bind_text(audit, stmt, 6, event->worker);
    record_bind_digest(audit, stmt, 7, event->sha256);
    sqlite3_bind_int64(stmt, 8, event->attempts);
    record_bind_time(stmt, 9, event->at, event->created);
    record_bind_time(stmt, 10, event->at, event->started);
    sqlite3_bind_int64(stmt, 11, event->at);
    if (event->size != (int64_t)event->payload.len) sqlite3_bind_int64(stmt, 12, event->size);
    audit_bind_bytes(stmt, 13, event->error);
    audit_bind_bytes(stmt, 14, event->payload);
    if (!audit_finish(audit, stmt, sqlite3_step(stmt), "write an event", why)) return false;
    return event->answers.len == 0 || record_write_answer(audit, seq, event->answers, why);
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
    audit_bind_text(audit, stmt, 1, event->queue);
    audit_bind_text(audit, stmt, 2, event->job);
    sqlite3_bind_int64(stmt, 3, seq);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) *fits = sqlite3_column_int(stmt, 0);
    return audit_finish(audit, stmt, code, "look for a failure", why);
}

bool audit_insert(audit_t *audit, const event_t *event, bool *added, buffer_t *why) {
    char ref[EVENT_REF_SIZE];
    bool exists = false;
    if (added) *added = false;
    if (!event_ref(event->event, ref) || sqlite3_get_autocommit(audit->db))
        return audit_refuse(audit->path, why, "cannot keep an event without an id, or outside of a transaction");
    if (!audit_has_event(audit, event->event, &exists, why)) return false;
    if (exists) return true;
    int64_t seq = audit->lookup.last_seq + 1;
    bool done = audit_write_event(audit, seq, event, why) && lookup_add(audit, seq, ref, why);
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
    context_forget(&audit->contexts);
    if (!sqlite3_get_autocommit(audit->db)) sqlite3_exec(audit->db, "ROLLBACK", NULL, NULL, NULL);
}

bool audit_checkpoint(audit_t *audit, buffer_t *why) {
    int code = sqlite3_wal_checkpoint_v2(audit->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return code == SQLITE_OK || code == SQLITE_BUSY || audit_fail(audit, "checkpoint it", why);
}
