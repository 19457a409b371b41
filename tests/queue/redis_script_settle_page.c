/* settle.lua with pages of many jobs: each job is answered for by itself. One bad job, wherever it stands, stays as it was and
 * keeps no other job back. */
#include "monitor/monitor_call.h"
#include "queue/scripts.h"

enum { MOST_JOBS = SETTLE_JOBS };

static const stamp_t OLD = {.born_us = 1700000000000001, .seen = 1700000000000};
static const stamp_t NEW = {.born_us = 1700000000000001, .retries = 1, .retried_at = 1700000000500};
static const settle_where_t WHERE = {.from = "email:backup", .ready = "email", .errors = "email:errors"};

typedef struct {
    fixture_t *f;
    size_t count, bad;
    bool ends;
    int64_t small; /* so many entries may be read at once */
    char names[MOST_JOBS][32];
    digest_t digests[MOST_JOBS];
    event_t events[MOST_JOBS];
    settle_where_t wheres[MOST_JOBS];
    settle_ask_t asks[MOST_JOBS];
    settled_t answers[MOST_JOBS];
} page_t;

/* Backup holds the jobs of the page, the first at the head, and one other job. */
static void page_lay_out(page_t *p) {
    redis_t *r = p->f->r;
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET sidecar:app:lock T");
    for (size_t i = 0; i < p->count; i++) {
        snprintf(p->names[i], sizeof p->names[i], "{\"id\":%zu}", i);
        slice_t job = slice_text(p->names[i]);
        slice_t payload = p->ends ? job : (slice_t){0};
        p->digests[i] = digest_of(job.data, job.len);
        p->events[i] = (event_t){.kind = slice_text(p->ends ? "failed" : "retried"),
                                 .dialect = slice_text("list"),
                                 .queue = slice_text("email"),
                                 .job = job,
                                 .payload = payload};
        stamp_raw_t new = stamp_pack(&NEW);
        if (p->ends) new.len = 0;
        p->wheres[i] = WHERE;
        p->asks[i] = (settle_ask_t){.job = job,
                                    .digest = &p->digests[i],
                                    .where = &p->wheres[i],
                                    .old = stamp_pack(&OLD),
                                    .new = new,
                                    .depth = 2048,
                                    .alone = SETTLE_EXACT_ENTRIES,
                                    .small = p->small,
                                    .report = "",
                                    .event = &p->events[i]};
        redis_ok(r, "RPUSH email:backup %s", p->names[i]);
        set_stamp(r, job, OLD);
    }
    redis_ok(r, "RPUSH email:backup other");
}

static bool page_settle(page_t *p, const char *token) {
    const settle_ask_t *asks[MOST_JOBS];
    settle_reply_t reply;
    const call_t call = fixture_call(p->f, token);
    for (size_t i = 0; i < p->count; i++) asks[i] = &p->asks[i];
    p->f->error = (redis_error_t){0};
    settle_append(&call, asks, p->count);
    return settle_read_answers(&call, p->count, p->answers, &reply);
}

static bool is_in_progress(const page_t *p, size_t i) {
    redis_t *r = p->f->r;
    slice_t job = slice_text(p->names[i]);
    return in_list(r, "email:backup", job) == 1 && in_list(r, "email", job) == 0 && same_stamp(stamp_of(r, job), OLD);
}

static bool is_settled(const page_t *p, size_t i) {
    redis_t *r = p->f->r;
    slice_t job = slice_text(p->names[i]);
    stamp_t stamp = stamp_of(r, job);
    bool stamped = p->ends ? stamp.born_us == 0 : same_stamp(stamp, NEW);
    return in_list(r, "email:backup", job) == 0 && in_list(r, "email", job) == !p->ends && stamped;
}

/* Each job but the bad one is settled, with one record; the bad one has this answer. */
static void expect_others(page_t *p, settled_t bad) {
    for (size_t i = 0; i < p->count; i++) {
        settled_t wanted = i == p->bad ? bad : SETTLED;
        cr_assert_eq(p->answers[i], wanted, "job %zu of %zu: %d, not %d", i, p->count, (int)p->answers[i], (int)wanted);
        if (i != p->bad) cr_assert(is_settled(p, i), "job %zu of %zu", i, p->count);
    }
    cr_assert_eq(redis_int(p->f->r, "XLEN sidecar:email:failures"), (long long)p->count - 1);
    cr_assert_eq(redis_int(p->f->r, "LLEN email"), p->ends ? 0 : (long long)p->count - 1);
    cr_assert_eq(in_list(p->f->r, "email:backup", slice_text("other")), 1);
}

/* A way to spoil one job. Returns the answer that the job then gets. */
typedef settled_t spoil_fn(page_t *p, size_t bad);

static settled_t spoil_stamp(page_t *p, size_t bad) {
    p->asks[bad].old = stamp_pack(&NEW);
    return SETTLED_CHANGED;
}

static settled_t spoil_report(page_t *p, size_t bad) {
    redis_ok(p->f->r, "HSET email:errors %s text", p->names[bad]);
    return SETTLED_CHANGED;
}

static settled_t spoil_heartbeat(page_t *p, size_t bad) {
    static char keys[MOST_JOBS][32];
    for (size_t i = 0; i < p->count; i++) {
        snprintf(keys[i], sizeof keys[i], "%zu_alive", i);
        p->asks[i].heartbeat = keys[i];
    }
    redis_ok(p->f->r, "SET %s me", keys[bad]);
    return SETTLED_ALIVE;
}

static settled_t spoil_type(page_t *p, size_t bad) {
    p->wheres[bad].ready = "not_a_list";
    redis_ok(p->f->r, "SET not_a_list x");
    return SETTLED_TYPE;
}

static settled_t spoil_place(page_t *p, size_t bad) { /* its worker has finished it */
    redis_ok(p->f->r, "LREM email:backup 1 %s", p->names[bad]);
    return SETTLED_GONE;
}

static settled_t spoil_record(page_t *p, size_t bad) { /* larger than the whole stream may be */
    static char large[2 << 20];
    memset(large, 'x', sizeof large);
    p->events[bad].reason = (slice_t){large, sizeof large};
    return SETTLED_FULL;
}

static fixture_t small_stream(void) {
    return fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; stream = { max_bytes = \"1MiB\"; }; queues = ( { name = \"email\"; } );"});
}

static settled_t spoil_bytes(page_t *p, size_t bad) { /* a second job has the same bytes */
    redis_ok(p->f->r, "LPUSH email:backup %s", p->names[bad]);
    p->asks[bad].alone = (int64_t)p->count + 1;
    return SETTLED_DUPLICATES;
}

/* Pages whose jobs are searched one by one, and pages for which the end of the list is read at once. */
static const struct {
    size_t count;
    int64_t small;
} PAGES[] = {{1, 0}, {2, 0}, {64, 0}, {MOST_JOBS, 0}, {8, 1000}, {64, 1000}, {MOST_JOBS, 1000}};
enum { PAGE_COUNT = sizeof PAGES / sizeof *PAGES };

/* Returns the number of pages that were settled. */
static int each_place(spoil_fn *spoil, bool retries_too) {
    fixture_t f = small_stream();
    page_t *p = kept(mem_alloc(sizeof *p));
    int pages = 0;
    p->f = &f;
    for (size_t n = 0; n < PAGE_COUNT; n++)
        for (int place = 0; place < 3; place++)
            for (int ends = retries_too ? 0 : 1; ends < 2; ends++) {
                p->count = PAGES[n].count;
                p->small = PAGES[n].small;
                p->bad = place == 0 ? 0 : place == 1 ? p->count / 2 : p->count - 1;
                p->ends = ends;
                page_lay_out(p);
                settled_t answer = spoil(p, p->bad);
                cr_assert(page_settle(p, "T"), "%s", f.error.text);
                expect_others(p, answer);
                if (spoil == spoil_bytes) redis_ok(f.r, "LREM email:backup 1 %s", p->names[p->bad]);
                if (spoil != spoil_place) cr_assert(is_in_progress(p, p->bad), "job %zu of %zu", p->bad, p->count);
                pages++;
            }
    fixture_stop(&f);
    return pages;
}

enum { PLACES = PAGE_COUNT * 3 };

Test(redis_script_settle_page, a_changed_stamp_keeps_one_job) { cr_assert_eq(each_place(spoil_stamp, true), 2 * PLACES); }
Test(redis_script_settle_page, a_new_report_keeps_one_job) { cr_assert_eq(each_place(spoil_report, true), 2 * PLACES); }
Test(redis_script_settle_page, a_heartbeat_keeps_one_job) { cr_assert_eq(each_place(spoil_heartbeat, true), 2 * PLACES); }
Test(redis_script_settle_page, a_key_of_the_wrong_type_keeps_one_job) { cr_assert_eq(each_place(spoil_type, true), 2 * PLACES); }
Test(redis_script_settle_page, a_finished_job_stays_away) { cr_assert_eq(each_place(spoil_place, true), 2 * PLACES); }
Test(redis_script_settle_page, equal_bytes_keep_one_ended_job) { cr_assert_eq(each_place(spoil_bytes, false), PLACES); }
static fixture_t f;
SUITE(redis_script_settle_page, f = small_stream(), fixture_stop(&f));

Test(redis_script_settle_page, a_record_without_room_keeps_one_ended_job) {
    cr_assert_eq(each_place(spoil_record, false), PLACES);
}

/* Two entries of the page have the same bytes, and so the same stamp: the second waits for the next scan. */
Test(redis_script_settle_page, equal_bytes_are_retried_once_and_not_ended) {
    page_t *p = kept(mem_alloc(sizeof *p));
    *p = (page_t){.f = &f, .count = 3, .bad = 2};
    for (int ends = 0; ends < 2; ends++) {
        p->ends = ends;
        page_lay_out(p);
        redis_ok(f.r, "LREM email:backup 1 %s", p->names[2]);
        redis_ok(f.r, "LPUSH email:backup %s", p->names[0]);
        p->asks[2] = p->asks[0];
        cr_assert(page_settle(p, "T"), "%s", f.error.text);
        cr_assert_eq(p->answers[0], ends ? SETTLED_DUPLICATES : SETTLED);
        cr_assert_eq(p->answers[1], SETTLED);
        cr_assert_eq(p->answers[2], ends ? SETTLED_DUPLICATES : SETTLED_CHANGED);
        cr_assert_eq(in_list(f.r, "email:backup", slice_text(p->names[0])), ends ? 2 : 1);
        cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), ends ? 1 : 2);
    }
    for (size_t i = 0; i < 3; i += 2) p->asks[i].alone = 0; /* end_duplicates: one for each call */
    cr_assert(page_settle(p, "T"), "%s", f.error.text);
    cr_assert(p->answers[0] == SETTLED && p->answers[2] == SETTLED_CHANGED, "%d %d", (int)p->answers[0], (int)p->answers[2]);
    cr_assert_eq(in_list(f.r, "email:backup", slice_text(p->names[0])), 1);
}

/* One LRANGE takes the place of an LPOS for each job. Large entries are not read: Redis would copy them. */
Test(redis_script_settle_page, the_end_of_a_list_is_read_once_if_its_entries_are_small) {
    static const struct {
        int64_t near, small;
        size_t first;
        bool ends, at_once;
    } cases[] = {{0, 1000, 0, false, true},       {0, 10, 0, false, false},     {0, 0, 0, false, false},
                 {132, 1000, 100, false, true},   {132, 50, 100, false, false}, {2000, 2500, 100, false, true},
                 {2000, 1900, 100, false, false}, {0, 1000, 0, true, true},     {0, 200, 0, true, false}};
    page_t *p = kept(mem_alloc(sizeof *p));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        *p = (page_t){.f = &f, .count = 32, .small = cases[c].small, .ends = cases[c].ends};
        page_lay_out(p);
        for (size_t i = 0; i < cases[c].first; i++) redis_ok(f.r, "LPUSH email:backup living%d", (int)i);
        for (size_t i = 0; i < p->count; i++) p->asks[i].near = cases[c].near;
        redis_ok(f.r, "CONFIG RESETSTAT");
        cr_assert(page_settle(p, "T"), "%s", f.error.text);
        cr_assert_eq(server_commandstat(f.server, "lrange"), cases[c].at_once, "case %zu", c);
        cr_assert_eq(server_commandstat(f.server, "lpos"), cases[c].at_once ? 0 : (long long)p->count, "case %zu", c);
        for (size_t i = 0; i < p->count; i++) cr_assert(is_settled(p, i), "case %zu, job %zu", c, i);
    }
    for (size_t count = 1; count <= 8; count += 7) { /* of one job: the request after a refusal of LRANGE */
        *p = (page_t){.f = &f, .count = count, .small = 1000, .ends = true};
        page_lay_out(p);
        redis_ok(f.r, "CONFIG RESETSTAT");
        cr_assert(page_settle(p, "T"), "%s", f.error.text);
        cr_assert_eq(server_commandstat(f.server, "lrange"), 0);
        cr_assert_eq(server_commandstat(f.server, "lpos"), (long long)count, "an ended job needs one search");
    }
}

/* Redis 6.2 has no acl_check_cmd: a script tries each write once on a scratch key. */
static int tries(void) { return server_major(f.server) < 7; }

/* Far from an end of the list one LREM removes all jobs, whose places LSET has marked; without the right to LSET there is one
 * LREM for each. Other entries and their order stay, and of equal entries the nearest to that end goes. */
Test(redis_script_settle_page, jobs_far_from_the_end_are_removed_at_once) {
    enum { COUNT = 32, LIVING = 300 };
    page_t *p = kept(mem_alloc(sizeof *p));
    for (int tail = 0; tail < 2; tail++)
        for (int right = 0; right < 2; right++) {
            *p = (page_t){.f = &f, .count = COUNT, .small = 1000};
            page_lay_out(p);
            redis_ok(f.r, "ACL SETUSER default +@all");
            redis_ok(f.r, "%s email:backup %s", tail ? "LPUSH" : "RPUSH", p->names[COUNT / 2]); /* a copy behind the job */
            for (int i = 0; i < LIVING; i++) redis_ok(f.r, "%s email:backup living%d", tail ? "RPUSH" : "LPUSH", i);
            for (size_t i = 0; i < COUNT; i++) {
                p->asks[i].near = LIVING + COUNT + 1;
                p->asks[i].from_tail = tail;
            }
            if (!right) redis_ok(f.r, "ACL SETUSER default -lset");
            redis_ok(f.r, "CONFIG RESETSTAT");
            cr_assert(page_settle(p, "T"), "%s", f.error.text);
            const long long sets = server_commandstat(f.server, "lset"), removals = server_commandstat(f.server, "lrem");
            const int tried = tries();
            cr_assert_eq(sets, right ? COUNT + tried : 0);
            cr_assert_eq(removals, (right ? 1 : COUNT) + tried);
            redis_ok(f.r, "ACL SETUSER default +lset");
            cr_assert_eq(redis_int(f.r, "LLEN email"), COUNT);
            cr_assert_eq(redis_int(f.r, "LLEN email:backup"), LIVING + 2);
            redis_expect(f.r, p->names[COUNT / 2], "LINDEX email:backup %d", tail ? 0 : -1);
            redis_expect(f.r, "other", "LINDEX email:backup %d", tail ? 1 : -2);
            for (int i = 0; i < LIVING; i++) {
                char living[16];
                snprintf(living, sizeof living, "living%d", i);
                redis_expect(f.r, living, "LINDEX email:backup %d", tail ? i + 2 : LIVING - 1 - i);
            }
        }
}

/* Workers that take from the left get the jobs of a page in the order in which others get them. */
Test(redis_script_settle_page, retries_have_the_same_order_from_either_end) {
    enum { COUNT = 32 };
    page_t *p = kept(mem_alloc(sizeof *p));
    char *order[2];
    for (int left = 0; left < 2; left++) {
        *p = (page_t){.f = &f, .count = COUNT, .small = 1000};
        page_lay_out(p);
        redis_ok(f.r, "LPUSH email waits");
        for (size_t i = 0; i < COUNT; i++) p->wheres[i].takes_left = left;
        cr_assert(page_settle(p, "T"), "%s", f.error.text);
        order[left] = redis_str(f.r, "EVAL %s 1 email %s",
                                "local taken = {} for i = 1, redis.call('LLEN', KEYS[1]) do "
                                "taken[i] = ARGV[1] == '1' and redis.call('LPOP', KEYS[1]) or redis.call('RPOP', KEYS[1]) end "
                                "return table.concat(taken, ' ')",
                                left ? "1" : "0");
    }
    cr_assert_str_eq(order[0], order[1]);
    cr_assert_str_eq(strrchr(order[1], ' '), " waits");
}

/* The stream takes three more records. Jobs without one keep their places. */
Test(redis_script_settle_page, a_stream_that_runs_out_of_ids_keeps_jobs_far_from_the_end) {
    enum { COUNT = 32, LIVING = 300, IDS = 3 };
    page_t *p = kept(mem_alloc(sizeof *p));
    *p = (page_t){.f = &f, .count = COUNT, .small = 1000, .ends = true};
    page_lay_out(p);
    redis_ok(f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551612 f v");
    for (int i = 0; i < LIVING; i++) redis_ok(f.r, "LPUSH email:backup living%d", i);
    for (size_t i = 0; i < COUNT; i++) p->asks[i].near = LIVING + COUNT + 1;
    redis_ok(f.r, "CONFIG RESETSTAT");
    cr_assert(page_settle(p, "T"), "%s", f.error.text);
    cr_assert_eq(server_commandstat(f.server, "lset"), IDS + tries());
    for (size_t i = 0; i < COUNT; i++) cr_assert(i < IDS ? is_settled(p, i) : is_in_progress(p, i), "job %zu", i);
    cr_assert_eq(redis_int(f.r, "LLEN email:backup"), LIVING + COUNT - IDS + 1);
}

/* The stream fills up in the middle of a page. Ends behind that wait; retries go on without a record. */
Test(redis_script_settle_page, a_stream_that_fills_up_takes_what_fits) {
    enum { COUNT = 64, FIT = 20, RECORD = 48 << 10 };
    static char large[RECORD];
    page_t *p = kept(mem_alloc(sizeof *p));
    *p = (page_t){.f = &f, .count = COUNT};
    memset(large, 'x', sizeof large);
    for (int ends = 0; ends < 2; ends++) {
        size_t settled = 0;
        p->ends = ends;
        page_lay_out(p);
        for (size_t i = 0; i < COUNT; i++) p->events[i].reason = (slice_t){large, sizeof large};
        cr_assert(page_settle(p, "T"), "%s", f.error.text);
        for (size_t i = 0; i < COUNT; i++) {
            settled += p->answers[i] == SETTLED;
            cr_assert_eq(p->answers[i], i < settled ? SETTLED : ends ? SETTLED_FULL : SETTLED_UNRECORDED, "job %zu", i);
            cr_assert(p->answers[i] == SETTLED_FULL ? is_in_progress(p, i) : is_settled(p, i), "job %zu", i);
        }
        cr_assert(settled >= FIT && settled < COUNT, "%zu records", settled);
        cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), (long long)settled);
        char *bytes = redis_str(f.r, "HGET sidecar:email:meta bytes"),
             *entries = redis_str(f.r, "HGET sidecar:email:meta entries");
        cr_assert_leq(strtoll(bytes, NULL, 10), 1 << 20);
        cr_assert_eq(strtoull(entries, NULL, 10), settled);
        cr_assert_eq(redis_int(f.r, "EVAL %s 2 sidecar:email:failures sidecar:email:meta",
                               "return #redis.call('XRANGE', KEYS[1], redis.call('HGET', KEYS[2], 'last'), '+')"),
                     1);
    }
}

Test(redis_script_settle_page, another_leader_keeps_every_job) {
    page_t *p = kept(mem_alloc(sizeof *p));
    *p = (page_t){.f = &f, .count = MOST_JOBS};
    for (int ends = 0; ends < 2; ends++) {
        p->ends = ends;
        page_lay_out(p);
        char *before = fixture_digest(f.r);
        cr_assert_not(page_settle(p, "S"));
        cr_assert_eq(f.error.outcome, OUTCOME_FENCED, "%s", f.error.text);
        redis_expect(f.r, before, "DEBUG DIGEST");
    }
}

Test(redis_script_settle_page, jobs_of_several_lists_share_a_page) {
    static char lists[8][24];
    page_t *p = kept(mem_alloc(sizeof *p));
    *p = (page_t){.f = &f, .count = 64};
    page_lay_out(p);
    for (size_t i = 0; i < p->count; i++) {
        snprintf(lists[i % 8], sizeof lists[0], "queue-%zu", i % 8);
        p->wheres[i].from = lists[i % 8];
        redis_ok(f.r, "LREM email:backup 1 %s", p->names[i]);
        redis_ok(f.r, "RPUSH %s %s", lists[i % 8], p->names[i]);
    }
    cr_assert(page_settle(p, "T"), "%s", f.error.text);
    for (size_t i = 0; i < p->count; i++) cr_assert_eq(p->answers[i], SETTLED, "job %zu", i);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 64);
    for (size_t i = 0; i < 8; i++) cr_assert_eq(redis_int(f.r, "EXISTS %s", lists[i]), 0);
}
