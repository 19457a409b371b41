/* Searches of the audit log: filters, pages, slices. */
#include "audit/query/query.h"
#include "audit/store.h"
#include "audit_case.h"

typedef struct {
    audit_t *audit;
    char *path;
    char ids[400][EVENT_ID_SIZE]; /* by n */
} log_t;

static log_t l;

static void begin(void) {
    l = (log_t){.path = audit_case_path()};
    l.audit = audit_case_open(l.path, AUDIT_WRITE);
}

static void end(void) {
    audit_close(l.audit);
    l.audit = NULL;
}

SUITE(unit_audit_search, begin(), end());

static void put_event(int n, audit_case_event_t *item) {
    cr_assert(audit_case_put(l.audit, &item->event));
    memcpy(l.ids[n], item->id, sizeof item->id);
}

static void put(int n, const char *queue, const char *reason, int64_t at, const char *payload) {
    audit_case_event_t item;
    audit_case_event(&item, "failed", n, at);
    item.event.queue = slice_text(queue);
    item.event.reason = slice_text(reason);
    item.event.payload = slice_text(payload);
    put_event(n, &item);
}

static void answer(int n, const char *kind, int to, int64_t at) {
    audit_case_event_t item;
    audit_case_event(&item, kind, n, at);
    item.event.answers = slice_text(l.ids[to]);
    put_event(n, &item);
}

static bool note(void *self, const audit_row_t *row) {
    buffer_printf(self, "%.*s ", (int)row->event.job.len, row->event.job.data);
    return true;
}

static char *listed(audit_filter_t filter) {
    buffer_t got = {0}, why = {0};
    cr_assert(audit_list(l.audit, &filter, note, &got, &why), "%s", buffer_text(&why));
    return kept(got.data ? got.data : mem_str(""));
}

/* The same by many searches, each on a connection without anything from the one before. */
static char *searched(audit_filter_t filter, int64_t slice_us) {
    buffer_t got = {0}, why = {0};
    audit_place_t place = {.more = true};
    for (int calls = 0; place.more; calls++) {
        cr_assert(audit_search(l.audit, &filter, &place, slice_us, note, &got, &why), "%s", buffer_text(&why));
        cr_assert_lt(calls, 1000);
    }
    return kept(got.data ? got.data : mem_str(""));
}

Test(unit_audit_search, each_filter_selects_its_failures) {
    static const char *const groups[] = {"", "shop", "bank"};
    for (int n = 1; n <= 6; n++) {
        audit_case_event_t item;
        audit_case_event(&item, "failed", n, 1000 * n);
        item.event.type = slice_text(n % 2 ? "mail" : "push");
        item.event.worker = slice_text(n < 4 ? "worker-1" : "worker-2");
        item.event.group = slice_text(groups[n % 3]);
        item.event.error = slice_text(n == 5 ? "SMTP Timeout: ŁÓDŹ" : "x");
        put_event(n, &item);
    }
    answer(11, "requeued", 2, 9000);
    answer(12, "discarded", 5, 9000);
    cr_expect_str_eq(listed((audit_filter_t){.state = "failed"}), "job-6 job-4 job-3 job-1 ");
    cr_expect_str_eq(listed((audit_filter_t){.state = "requeued"}), "job-2 ");
    cr_expect_str_eq(listed((audit_filter_t){.state = "discarded", .queue = "q"}), "job-5 ");
    cr_expect_str_eq(listed((audit_filter_t){.state = "discarded", .queue = "other"}), "");
    cr_expect_str_eq(listed((audit_filter_t){.state = "requeued", .all_kinds = true}), "job-2 ");
    cr_expect_str_eq(listed((audit_filter_t){.type = "mail"}), "job-5 job-3 job-1 ");
    cr_expect_str_eq(listed((audit_filter_t){.type = "mail", .worker = "worker-2"}), "job-5 ");
    cr_expect_str_eq(listed((audit_filter_t){.worker = "worker"}), "", "a part of a name is another name");
    cr_expect_str_eq(listed((audit_filter_t){.job = "job-4"}), "job-4 ");
    cr_expect_str_eq(listed((audit_filter_t){.job = "job-4", .state = "requeued"}), "");
    cr_expect_str_eq(listed((audit_filter_t){.job = "job-12", .kind = "discarded"}), "job-12 ");
    cr_expect_str_eq(listed((audit_filter_t){.group = "shop"}), "job-4 job-1 ");
    cr_expect_str_eq(listed((audit_filter_t){.group = ""}), "job-6 job-3 ");
    cr_expect_str_eq(listed((audit_filter_t){.grep = "timeout: łódź"}), "");
    cr_expect_str_eq(listed((audit_filter_t){.grep = "timeout: łódź", .ignore_case = true}), "job-5 ");
}

/* Forty failures at three times, of two queues and two reasons, and events of other kinds. */
static void fill(void) {
    for (int n = 1; n <= 40; n++)
        put(n, n % 2 ? "a" : "b", n % 3 ? "reported" : "alive_timeout", 1000 + n % 3, n % 5 ? "x" : "y");
    for (int n = 41; n <= 50; n++) answer(n, n % 2 ? "requeued" : "discarded", 3 * (n - 40), 1001 + n % 2);
    audit_case_event_t item;
    for (int n = 51; n <= 53; n++) {
        audit_case_event(&item, "gap", n, 1001);
        put_event(n, &item);
    }
}

static const audit_filter_t filters[] = {
    {0},
    {.queue = "a"},
    {.reason = "reported"},
    {.queue = "b", .reason = "alive_timeout"},
    {.since_ms = 1001, .until_ms = 1002},
    {.until_ms = 1002, .queue = "a"},
    {.state = "failed"},
    {.state = "requeued"},
    {.state = "discarded", .queue = "b"},
    {.job = "job-7"},
    {.grep = "y"},
    {.kind = "gap"},
    {.kind = "requeued", .queue = "q"},
    {.all_kinds = true},
    {.job = "none"},
};

/* Slices of 1 us end after each row. */
Test(unit_audit_search, pages_and_slices_give_each_row_once_in_the_order_of_the_list) {
    fill();
    cr_expect_eq(strncmp(listed((audit_filter_t){0}), "job-38 job-32 job-26 job-20 ", 28), 0, "%s", listed((audit_filter_t){0}));
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        audit_filter_t page = filters[i];
        char *all = listed(filters[i]);
        cr_expect(*all || i == 14, "%zu", i);
        cr_expect_str_eq(searched(page, 1), all, "%zu by slices", i);
        for (page.limit = 1; page.limit < 20; page.limit += 6) {
            cr_expect_str_eq(searched(page, 0), all, "%zu by pages of %d", i, (int)page.limit);
            cr_expect_str_eq(searched(page, 1), all, "%zu by both", i);
        }
    }
}

Test(unit_audit_search, a_page_knows_whether_there_are_more) {
    scoped(buffer_free) buffer_t got = {0}, why = {0};
    audit_place_t place = {0};
    for (int n = 1; n <= 4; n++) put(n, "a", "reported", 1000 * n, n == 1 ? "none" : "wanted");
    cr_assert(audit_search(l.audit, &(audit_filter_t){.grep = "wanted", .limit = 2}, &place, 0, note, &got, &why));
    cr_expect(place.more && place.at == 3000);
    cr_assert(audit_search(l.audit, &(audit_filter_t){.grep = "wanted", .limit = 2}, &place, 0, note, &got, &why));
    cr_expect(!place.more && place.at == 1000, "it has looked at the last row too");
    cr_expect_str_eq(buffer_text(&got), "job-4 job-3 job-2 ");
    place = (audit_place_t){0};
    cr_assert(audit_search(l.audit, &(audit_filter_t){.grep = "wanted", .limit = 3}, &place, 0, note, &got, &why));
    cr_expect(!place.more, "the rest does not match");
}

/* `--before REF` may name any event of the log. */
Test(unit_audit_search, a_search_may_begin_at_any_event) {
    static const audit_place_t at[] = {{.at = 4000, .seq = 4}, {.at = 3000, .seq = 3}, {.at = 2000, .seq = 2}};
    static const char *const expected[] = {"job-2 job-1 ", "job-2 job-1 ", "job-1 "};
    for (int n = 1; n <= 4; n++) put(n, "a", "reported", 1000 * n, "x");
    for (size_t i = 0; i < 3; i++) {
        scoped(buffer_free) buffer_t got = {0}, why = {0};
        audit_place_t place = at[i];
        cr_assert(audit_search(l.audit, &(audit_filter_t){.until_ms = 2500, .since_ms = 1}, &place, 0, note, &got, &why));
        cr_expect_str_eq(buffer_text(&got), expected[i], "from job-%d", (int)place.seq);
    }
}

/* Each copy of a job may fail at the same time. */
Test(unit_audit_search, pages_of_one_job_are_exact) {
    for (int n = 1; n <= 9; n++) {
        audit_case_event_t item;
        audit_case_event(&item, "failed", n, 1000 + n % 2);
        item.event.job = slice_text("same");
        item.event.worker = slice_text(item.job);
        put_event(n, &item);
    }
    audit_filter_t filter = {.job = "same"};
    cr_expect_str_eq(searched(filter, 1), "same same same same same same same same same ");
    filter.limit = 2;
    cr_expect_str_eq(searched(filter, 1), "same same same same same same same same same ");
    filter.worker = "job-4";
    cr_expect_str_eq(searched(filter, 1), "same ");
}

/* A search that finds nothing still ends in time, and says where. */
Test(unit_audit_search, a_slice_tells_how_far_it_looked) {
    scoped(buffer_free) buffer_t got = {0}, why = {0};
    audit_place_t place = {0};
    for (int n = 1; n <= 9; n++) put(n, "a", "reported", 1000 * n, "x");
    for (int n = 9; n >= 1; n--) {
        cr_assert(audit_search(l.audit, &(audit_filter_t){.grep = "none"}, &place, 1, note, &got, &why));
        cr_expect(place.at == 1000 * n && place.more, "%d: %d", n, (int)place.at);
        cr_expect_eq(sqlite3_txn_state(l.audit->db, NULL), SQLITE_TXN_NONE, "no read transaction outlives its slice");
    }
    cr_assert(audit_search(l.audit, &(audit_filter_t){.grep = "none"}, &place, 1, note, &got, &why));
    cr_expect(!place.more);
    cr_expect_eq(got.len, 0);
}

static bool stop(void *self, const audit_row_t *row) {
    note(self, row);
    return false;
}

Test(unit_audit_search, a_search_that_was_stopped_goes_on_behind_its_row) {
    scoped(buffer_free) buffer_t got = {0}, why = {0};
    audit_place_t place = {.more = true};
    for (int n = 1; n <= 3; n++) put(n, "a", "reported", 1000, "x");
    for (int i = 0; i < 3; i++) {
        cr_assert(place.more);
        cr_assert(audit_search(l.audit, &(audit_filter_t){0}, &place, 0, stop, &got, &why));
    }
    cr_expect_str_eq(buffer_text(&got), "job-3 job-2 job-1 ");
}

/* New rows, and removed ones, do not make a page repeat or lose the rows that were there before and stay. */
Test(unit_audit_search, pages_stay_exact_while_the_log_changes) {
    scoped(buffer_free) buffer_t got = {0}, why = {0};
    audit_place_t place = {0};
    for (int n = 1; n <= 4; n++) put(n, n % 2 ? "a" : "b", "reported", n == 1 ? 900 : 1000, "x");
    cr_assert(audit_search(l.audit, &(audit_filter_t){.limit = 2}, &place, 0, note, &got, &why));
    cr_expect_str_eq(buffer_text(&got), "job-4 job-2 ");
    put(5, "c", "reported", 1000, "x");
    put(6, "c", "reported", 2000, "x");
    cr_assert(audit_search(l.audit, &(audit_filter_t){0}, &place, 0, note, &got, &why));
    cr_expect_str_eq(buffer_text(&got), "job-4 job-2 job-3 job-1 ");
    place = (audit_place_t){.at = 1000, .seq = 2};
    audit_case_sql(l.path, "DELETE FROM events WHERE seq = 2");
    buffer_clear(&got);
    cr_assert(audit_search(l.audit, &(audit_filter_t){0}, &place, 0, note, &got, &why), "%s", buffer_text(&why));
    cr_expect_str_eq(buffer_text(&got), "job-1 ", "rows of the time of a removed row are removed next");
}

static int pages_read(audit_filter_t filter) {
    int before = 0, after = 0, most;
    end();
    l.audit = audit_case_open(l.path, AUDIT_READ);
    sqlite3_db_status(l.audit->db, SQLITE_DBSTATUS_CACHE_MISS, &before, &most, 0);
    listed(filter);
    sqlite3_db_status(l.audit->db, SQLITE_DBSTATUS_CACHE_MISS, &after, &most, 0);
    return after - before;
}

/* Each row fills a page, and none goes on in another page: newer SQLite reads those past its cache. */
Test(unit_audit_search, jobs_and_answered_failures_are_found_by_an_index) {
    enum { ROWS = 300 };
    char payload[3000];
    memset(payload, 'x', sizeof payload - 1);
    payload[sizeof payload - 1] = '\0';
    for (int n = 1; n <= ROWS; n++) put(n, "a", "reported", n, payload);
    answer(ROWS + 1, "requeued", 5, ROWS + 1);
    answer(ROWS + 2, "discarded", 6, ROWS + 2);
    cr_expect_lt(pages_read((audit_filter_t){.job = "job-9"}), 25);
    cr_expect_lt(pages_read((audit_filter_t){.job = "job-9", .queue = "a", .since_ms = 2}), 25);
    cr_expect_lt(pages_read((audit_filter_t){.state = "requeued"}), 25);
    cr_expect_lt(pages_read((audit_filter_t){.state = "discarded", .queue = "a", .since_ms = 2}), 25);
    cr_expect_lt(pages_read((audit_filter_t){.reason = "none"}), 25);
    cr_expect_lt(pages_read((audit_filter_t){.kind = "gap"}), 25);
    cr_expect_lt(pages_read((audit_filter_t){.kind = "failed", .limit = 5}), 25);
    cr_expect_gt(pages_read((audit_filter_t){.grep = "none"}), ROWS);
}

static bool count(void *self, const audit_row_t *row) {
    (void)row;
    ++*(int *)self;
    return true;
}

/* An export asks for each thousand of seqs. If each page read all rows of its queue, an export would take the square of its rows.
 */
Test(unit_audit_search, a_page_of_an_export_reads_its_own_rows_only) {
    char payload[4000];
    int rows = 0, misses = 0, most;
    buffer_t why = {0};
    memset(payload, 'x', sizeof payload - 1);
    payload[sizeof payload - 1] = '\0';
    for (int n = 1; n <= 300; n++) put(n, "a", "reported", n, payload);
    audit_case_sql(l.path, "UPDATE events SET seq = seq + 5000 WHERE seq > 10");
    end();
    l.audit = audit_case_open(l.path, AUDIT_READ);
    audit_cursor_t cursor = {0};
    cr_assert(audit_page(l.audit, &(audit_filter_t){.kind = "failed", .queue = "a"}, &cursor, count, &rows, &why));
    cr_assert_eq(sqlite3_db_status(l.audit->db, SQLITE_DBSTATUS_CACHE_MISS, &misses, &most, 0), SQLITE_OK);
    cr_expect(rows == 10 && cursor.more, "%d", rows);
    cr_expect_lt(misses, 60);
}
