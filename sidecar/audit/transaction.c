// Transactions, and the events of the open one that are not in the table yet.
//
// Ids come in no order, so each new row changes another page of the indexes by `event` and `ref`. Rows that are inserted in the
// order of their ids change each of these pages once a transaction.

#include <assert.h>

#include "audit/store.h"

enum {
    PENDING_BYTES = 4 * 1024 * 1024, // of their texts; then they are inserted before the end of the transaction
    LARGE_BYTES = 64 * 1024,         // a larger event is inserted at once, and not copied
};

// An older copy that overwrites the open file has fewer commits: see replaced.c.
static const char commits_sql[] = "INSERT INTO facts VALUES ('commits', '1') ON CONFLICT (name) DO UPDATE SET"
                                  " value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)";

struct audit_pending {
    event_t event; // its texts are in pending_t.texts; their addresses are set by pending_locate
    int64_t seq;   // in the order of arrival
};

static void pending_add(pending_t *pending, const event_t *event, int64_t seq) {
    pending->rows = mem_grown(pending->rows, pending->count, sizeof *pending->rows);
    pending->rows[pending->count++] = (audit_pending_t){.event = *event, .seq = seq};
#define X(name, help)                                                                                                            \
    if (event->name.len) buffer_add(&pending->texts, event->name.data, event->name.len);
    EVENT_TEXTS(X)
#undef X
}

static void pending_locate(pending_t *pending) {
    const char *at = pending->texts.data;
    for (size_t i = 0; i < pending->count; i++) {
        event_t *event = &pending->rows[i].event;
#define X(name, help)                                                                                                            \
    event->name.data = at;                                                                                                       \
    at += event->name.len;
        EVENT_TEXTS(X)
#undef X
    }
}

// Their ids are valid, so all have the same length.
static int pending_compare(const void *a, const void *b) {
    const audit_pending_t *one = a, *other = b;
    return memcmp(one->event.event.data, other->event.event.data, EVENT_ID_SIZE - 1);
}

void pending_clear(pending_t *pending) {
    pending->count = 0;
    buffer_clear(&pending->texts);
}

void pending_free(pending_t *pending) {
    buffer_free(&pending->texts);
    free(pending->rows);
    *pending = (pending_t){0};
}

bool audit_insert_later(audit_t *audit, const event_t *event, buffer_t *why) {
    pending_t *pending = &audit->pending;
    if (!audit_check_insert(audit, event, why)) return false;
    int64_t seq = ++audit->last_seq;
    if (event->payload.len + event->error.len > LARGE_BYTES) return audit_insert_row(audit, event, seq, why);
    pending_add(pending, event, seq);
    return pending->texts.len < PENDING_BYTES || audit_flush(audit, why);
}

bool audit_flush(audit_t *audit, buffer_t *why) {
    pending_t *pending = &audit->pending;
    bool done = true;
    pending_locate(pending);
    if (pending->count) qsort(pending->rows, pending->count, sizeof *pending->rows, pending_compare);
    for (size_t i = 0; done && i < pending->count; i++)
        done = audit_insert_row(audit, &pending->rows[i].event, pending->rows[i].seq, why);
    pending_clear(pending);
    return done;
}

void audit_rollback(audit_t *audit) {
    audit->added = 0;
    pending_clear(&audit->pending);
    if (!sqlite3_get_autocommit(audit->db)) sqlite3_exec(audit->db, "ROLLBACK", NULL, NULL, NULL);
}

// Retention may have removed the row with the highest seq. A reader that follows the log must not miss the next row.
static const char begin_sql[] =
    "SELECT max(coalesce((SELECT max(seq) FROM events), 0), coalesce((SELECT CAST(value AS INTEGER)"
    " FROM facts WHERE name = 'last_seq'), 0)), coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'erasures'), 0)";

bool audit_begin(audit_t *audit, buffer_t *why) {
    if (!audit_run(audit, "BEGIN IMMEDIATE", 0, "begin to write", why)) return false;
    if (audit_read_numbers(audit, begin_sql, (int64_t *const[]){&audit->last_seq, &audit->erasures}, 2, why)) return true;
    audit_rollback(audit);
    return false;
}

int64_t audit_added(const audit_t *audit) { return audit->added; }

bool audit_commit(audit_t *audit, buffer_t *why) {
    static const char rows_sql[] = "UPDATE facts SET value = CAST(CAST(value AS INTEGER) + ? AS TEXT) WHERE name = 'rows'";
    if (!audit_flush(audit, why)) return false;
    assert(audit->pending.count == 0); // their stream position is committed
    if (audit->added && !audit_run(audit, rows_sql, audit->added, "count rows", why)) return false;
    if (!audit_run(audit, commits_sql, 0, "count the commit", why) || !audit_run(audit, "COMMIT", 0, "commit", why)) return false;
    audit->added = 0;
    return true;
}
