/* Queries of the audit log. */
#include "audit/query/query.h"
#include "audit/store.h"
#include "audit_case.h"

enum { HOUR = 3600000 };

typedef struct {
    audit_t *audit;
    char *path;
    char ids[64][EVENT_ID_SIZE]; /* by n */
} log_t;

static log_t begin(void) {
    log_t l = {.path = audit_case_path()};
    l.audit = audit_case_open(l.path, AUDIT_WRITE);
    return l;
}

static void end(log_t *log) {
    audit_close(log->audit);
    log->audit = NULL;
}

static log_t l;
SUITE(unit_audit_query, l = begin(), end(&l));

static void put(int n, const char *queue, const char *reason, int64_t at, const char *payload) {
    audit_case_event_t item;
    audit_case_event(&item, "failed", n, at);
    item.event.queue = slice_text(queue);
    item.event.reason = slice_text(reason);
    item.event.payload = slice_text(payload);
    cr_assert(audit_case_put(l.audit, &item.event));
    memcpy(l.ids[n], item.id, sizeof(item.id));
}

static void answer(int n, const char *kind, int to, int64_t at) {
    audit_case_event_t item;
    audit_case_event(&item, kind, n, at);
    item.event.answers = slice_text(l.ids[to]);
    cr_assert(audit_case_put(l.audit, &item.event));
}

/* Appends "JOB " or "JOB=STATE " to the buffer. */
static bool note(void *self, const audit_row_t *row) {
    buffer_printf(self, "%.*s", (int)row->event.job.len, row->event.job.data);
    if (row->state.len && !slice_is(row->state, "failed")) buffer_printf(self, "=%.*s", (int)row->state.len, row->state.data);
    buffer_str(self, " ");
    return true;
}

static void expect_list(audit_filter_t filter, const char *expected) {
    scoped(buffer_free) buffer_t got = {0};
    buffer_t why = {0};
    cr_assert(audit_list(l.audit, &filter, note, &got, &why), "%s", buffer_text(&why));
    cr_expect_str_eq(buffer_text(&got), expected);
}

Test(unit_audit_query, list_applies_the_filter_newest_first) {
    put(1, "a", "reported", 1000, "one");
    put(2, "b", "reported", 3000, "two");
    put(3, "a", "alive_timeout", 2000, "100% of_three");
    put(4, "a", "reported", 4000, "Four");
    expect_list((audit_filter_t){0}, "job-4 job-2 job-3 job-1 ");
    expect_list((audit_filter_t){.queue = "a"}, "job-4 job-3 job-1 ");
    expect_list((audit_filter_t){.queue = "a", .reason = "reported"}, "job-4 job-1 ");
    expect_list((audit_filter_t){.reason = "reported", .limit = 2}, "job-4 job-2 ");
    expect_list((audit_filter_t){.since_ms = 2000, .until_ms = 4000}, "job-2 job-3 ");
    expect_list((audit_filter_t){.grep = "our"}, "job-4 ");
    expect_list((audit_filter_t){.grep = "four"}, "");
    expect_list((audit_filter_t){.grep = "% of_"}, "job-3 "); /* % and _ are plain bytes */
    expect_list((audit_filter_t){.grep = "job-2"}, "job-2 ");
    expect_list((audit_filter_t){.queue = "a' OR 1 --"}, "");
}

Test(unit_audit_query, grep_finds_bytes_in_blobs) {
    audit_case_event_t item;
    audit_case_event(&item, "failed", 1, 1000);
    item.event.payload = (slice_t){"\0\xff needle \xfe", 11};
    cr_assert(audit_case_put(l.audit, &item.event));
    audit_case_event(&item, "failed", 2, 2000);
    item.event.error = (slice_t){"worker said: \xff needle", 22};
    cr_assert(audit_case_put(l.audit, &item.event));
    expect_list((audit_filter_t){.grep = "needle"}, "job-2 job-1 ");
    expect_list((audit_filter_t){.grep = "\xff needle \xfe"}, "job-1 ");
}

/* `status` counts gaps each time, also in a log of many GB. Each payload here fills a page. */
Test(unit_audit_query, gaps_are_counted_without_a_read_of_payloads) {
    enum { ROWS = 300 };
    char payload[4000];
    int64_t gaps = -1;
    int pages = 0, most;
    buffer_t why = {0};
    memset(payload, 'x', sizeof payload - 1);
    payload[sizeof payload - 1] = '\0';
    for (int n = 1; n <= ROWS; n++) {
        audit_case_event_t item;
        audit_case_event(&item, "failed", n, n);
        item.event.payload = slice_text(payload);
        cr_assert(audit_case_put(l.audit, &item.event));
    }
    end(&l);
    l.audit = audit_case_open(l.path, AUDIT_READ);
    cr_assert(audit_open_gaps(l.audit, &gaps, &why), "%s", buffer_text(&why));
    cr_expect_eq(gaps, 0);
    cr_assert_eq(sqlite3_db_status(l.audit->db, SQLITE_DBSTATUS_CACHE_MISS, &pages, &most, 0), SQLITE_OK);
    cr_expect_lt(pages, ROWS / 4);
}

Test(unit_audit_query, the_last_answer_is_the_state) {
    for (int n = 1; n <= 4; n++) put(n, "q", "reported", 1000 * n, "x");
    answer(11, "requeued", 1, 5000);
    answer(12, "discarded", 2, 5000);
    answer(13, "discarded", 3, 7000); /* arrives first, but has the later time */
    answer(14, "requeued", 3, 6000);
    expect_list((audit_filter_t){0}, "job-4 job-3=discarded job-2=discarded job-1=requeued ");
    put(5, "q", "reported", 9000, "x"); /* the job fails again: a new row, and the old row stays requeued */
    expect_list((audit_filter_t){.limit = 1}, "job-5 ");
    cr_expect_eq(audit_case_count(l.path, "SELECT count(*) FROM failed_jobs WHERE state = 'requeued'"), 1);
    cr_expect_eq(audit_case_count(l.path, "SELECT open * 100 + requeued * 10 + discarded FROM failures_by_queue"), 212);
}

typedef struct {
    buffer_t got;
    int most; /* rows of one page */
    int rows;
} reading_t;

static bool note_page(void *self, const audit_row_t *row) {
    reading_t *reading = self;
    note(&reading->got, row);
    return ++reading->rows % reading->most != 0;
}

/* Pages of any size return each row once, in the order of arrival, also around removed rows. */
Test(unit_audit_query, pages_cover_the_whole_log) {
    buffer_t why = {0};
    int64_t first, last;
    cr_assert(audit_bounds(l.audit, 0, &first, &last, &why));
    cr_expect(first == 0 && last == 0);
    for (int n = 1; n <= 9; n++) put(n, n % 2 ? "a" : "b", "reported", 10000 - n, "x");
    audit_case_sql(l.path, "UPDATE events SET seq = seq + 5000 WHERE seq > 6");
    audit_case_sql(l.path, "DELETE FROM events WHERE seq = 4");
    for (int most = 1; most < 10; most++) {
        reading_t reading = {.most = most};
        audit_cursor_t at = {.more = true};
        while (at.more) cr_assert(audit_page(l.audit, &(audit_filter_t){0}, &at, note_page, &reading, &why));
        cr_expect_str_eq(buffer_text(&reading.got), "job-1 job-2 job-3 job-5 job-6 job-7 job-8 job-9 ", "%d rows a page", most);
        cr_expect_eq(at.after, 5009);
        buffer_free(&reading.got);
    }
    int64_t after = 0;
    cr_assert(audit_find_last(l.audit, &(audit_filter_t){.queue = "a"}, 2, &after, &why));
    cr_expect_eq(after, 5006, "job-7 and job-9 are above");
    cr_assert(audit_find_last(l.audit, &(audit_filter_t){.queue = "none"}, 2, &after, &why));
    cr_expect_eq(after, 5009);
}

Test(unit_audit_query, list_filters_by_kind_and_shows_filled_gaps) {
    audit_case_event_t item, gap;
    put(1, "q", "reported", 1000, "x");
    for (int n = 2; n <= 3; n++) {
        audit_case_event(&gap, "gap", n, 1000 * n);
        cr_assert(audit_case_put(l.audit, &gap.event));
    }
    audit_case_event(&item, "filled", 4, 9000);
    item.event.answers = gap.event.event;
    cr_assert(audit_case_put(l.audit, &item.event));
    expect_list((audit_filter_t){0}, "job-1 ");
    expect_list((audit_filter_t){.kind = "gap"}, "job-3=filled job-2=open ");
    expect_list((audit_filter_t){.kind = "gap", .all_kinds = true}, "job-4 job-3=filled job-2=open job-1 ");
}

static void expect_found(const char *prefix, int64_t limit, const char *expected) {
    scoped(buffer_free) buffer_t got = {0};
    buffer_t why = {0};
    cr_assert(audit_find_ref(l.audit, prefix, limit, note, &got, &why), "%s", buffer_text(&why));
    cr_expect_str_eq(buffer_text(&got), expected);
}

Test(unit_audit_query, a_ref_is_found_by_its_prefix) {
    char ref[EVENT_REF_SIZE];
    for (int n = 0; n < 40; n++) put(n, "q", "reported", 1000, "x");
    cr_assert(event_ref(slice_text(l.ids[7]), ref));
    expect_found(ref, 10, "job-7 ");
    ref[8] = '\0';
    expect_found(ref, 10, "job-7 ");
    expect_found("1", 10, "");
    scoped(buffer_free) buffer_t got = {0}, why = {0};
    cr_assert(audit_find_ref(l.audit, "", 25, note, &got, &why));
    size_t found = 0;
    for (const char *at = buffer_text(&got); (at = strchr(at, ' ')); at++) found++;
    cr_expect_eq(found, 25);
}

Test(unit_audit_query, history_lists_all_events_of_one_job) {
    audit_case_event_t item;
    for (int n = 1; n <= 3; n++) {
        audit_case_event(&item, n < 3 ? "retried" : "failed", n, 1000 * n);
        item.event.job = slice_text("same");
        cr_assert(audit_case_put(l.audit, &item.event));
    }
    audit_case_event(&item, "failed", 4, 500);
    item.event.job = slice_text("same");
    item.event.queue = slice_text("other");
    cr_assert(audit_case_put(l.audit, &item.event));
    scoped(buffer_free) buffer_t got = {0}, why = {0};
    cr_assert(audit_history(l.audit, slice_text("q"), slice_text("same"), note, &got, &why));
    cr_expect_str_eq(buffer_text(&got), "same same same ");
    char *kinds =
        audit_case_sql(l.path, "SELECT group_concat(kind) FROM (SELECT * FROM job_history WHERE job_id = 'same' ORDER BY at)");
    cr_expect_str_eq(kinds, "failed,retried,retried,failed");
    free(kinds);
}

static bool note_count(void *self, const audit_count_t *count) {
    buffer_printf(self, "%lld:%.*s/%.*s %lld-%lld-%lld [%lld,%lld] ", (long long)(count->hour_ms / HOUR), (int)count->queue.len,
                  count->queue.data, (int)count->reason.len, count->reason.data, (long long)count->failures,
                  (long long)count->requeued, (long long)count->discarded, (long long)count->first_ms, (long long)count->last_ms);
    return true;
}

static bool note_name(void *self, const char *name) {
    buffer_printf(self, "%s ", name);
    return true;
}

Test(unit_audit_query, stats_count_by_hour_queue_and_reason) {
    scoped(buffer_free) buffer_t got = {0}, why = {0};
    put(1, "b", "reported", HOUR - 1, "x");
    put(2, "b", "reported", HOUR, "x");
    put(3, "b", "reported", HOUR + 5, "needle");
    put(4, "b", "alive_timeout", HOUR, "x");
    put(5, "a", "reported", HOUR, "x");
    answer(11, "requeued", 2, 2 * HOUR);
    answer(12, "discarded", 5, 2 * HOUR);
    cr_assert(audit_stats(l.audit, &(audit_filter_t){0}, note_count, &got, &why), "%s", buffer_text(&why));
    cr_expect_str_eq(buffer_text(&got), "1:a/reported 1-0-1 [3600000,3600000] 1:b/reported 2-1-0 [3600000,3600005] "
                                        "1:b/alive_timeout 1-0-0 [3600000,3600000] 0:b/reported 1-0-0 [3599999,3599999] ");
    buffer_clear(&got);
    cr_assert(audit_stats(l.audit, &(audit_filter_t){.queue = "b", .since_ms = HOUR, .grep = "needle"}, note_count, &got, &why));
    cr_expect_str_eq(buffer_text(&got), "1:b/reported 1-0-0 [3600005,3600005] ");
    buffer_clear(&got);
    cr_assert(audit_queues(l.audit, note_name, &got, &why));
    cr_expect_str_eq(buffer_text(&got), "a b ");
    cr_expect_eq(audit_case_count(l.path, "SELECT sum(failures) FROM failures_by_hour WHERE hour = '1970-01-01 01:00'"), 4);
    cr_expect_eq(audit_case_count(l.path, "SELECT failures * 10 + queues FROM failures_by_reason WHERE reason = 'reported'"), 42);
}

/* People query these views by their columns. */
Test(unit_audit_query, documented_tables_views_and_columns_exist) {
    char *columns = audit_case_sql(l.path, "SELECT group_concat(name) FROM pragma_table_info('failed_jobs')");
    cr_expect_str_eq(
        columns, "queue,dialect,job_id,type,worker,reason,error,attempts,created_at,started_at,failed_at,state,ref,payload,group,"
                 "traceparent");
    put(1, "q", "reported", 1234, "x");
    cr_expect_eq(audit_case_count(l.path, "SELECT failed_at FROM failed_jobs WHERE created_at = 234 AND started_at = 1134"),
                 1234);
    cr_expect_eq(audit_case_count(l.path, "SELECT count(*) FROM sqlite_schema WHERE type = 'view' AND name IN ('failed_jobs',"
                                          "'failures_by_hour', 'failures_by_reason', 'failures_by_queue', 'job_history')"),
                 5);
}

static bool stop_at_once(void *self, const audit_count_t *count) {
    (void)self, (void)count;
    return true;
}

/* A query that reads a damaged page reports the damage, and not SQLite's text "not an error". */
Test(unit_audit_query, damage_is_reported_as_damage) {
    static char bytes[1024 * 1024], payload[2000], page[4096];
    memset(payload, 'a', sizeof payload - 1);
    memset(page, 0xa5, sizeof page);
    for (int n = 0; n < 60; n++) put(n, n % 2 ? "q" : "r", n % 3 ? "reported" : "alive_timeout", n * HOUR / 4, payload);
    for (int n = 0; n < 60; n++) answer(n + 100, "requeued", n, (200 + n) * (int64_t)HOUR);
    end(&l);
    FILE *file = fopen(l.path, "r+");
    size_t len = fread(bytes, 1, sizeof bytes, file);
    int failed = 0;
    for (size_t at = sizeof page; at < len; at += sizeof page) {
        cr_assert(fseek(file, (long)at, SEEK_SET) == 0 && fwrite(page, sizeof page, 1, file) == 1 && fflush(file) == 0);
        buffer_t why = {0};
        audit_t *audit = audit_open(l.path, AUDIT_READ, &why);
        if (!audit || !audit_stats(audit, &(audit_filter_t){0}, stop_at_once, NULL, &why)) {
            failed++;
            cr_expect(strstr(buffer_text(&why), "is damaged") || strstr(buffer_text(&why), "malformed"), "page %zu: %s",
                      at / sizeof page + 1, buffer_text(&why));
        }
        buffer_free(&why);
        audit_close(audit);
        cr_assert(fseek(file, (long)at, SEEK_SET) == 0 && fwrite(bytes + at, sizeof page, 1, file) == 1 && fflush(file) == 0);
    }
    cr_expect_gt(failed, 3);
    fclose(file);
}

/* With a million rows, sorting or reading all of them takes too long. */
Test(unit_audit_query, queries_use_an_index) {
    static const char *const without_sort[] = {
        "SELECT ref FROM event_states WHERE kind = 'failed' ORDER BY at DESC, queue DESC, reason DESC LIMIT 50",
        "SELECT ref FROM event_states WHERE kind = 'failed' AND queue = 'q' ORDER BY at DESC, queue DESC, reason DESC LIMIT 50",
        "SELECT ref FROM failed_jobs WHERE queue = 'q' AND failed_at > 5 ORDER BY failed_at DESC LIMIT 50",
        "SELECT * FROM failed_jobs ORDER BY failed_at DESC LIMIT 50",
        "SELECT * FROM failed_jobs WHERE ref = 'a'",
        "SELECT * FROM failed_jobs WHERE job_id = 'x' ORDER BY failed_at",
        "SELECT * FROM events AS e WHERE event = 'a'",
        "SELECT * FROM event_states WHERE ref >= 'a' AND ref < 'a{' ORDER BY ref",
        "SELECT * FROM job_history WHERE job_id = 'x' ORDER BY at",
    };
    static const char *const covered[] = {"SELECT * FROM failures_by_hour", "SELECT * FROM failures_by_reason"};
    for (size_t i = 0; i < sizeof(without_sort) / sizeof(*without_sort); i++) {
        char *plan = audit_case_plan(l.path, without_sort[i]);
        cr_expect_null(strstr(plan, "TEMP B-TREE FOR ORDER BY"), "%s: %s", without_sort[i], plan);
        cr_expect_not_null(strstr(plan, "e USING INDEX"), "%s: %s", without_sort[i], plan);
        cr_expect(!strstr(plan, "SUBQUERY") || strstr(plan, "SEARCH a USING COVERING INDEX answers (answers=?)"), "%s", plan);
    }
    for (size_t i = 0; i < sizeof(covered) / sizeof(*covered); i++) {
        char *plan = audit_case_plan(l.path, covered[i]);
        cr_expect_not_null(strstr(plan, "USING COVERING INDEX failures_queue"), "%s: %s", covered[i], plan);
    }
}
