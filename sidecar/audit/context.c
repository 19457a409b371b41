#include "audit/context.h"

// `last` runs ahead of the rows, so that only one row in so many updates it.
enum { LAST_STEP = 4096 };

static const char upsert_sql[] = "INSERT INTO contexts VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)"
                                 " ON CONFLICT DO UPDATE SET last = max(last, excluded.last) RETURNING id";

void context_forget(contexts_t *contexts) {
    for (size_t i = 0; i < CONTEXT_SLOTS; i++) contexts->slots[i].id = 0;
}

void context_free(contexts_t *contexts) {
    for (size_t i = 0; i < CONTEXT_SLOTS; i++) buffer_free(&contexts->slots[i].key);
    buffer_free(&contexts->key);
}

// Returns the slot of the key, which another key may have.
static context_slot_t *context_slot(contexts_t *contexts, const slice_t *texts, size_t count) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a
    buffer_clear(&contexts->key);
    for (size_t i = 0; i < count; i++) {
        buffer_add(&contexts->key, &texts[i].len, sizeof texts[i].len);
        buffer_add(&contexts->key, texts[i].data, texts[i].len);
    }
    for (size_t i = 0; i < contexts->key.len; i++) hash = (hash ^ (unsigned char)contexts->key.data[i]) * UINT64_C(0x100000001b3);
    return &contexts->slots[(hash >> 32) % CONTEXT_SLOTS];
}

static bool context_upsert(audit_t *audit, const slice_t *texts, size_t count, context_slot_t *slot, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, upsert_sql, why);
    if (!stmt) return false;
    for (size_t i = 0; i < count; i++) audit_bind_text(audit, stmt, (int)i + 1, texts[i]);
    sqlite3_bind_int64(stmt, (int)count + 1, slot->last);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) slot->id = sqlite3_column_int64(stmt, 0);
    return audit_finish(audit, stmt, code == SQLITE_DONE ? SQLITE_ERROR : code, "write a context", why);
}

bool context_find(audit_t *audit, const event_t *event, int64_t seq, int64_t *id, buffer_t *why) {
    const slice_t texts[] = {event->queue, event->kind, event->reason, event->dialect, event->type, event->term, event->group};
    size_t count = sizeof texts / sizeof *texts;
    contexts_t *contexts = &audit->contexts;
    context_slot_t *slot = context_slot(contexts, texts, count);
    bool known = slot->id && slot->key.len == contexts->key.len && memcmp(slot->key.data, contexts->key.data, slot->key.len) == 0;
    if (!known || seq > slot->last) {
        slot->id = 0;
        slot->last = seq > INT64_MAX - LAST_STEP ? INT64_MAX : seq + LAST_STEP;
        buffer_clear(&slot->key);
        buffer_add(&slot->key, contexts->key.data, contexts->key.len);
        if (!context_upsert(audit, texts, count, slot, why)) return false;
    }
    *id = slot->id;
    return true;
}

bool context_prune(audit_t *audit, buffer_t *why) {
    static const char sql[] = "DELETE FROM contexts WHERE last < (SELECT coalesce(min(seq), 9223372036854775807) FROM records)";
    context_forget(&audit->contexts);
    return audit_run(audit, sql, 0, "remove unused contexts", why);
}
