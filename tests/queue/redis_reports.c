/* reports_scan reads every report with its job. No request returns more bytes than the limit. */
#include "monitor/monitor_call.h"

#include <stdio.h>
#include <stdlib.h>

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

Test(redis_reports, large_jobs_come_one_by_one_and_small_ones_together) {
    fixture_t f = fixture_start(NULL);
    char *job = malloc(LARGE);
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
    free(job);
    fixture_stop(&f);
}

static void note_last(void *self, const report_ref_t *report) {
    report_ref_t *last = self;
    cr_assert_null(last->id);
    *last = (report_ref_t){.id = strdup(report->id), .ends = report->ends, .large = report->large};
}

/* Returns the only report; its id is owned. */
static report_ref_t only_report(fixture_t *f, const char *text, size_t len) {
    reports_walk_t walk = {0};
    const call_t call = fixture_call(f, NULL);
    report_ref_t report = {0};
    redis_ok(f->r, "HSET email:errors job %b", text, len);
    while (!walk.ended) cr_assert_eq(reports_scan(&call, &walk, note_last, &report), OUTCOME_OK, "%s", f->error.text);
    cr_assert_eq(walk.count, len > 1 << 20 ? 1 : 16, "after a large text, Redis reads one report a request");
    return report;
}

Test(redis_reports, a_large_text_is_known_by_its_head_and_its_length) {
    enum { HEAD = 65536, LONG = 2 << 20 };
    fixture_t f = fixture_start(NULL);
    char *text = malloc(LONG);
    memset(text, '!', LONG);
    report_ref_t whole = only_report(&f, text, HEAD), large = only_report(&f, text, LONG),
                 shorter = only_report(&f, text, LONG - 1);
    text[HEAD] = 'x';
    report_ref_t tail = only_report(&f, text, LONG);
    text[HEAD - 1] = 'x';
    report_ref_t head = only_report(&f, text, LONG);
    cr_assert(whole.ends && strlen(whole.id) == 40 && whole.large == 0);
    cr_assert(large.ends && strncmp(large.id, whole.id, 40) == 0 && large.large == LONG && shorter.large == LONG - 1);
    cr_assert(strcmp(large.id, shorter.id) && strcmp(large.id, head.id) && strcmp(large.id, tail.id) == 0);
    const report_ref_t *const all[] = {&whole, &large, &shorter, &tail, &head};
    for (size_t i = 0; i < 5; i++) free((char *)all[i]->id);
    free(text);
    fixture_stop(&f);
}

/* HSCAN returns a hash in compact encoding as a whole, even if its jobs are large. */
Test(redis_reports, reports_of_one_step_are_read_in_parts) {
    fixture_t f = fixture_start(NULL);
    char *job = malloc(LARGE);
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
    freeReplyObject(all);
    cr_assert_geq(walk_all(&f, &seen, 0), LARGES / 2);
    cr_assert(seen.smalls == 5 && seen.larges == LARGES, "%d, %d", seen.smalls, seen.larges);
    free(job);
    fixture_stop(&f);
}

/* Reads a page of one end; returns its jobs, "a b c", the nearest to the tail first; owned. */
static char *end_of(fixture_t *f, bool tail, size_t skip, size_t count, bool ended) {
    static backup_page_t page;
    backup_status_t status = {.config = f->keys->queues[0].config};
    const call_t call = fixture_call(f, NULL);
    buffer_t text = {0};
    backup_page_clear(&page);
    cr_assert_eq(backup_end_read(&call, &status, tail, skip, count, &page), OUTCOME_OK, "%s", f->error.text);
    cr_assert_eq(page.ended, ended);
    for (size_t i = 0; i < page.count; i++)
        buffer_printf(&text, "%.*s ", (int)page.entries[i].bytes.len, page.entries[i].bytes.data);
    backup_page_clear(&page);
    return text.data ? text.data : mem_str("");
}

static void expect_end(fixture_t *f, bool tail, size_t skip, size_t count, bool ended, const char *expected) {
    char *found = end_of(f, tail, skip, count, ended);
    cr_assert_str_eq(found, expected);
    free(found);
}

Test(redis_list_end, returns_the_entries_of_one_end) {
    fixture_t f = fixture_start(NULL);
    expect_end(&f, false, 0, 3, true, "");
    redis_ok(f.r, "RPUSH email:backup a b c d e");
    expect_end(&f, false, 0, 2, false, "b a ");
    expect_end(&f, false, 2, 2, false, "d c ");
    expect_end(&f, false, 3, 5, true, "e d ");
    expect_end(&f, true, 0, 2, false, "e d ");
    expect_end(&f, true, 2, 2, false, "c b ");
    expect_end(&f, true, 3, 5, true, "b a ");
    expect_end(&f, true, 9, 5, true, "");
    fixture_stop(&f);
}

Test(redis_list_end, returns_many_entries_in_order) {
    static backup_page_t page;
    fixture_t f = fixture_start(NULL);
    backup_status_t status = {.config = f.keys->queues[0].config};
    const call_t call = fixture_call(&f, NULL);
    redis_ok(f.r, "EVAL %s 1 email:backup", "for i = 0, 999 do redis.call('RPUSH', KEYS[1], i) end");
    for (int tail = 0; tail < 2; tail++) {
        cr_assert_eq(backup_end_read(&call, &status, tail, 100, 256, &page), OUTCOME_OK);
        cr_assert_eq(page.count, 256);
        for (int i = 0; i < 256; i++)
            cr_assert_eq(strtol(page.entries[i].bytes.data, NULL, 10), tail ? 899 - i : 355 - i, "tail %d, entry %d", tail, i);
        backup_page_clear(&page);
    }
    fixture_stop(&f);
}

Test(redis_list_end, large_entries_end_a_reply) {
    static backup_page_t page;
    fixture_t f = fixture_start(NULL);
    backup_status_t status = {.config = f.keys->queues[0].config};
    const call_t call = fixture_call(&f, NULL);
    redis_ok(f.r, "EVAL %s 1 email:backup %d", "for i = 1, 100 do redis.call('RPUSH', KEYS[1], string.rep('x', ARGV[1])) end",
             LARGE);
    cr_assert_eq(backup_end_read(&call, &status, false, 0, 256, &page), OUTCOME_OK);
    cr_assert_leq(page.count, 8);
    cr_assert_not(page.ended);
    backup_page_clear(&page);
    fixture_stop(&f);
}
