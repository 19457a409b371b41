#include "audit_case.h"
#include "kept.h"
#include "tempdir.h"

#include <criterion/criterion.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

char *audit_case_path(void) {
    char *dir = temp_dir("audit"), *path = temp_path(dir, "audit.db");
    return path;
}

audit_t *audit_case_open(const char *path, audit_mode_t mode) {
    buffer_t why = {0};
    audit_t *audit = audit_open(path, mode, &why);
    cr_assert_not_null(audit, "%s", buffer_text(&why));
    buffer_free(&why);
    return audit;
}

char *audit_case_refused(const char *path, audit_mode_t mode) {
    buffer_t why = {0};
    audit_t *audit = audit_open(path, mode, &why);
    cr_assert_null(audit, "the audit log was opened");
    cr_assert_gt(why.len, 0);
    return kept(why.data);
}

void audit_case_event(audit_case_event_t *of, const char *kind, int n, int64_t at) {
    char text[64];
    int len = snprintf(text, sizeof(text), "%s %d", kind, n);
    digest_t digest = digest_of(text, (size_t)len);
    *of = (audit_case_event_t){.event = {.attempts = 4, .created = at - 1000, .started = at - 100, .at = at, .size = 2}};
    digest_hex(&digest, of->id);
    snprintf(of->job, sizeof(of->job), "job-%d", n);
    of->event.event = slice_text(of->id);
    of->event.kind = slice_text(kind);
    of->event.dialect = slice_text("list");
    of->event.queue = slice_text("q");
    of->event.job = slice_text(of->job);
    of->event.reason = slice_text("retries_exhausted");
    of->event.payload = slice_text("{}");
}

bool audit_case_put(audit_t *audit, const event_t *event) {
    buffer_t why = {0};
    bool added = false;
    cr_assert(audit_begin(audit, &why) && audit_insert(audit, event, &added, &why) && audit_commit(audit, &why), "%s",
              buffer_text(&why));
    return added;
}

/* Runs one statement; returns the text of a column of each row, each followed by `after`. Owned by the caller. */
static char *ask(const char *path, const char *sql, int column, const char *after) {
    sqlite3 *db = NULL;
    sqlite3_stmt *of = NULL;
    buffer_t out = {0};
    int code = SQLITE_DONE;
    cr_assert_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &of, NULL), SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
    while ((code = sqlite3_step(of)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(of, column);
        buffer_printf(&out, "%s%s", text ? text : "", after);
    }
    cr_assert_eq(code, SQLITE_DONE, "%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_finalize(of);
    sqlite3_close(db);
    return kept(out.data ? out.data : mem_str(""));
}

char *audit_case_sql(const char *path, const char *sql) { return ask(path, sql, 0, ""); }

char *audit_case_plan(const char *path, const char *sql) {
    char *explain = kept_printf("EXPLAIN QUERY PLAN %s", sql), *plan = ask(path, explain, 3, "\n");
    return plan;
}

int64_t audit_case_count(const char *path, const char *sql) {
    char *text = audit_case_sql(path, sql);
    return strtoll(text, NULL, 10);
}
