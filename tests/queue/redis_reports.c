/* reports_scan reads every report with its job. No request returns more bytes than the limit. */
#include "dialects/registry.h"
#include "monitor/monitor_call.h"
#include "queue/report_end.h"
#include "queue/scripts.h"

enum { LARGE = 700000, LARGES = 24, SMALLS = 600, MOST = (1 << 20) + LARGE + SMALLS };

typedef struct {
    int smalls, larges;
    unsigned met; /* one bit for each large job that came */
    size_t bytes; /* bytes of the current reply */
} seen_t;

static void note(void *self, const report_ref_t *report) {
    seen_t *seen = self;
    seen->bytes += report->job.len;
    cr_assert_eq(strlen(report->id), 40);
    if (report->job.len < LARGE) {
        seen->smalls++;
        return;
    }
    unsigned bit = 1u << (report->job.data[0] - 'a');
    cr_assert_not(seen->met & bit, "each report comes once");
    cr_assert_eq(report->ends, report->job.data[0] == 'a');
    seen->met |= bit;
    seen->larges++;
}

/* Reads all reports; returns the number of requests. */
static int walk_all(fixture_t *f, seen_t *seen, int count) {
    reports_walk_t walk = {.count = count};
    const call_t call = fixture_call(f, NULL);
    int requests = 0;
    *seen = (seen_t){0};
    while (!walk.ended) {
        seen->bytes = 0;
        cr_assert_eq(reports_scan(&call, &walk, note, seen), OUTCOME_OK, "%s", f->error.text);
        cr_assert_leq(seen->bytes, MOST);
        cr_assert_lt(++requests, 10 * SMALLS, "the walk ends");
    }
    return requests;
}

static fixture_t f;
SUITE(redis_reports, f = fixture_start(NULL), fixture_stop(&f));
TestSuite(redis_list_end, .init = suite_start, .fini = suite_stop);

Test(redis_reports, large_jobs_come_one_by_one_and_small_ones_together) {
    char *job = kept(malloc(LARGE));
    seen_t seen;
    memset(job, 'x', LARGE);
    cr_assert_eq(walk_all(&f, &seen, 0), 1);
    for (int i = 0; i < SMALLS; i++) redis_ok(f.r, "HSET email:errors small%d x", i);
    int small = walk_all(&f, &seen, 0);
    cr_assert_eq(seen.smalls, SMALLS);
    cr_assert_lt(small, SMALLS / 8);
    redis_ok(f.r, "DEL email:errors");
    redis_ok(f.r, "HSET email:errors one x two x");
    for (int i = 0; i < LARGES; i++) {
        job[0] = (char)('a' + i);
        redis_ok(f.r, "HSET email:errors %b %s", job, (size_t)LARGE, i ? "x" : "!x");
    }
    for (int count = 0; count < 2; count++) {
        walk_all(&f, &seen, count);
        cr_assert(seen.smalls == 2 && seen.larges == LARGES, "%d, %d", seen.smalls, seen.larges);
    }
}

static void note_last(void *self, const report_ref_t *report) {
    report_ref_t *last = self;
    cr_assert_null(last->id);
    *last = (report_ref_t){.id = strdup(report->id), .ends = report->ends, .large = report->large};
}

/* Returns the only report; its id is owned. */
static report_ref_t only_report(const char *text, size_t len) {
    reports_walk_t walk = {0};
    const call_t call = fixture_call(&f, NULL);
    report_ref_t report = {0};
    redis_ok(f.r, "HSET email:errors job %b", text, len);
    while (!walk.ended) cr_assert_eq(reports_scan(&call, &walk, note_last, &report), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(walk.count, len > 1 << 20 ? 1 : 64, "after a large text, Redis reads one report a request");
    return report;
}

Test(redis_reports, a_large_text_is_known_by_its_head_and_its_length) {
    enum { HEAD = 65536, LONG = 2 << 20 };
    char *text = kept(malloc(LONG));
    memset(text, '!', LONG);
    report_ref_t whole = only_report(text, HEAD), large = only_report(text, LONG), shorter = only_report(text, LONG - 1);
    text[HEAD] = 'x';
    report_ref_t tail = only_report(text, LONG);
    text[HEAD - 1] = 'x';
    report_ref_t head = only_report(text, LONG);
    cr_assert(whole.ends && strlen(whole.id) == 40 && whole.large == 0);
    cr_assert(large.ends && strncmp(large.id, whole.id, 40) == 0 && large.large == LONG && shorter.large == LONG - 1);
    cr_assert(strcmp(large.id, shorter.id) && strcmp(large.id, head.id) && strcmp(large.id, tail.id) == 0);
    const report_ref_t *const all[] = {&whole, &large, &shorter, &tail, &head};
    for (size_t i = 0; i < 5; i++) free((char *)all[i]->id);
}

/* HSCAN returns a hash in compact encoding as a whole, even if its jobs are large. */
Test(redis_reports, reports_of_one_step_are_read_in_parts) {
    char *job = kept(malloc(LARGE));
    seen_t seen;
    redis_ok(f.r, "CONFIG SET hash-max-ziplist-value %d", 2 * LARGE);
    memset(job, 'x', LARGE);
    for (int i = 0; i < LARGES; i++) {
        job[0] = (char)('a' + i);
        redis_ok(f.r, "HSET email:errors %b %s", job, (size_t)LARGE, i ? "x" : "!x");
        if (i % 5 == 0) redis_ok(f.r, "HSET email:errors small%d x", i);
    }
    redisReply *all = redis_do(f.r, "HSCAN email:errors 0 COUNT 1");
    cr_assert_eq(all->element[1]->elements, 2 * (LARGES + 5), "one HSCAN returns all reports");
    cr_assert_geq(walk_all(&f, &seen, 0), LARGES / 2);
    cr_assert(seen.smalls == 5 && seen.larges == LARGES, "%d, %d", seen.smalls, seen.larges);
}

static backup_page_t page; /* of the last read */
static report_end_t end;

static void read_end(bool tail, size_t skip, size_t count) {
    backup_status_t status = {.config = f.keys->queues[0].config, .rotation = dialect_list.scan->rotation};
    const call_t call = fixture_call(&f, NULL);
    end.tail = tail;
    end.skip = skip;
    end.count = count;
    backup_page_clear(&page);
    cr_assert_eq(report_end_read(&call, &status, &end, &page), OUTCOME_OK, "%s", f.error.text);
}

/* The jobs of the page are "a b c ", the nearest to the tail first. */
static void expect_end(bool tail, size_t skip, size_t count, bool ended, const char *expected) {
    scoped(buffer_free) buffer_t text = {0};
    read_end(tail, skip, count);
    cr_assert_eq(page.ended, ended);
    for (size_t i = 0; i < page.count; i++) {
        slice_t job = page.entries[i].bytes;
        buffer_printf(&text, "%.*s ", (int)job.len, job.data);
        cr_assert(end.reports[i].job.data == job.data && end.reports[i].job.len == job.len);
    }
    cr_assert_str_eq(text.data ? text.data : "", expected);
    backup_page_clear(&page);
}

Test(redis_list_end, returns_the_reported_jobs_of_one_end) {
    expect_end(false, 0, 3, true, "");
    redis_ok(f.r, "RPUSH email:backup a b c d e");
    expect_end(false, 0, 3, false, "");
    cr_assert(end.read == 3 && end.bytes == 3 && end.largest == 1);
    redis_ok(f.r, "HSET email:errors a x b x c x d x e x f x");
    expect_end(false, 0, 2, false, "b a ");
    expect_end(false, 2, 2, false, "d c ");
    expect_end(false, 3, 5, true, "e d ");
    cr_assert(end.read == 2 && end.bytes == 2);
    expect_end(true, 0, 2, false, "e d ");
    expect_end(true, 2, 2, false, "c b ");
    expect_end(true, 3, 5, true, "b a ");
    expect_end(true, 9, 5, true, "");
    redis_ok(f.r, "HDEL email:errors b d");
    expect_end(false, 0, 5, false, "e c a ");
    expect_end(true, 1, 4, false, "c a ");
    cr_assert(end.read == 4 && end.bytes == 4);
}

Test(redis_list_end, returns_many_jobs_in_order) {
    redis_ok(f.r, "EVAL %s 2 email:backup email:errors",
             "for i = 0, 999 do redis.call('RPUSH', KEYS[1], i) "
             "if i % 3 == 0 then redis.call('HSET', KEYS[2], i, 'boom') end end");
    for (int tail = 0; tail < 2; tail++) {
        read_end(tail, 100, 256);
        cr_assert_eq(end.read, 256);
        int last = tail ? 900 : 357;
        for (size_t i = 0; i < page.count; i++, last -= 3)
            cr_assert_eq(strtol(page.entries[i].bytes.data, NULL, 10), last - 3, "tail %d, entry %zu", tail, i);
        cr_assert(page.count >= 85 && page.count <= 86);
        backup_page_clear(&page);
    }
}

/* A settle compares the id, so both scripts must make the same. */
Test(redis_list_end, tells_of_a_report_what_a_walk_tells) {
    enum { LONG = 2 << 20 };
    static const size_t lens[] = {0, 1, 65536, 65537, LONG};
    char *text = kept(malloc(LONG));
    memset(text, '!', LONG);
    redis_ok(f.r, "RPUSH email:backup job");
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        report_ref_t walked = only_report(text, lens[i]);
        read_end(i % 2, 0, 8);
        cr_assert_eq(page.count, 1);
        cr_assert_str_eq(end.reports[0].id, walked.id);
        cr_assert(end.reports[0].ends == walked.ends && end.reports[0].large == walked.large);
        free((char *)walked.id);
        backup_page_clear(&page);
    }
}

/* Small entries tell little about those behind them. */
Test(redis_list_end, steps_stay_short_where_large_texts_are_known) {
    enum { SMALL = 15 };
    redis_ok(f.r, "EVAL %s 2 email:backup email:errors %d %d",
             "for i = 1, 100 do redis.call('RPUSH', KEYS[1], i) "
             "redis.call('HSET', KEYS[2], i, string.rep('x', i <= tonumber(ARGV[1]) and 1 or ARGV[2])) end",
             SMALL, LARGE);
    for (int i = 0; i < 3; i++) {
        end.large = i > 0;
        if (i == 2) redis_ok(f.r, "ACL SETUSER default -hstrlen");
        read_end(false, 0, 256);
        cr_assert(end.read > SMALL && end.read <= SMALL + (i < 2 ? 1 : 8), "%zu entries", end.read);
        backup_page_clear(&page);
    }
}

/* Redis copies texts for the script, although the reply does not have them. */
Test(redis_list_end, large_jobs_and_large_texts_end_a_reply) {
    static const char *const loads[] = {
        "redis.call('RPUSH', KEYS[1], i .. string.rep('x', ARGV[1]))",
        "redis.call('RPUSH', KEYS[1], i) redis.call('HSET', KEYS[2], i, string.rep('x', ARGV[1]))"};
    for (int i = 0; i < 2; i++) {
        char *script = kept_printf("for i = 1, 100 do %s end", loads[i]);
        redis_ok(f.r, "DEL email:backup email:errors");
        redis_ok(f.r, "EVAL %s 2 email:backup email:errors %d", script, LARGE);
        for (int large = 0; large < 2; large++) {
            end.large = large;
            read_end(false, 0, 256);
            cr_assert(end.read >= 1 && end.read <= (large || i == 1 ? 1 : 8), "%zu entries", end.read);
            if (i == 0) cr_assert_eq(end.largest, LARGE + 1);
            cr_assert_not(page.ended);
            backup_page_clear(&page);
        }
    }
}

/* The flag and the entries of a reply of list_page.lua; kept. */
static const char *page_of(const fixture_t *of, const char *arguments) {
    size_t len;
    const char *text = fixture_script(&script_list_page, &len);
    redisReply *reply = redis_do(of->r, kept_printf("EVAL %%b 1 email:backup %s", arguments), text, len);
    const char *out = reply->element[0]->integer ? "1" : "0";
    for (size_t i = 1; i < reply->elements; i++) out = kept_printf("%s %.4s", out, reply->element[i]->str);
    return out;
}

Test(redis_list_end, a_page_is_limited_by_count_and_bytes) {
    redis_ok(f.r, "DEL email:backup");
    redis_ok(f.r, "EVAL %s 1 email:backup", "for i = 1, 9 do redis.call('LPUSH', KEYS[1], i .. string.rep('x', 99)) end");
    cr_assert_str_eq(page_of(&f, "0 3 8 9999 1"), "0 1xxx 2xxx 3xxx");
    cr_assert_str_eq(page_of(&f, "7 9 8 9999 1"), "1 8xxx 9xxx", "the list has no entry beyond");
    cr_assert_str_eq(page_of(&f, "0 9 8 250 1"), "0 1xxx 2xxx 3xxx", "the entry that exceeds the limit is the last one");
    cr_assert_str_eq(page_of(&f, "2 9 1 1 1"), "0 3xxx", "at least one");
    cr_assert_str_eq(page_of(&f, "2 9 1 1 2"), "0 3xxx 4xxx", "the first one is known");
    cr_assert_str_eq(page_of(&f, "9 9 8 9999 1"), "1");
    cr_assert_str_eq(page_of(&f, "0 9 2 9999 1"), "0 1xxx 2xxx 3xxx 4xxx 5xxx 6xxx 7xxx 8xxx 9xxx");
}
