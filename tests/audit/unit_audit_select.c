/* audit_select returns each failure once, oldest first. */
#include "audit/query/query.h"
#include "audit_case.h"

enum { ROWS = 45000, QUEUES = 3, BASE_MS = 1700000000 };

typedef struct {
    int64_t seqs[ROWS];
    int64_t count, answered, stop_at;
    const char *queue;
} taken_t;

static bool take(void *self, const audit_match_t *match) {
    taken_t *taken = self;
    cr_assert_lt(taken->count, ROWS);
    cr_assert(!taken->queue || slice_is(match->queue, taken->queue));
    taken->seqs[taken->count++] = match->seq;
    if (slice_is(match->state, "discarded")) taken->answered++;
    return taken->count != taken->stop_at;
}

/* Many failures of one millisecond, in several queues, and one answer. */
static audit_t *fill(const char *path) {
    static const char *const queues[QUEUES] = {"b", "a", "c"};
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t item, first;
    buffer_t why = {0};
    cr_assert(audit_begin(audit, &why));
    for (int n = 0; n < ROWS; n++) {
        audit_case_event(&item, "failed", n, BASE_MS + n / 700);
        item.event.queue = slice_text(queues[n % QUEUES]);
        cr_assert(audit_insert(audit, &item.event, NULL, &why));
    }
    audit_case_event(&first, "failed", 7, 0);
    audit_case_event(&item, "discarded", 7, BASE_MS + 5);
    item.event.worker = slice_text("ann");
    item.event.reason = slice_text("gone");
    item.event.answers = slice_text(first.id);
    cr_assert(audit_insert(audit, &item.event, NULL, &why) && audit_commit(audit, &why));
    return audit;
}

static void expect(audit_t *audit, const audit_filter_t *filter, taken_t *taken, int64_t count) {
    buffer_t why = {0};
    taken->count = taken->answered = 0;
    taken->queue = filter->queue;
    cr_assert(audit_select(audit, filter, &(audit_place_t){0}, 0, take, taken, &why), "%s", buffer_text(&why));
    cr_assert_eq(taken->count, count);
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

typedef struct {
    int64_t at, rows;
    bool answer;
} seen_t;

static bool see(void *self, const audit_row_t *row) {
    seen_t *seen = self;
    seen->rows++;
    seen->at = row->event.at;
    if (slice_is(row->state, "discarded"))
        seen->answer =
            row->answered_at == BASE_MS + 5 && slice_is(row->answered_by, "ann") && slice_is(row->answer_reason, "gone");
    else
        cr_assert(row->answered_at == 0 && row->answered_by.len == 0 && row->answer_reason.len == 0);
    return true;
}

Test(unit_audit_select, each_match_comes_once_oldest_first, .timeout = 60) {
    char *path = audit_case_path();
    scoped(audit_drop) audit_t *audit = fill(path);
    taken_t *taken = kept(calloc(1, sizeof *taken));
    buffer_t why = {0};
    seen_t seen = {0};
    expect(audit, &(audit_filter_t){0}, taken, ROWS);
    cr_assert_eq(taken->answered, 1);
    for (int i = 0; i < ROWS; i += 500) { /* seqs follow `at` here, except within one millisecond */
        int64_t before = seen.at;
        cr_assert(audit_rows(audit, &taken->seqs[i], 1, see, &seen, &why));
        cr_assert_geq(seen.at, before);
    }
    seen.rows = 0;
    int64_t some[] = {taken->seqs[3], taken->seqs[0], 999999999, taken->seqs[7], 8};
    cr_assert(audit_rows(audit, some, 5, see, &seen, &why));
    cr_assert_eq(seen.rows, 4, "one of the five rows does not exist");
    cr_assert(seen.answer);
    qsort(taken->seqs, ROWS, sizeof *taken->seqs, by_number);
    for (int i = 1; i < ROWS; i++) cr_assert_neq(taken->seqs[i], taken->seqs[i - 1]);
    expect(audit, &(audit_filter_t){.queue = "a"}, taken, ROWS / QUEUES);
    expect(audit, &(audit_filter_t){.limit = 20000}, taken, 20000);
    expect(audit, &(audit_filter_t){.limit = 20001}, taken, 20001);
    expect(audit, &(audit_filter_t){.since_ms = BASE_MS + 1, .until_ms = BASE_MS + 3}, taken, 1400);
    expect(audit, &(audit_filter_t){.grep = "job-7", .queue = "a"}, taken, 373);
    taken->stop_at = 25000;
    expect(audit, &(audit_filter_t){0}, taken, 25000);
}

/* Reads slices of one row each, and after `removed` of them retention removes those that it has read. */
static void expect_slices(audit_filter_t filter, int64_t removed, int64_t count) {
    char *path = audit_case_path();
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    taken_t *taken = kept(calloc(1, sizeof *taken));
    audit_place_t place = {.more = true};
    buffer_t why = {0};
    cr_assert(audit_begin(audit, &why));
    for (int n = 0; n < 40; n++) {
        audit_case_event_t item;
        audit_case_event(&item, "failed", n % 20, BASE_MS + n / 8);
        item.event.attempts = n;
        event_id(&item.event, n, 1, item.id);
        item.event.queue = slice_text(n % 3 ? "a" : "b");
        item.event.reason = slice_text(n % 5 ? "reported" : "alive_timeout");
        cr_assert(audit_insert(audit, &item.event, NULL, &why));
    }
    cr_assert(audit_commit(audit, &why));
    for (int64_t slices = 0; place.more; slices++) {
        cr_assert(audit_select(audit, &filter, &place, 1, take, taken, &why), "%s", buffer_text(&why));
        cr_assert_leq(slices, 41);
        for (int64_t i = 0; slices == removed && i < taken->count; i++)
            audit_case_sql(path, kept_printf("DELETE FROM events WHERE seq = %lld", (long long)taken->seqs[i]));
    }
    cr_expect_eq(taken->count, count, "%lld of %lld", (long long)taken->count, (long long)count);
    qsort(taken->seqs, (size_t)taken->count, sizeof *taken->seqs, by_number);
    for (int i = 1; i < taken->count; i++) cr_expect_neq(taken->seqs[i], taken->seqs[i - 1]);
}

Test(unit_audit_select, slices_give_each_match_once_also_while_retention_removes_rows) {
    for (int64_t removed = -1; removed < 38; removed += 2) expect_slices((audit_filter_t){0}, removed, 40);
    for (int64_t removed = -1; removed < 12; removed += 2) {
        expect_slices((audit_filter_t){.queue = "b"}, removed, 14);
        expect_slices((audit_filter_t){.queue = "b", .since_ms = BASE_MS + 1, .until_ms = BASE_MS + 3}, removed, 5);
    }
    expect_slices((audit_filter_t){.job = "job-7"}, -1, 2);
    expect_slices((audit_filter_t){.job = "job-7"}, 0, 2);
}

/* Without an index, SQLite would sort all failures. */
Test(unit_audit_select, select_uses_an_index) {
    char *path = audit_case_path();
    audit_close(audit_case_open(path, AUDIT_WRITE));
    static const char *const wheres[] = {"", " AND queue = 'a'"};
    for (int i = 0; i < 2; i++) {
        char *sql = kept_printf("SELECT seq, at, queue, state, EXISTS (SELECT 1 FROM events AS later WHERE later.job = s.job "
                                "AND later.at > s.at AND later.queue = s.queue) FROM event_states AS s WHERE kind = 'failed'%s "
                                "ORDER BY at, queue, reason, seq LIMIT 9",
                                wheres[i]);
        char *plan = audit_case_plan(path, sql);
        cr_assert(strstr(plan, i ? "failures_queue" : "failures_at") && !strstr(plan, "TEMP B-TREE FOR ORDER BY") &&
                      strstr(plan, "events_job (job=? AND at>?)"),
                  "%s", plan);
    }
}
