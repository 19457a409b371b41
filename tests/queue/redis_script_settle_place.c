/* settle.lua with jobs that a scan has read in place: it reads only the entries around them, and removes them from the middle of
 * a long list without a search. */
#include "monitor/monitor_call.h"
#include "queue/scripts.h"
#include "rights.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 2000, JOBS = 8, DRIFT = 32, RISE = 8 };

static const stamp_t OLD = {.born_us = 1700000000000001, .seen = 1700000000000};
static const stamp_t NEW = {.born_us = 1700000000000001, .retries = 1, .retried_at = 1700000000500};
static const settle_where_t WHERE = {.from = "email:backup", .ready = "email", .errors = "email:errors"};

/* Jobs of the list "0", "1", ... from the tail to the head. */
typedef struct {
    fixture_t f;
    size_t count;
    bool ends;
    char names[JOBS][24];
    digest_t digests[JOBS];
    event_t events[JOBS];
    settle_ask_t asks[JOBS];
    settled_t answers[JOBS];
    settle_reply_t reply;
} place_case_t;

static place_case_t c;

static void begin(void) { c = (place_case_t){.f = fixture_start(NULL)}; }
static void end(void) { fixture_stop(&c.f); }

TestSuite(redis_script_settle_place, .init = begin, .fini = end);

static void lay_out(bool ends) {
    redis_ok(c.f.r, "FLUSHALL");
    redis_ok(c.f.r, "SET sidecar:app:lock T");
    redis_ok(c.f.r, "EVAL %s 1 email:backup %d", "for i = 0, ARGV[1] - 1 do redis.call('LPUSH', KEYS[1], i) end", LONG);
    c.count = 0;
    c.ends = ends;
}

/* Asks for the job `number`, which the scan has seen behind `at` entries. */
static void ask(int number, int at) {
    size_t i = c.count++;
    snprintf(c.names[i], sizeof c.names[i], "%d", number);
    slice_t job = slice_text(c.names[i]);
    stamp_raw_t new = stamp_pack(&NEW);
    if (c.ends) new.len = 0;
    c.digests[i] = digest_of(job.data, job.len);
    c.events[i] = (event_t){.kind = slice_text(c.ends ? "failed" : "retried"),
                            .dialect = slice_text("list"),
                            .queue = slice_text("email"),
                            .job = job,
                            .payload = c.ends ? job : (slice_t){0}};
    c.asks[i] = (settle_ask_t){.job = job,
                               .digest = &c.digests[i],
                               .where = &WHERE,
                               .old = stamp_pack(&OLD),
                               .new = new,
                               .in_place = true,
                               .from_tail = true,
                               .depth = 2048,
                               .alone = SETTLE_EXACT_ENTRIES,
                               .skip = at > DRIFT ? at - DRIFT : 0,
                               .near = at + 1 + RISE,
                               .small = 1000,
                               .report = "",
                               .event = &c.events[i]};
    set_stamp(c.f.r, job, OLD);
}

static void settle(void) {
    const settle_ask_t *asks[JOBS];
    const call_t call = fixture_call(&c.f, "T");
    for (size_t i = 0; i < c.count; i++) asks[i] = &c.asks[i];
    c.f.error = (redis_error_t){0};
    redis_ok(c.f.r, "CONFIG RESETSTAT");
    settle_append(&call, asks, c.count);
    cr_assert(settle_read_answers(&call, c.count, c.answers, &c.reply), "%s", c.f.error.text);
}

static void expect_all(settled_t answer) {
    for (size_t i = 0; i < c.count; i++) cr_assert_eq(c.answers[i], answer, "job %s: %d", c.names[i], (int)c.answers[i]);
}

/* Each other job is there once. */
static void expect_rest(void) {
    redisReply *list = redis_do(c.f.r, "LRANGE email:backup 0 -1");
    static int found[LONG];
    memset(found, 0, sizeof found);
    cr_assert_eq(list->elements, LONG - c.count);
    for (size_t i = 0; i < list->elements; i++) found[atoi(list->element[i]->str)]++;
    for (size_t i = 0; i < c.count; i++) cr_assert_eq(found[atoi(c.names[i])]++, 0, "job %s is still there", c.names[i]);
    for (int i = 0; i < LONG; i++) cr_assert_eq(found[i], 1, "job %d", i);
    freeReplyObject(list);
}

static void expect_settled(void) {
    expect_all(SETTLED);
    expect_rest();
    cr_assert_eq(redis_int(c.f.r, "LLEN email"), c.ends ? 0 : (long long)c.count);
    cr_assert_eq(redis_int(c.f.r, "XLEN sidecar:email:failures"), (long long)c.count);
}

Test(redis_script_settle_place, jobs_in_the_middle_are_removed_by_their_places) {
    for (int ends = 0; ends < 2; ends++) {
        lay_out(ends);
        for (int i = 0; i < JOBS; i++) ask(900 + 30 * i, 900 + 30 * i);
        settle();
        const long long searches = server_commandstat(c.f.server, "lpos");
        expect_settled();
        cr_assert_eq(c.reply.replaced, JOBS);
        cr_assert_eq(searches, ends ? JOBS : 0, "only an ended job needs a search, at the head");
        for (int i = 0; i < JOBS; i++)
            cr_assert_eq(redis_int(c.f.r, "LPOS email:backup %d", i), LONG - 1 - 900 - 30 * i, "entry %d of the tail", i);
    }
}

/* The last entries of the list, which take the places of other jobs, are jobs of the call themselves. */
Test(redis_script_settle_place, jobs_at_the_tail_and_behind_it_are_removed) {
    lay_out(false);
    for (int i = 0; i < JOBS; i++) ask(i % 2 ? 40 + i : i, i % 2 ? 40 + i : i);
    settle();
    expect_settled();
    cr_assert_not(c.reply.replaced, "near the tail LREM finds the jobs");
    lay_out(false);
    redis_ok(c.f.r, "LTRIM email:backup %d -1", LONG - 50);
    for (int i = 0; i < JOBS; i++) ask(40 + i, 40 + i);
    redis_ok(c.f.r, "LTRIM email:backup 0 %d", 50 - 1 - 31); /* workers have finished the 31 last jobs */
    settle();
    expect_all(SETTLED);
    cr_assert(c.reply.replaced);
    cr_assert_eq(redis_int(c.f.r, "LLEN email:backup"), 19 - JOBS);
    for (int i = 31; i < 50; i++) {
        char job[8];
        snprintf(job, sizeof job, "%d", i);
        cr_assert_eq(in_list(c.f.r, "email:backup", slice_text(job)), i < 40 || i >= 48, "job %d", i);
    }
}

Test(redis_script_settle_place, jobs_near_the_tail_are_removed_in_any_order) {
    lay_out(false);
    for (int i = JOBS - 1; i >= 0; i--) ask(34 + i, 34 + i);
    redis_ok(c.f.r, "LTRIM email:backup 0 %d", LONG - 1 - 31); /* workers have finished the 31 last jobs */
    settle();
    expect_all(SETTLED);
    cr_assert(c.reply.replaced);
    cr_assert_eq(redis_int(c.f.r, "LLEN email:backup"), LONG - 31 - JOBS);
    for (int i = 31; i < 50; i++)
        cr_assert_eq(in_list(c.f.r, "email:backup", slice_text(kept_printf("%d", i))), i < 34 || i >= 34 + JOBS, "job %d", i);
}

/* Redis never splits a node of a list, so a large entry in the place of a small one would make each later search slow. */
Test(redis_script_settle_place, no_large_entry_takes_the_place_of_a_small_job) {
    lay_out(false);
    redis_ok(c.f.r, "EVAL %s 1 email:backup",
             "for i = 1, 3 do redis.call('RPUSH', KEYS[1], string.rep(i, 200)) end redis.call('RPUSH', KEYS[1], 'small')");
    for (int i = 0; i < JOBS; i++) ask(900 + i, 904 + i);
    settle();
    expect_all(SETTLED);
    cr_assert_eq(c.reply.replaced, 1, "so the list closed up behind the other jobs");
    cr_assert_eq(redis_int(c.f.r, "LPOS email:backup small"), LONG - 1 - 900 - (JOBS - 1),
                 "the small entry has taken the place of one job");
    for (int i = 1; i <= 3; i++) {
        char large[201];
        memset(large, '0' + i, 200);
        large[200] = '\0';
        redis_expect(c.f.r, large, "LINDEX email:backup %d", i - 4);
    }
    redis_ok(c.f.r, "LREM email:backup 1 small");
    redis_ok(c.f.r, "LTRIM email:backup 0 -4");
    expect_rest();
}

Test(redis_script_settle_place, jobs_that_moved_are_found) {
    lay_out(false);
    for (int i = 0; i < JOBS; i++) ask(900 + i, 900 + i + 25); /* 25 jobs nearer to the tail are finished */
    settle();
    expect_settled();
    lay_out(false);
    for (int i = 0; i < JOBS; i++) ask(900 + i, 900 + i - RISE); /* others came to the tail */
    settle();
    expect_settled();
}

/* The next scan knows the new place. A search of the list would take Redis milliseconds. */
Test(redis_script_settle_place, a_job_that_moved_far_waits_for_the_next_scan) {
    lay_out(true);
    for (int i = 0; i < JOBS; i++) ask(900 + i, 1000 + i);
    settle();
    expect_all(SETTLED_GONE);
    cr_assert_eq(redis_int(c.f.r, "LLEN email:backup"), LONG);
    cr_assert_eq(server_commandstat(c.f.server, "lpos"), 0);
    cr_assert_eq(redis_int(c.f.r, "EXISTS sidecar:email:failures"), 0);
}

/* Workers have just taken a copy, which no scan has met. */
Test(redis_script_settle_place, a_new_copy_at_the_head_keeps_an_ended_job) {
    lay_out(true);
    ask(900, 900);
    ask(901, 901);
    redis_ok(c.f.r, "LPUSH email:backup 900");
    settle();
    cr_assert(c.answers[0] == SETTLED_DUPLICATES && c.answers[1] == SETTLED, "%d %d", (int)c.answers[0], (int)c.answers[1]);
    lay_out(true);
    redis_ok(c.f.r, "LINSERT email:backup BEFORE 905 900"); /* and a copy beside it */
    ask(900, 900);
    settle();
    expect_all(SETTLED_DUPLICATES);
    lay_out(true);
    ask(LONG - 1, LONG - 1); /* the job itself is at the head */
    settle();
    expect_settled();
    lay_out(false);
    redis_ok(c.f.r, "LPUSH email:backup 900");
    ask(900, 900);
    settle();
    expect_all(SETTLED); /* a copy is retried */
}

Test(redis_script_settle_place, without_the_right_to_lset_jobs_are_searched) {
    lay_out(false);
    for (int i = 0; i < JOBS; i++) ask(900 + i, 900 + i);
    redis_ok(c.f.r, "ACL SETUSER default -lset");
    settle();
    redis_ok(c.f.r, "ACL SETUSER default +lset");
    expect_settled();
    cr_assert_not(c.reply.replaced);
}

/* The stream has no id for the last jobs. They keep their places. */
Test(redis_script_settle_place, a_stream_that_runs_out_of_ids_keeps_jobs) {
    enum { IDS = 3 };
    lay_out(true);
    redis_ok(c.f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551612 f v");
    for (int i = 0; i < JOBS; i++) ask(900 + i, 900 + i);
    settle();
    for (size_t i = 0; i < JOBS; i++) cr_assert_eq(c.answers[i], i < IDS ? SETTLED : SETTLED_FULL, "job %zu", i);
    c.count = IDS;
    expect_rest();
}
