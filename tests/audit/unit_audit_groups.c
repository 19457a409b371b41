/* Final failures counted by error, queue, reason or hour. */
#include "audit/query/groups.h"
#include "audit/store.h"
#include "audit_case.h"

enum { HOUR = 3600000 };

typedef struct {
    audit_t *audit;
    char *path;
    char ids[64][EVENT_ID_SIZE];
} log_t;

static log_t l;

static void begin(void) {
    l = (log_t){.path = audit_case_path()};
    l.audit = audit_case_open(l.path, AUDIT_WRITE);
}

static void end(void) { audit_close(l.audit); }

SUITE(unit_audit_groups, begin(), end());

static void put(int n, const char *queue, const char *reason, int64_t at, const char *error) {
    audit_case_event_t item;
    audit_case_event(&item, "failed", n, at);
    item.event.queue = slice_text(queue);
    item.event.reason = slice_text(reason);
    item.event.error = slice_text(error);
    cr_assert(audit_case_put(l.audit, &item.event));
    memcpy(l.ids[n], item.id, sizeof item.id);
}

static void answer(int n, const char *kind, int to, int64_t at) {
    audit_case_event_t item;
    audit_case_event(&item, kind, n, at);
    item.event.answers = slice_text(l.ids[to]);
    cr_assert(audit_case_put(l.audit, &item.event));
}

/* "KEY failures-requeued-discarded [first,last] ..."; in slices of slice_us, 0 = in one. */
static char *grouped(audit_by_t by, audit_filter_t filter, int64_t slice_us) {
    buffer_t got = {0}, why = {0};
    audit_groups_t *groups = audit_groups_new(by);
    audit_place_t place = {.more = true};
    while (place.more) cr_assert(audit_groups_read(groups, l.audit, &filter, &place, slice_us, &why), "%s", buffer_text(&why));
    size_t count;
    const audit_count_t *all = audit_groups_sorted(groups, &count);
    for (size_t i = 0; i < count; i++) {
        const audit_count_t *g = &all[i];
        slice_t key = by == AUDIT_BY_ERROR ? g->error : by == AUDIT_BY_QUEUE ? g->queue : g->reason;
        cr_expect_eq(g->open, g->failures - g->requeued - g->discarded);
        if (by == AUDIT_BY_HOUR) buffer_printf(&got, "%d", (int)(g->hour_ms / HOUR));
        buffer_printf(&got, "%.*s %d-%d-%d [%d,%d] ", (int)key.len, key.data, (int)g->failures, (int)g->requeued,
                      (int)g->discarded, (int)g->first_ms, (int)g->last_ms);
    }
    cr_expect_eq(audit_groups_dropped(groups).failures, 0);
    audit_groups_free(groups);
    return kept(got.data ? got.data : mem_str(""));
}

Test(unit_audit_groups, failures_are_counted_by_each_thing_with_their_states) {
    put(1, "b", "reported", HOUR - 1, "timeout after 5 s");
    put(2, "b", "reported", HOUR, "timeout after 30 s\nat mx1");
    put(3, "b", "alive_timeout", HOUR + 5, "");
    put(4, "a", "reported", HOUR + 7, "no such mailbox");
    put(5, "b", "reported", HOUR + 8, "timeout after 1 s");
    answer(11, "requeued", 2, 2 * HOUR);
    answer(12, "discarded", 4, 2 * HOUR);
    for (int slice = 0; slice < 2; slice++) {
        cr_expect_str_eq(grouped(AUDIT_BY_ERROR, (audit_filter_t){0}, slice),
                         "timeout after # s 3-1-0 [3599999,3600008] no such mailbox 1-0-1 [3600007,3600007]  1-0-0 "
                         "[3600005,3600005] ");
        cr_expect_str_eq(grouped(AUDIT_BY_QUEUE, (audit_filter_t){0}, slice),
                         "b 4-1-0 [3599999,3600008] a 1-0-1 [3600007,3600007] ");
        cr_expect_str_eq(grouped(AUDIT_BY_REASON, (audit_filter_t){0}, slice),
                         "reported 4-1-1 [3599999,3600008] alive_timeout 1-0-0 [3600005,3600005] ");
        cr_expect_str_eq(grouped(AUDIT_BY_HOUR, (audit_filter_t){0}, slice),
                         "1 4-1-1 [3600000,3600008] 0 1-0-0 [3599999,3599999] ");
        cr_expect_str_eq(grouped(AUDIT_BY_REASON, (audit_filter_t){.queue = "b", .grep = "timeout", .limit = 1}, slice),
                         "reported 3-1-0 [3599999,3600008] ");
        cr_expect_str_eq(grouped(AUDIT_BY_QUEUE, (audit_filter_t){.state = "failed"}, slice), "b 3-0-0 [3599999,3600008] ");
        cr_expect_str_eq(grouped(AUDIT_BY_QUEUE, (audit_filter_t){.state = "requeued"}, slice), "b 1-1-0 [3600000,3600000] ");
        cr_expect_str_eq(grouped(AUDIT_BY_ERROR, (audit_filter_t){.queue = "a", .kind = "gap"}, slice),
                         "no such mailbox 1-0-1 [3600007,3600007] ");
    }
}

static void expect_group(slice_t error, const char *expected) {
    scoped(buffer_free) buffer_t out = {0};
    audit_error_group(&out, error);
    cr_expect_str_eq(buffer_text(&out), expected);
}

Test(unit_audit_groups, an_error_is_its_first_line_without_its_numbers) {
    expect_group(slice_text("job 17 of 4711 failed (0x1f)"), "job # of # failed (#x#f)");
    expect_group(slice_text("\r\n  second line is the first \t\r\nnot this"), "second line is the first");
    expect_group((slice_t){"a\0b\x1b[31m\x7f", 9}, "a b [#m");
    expect_group((slice_t){"\xff\xc3x \xc5\x82", 6}, "\xef\xbf\xbd\xef\xbf\xbdx \xc5\x82");
    expect_group(slice_text(""), "");
    expect_group(slice_text("\n\n"), "");
    scoped(buffer_free) buffer_t out = {0}, text = {0};
    for (int i = 0; i < 100; i++) buffer_str(&text, "\xc5\x82");
    for (int i = 0; i < 4; i++) { /* the end is never within a letter */
        audit_error_group(&out, (slice_t){buffer_text(&text), text.len});
        cr_expect(out.len <= AUDIT_ERROR_MAX && out.len > AUDIT_ERROR_MAX - 4, "%zu", out.len);
        expect_group((slice_t){buffer_text(&out), out.len}, buffer_text(&out));
        buffer_clear(&text);
        for (int j = 0; j <= i; j++) buffer_str(&text, "x");
        for (int j = 0; j < 100; j++) buffer_str(&text, "\xe2\x82\xac");
    }
    char large[1024 * 1024]; /* of one number */
    memset(large, '7', sizeof large);
    expect_group((slice_t){large, sizeof large}, "#");
}

/* Some 22,000 errors of two failures each, another one of each tenth failure, and one that is dropped once before it gets
 * frequent. */
Test(unit_audit_groups, many_different_errors_take_bounded_memory, .timeout = 60) {
    enum { ROWS = 50000 };
    audit_case_sql(l.path,
                   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) INSERT INTO events "
                   "SELECT i, 'r' || i, 'e' || i, 'failed', 'list', 'q', 'j', '', '', 'reported', '', '', '', '', 1, 0, 0, "
                   "1000 + i, 0, CASE WHEN i % 10 = 0 THEN 'frequent' WHEN i < 1000 OR i = 49999 THEN 'late' ELSE char(97 + i / "
                   "2 % 26, 97 + i / 52 % 26, "
                   "97 + i / 1352 % 26, 97 + i / 35152) END, '', '', '' FROM n");
    buffer_t why = {0};
    audit_groups_t *groups = audit_groups_new(AUDIT_BY_ERROR);
    size_t count;
    cr_assert(audit_groups_read(groups, l.audit, &(audit_filter_t){0}, &(audit_place_t){0}, 0, &why), "%s", buffer_text(&why));
    const audit_count_t *all = audit_groups_sorted(groups, &count);
    int64_t sum = audit_groups_dropped(groups).failures, too_low = audit_groups_dropped(groups).too_low;
    for (size_t i = 0; i < count; i++) sum += all[i].failures;
    cr_expect_leq(count, AUDIT_GROUPS_MAX);
    cr_expect_gt(audit_groups_dropped(groups).failures, 0);
    cr_expect_eq(sum, ROWS, "each failure is in a group or dropped");
    cr_expect(slice_is(all[0].error, "frequent") && all[0].failures + too_low >= ROWS / 10 && all[0].failures <= ROWS / 10,
              "%lld, too low by %lld", (long long)all[0].failures, (long long)too_low);
    cr_expect(slice_is(all[1].error, "late") && all[1].failures == 900 && too_low >= 1, "it had 901");
    audit_groups_free(groups);
}

static bool ignore_count(void *self, const audit_count_t *count) {
    (void)self, (void)count;
    return true;
}

static int count_step(void *steps) {
    ++*(int *)steps;
    return 0;
}

/* Steps of SQLite's machine, and pages read, on a connection of its own. */
static int steps_of(bool stats, int *pages) {
    int steps = 0, before = 0, most;
    buffer_t why = {0};
    end();
    l.audit = audit_case_open(l.path, AUDIT_READ);
    sqlite3_progress_handler(l.audit->db, 1, count_step, &steps);
    sqlite3_db_status(l.audit->db, SQLITE_DBSTATUS_CACHE_MISS, &before, &most, 0);
    if (stats)
        cr_assert(audit_stats(l.audit, &(audit_filter_t){0}, ignore_count, NULL, &why), "%s", buffer_text(&why));
    else
        grouped(AUDIT_BY_REASON, (audit_filter_t){0}, 0);
    sqlite3_db_status(l.audit->db, SQLITE_DBSTATUS_CACHE_MISS, pages, &most, 0);
    *pages -= before;
    return steps;
}

/* Failures whose rows fill pages, and `answers` of them have an answer. */
static void fill(int rows, int answers) {
    audit_case_sql(l.path, "DELETE FROM events");
    audit_case_sql(
        l.path,
        kept_printf(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO events "
            "SELECT i, 'r' || i, 'e' || i, 'failed', 'list', 'q' || i %% 3, 'j', '', '', 'reported', '', '', '', '', 1, 0, 0, "
            "360000 * i, 0, '', zeroblob(3000), '', '' FROM n",
            rows));
    audit_case_sql(
        l.path,
        kept_printf(
            "INSERT INTO events SELECT 10000 + seq, 'a' || seq, 'a' || seq, 'requeued', 'list', queue, 'j', '', '', '', '', '', "
            "event, ref, 1, 0, 0, at + 1, 0, '', '', '', '' FROM events WHERE seq <= %d",
            answers));
}

/* It joined answers to failures twice, in 25 s for a million of them. */
Test(unit_audit_groups, stats_of_answered_failures_take_one_walk) {
    int pages;
    fill(500, 500);
    int by_reason = steps_of(false, &pages), stats = steps_of(true, &pages);
    cr_expect_lt(stats, 2 * by_reason, "%d steps, and %d by reason", stats, by_reason);
}

Test(unit_audit_groups, where_few_have_an_answer_rows_are_not_read) {
    int pages, groups_pages;
    fill(500, 10);
    int steps = steps_of(true, &pages);
    steps_of(false, &groups_pages);
    cr_expect(steps > 0 && pages < 100 && groups_pages < 100, "%d and %d pages of more than 500", pages, groups_pages);
}
