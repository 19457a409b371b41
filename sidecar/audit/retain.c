// Retention: what is too old or too much goes, the lowest `at` first, and the file shrinks.
#include <string.h>
#include <sys/stat.h>

#include "audit/store.h"
#include "base/clock.h"
#include "base/failpoint.h"

enum {
    CHUNK_ROWS = 64,        // oldest rows looked up at once
    REMOVE_SHARE = 64,      // what is over a limit is removed until this part of the limit is free again
    VACUUM_FROM_SHARE = 8,  // more free pages than this part of the file are given back,
    VACUUM_TO_SHARE = 16,   // until there are no more than this part,
    VACUUM_MIN_PAGES = 256, // or this number
};

typedef struct old_row {
    int64_t at;
    int64_t seq;
} old_row_t;

typedef struct pages {
    int64_t all, free, size;
} pages_t;

bool audit_read_facts(audit_t *audit, buffer_t *why) {
    const char sql[] = "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'dropped'), "
                       "-9223372036854775807 - 1)";
    audit->dropped = INT64_MIN;
    if (!audit_query_number(audit, "PRAGMA page_size", &audit->page_bytes, why)) return false;
    return !audit->exclusive || audit_query_number(audit, sql, &audit->dropped, why);
}

// The number that a prepared question gives.
static bool retain_read_number(audit_t *audit, audit_statement_t which, int64_t *out, buffer_t *why) {
    sqlite3_stmt *of = audit_statement(audit, which, why);
    if (!of) return false;
    bool done = sqlite3_step(of) == SQLITE_ROW || audit_fail(audit, "measure it", why);
    if (done) *out = sqlite3_column_int64(of, 0);
    sqlite3_reset(of);
    return done;
}

static bool retain_count_pages(audit_t *audit, pages_t *out, buffer_t *why) {
    out->size = audit->page_bytes;
    return retain_read_number(audit, STATEMENT_PAGES, &out->all, why) &&
           retain_read_number(audit, STATEMENT_FREE_PAGES, &out->free, why);
}

// Up to CHUNK of the rows that go first, of STATEMENT_OLDEST or STATEMENT_FIRST_ARRIVED; -1 with *why when they cannot be read.
static int retain_read_oldest(audit_t *audit, audit_statement_t which, old_row_t rows[CHUNK_ROWS], int most, buffer_t *why) {
    sqlite3_stmt *of = audit_statement(audit, which, why);
    int count = 0;
    int code;
    if (!of) return -1;
    sqlite3_bind_int(of, 1, most);
    while ((code = sqlite3_step(of)) == SQLITE_ROW && count < most)
        rows[count++] = (old_row_t){.at = sqlite3_column_int64(of, 0), .seq = sqlite3_column_int64(of, 1)};
    if (code != SQLITE_DONE && code != SQLITE_ROW) {
        audit_fail(audit, "look for old rows", why);
        count = -1;
    }
    sqlite3_reset(of);
    return count;
}

static int64_t retain_wal_bytes(const audit_t *audit) {
    struct stat at;
    const char *path = sqlite3_filename_wal(sqlite3_db_filename(audit->db, "main"));
    return path && stat(path, &at) == 0 ? (int64_t)at.st_size : 0;
}

// What lies beside the log counts as far as it stays: more of it goes by itself.
static int64_t retain_counted_wal(const audit_t *audit, int64_t wal) { return wal < audit->wal_limit ? wal : audit->wal_limit; }

bool audit_measure(audit_t *audit, audit_usage_t *out, buffer_t *why) {
    old_row_t first = {.at = INT64_MAX};
    pages_t pages;
    if (!retain_read_number(audit, STATEMENT_ROWS, &out->rows, why) || !retain_count_pages(audit, &pages, why)) return false;
    int64_t wal = retain_wal_bytes(audit);
    old_row_t rows[CHUNK_ROWS];
    int found = retain_read_oldest(audit, STATEMENT_OLDEST, rows, 1, why);
    if (found < 0) return false;
    if (found) first = rows[0];
    out->bytes = pages.all * pages.size + wal;
    out->used_bytes = (pages.all - pages.free) * pages.size + retain_counted_wal(audit, wal);
    out->oldest_ms = first.at;
    return true;
}

int64_t audit_pinned_wal_bytes(audit_t *audit) {
    int64_t wal = retain_wal_bytes(audit);
    int frames = 0;
    int merged = 0;
    if (wal <= 2 * audit->wal_limit) return 0;
    int code = sqlite3_wal_checkpoint_v2(audit->db, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, &merged);
    return code == SQLITE_OK && (frames - merged) * audit->page_bytes > audit->wal_limit ? wal : 0;
}

// One step under way.
typedef struct step {
    const audit_limits_t *limits;
    audit_statement_t order; // of those that go
    int64_t too_old;         // rows below this `at` go; INT64_MIN = none
    int64_t rows;            // that there are now
    int64_t counted_wal;
    int64_t dropped; // rows
    int64_t last;    // the highest `at` of them
    mono_t until;
} retain_step_t;

// Over a limit, or still below it by too little: so that it is not met again with the next row.
static bool retain_over_limit(int64_t now, int64_t limit, bool *dropping) {
    *dropping = limit > 0 && now > (*dropping ? limit - limit / REMOVE_SHARE : limit);
    return *dropping;
}

// *yes: the log is too large as it is now.
static bool retain_too_large(audit_t *audit, const retain_step_t *step, bool *yes, buffer_t *why) {
    pages_t pages;
    if (!retain_count_pages(audit, &pages, why)) return false;
    int64_t kept = (pages.all - pages.free) * pages.size + step->counted_wal;
    bool rows = retain_over_limit(step->rows, step->limits->rows, &audit->dropping_rows);
    *yes = retain_over_limit(kept, step->limits->bytes, &audit->dropping_bytes) || rows;
    return true;
}

// Removes some rows. *more: there may be others to remove.
static bool retain_remove_chunk(audit_t *audit, retain_step_t *step, bool *more, buffer_t *why) {
    old_row_t rows[CHUNK_ROWS];
    int count = retain_read_oldest(audit, step->order, rows, CHUNK_ROWS, why);
    sqlite3_stmt *of = audit_statement(audit, STATEMENT_REMOVE, why);
    if (count < 0 || !of) return false;
    for (int i = 0; i < count; i++) {
        if (!retain_too_large(audit, step, more, why)) return false;
        *more = *more || rows[i].at < step->too_old;
        if (!*more) return true;
        sqlite3_bind_int64(of, 1, rows[i].seq);
        if (!audit_run(audit, of, "remove an old row", why)) return false;
        audit->added--;
        step->rows--;
        step->dropped++;
        if (step->dropped == 1 || rows[i].at > step->last) step->last = rows[i].at;
        if (mono_reached(step->until, mono_now())) return true;
    }
    *more = count == CHUNK_ROWS;
    return true;
}

static bool retain_remove(audit_t *audit, retain_step_t *step, bool *more, buffer_t *why) {
    do {
        if (!retain_remove_chunk(audit, step, more, why)) return false;
    } while (*more && !mono_reached(step->until, mono_now()));
    if (step->dropped == 0) return true;
    sqlite3_stmt *of = audit_statement(audit, STATEMENT_SET_DROPPED, why);
    if (!of) return false;
    sqlite3_bind_int64(of, 1, step->last);
    return audit_run(audit, of, "note what was removed", why);
}

// Moves pages from the end of the file into free ones, until the time is over or it is done.
static bool retain_vacuum(audit_t *audit, mono_t until, bool *more, buffer_t *why) {
    sqlite3_stmt *of = audit_statement(audit, STATEMENT_VACUUM, why);
    int code = SQLITE_ROW;
    if (!of) return false;
    while (code == SQLITE_ROW && !mono_reached(until, mono_now())) code = sqlite3_step(of); // one page each
    if (code != SQLITE_ROW && code != SQLITE_DONE) audit_fail(audit, "shrink it", why);
    sqlite3_reset(of);
    *more = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE;
}

static bool retain_wants_vacuum(audit_t *audit, const audit_limits_t *limits, bool *wants, buffer_t *why) {
    pages_t pages;
    if (!retain_count_pages(audit, &pages, why)) return false;
    bool large = limits->bytes > 0 && pages.all * pages.size + retain_counted_wal(audit, retain_wal_bytes(audit)) > limits->bytes;
    int64_t most = pages.all / (audit->vacuuming ? VACUUM_TO_SHARE : VACUUM_FROM_SHARE);
    *wants = !audit->no_auto_vacuum && pages.free > 0 && (large || (pages.free > most && pages.free > VACUUM_MIN_PAGES));
    return true;
}

// In a transaction: what `work` does is one commit.
static bool retain_in_transaction(audit_t *audit, bool (*work)(audit_t *, retain_step_t *, bool *, buffer_t *),
                                  retain_step_t *step, bool *more, buffer_t *why) {
    if (!audit_begin(audit, why)) return false;
    if (!work(audit, step, more, why)) return false;
    failpoint("audit_retain_before_commit");
    if (!audit_commit(audit, why)) return false;
    failpoint("audit_retained");
    return true;
}

static bool retain_shrink(audit_t *audit, retain_step_t *step, bool *more, buffer_t *why) {
    failpoint("audit_vacuum_before");
    return retain_vacuum(audit, step->until, more, why);
}

// Gives free pages back. The file is cut when the pages beside it are merged into it.
static bool retain_return_pages(audit_t *audit, retain_step_t *step, audit_retain_result_t *out, buffer_t *why) {
    bool wants;
    bool more;
    if (!retain_wants_vacuum(audit, step->limits, &wants, why)) return false;
    bool was = audit->vacuuming;
    audit->vacuuming = wants;
    if (!wants && was) return audit_checkpoint(audit, why);
    if (!wants) return true;
    if (!retain_in_transaction(audit, retain_shrink, step, &more, why)) return false;
    out->more = more;
    if (more) return true;
    audit->vacuuming = false;
    return audit_checkpoint(audit, why);
}

// Where the clock went back `at` no longer tells what is old: new rows would go before all those that came earlier.
static bool retain_choose_order(audit_t *audit, retain_step_t *step, buffer_t *why) {
    int64_t newest = 0;
    if (step->limits->latest_ms == 0) return true;
    if (!retain_read_number(audit, STATEMENT_NEWEST, &newest, why)) return false;
    if (newest > step->limits->latest_ms) step->order = STATEMENT_FIRST_ARRIVED;
    return true;
}

bool audit_retain(audit_t *audit, const audit_limits_t *limits, int64_t now_ms, int64_t budget_us, audit_retain_result_t *out,
                  buffer_t *why) {
    audit_usage_t use;
    *out = (audit_retain_result_t){0};
    if (!audit_measure(audit, &use, why)) return false;
    retain_step_t step = {.limits = limits,
                          .order = STATEMENT_OLDEST,
                          .too_old = limits->retain_ms > 0 && now_ms > limits->retain_ms ? now_ms - limits->retain_ms : INT64_MIN,
                          .rows = use.rows,
                          .counted_wal = retain_counted_wal(audit, retain_wal_bytes(audit)),
                          .until = mono_add(mono_now(), budget_us * NS_PER_US)};
    bool rows = retain_over_limit(use.rows, limits->rows, &audit->dropping_rows);
    bool bytes = retain_over_limit(use.used_bytes, limits->bytes, &audit->dropping_bytes);
    bool any = use.oldest_ms != INT64_MAX;
    if (!any || !(rows || bytes || use.oldest_ms < step.too_old)) return retain_return_pages(audit, &step, out, why);
    if ((rows || bytes) && !retain_choose_order(audit, &step, why)) return false;
    if (!retain_in_transaction(audit, retain_remove, &step, &out->more, why)) return false;
    out->dropped = step.dropped;
    if (step.dropped && step.last > audit->dropped) audit->dropped = step.last;
    out->more = true; // and then pages may be free
    return true;
}
