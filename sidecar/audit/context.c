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
}

static uint64_t context_hash(uint64_t hash, const void *bytes, size_t len) { // FNV-1a
    for (size_t i = 0; i < len; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

// Returns the slot of the texts, which others may have.
static context_slot_t *context_slot(contexts_t *contexts, const slice_t *texts, size_t count) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        hash = context_hash(hash, &texts[i].len, sizeof texts[i].len);
        hash = context_hash(hash, texts[i].data, texts[i].len);
    }
    return &contexts->slots[(hash >> 32) % CONTEXT_SLOTS];
}

static bool context_has(const context_slot_t *slot, const slice_t *texts, size_t count) {
    const char *at = slot->key.data;
    if (!slot->id) return false;
    for (size_t i = 0; i < count; i++) {
        size_t len;
        memcpy(&len, at, sizeof len);
        if (!slice_equal((slice_t){at + sizeof len, len}, texts[i])) return false;
        at += sizeof len + len;
    }
    return true;
}

static void context_set_key(context_slot_t *slot, const slice_t *texts, size_t count) {
    buffer_clear(&slot->key);
    for (size_t i = 0; i < count; i++) {
        buffer_add(&slot->key, &texts[i].len, sizeof texts[i].len);
        buffer_add(&slot->key, texts[i].data, texts[i].len);
    }
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
    // Most events have the context of the event before.
    if (!contexts->last || !context_has(contexts->last, texts, count)) contexts->last = context_slot(contexts, texts, count);
    context_slot_t *slot = contexts->last;
    if (!context_has(slot, texts, count) || seq > slot->last) {
        slot->id = 0;
        slot->last = seq > INT64_MAX - LAST_STEP ? INT64_MAX : seq + LAST_STEP;
        context_set_key(slot, texts, count);
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
