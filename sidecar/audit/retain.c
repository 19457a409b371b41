// Retention: removes rows that are too old or too many, the lowest `at` first, and shrinks the file.
#include <sys/stat.h>

#include "audit/store.h"
#include "base/clock.h"
#include "base/failpoint.h"

enum {
    CHUNK_ROWS = 64,       // rows that one query finds
    REMOVE_SHARE = 64,     // over a limit, remove rows until 1/64 of it is free again
    VACUUM_FROM_SHARE = 8, // begin to vacuum if more than 1/8 of the pages is free
    VACUUM_TO_SHARE = 16,  // end if at most 1/16 of the pages is free
    VACUUM_MIN_PAGES = 256 // leave this many free pages alone, unless the log is over its limit
};

// Each half of the query reads the first entries of an index, in the order of the index.
static const char oldest_sql[] = "SELECT at, seq FROM (SELECT at, seq FROM events WHERE kind = 'failed' ORDER BY at LIMIT ?1)"
                                 " UNION ALL SELECT at, seq FROM (SELECT at, seq FROM events WHERE kind <> 'failed' ORDER BY at"
                                 " LIMIT ?1) ORDER BY 1, 2 LIMIT ?1";
static const char newest_sql[] = "SELECT max(coalesce((SELECT at FROM events WHERE kind = 'failed' ORDER BY at DESC LIMIT 1), 0),"
                                 " coalesce((SELECT at FROM events WHERE kind <> 'failed' ORDER BY at DESC LIMIT 1), 0))";
static const char rows_sql[] = "SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'rows'";
static const char set_dropped_sql[] = "INSERT INTO facts VALUES ('dropped', CAST(?1 AS TEXT)) ON CONFLICT (name) DO UPDATE SET"
                                      " value = CAST(max(CAST(value AS INTEGER), ?1) AS TEXT)";
static const char set_last_seq_sql[] = "INSERT OR REPLACE INTO facts VALUES ('last_seq', CAST(? AS TEXT))";

typedef struct old_row {
    int64_t at;
    int64_t seq;
} old_row_t;

typedef struct pages {
    int64_t all, free;
} pages_t;

static bool retain_count_pages(audit_t *audit, pages_t *out, buffer_t *why) {
    return audit_read_number(audit, "PRAGMA page_count", &out->all, why) &&
           audit_read_number(audit, "PRAGMA freelist_count", &out->free, why);
}

// Reads up to `most` rows, those to remove first, in the order of the query `sql`. -1 with *why if they cannot be read.
static int retain_read_oldest(audit_t *audit, const char *sql, old_row_t rows[CHUNK_ROWS], int most, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, sql, why);
    int count = 0;
    int code;
    if (!stmt) return -1;
    sqlite3_bind_int(stmt, 1, most);
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW && count < most)
        rows[count++] = (old_row_t){.at = sqlite3_column_int64(stmt, 0), .seq = sqlite3_column_int64(stmt, 1)};
    return audit_finish(audit, stmt, code, "look for old rows", why) ? count : -1;
}

int64_t audit_wal_bytes(const audit_t *audit) {
    struct stat at;
    const char *path = sqlite3_filename_wal(sqlite3_db_filename(audit->db, "main"));
    return path && stat(path, &at) == 0 ? (int64_t)at.st_size : 0;
}

// Checkpoints cut the -wal file to wal_limit. So at most wal_limit bytes of it count.
static int64_t retain_counted_wal(const audit_t *audit, int64_t wal) {
    return wal < audit->retention.wal_limit ? wal : audit->retention.wal_limit;
}

bool audit_measure(audit_t *audit, audit_usage_t *out, buffer_t *why) {
    pages_t pages;
    old_row_t rows[CHUNK_ROWS];
    if (!audit_read_number(audit, rows_sql, &out->rows, why) || !retain_count_pages(audit, &pages, why)) return false;
    int64_t wal = audit_wal_bytes(audit);
    int found = retain_read_oldest(audit, oldest_sql, rows, 1, why);
    if (found < 0) return false;
    out->bytes = pages.all * audit->retention.page_bytes + wal;
    out->used_bytes = (pages.all - pages.free) * audit->retention.page_bytes + retain_counted_wal(audit, wal);
    out->oldest_ms = !found ? INT64_MAX : rows[0].at > 0 ? rows[0].at : 0; // a log of 0.1.0 may have an `at` before 1970
    return true;
}

int64_t audit_pinned_wal_bytes(audit_t *audit) {
    int64_t wal = audit_wal_bytes(audit);
    int frames = 0, checkpointed = 0;
    if (wal <= 2 * audit->retention.wal_limit) return 0;
    int code = sqlite3_wal_checkpoint_v2(audit->db, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, &checkpointed);
    bool pinned = (frames - checkpointed) * audit->retention.page_bytes > audit->retention.wal_limit;
    return code == SQLITE_OK && pinned ? wal : 0;
}

typedef struct retain_step {
    const audit_limits_t *limits;
    const char *order; // the query that finds the rows to remove
    int64_t too_old;   // limit of `at`: rows below it are removed; INT64_MIN = no row
    int64_t rows;      // number of rows in the log now
    int64_t counted_wal;
    int64_t removed; // rows removed
    int64_t last;    // the highest `at` of the removed rows
    mono_t until;
} retain_step_t;

// A log over its limit counts as over until a share of the limit is free. Otherwise the next row would exceed the limit again.
static bool retain_over_limit(int64_t now, int64_t limit, bool *removing) {
    *removing = limit > 0 && now > (*removing ? limit - limit / REMOVE_SHARE : limit);
    return *removing;
}

static bool retain_too_large(audit_t *audit, const retain_step_t *step, bool *yes, buffer_t *why) {
    pages_t pages;
    if (!retain_count_pages(audit, &pages, why)) return false;
    int64_t used = (pages.all - pages.free) * audit->retention.page_bytes + step->counted_wal;
    bool rows = retain_over_limit(step->rows, step->limits->rows, &audit->retention.removing_rows);
    *yes = retain_over_limit(used, step->limits->bytes, &audit->retention.removing_bytes) || rows;
    return true;
}

// *more: further rows may have to be removed.
static bool retain_remove_chunk(audit_t *audit, retain_step_t *step, bool *more, buffer_t *why) {
    old_row_t rows[CHUNK_ROWS];
    int count = retain_read_oldest(audit, step->order, rows, CHUNK_ROWS, why);
    if (count < 0) return false;
    for (int i = 0; i < count; i++) {
        if (!retain_too_large(audit, step, more, why)) return false;
        *more = *more || rows[i].at < step->too_old;
        if (!*more) return true;
        if (!audit_run(audit, "DELETE FROM events WHERE seq = ?", rows[i].seq, "remove an old row", why)) return false;
        audit->added--;
        step->rows--;
        step->removed++;
        if (step->removed == 1 || rows[i].at > step->last) step->last = rows[i].at;
        if (mono_reached(step->until, mono_now())) return true;
    }
    *more = count == CHUNK_ROWS;
    return true;
}

static bool retain_remove(audit_t *audit, retain_step_t *step, bool *more, buffer_t *why) {
    do {
        if (!retain_remove_chunk(audit, step, more, why)) return false;
    } while (*more && !mono_reached(step->until, mono_now()));
    return step->removed == 0 || (audit_run(audit, set_dropped_sql, step->last, "record the removal", why) &&
                                  audit_run(audit, set_last_seq_sql, audit->last_seq, "record the removal", why));
}

// Moves pages from the end of the file into free pages, until the time is over or no page is left to move.
static bool retain_vacuum(audit_t *audit, retain_step_t *step, bool *more, buffer_t *why) {
    sqlite3_stmt *stmt = audit_statement(audit, "PRAGMA incremental_vacuum", why);
    int code = SQLITE_ROW;
    failpoint("audit_vacuum_before");
    if (!stmt) return false;
    while (code == SQLITE_ROW && !mono_reached(step->until, mono_now())) code = sqlite3_step(stmt); // a step moves one page
    *more = code == SQLITE_ROW;
    return audit_finish(audit, stmt, code, "shrink it", why);
}

static bool retain_wants_vacuum(audit_t *audit, const audit_limits_t *limits, bool *wants, buffer_t *why) {
    pages_t pages;
    if (!retain_count_pages(audit, &pages, why)) return false;
    int64_t bytes = pages.all * audit->retention.page_bytes + retain_counted_wal(audit, audit_wal_bytes(audit));
    bool large = limits->bytes > 0 && bytes > limits->bytes;
    int64_t most = pages.all / (audit->retention.vacuuming ? VACUUM_TO_SHARE : VACUUM_FROM_SHARE);
    *wants =
        !audit->retention.no_auto_vacuum && pages.free > 0 && (large || (pages.free > most && pages.free > VACUUM_MIN_PAGES));
    return true;
}

// Runs `work` and commits its changes. False: the caller rolls back.
static bool retain_in_transaction(audit_t *audit, bool (*work)(audit_t *, retain_step_t *, bool *, buffer_t *),
                                  retain_step_t *step, bool *more, buffer_t *why) {
    if (!audit_begin(audit, why)) return false;
    if (!work(audit, step, more, why)) return false;
    failpoint("audit_retain_before_commit");
    if (!audit_commit(audit, why)) return false;
    failpoint("audit_retained");
    return true;
}

// Returns free pages to the file system. The checkpoint after the last step makes the file shorter.
static bool retain_return_pages(audit_t *audit, retain_step_t *step, audit_retain_result_t *out, buffer_t *why) {
    bool wants;
    if (!retain_wants_vacuum(audit, step->limits, &wants, why)) return false;
    bool was = audit->retention.vacuuming;
    audit->retention.vacuuming = wants;
    if (!wants) return !was || audit_checkpoint(audit, why);
    if (!retain_in_transaction(audit, retain_vacuum, step, &out->more, why)) return false;
    audit->retention.vacuuming = out->more;
    return out->more || audit_checkpoint(audit, why);
}

// After the clock went back, `at` does not show the age of a row. New rows would be removed before all earlier rows.
static bool retain_choose_order(audit_t *audit, retain_step_t *step, buffer_t *why) {
    int64_t newest = 0;
    if (step->limits->latest_ms == 0) return true;
    if (!audit_read_number(audit, newest_sql, &newest, why)) return false;
    if (newest > step->limits->latest_ms) step->order = "SELECT at, seq FROM events ORDER BY seq LIMIT ?1";
    return true;
}

bool audit_retain(audit_t *audit, const audit_limits_t *limits, int64_t now_ms, int64_t budget_us, audit_retain_result_t *out,
                  buffer_t *why) {
    audit_usage_t usage;
    *out = (audit_retain_result_t){0};
    if (!audit_measure(audit, &usage, why)) return false;
    retain_step_t step = {.limits = limits,
                          .order = oldest_sql,
                          .too_old = limits->retain_ms > 0 && now_ms > limits->retain_ms ? now_ms - limits->retain_ms : INT64_MIN,
                          .rows = usage.rows,
                          .counted_wal = retain_counted_wal(audit, audit_wal_bytes(audit)),
                          .until = mono_add(mono_now(), budget_us * NS_PER_US)};
    bool rows = retain_over_limit(usage.rows, limits->rows, &audit->retention.removing_rows);
    bool bytes = retain_over_limit(usage.used_bytes, limits->bytes, &audit->retention.removing_bytes);
    bool any = usage.oldest_ms != INT64_MAX;
    if (!any || !(rows || bytes || usage.oldest_ms < step.too_old)) return retain_return_pages(audit, &step, out, why);
    if ((rows || bytes) && !retain_choose_order(audit, &step, why)) return false;
    if (!retain_in_transaction(audit, retain_remove, &step, &out->more, why)) return false;
    out->removed = step.removed;
    if (step.removed && step.last > audit->retention.dropped) audit->retention.dropped = step.last;
    out->more = true; // pages may be free now
    return true;
}

bool audit_has_removed(const audit_t *audit, int64_t at) { return at <= audit->retention.dropped; }
bool audit_has_no_auto_vacuum(const audit_t *audit) { return audit->retention.no_auto_vacuum; }
