#include "audit/lookup.h"

#include "audit/context.h"

enum {
    MOST_ROWS = 65536,       // in memory; a batch of so many changes each page once for many rows
    AUDITOR_ROWS = 49152,    // the auditor makes a batch of so many, because an import must not hold the log for long
    SLOTS = 2 * MOST_ROWS,   // a power of two
    SMALL_TRANSACTION = 500, // rows; a smaller one shows that no storm is on
    SMALL_PAUSE_MS = 5000,   // between two small batches
    SMALL_BATCH = 2000,      // rows; a reader looks at each row that is in no table
    IDLE_BATCH = 256,        // rows
    PART_ROWS = 1000,        // of a table, between two looks at the time
    STALE_MIN = 4096,        // a sweep begins when so many rows and a share of the events are gone
    STALE_SHARE = 4,
    PREFIX_DIGITS = 6, // of a ref, in `ids`
};

static const char save_fact_sql[] = "INSERT INTO facts VALUES (?1, CAST(?2 AS TEXT)) ON CONFLICT (name) DO UPDATE SET"
                                    " value = excluded.value";

static uint64_t lookup_id(const char *ref) {
    uint64_t id = 0;
    for (; *ref; ref++) id = id << 5 | (uint64_t)((*ref >= 'a' ? *ref - 'a' : *ref - '2' + 26) & 31);
    return id;
}

// ref_prefix(id_high): the view `events` has the whole ref in SQL, which takes ten times as long.
static void lookup_sql_ref_prefix(sqlite3_context *context, int count, sqlite3_value **values) {
    char ref[EVENT_REF_SIZE];
    (void)count;
    event_ref_of_bits((uint64_t)sqlite3_value_int64(values[0]), ref);
    sqlite3_result_text(context, ref, PREFIX_DIGITS, SQLITE_TRANSIENT);
}

// The same as unicode() of SQL, which takes two code points for broken ones. Moves *at behind it.
static uint32_t lookup_code_point(const unsigned char **at) {
    uint32_t point = *(*at)++;
    if (point < 0x80) return point;
    point &= point < 0xe0 ? 0x1f : point < 0xf0 ? 0x0f : 0x07;
    while ((**at & 0xc0) == 0x80) point = point << 6 | (*(*at)++ & 0x3f);
    return point == 0xfffe || point == 0xffff ? 0xfffd : point;
}

// job_key(job): as in the view job_seqs. The column `job` has only well-formed UTF-8.
static void lookup_sql_job_key(sqlite3_context *context, int count, sqlite3_value **values) {
    const unsigned char *job = sqlite3_value_text(values[0]);
    uint64_t key = 0;
    (void)count;
    while (job && *job) key = (key * 1000003 + lookup_code_point(&job)) & 0x7fffff;
    sqlite3_result_int64(context, (int64_t)key);
}

static bool lookup_register_function(audit_t *audit, const char *name, void (*function)(sqlite3_context *, int, sqlite3_value **),
                                     buffer_t *why) {
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    return sqlite3_create_function_v2(audit->db, name, 1, flags, NULL, function, NULL, NULL, NULL) == SQLITE_OK ||
           audit_fail(audit, "open it", why);
}

bool lookup_register(audit_t *audit, buffer_t *why) {
    return lookup_register_function(audit, "ref_prefix", lookup_sql_ref_prefix, why) &&
           lookup_register_function(audit, "job_key", lookup_sql_job_key, why);
}

void lookup_free(lookup_t *lookup) {
    free(lookup->rows);
    free(lookup->slots);
    free(lookup->sweep.key);
    *lookup = (lookup_t){0};
}

static size_t lookup_most(const lookup_t *lookup) { return lookup->batch_rows ? lookup->batch_rows : MOST_ROWS; }

static void lookup_forget(lookup_t *lookup, int64_t indexed) {
    if (lookup->slots && lookup->count) memset(lookup->slots, 0, SLOTS * sizeof *lookup->slots);
    lookup->count = 0;
    lookup->indexed = lookup->loaded = indexed;
}

void lookup_rollback(audit_t *audit) { lookup_forget(&audit->lookup, audit->lookup.indexed); }

static bool lookup_save_fact(audit_t *audit, const char *name, int64_t value, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, save_fact_sql, why);
    if (!stmt) return false;
    sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, value);
    return audit_finish(audit, stmt, sqlite3_step(stmt), "write a fact", why);
}

static size_t lookup_slot(uint64_t id) { return (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (SLOTS - 1); }

static void lookup_remember(lookup_t *lookup, int64_t seq, uint64_t id) {
    const lookup_row_t row = {.seq = seq, .id = id};
    if (!lookup->rows) {
        lookup->rows = mem_array(MOST_ROWS, sizeof *lookup->rows);
        lookup->slots = mem_array(SLOTS, sizeof *lookup->slots);
    }
    size_t slot = lookup_slot(row.id);
    while (lookup->slots[slot]) slot = (slot + 1) & (SLOTS - 1);
    lookup->rows[lookup->count++] = row;
    lookup->slots[slot] = (uint32_t)lookup->count;
    lookup->loaded = seq;
}

// A row may be there already, if somebody has changed a fact.
bool lookup_index(audit_t *audit, buffer_t *why) {
    static const char *const each[] = {
        "INSERT OR IGNORE INTO ids SELECT ref_prefix(id_high), seq FROM records WHERE seq > ? AND seq <= ? ORDER BY 1, 2",
        "INSERT OR IGNORE INTO jobs SELECT job_key(job), seq FROM records WHERE seq > ? AND seq <= ? ORDER BY 1, 2"};
    lookup_t *lookup = &audit->lookup;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        sqlite3_stmt *stmt = audit_statement(audit, each[i], why);
        if (!stmt) return false;
        sqlite3_bind_int64(stmt, 1, lookup->indexed);
        sqlite3_bind_int64(stmt, 2, lookup->loaded);
        if (!audit_finish(audit, stmt, sqlite3_step(stmt), "index its events", why)) return false;
    }
    if (!lookup_save_fact(audit, "indexed", lookup->loaded, why)) return false;
    lookup_forget(lookup, lookup->loaded);
    lookup->indexed_at = mono_now();
    return true;
}

// Reads events that are in no table into memory, as many as there is room for.
static bool lookup_load(audit_t *audit, buffer_t *why) {
    lookup_t *lookup = &audit->lookup;
    sqlite3_stmt *stmt = audit_statement(audit, "SELECT seq, id_high FROM records WHERE seq > ? ORDER BY seq LIMIT ?", why);
    if (!stmt) return false;
    sqlite3_bind_int64(stmt, 1, lookup->loaded);
    sqlite3_bind_int64(stmt, 2, (int64_t)(lookup_most(lookup) - lookup->count));
    int code;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
        lookup_remember(lookup, sqlite3_column_int64(stmt, 0), (uint64_t)sqlite3_column_int64(stmt, 1) >> 4);
    if (code == SQLITE_DONE && lookup->count < lookup_most(lookup)) lookup->loaded = lookup->last_seq;
    return audit_finish(audit, stmt, code, "read its newest events", why);
}

bool lookup_refresh(audit_t *audit, bool *complete, buffer_t *why) {
    lookup_t *lookup = &audit->lookup;
    int64_t indexed = 0, highest = 0;
    if (!audit_read_fact(audit, "indexed", 0, &indexed, why) || !audit_read_fact(audit, "last_seq", 0, &lookup->last_seq, why) ||
        !audit_read_number(audit, "SELECT coalesce(max(seq), 0) FROM records", &highest, why))
        return false;
    if (highest > lookup->last_seq) lookup->last_seq = highest;
    if (indexed != lookup->indexed) lookup_forget(lookup, indexed);
    bool done = lookup->loaded >= lookup->last_seq || lookup_load(audit, why);
    *complete = lookup->loaded >= lookup->last_seq && lookup->count < lookup_most(lookup); // the next event needs room
    return done;
}

bool lookup_begin(audit_t *audit, buffer_t *why) {
    bool complete = false;
    do {
        if (!lookup_refresh(audit, &complete, why)) return false;
        if (!complete && !lookup_index(audit, why)) return false;
    } while (!complete);
    return true;
}

bool lookup_commit(audit_t *audit, buffer_t *why) {
    const lookup_t *lookup = &audit->lookup;
    if (!lookup_save_fact(audit, "last_seq", lookup->last_seq, why)) return false;
    bool small = audit->added < SMALL_TRANSACTION && lookup->count >= SMALL_BATCH &&
                 mono_diff(mono_now(), lookup->indexed_at) >= SMALL_PAUSE_MS * NS_PER_MS;
    bool large = audit->exclusive && lookup->count >= AUDITOR_ROWS;
    return !(small || large) || lookup_index(audit, why);
}

bool lookup_add(audit_t *audit, int64_t seq, const char *ref, buffer_t *why) {
    lookup_t *lookup = &audit->lookup;
    lookup->last_seq = seq;
    lookup->grew = true;
    lookup_remember(lookup, seq, lookup_id(ref));
    return lookup->count < lookup_most(lookup) || lookup_index(audit, why);
}

// Whether the statement, with the id as its second parameter, finds the event.
static bool lookup_is_event(audit_t *audit, sqlite3_stmt *stmt, slice_t event, bool *found, int64_t *seq, buffer_t *why) {
    sqlite3_bind_text64(stmt, 2, event.data, event.len, SQLITE_STATIC, SQLITE_UTF8);
    int code = sqlite3_step(stmt);
    *found = code == SQLITE_ROW;
    if (*found) *seq = sqlite3_column_int64(stmt, 0);
    return audit_finish(audit, stmt, code, "look for an event", why);
}

static bool lookup_find_in_memory(audit_t *audit, uint64_t id, slice_t event, bool *found, int64_t *seq, buffer_t *why) {
    const lookup_t *lookup = &audit->lookup;
    for (size_t slot = lookup_slot(id); lookup->count && lookup->slots[slot]; slot = (slot + 1) & (SLOTS - 1)) {
        const lookup_row_t *row = &lookup->rows[lookup->slots[slot] - 1];
        if (row->id != id) continue;
        sqlite3_stmt *stmt = audit_statement(audit, "SELECT seq FROM events WHERE seq = ? AND event = ?", why);
        if (!stmt) return false;
        sqlite3_bind_int64(stmt, 1, row->seq);
        if (!lookup_is_event(audit, stmt, event, found, seq, why)) return false;
        if (*found) return true;
    }
    return true;
}

// Most events are new: this look costs half as much as one that compares ids.
static bool lookup_has_ref(audit_t *audit, const char *ref, bool *has, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, "SELECT 1 FROM ids WHERE prefix = ?", why);
    if (!stmt) return false;
    sqlite3_bind_text(stmt, 1, ref, PREFIX_DIGITS, SQLITE_STATIC);
    int code = sqlite3_step(stmt);
    *has = code == SQLITE_ROW;
    return audit_finish(audit, stmt, code, "look for an event", why);
}

// Outside of a transaction another process may have added the event meanwhile.
bool lookup_find(audit_t *audit, const char *ref, slice_t event, bool *found, int64_t *seq, buffer_t *why) {
    static const char sql[] = "SELECT seq FROM ids CROSS JOIN events USING (seq) WHERE prefix = ? AND event = ?";
    bool complete, has = false;
    *found = false;
    if (sqlite3_get_autocommit(audit->db) && !lookup_refresh(audit, &complete, why)) return false;
    if (!lookup_find_in_memory(audit, lookup_id(ref), event, found, seq, why)) return false;
    if (*found) return true;
    if (!lookup_has_ref(audit, ref, &has, why)) return false;
    if (!has) return true;
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    if (!stmt) return false;
    sqlite3_bind_text(stmt, 1, ref, PREFIX_DIGITS, SQLITE_STATIC);
    return lookup_is_event(audit, stmt, event, found, seq, why);
}

#define SWEEP_END(table, key)                                                                                                    \
    "SELECT " key ", seq FROM " table " WHERE (" key ", seq) > (?, ?) ORDER BY " key ", seq LIMIT 1 OFFSET ?"
// ?6 is true if the event of each row must be looked for.
#define SWEEP(table, key)                                                                                                        \
    "DELETE FROM " table " WHERE (" key ", seq) > (?1, ?2) AND (?3 IS NULL OR (" key ", seq) <= (?3, ?4)) AND (seq < ?5 OR (?6 " \
    "AND NOT EXISTS (SELECT 1 FROM records WHERE records.seq = " table ".seq)))"

static const struct {
    const char *end, *remove;
} sweeps[] = {{SWEEP_END("ids", "prefix"), SWEEP("ids", "prefix")}, {SWEEP_END("jobs", "key"), SWEEP("jobs", "key")}};
enum { SWEPT_TABLES = sizeof sweeps / sizeof *sweeps };

// The columns make a number of a text where they hold numbers. "-1" is below all keys of both tables.
static void lookup_bind_place(sqlite3_stmt *stmt, int at, const lookup_sweep_t *place) {
    if (!place->key && at > 1) return; // NULL: to the end of the table
    sqlite3_bind_text(stmt, at, place->key ? place->key : "-1", -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, at + 1, place->key ? place->seq : INT64_MIN);
}

// The place of a row further on; its key is owned, and NULL if the table ends before.
static bool lookup_next_place(audit_t *audit, lookup_sweep_t *next, buffer_t *why) {
    lookup_t *lookup = &audit->lookup;
    sqlite3_stmt *stmt = audit_statement(audit, sweeps[lookup->sweeping - 1].end, why);
    if (!stmt) return false;
    lookup_bind_place(stmt, 1, &lookup->sweep);
    sqlite3_bind_int(stmt, 3, PART_ROWS);
    int code = sqlite3_step(stmt);
    *next = (lookup_sweep_t){0};
    if (code == SQLITE_ROW) {
        next->key = mem_str((const char *)sqlite3_column_text(stmt, 0));
        next->seq = sqlite3_column_int64(stmt, 1);
    }
    return audit_finish(audit, stmt, code, "look for rows of removed events", why);
}

static bool lookup_sweep_part(audit_t *audit, int64_t below, buffer_t *why) {
    lookup_t *lookup = &audit->lookup;
    lookup_sweep_t next;
    sqlite3_stmt *stmt = audit_statement(audit, sweeps[lookup->sweeping - 1].remove, why);
    if (!stmt || !lookup_next_place(audit, &next, why)) return false;
    lookup_bind_place(stmt, 1, &lookup->sweep);
    lookup_bind_place(stmt, 3, &next);
    sqlite3_bind_int64(stmt, 5, below);
    sqlite3_bind_int(stmt, 6, lookup->sweep_each);
    bool done = audit_finish(audit, stmt, sqlite3_step(stmt), "remove rows of removed events", why);
    lookup->swept += sqlite3_changes64(audit->db);
    free(lookup->sweep.key);
    lookup->sweep = next;
    if (!next.key) lookup->sweeping++;
    return done;
}

// A row that the clock's step put into the future keeps min(seq) low for ever. Then a sweep removes little, and the next one
// looks at each row.
static bool lookup_end_sweep(audit_t *audit, buffer_t *why) {
    lookup_t *lookup = &audit->lookup;
    int64_t stale = 0, removed = lookup->swept / SWEPT_TABLES;
    bool few = removed < lookup->sweep_stale / 2;
    lookup->sweep_each = few && !lookup->sweep_each;
    lookup->sweeping = 0;
    return context_prune(audit, why) && audit_read_fact(audit, "stale", 0, &stale, why) &&
           lookup_save_fact(audit, "stale", stale - (lookup->sweep_each ? removed : lookup->sweep_stale), why);
}

static bool lookup_sweep(audit_t *audit, mono_t until, buffer_t *why) {
    lookup_t *lookup = &audit->lookup;
    int64_t below = 0;
    if (!audit_read_number(audit, "SELECT coalesce(min(seq), 9223372036854775807) FROM records", &below, why)) return false;
    do {
        if (!lookup_sweep_part(audit, below, why)) return false;
    } while (lookup->sweeping <= SWEPT_TABLES && !mono_reached(until, mono_now()));
    return lookup->sweeping <= SWEPT_TABLES || lookup_end_sweep(audit, why);
}

bool lookup_count_removed(audit_t *audit, int64_t count, buffer_t *why) {
    int64_t stale = 0;
    return audit_read_fact(audit, "stale", 0, &stale, why) && lookup_save_fact(audit, "stale", stale + count, why);
}

bool lookup_is_due(audit_t *audit, int64_t events, bool *due, buffer_t *why) {
    lookup_t *lookup = &audit->lookup;
    int64_t stale = 0;
    bool idle = !lookup->grew && lookup->count >= IDLE_BATCH;
    if (!audit_read_fact(audit, "stale", 0, &stale, why)) return false;
    if (!lookup->sweeping && stale >= STALE_MIN + events / STALE_SHARE) {
        lookup->sweeping = 1;
        lookup->sweep_stale = stale;
        lookup->swept = 0;
    }
    lookup->grew = false;
    *due = lookup->sweeping || idle;
    return true;
}

bool lookup_keep_up(audit_t *audit, mono_t until, buffer_t *why) {
    return audit->lookup.sweeping ? lookup_sweep(audit, until, why) : lookup_index(audit, why);
}
