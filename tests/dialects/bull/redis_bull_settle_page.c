/* bull_settle.lua with pages of many jobs: each job is answered for by itself. One bad job, wherever it stands, stays as it was
 * and keeps no other job back. */
#include "bull_call.h"
#include "dialects/bull/scripts.h"

#define META     "sidecar:video:meta"
#define RECORDED "sidecar:video:recorded"
#define STREAM   "sidecar:video:failures"

enum { MOST_JOBS = 128, HEAD_KEYS = 10, MAX_WORDS = 20 + MOST_JOBS * 16, WORD = 64 };

/* The jobs of a call. The first is the nearest to the tail of active, as a check reads them. */
typedef struct {
    redis_t *r;
    size_t count, bad;
    const char *flags, *most;
    long long from, to; /* 0 = the script does not know where the jobs are */
    char ids[MOST_JOBS][WORD];
    const char *counters[MOST_JOBS], *records[MOST_JOBS];
    const char *answers[MOST_JOBS]; /* of the last call; an error is its text */
    redisReply *reply;
} page_t;

static void page_lay_out(page_t *p) {
    redis_ok(p->r, "FLUSHALL");
    redis_ok(p->r, "SET " BULL_LOCK " T");
    redis_ok(p->r, "RPUSH " BULL "active other");
    for (size_t i = 0; i < p->count; i++) {
        snprintf(p->ids[i], sizeof p->ids[i], "%zu", i + 1);
        p->counters[i] = "";
        p->records[i] = "x";
        if (*p->flags != 'b') bull_job(p->r, p->ids[i], "0");
        redis_ok(p->r, "LPUSH " BULL "active %s", p->ids[i]);
        redis_ok(p->r, "SADD " BULL "stalled %s", p->ids[i]);
        redis_ok(p->r, "RPUSH " BULL "%s:logs line", p->ids[i]);
        redis_ok(p->r, "SET " BULL "de:%s 1", p->ids[i]);
    }
    redis_ok(p->r, "LPUSH " BULL "active newest");
    p->most = "1000000";
    p->from = 0;
    p->to = (long long)p->count + 1;
}

typedef struct {
    const char *words[MAX_WORDS];
    char texts[4 * MOST_JOBS][WORD];
    size_t count, texts_used;
} words_t;

static void add(words_t *words, const char *word) { words->words[words->count++] = word; }

static const char *add_key(words_t *words, const char *before, const char *id, const char *after) {
    char *text = words->texts[words->texts_used++];
    snprintf(text, WORD, BULL "%s%s%s", before, id, after);
    add(words, text);
    return text;
}

static bool has(const page_t *p, char flag) { return strchr(p->flags, flag) != NULL; }

/* Returns the word of the whole reply. */
static const char *page_settle(page_t *p, const char *token) {
    static const char *const head[HEAD_KEYS] = {BULL_LOCK,          BULL "stalled", BULL "active", BULL "wait", BULL "paused",
                                                BULL "meta-paused", BULL "failed",  RECORDED,      STREAM,      META};
    words_t *words = kept(calloc(1, sizeof *words));
    size_t len;
    char number[24], from[24], to[24];
    size_t keys = HEAD_KEYS + p->count * (2 + (size_t)has(p, 'x') + (size_t)has(p, 'd'));
    add(words, "EVAL");
    add(words, fixture_script(&script_bull_settle, &len));
    snprintf(number, sizeof number, "%zu", keys);
    snprintf(from, sizeof from, "%lld", p->from);
    snprintf(to, sizeof to, "%lld", p->to);
    add(words, number);
    for (size_t i = 0; i < HEAD_KEYS; i++) add(words, head[i]);
    for (size_t i = 0; i < p->count; i++) {
        add_key(words, "", p->ids[i], "");
        add_key(words, "", p->ids[i], ":lock");
        if (has(p, 'x')) add_key(words, "", p->ids[i], ":logs");
        if (has(p, 'd')) add_key(words, "de:", p->ids[i], "");
    }
    const char *const arguments[] = {token, p->most, "", from, to, "2", "queue", "video", "1", "kind"};
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) add(words, arguments[i]);
    for (size_t i = 0; i < p->count; i++) {
        const char *const job[] = {p->ids[i], p->counters[i], p->flags, "why", "{}", p->records[i]};
        for (size_t w = 0; w < sizeof job / sizeof *job; w++) add(words, job[w]);
    }
    if (p->reply) freeReplyObject(p->reply);
    p->reply = redisCommandArgv(p->r, (int)words->count, words->words, NULL);
    cr_assert_not_null(p->reply, "%s", p->r->errstr);
    for (size_t i = 0; i < p->count && p->reply->type == REDIS_REPLY_ARRAY && i + 3 < p->reply->elements; i++)
        p->answers[i] = bull_word(p->reply->element[i + 3]);
    return bull_word(p->reply);
}

static long long bull_in_list(redis_t *r, const char *list, const char *id) {
    return redis_int(r, "EVAL %s 1 %s %s", "return #redis.call('LPOS', KEYS[1], ARGV[1], 'COUNT', 0)", list, id);
}

static bool is_marked(const page_t *p, size_t i) { return redis_int(p->r, "SISMEMBER " BULL "stalled %s", p->ids[i]) == 1; }

static bool is_in_progress(const page_t *p, size_t i) {
    return bull_in_list(p->r, BULL "active", p->ids[i]) == 1 && bull_in_list(p->r, BULL "wait", p->ids[i]) == 0 &&
           redis_int(p->r, "EXISTS " BULL "failed") <= (long long)p->count - 1 &&
           redis_int(p->r, "EXISTS " BULL "%s:logs " BULL "de:%s", p->ids[i], p->ids[i]) == 2;
}

static bool is_settled(const page_t *p, size_t i) {
    redis_t *r = p->r;
    const char *id = p->ids[i];
    char *counter = redis_str(r, "EVAL %s 1 " BULL "%s", "return redis.call('HGET', KEYS[1], 'stalledCounter') or ''", id);
    char *score = redis_str(r, "ZSCORE " BULL "failed %s", id);
    bool fails = has(p, 'e') && !has(p, 'x'), counts = fails || has(p, 'r');
    return bull_in_list(r, BULL "active", id) == 0 && !is_marked(p, i) && bull_in_list(r, BULL "wait", id) == has(p, 'r') &&
           (strcmp(counter, "1") == 0) == counts && !score == !fails &&
           redis_int(r, "EXISTS " BULL "%s:logs", id) == !has(p, 'x') &&
           redis_int(r, "EXISTS " BULL "de:%s", id) == !has(p, 'd') &&
           redis_int(r, "EXISTS " BULL "%s", id) == (!has(p, 'x') && !has(p, 'b'));
}

/* Each job but the bad one is settled, with one record; the bad one has this answer. */
static void expect_others(page_t *p, const char *bad) {
    for (size_t i = 0; i < p->count; i++) {
        const char *wanted = i == p->bad ? bad : "settled";
        cr_assert_str_eq(p->answers[i], wanted, "%s: job %zu of %zu: %s", p->flags, i, p->count, p->answers[i]);
        if (i != p->bad) cr_assert(is_settled(p, i), "%s: job %zu of %zu", p->flags, i, p->count);
    }
    cr_assert_eq(redis_int(p->r, "XLEN " STREAM), (long long)p->count - 1);
    cr_assert_eq(bull_in_list(p->r, BULL "active", "other") + bull_in_list(p->r, BULL "active", "newest"), 2);
}

/* A way to spoil one job. Returns the answer that the job then gets. */
typedef const char *spoil_fn(page_t *p, size_t bad);

static const char *spoil_mark(page_t *p, size_t bad) { /* its worker renewed the lock, and lost it */
    redis_ok(p->r, "SREM " BULL "stalled %s", p->ids[bad]);
    return "gone";
}
static const char *spoil_lock(page_t *p, size_t bad) {
    redis_ok(p->r, "SET " BULL "%s:lock w", p->ids[bad]);
    return "alive";
}
static const char *spoil_counter(page_t *p, size_t bad) { /* a worker's check retried it, and it runs again */
    p->counters[bad] = "5";
    return "changed";
}
static const char *spoil_job(page_t *p, size_t bad) { /* it is no job, or it is one now */
    redis_ok(p->r, "DEL " BULL "%s", p->ids[bad]);
    if (*p->flags == 'b') bull_job(p->r, p->ids[bad], "0");
    if (*p->flags != 'b') redis_ok(p->r, "SET " BULL "%s x", p->ids[bad]);
    return "changed";
}
static const char *spoil_place(page_t *p, size_t bad) { /* its worker has finished it */
    redis_ok(p->r, "LREM " BULL "active 1 %s", p->ids[bad]);
    return "gone";
}
static const char *spoil_record(page_t *p, size_t bad) { /* larger than the whole stream may be */
    static char large[1 << 17];
    memset(large, 'x', sizeof large - 1);
    p->records[bad] = large;
    p->most = "100000";
    return "full";
}

/* Returns the number of pages that were settled. */
static int each_place(spoil_fn *spoil, const char *const *flags) {
    static const size_t counts[] = {1, 2, 64, MOST_JOBS};
    scoped(fixture_stop) fixture_t f = fixture_start(NULL);
    page_t *p = kept(calloc(1, sizeof *p));
    int pages = 0;
    p->r = f.r;
    for (; *flags; flags++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
            for (int place = 0; place < 3; place++) {
                p->count = counts[n];
                p->bad = place == 0 ? 0 : place == 1 ? p->count / 2 : p->count - 1;
                p->flags = *flags;
                page_lay_out(p);
                if (pages % 2) p->to = 0;
                const char *answer = spoil(p, p->bad);
                cr_assert_str_eq(page_settle(p, "T"), "settled");
                expect_others(p, answer);
                if (spoil == spoil_place)
                    cr_assert(!is_marked(p, p->bad) && bull_in_list(f.r, BULL "wait", p->ids[p->bad]) == 0);
                else
                    cr_assert(is_in_progress(p, p->bad), "%s: job %zu of %zu", p->flags, p->bad, p->count);
                pages++;
            }
    freeReplyObject(p->reply);
    return pages;
}

enum { PLACES = 4 * 3 };
static const char *const ALL[] = {"r", "e", "exd", "ed", "b", NULL}, *const ENDS[] = {"e", "exd", "b", NULL},
                         *const JOBS[] = {"r", "e", "exd", NULL};

Test(redis_bull_settle_page, a_missing_mark_keeps_one_job) { cr_assert_eq(each_place(spoil_mark, ALL), 5 * PLACES); }
Test(redis_bull_settle_page, a_lock_keeps_one_job) { cr_assert_eq(each_place(spoil_lock, ALL), 5 * PLACES); }
Test(redis_bull_settle_page, a_changed_counter_keeps_one_job) { cr_assert_eq(each_place(spoil_counter, JOBS), 3 * PLACES); }
Test(redis_bull_settle_page, a_changed_hash_keeps_one_job) { cr_assert_eq(each_place(spoil_job, ALL), 5 * PLACES); }
Test(redis_bull_settle_page, a_finished_job_stays_away) { cr_assert_eq(each_place(spoil_place, ALL), 5 * PLACES); }
static fixture_t f;
SUITE(redis_bull_settle_page, f = fixture_start(NULL), fixture_stop(&f));

Test(redis_bull_settle_page, a_record_without_room_keeps_one_ended_job) {
    cr_assert_eq(each_place(spoil_record, ENDS), 3 * PLACES);
}

/* A walk along the marks may meet an id twice. */
Test(redis_bull_settle_page, an_id_twice_in_a_page_is_settled_once) {
    page_t *p = kept(calloc(1, sizeof *p));
    p->r = f.r;
    for (const char *const *flags = ALL; *flags; flags++) {
        p->count = 3;
        p->flags = *flags;
        page_lay_out(p);
        redis_ok(f.r, "LREM " BULL "active 1 3");
        strcpy(p->ids[2], p->ids[0]);
        cr_assert_str_eq(page_settle(p, "T"), "settled");
        cr_assert_str_eq(p->answers[0], "settled");
        cr_assert_str_eq(p->answers[1], "settled");
        cr_assert_str_eq(p->answers[2], "gone");
        cr_assert(is_settled(p, 0) && is_settled(p, 1), "%s", p->flags);
        cr_assert_eq(redis_int(f.r, "XLEN " STREAM), 2);
    }
    freeReplyObject(p->reply);
}

/* The stream fills up in the middle of a page. Ends behind that wait; retries go on without a record. */
Test(redis_bull_settle_page, a_stream_that_fills_up_takes_what_fits) {
    enum { COUNT = 64, FIT = 20 };
    static char large[1000];
    page_t *p = kept(calloc(1, sizeof *p));
    memset(large, 'x', sizeof large - 1);
    p->r = f.r;
    for (const char *const *flags = ALL; *flags; flags++) {
        long long settled = 0;
        p->count = COUNT;
        p->flags = *flags;
        page_lay_out(p);
        p->most = "22000";
        for (size_t i = 0; i < COUNT; i++) p->records[i] = large;
        cr_assert_str_eq(page_settle(p, "T"), "settled");
        for (long long i = 0; i < COUNT; i++) {
            bool fits = strcmp(p->answers[i], "settled") == 0;
            settled += fits;
            cr_assert_str_eq(p->answers[i], i < settled ? "settled" : *p->flags == 'r' ? "unrecorded" : "full", "job %lld", i);
            cr_assert(fits || *p->flags == 'r' ? is_settled(p, (size_t)i) : is_in_progress(p, (size_t)i), "job %lld", i);
        }
        cr_assert(settled >= FIT && settled < COUNT, "%lld records", settled);
        cr_assert_eq(redis_int(f.r, "XLEN " STREAM), settled);
        char *bytes = redis_str(f.r, "HGET " META " bytes"), *entries = redis_str(f.r, "HGET " META " entries");
        cr_assert(strtoll(bytes, NULL, 10) > 20000 && strtoll(bytes, NULL, 10) <= 22000, "%s", bytes);
        cr_assert_eq(strtoll(entries, NULL, 10), settled);
    }
    freeReplyObject(p->reply);
}

/* The stream has ids for three more records. */
Test(redis_bull_settle_page, a_stream_out_of_ids_takes_what_it_can) {
    page_t *p = kept(calloc(1, sizeof *p));
    p->r = f.r;
    for (const char *const *flags = ALL; *flags; flags++) {
        p->count = 8;
        p->flags = *flags;
        page_lay_out(p);
        redis_ok(f.r, "XADD " STREAM " 18446744073709551615-18446744073709551612 f v");
        cr_assert_str_eq(page_settle(p, "T"), "settled");
        for (size_t i = 0; i < p->count; i++) {
            cr_assert_str_eq(p->answers[i], i < 3 ? "settled" : *p->flags == 'r' ? "unrecorded" : "full", "job %zu", i);
            cr_assert(i < 3 || *p->flags == 'r' ? is_settled(p, i) : is_in_progress(p, i), "job %zu", i);
        }
        cr_assert_eq(redis_int(f.r, "XLEN " STREAM), 4);
        redis_expect(f.r, "4", "HGET " META " entries");
        char *bytes = redis_str(f.r, "HGET " META " bytes"); /* 'at', 'video', 'x', and of ends 'why' */
        cr_assert_eq(strtoll(bytes, NULL, 10), 3 * (13 + 5 + 1 + (*p->flags == 'r' ? 0 : 3)), "%s", bytes);
    }
    freeReplyObject(p->reply);
}

Test(redis_bull_settle_page, another_leader_and_wrong_types_keep_every_job) {
    static const char *const keys[] = {BULL "stalled", BULL "active", BULL "wait", BULL "paused", BULL "meta-paused",
                                       BULL "failed",  RECORDED,      STREAM,      META};
    page_t *p = kept(calloc(1, sizeof *p));
    p->r = f.r;
    for (const char *const *flags = ALL; *flags; flags++)
        for (size_t k = 0; k <= sizeof keys / sizeof *keys; k++) {
            p->count = 64;
            p->flags = *flags;
            page_lay_out(p);
            if (k > 0) redis_ok(f.r, "DEL %s", keys[k - 1]);
            if (k > 0) redis_ok(f.r, "PFADD %s x", keys[k - 1]);
            if (k > 0) redis_ok(f.r, strcmp(keys[k - 1], BULL "meta-paused") ? "PING" : "DEL " BULL "meta-paused");
            if (k > 0 && strcmp(keys[k - 1], BULL "meta-paused") == 0) redis_ok(f.r, "SADD " BULL "meta-paused x");
            char *before = fixture_digest(f.r);
            cr_assert_str_eq(page_settle(p, k == 0 ? "S" : "T"), k == 0 ? "fenced" : "type");
            redis_expect(f.r, before, "DEBUG DIGEST");
        }
    freeReplyObject(p->reply);
}

/* The jobs stand between others, and the window that the check has read is another by now. One LREM removes all of them, or
 * without the right to LSET one for each. */
Test(redis_bull_settle_page, finds_jobs_anywhere_in_active) {
    static const long long windows[][2] = {{0, 0}, {0, 5}, {0, 500}, {40, 90}, {100, 130}, {400, 499}};
    page_t *p = kept(calloc(1, sizeof *p));
    p->r = f.r;
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (int way = 0; way < 4; way++) {
            p->count = 64;
            p->bad = SIZE_MAX;
            p->flags = "r";
            page_lay_out(p);
            redis_ok(f.r, "EVAL %s 1 " BULL "active %s", "for i = 1, 100 do redis.call(ARGV[1], KEYS[1], 'live' .. i) end",
                     way % 2 ? "RPUSH" : "LPUSH");
            redis_ok(f.r, way < 2 ? "ACL SETUSER default +lset" : "ACL SETUSER default -lset");
            p->from = windows[w][0];
            p->to = windows[w][1];
            long long lpos = server_commandstat(f.server, "lpos"), lrem = server_commandstat(f.server, "lrem");
            cr_assert_str_eq(page_settle(p, "T"), "settled");
            if (p->to == 500) cr_assert_eq(server_commandstat(f.server, "lpos"), lpos, "the window has all jobs");
            int tried =
                server_major(f.server) < 7; /* Redis 6.2 has no acl_check_cmd: the script tries LREM once on a scratch key */
            cr_assert_eq(server_commandstat(f.server, "lrem") - lrem - tried, way < 2 ? 1 : 64);
            redis_ok(f.r, "ACL SETUSER default +lset");
            for (size_t i = 0; i < p->count; i++) cr_assert(is_settled(p, i), "window %zu: job %zu: %s", w, i, p->answers[i]);
            for (int i = 1; i <= 100; i++) {
                char id[WORD];
                snprintf(id, sizeof id, "live%d", i);
                cr_assert_eq(bull_in_list(f.r, BULL "active", id), 1, "%s", id);
            }
            cr_assert_eq(redis_int(f.r, "LLEN " BULL "active"), 102);
        }
    freeReplyObject(p->reply);
}

/* An id is twice in active: the settle removes one entry, as Bull does. */
Test(redis_bull_settle_page, one_entry_of_two_is_removed) {
    page_t *p = kept(calloc(1, sizeof *p));
    p->r = f.r;
    for (int way = 0; way < 4; way++) {
        p->count = 3;
        p->bad = SIZE_MAX;
        p->flags = "r";
        page_lay_out(p);
        redis_ok(f.r, way % 2 ? "LPUSH " BULL "active 2" : "RPUSH " BULL "active 2");
        if (way < 2) p->to = 0;
        cr_assert_str_eq(page_settle(p, "T"), "settled");
        for (size_t i = 0; i < p->count; i++) cr_assert_str_eq(p->answers[i], "settled");
        cr_assert_eq(bull_in_list(f.r, BULL "active", "2"), 1);
        cr_assert_eq(redis_int(f.r, "LLEN " BULL "active"), 3);
        cr_assert_eq(redis_int(f.r, "LLEN " BULL "wait"), 3);
    }
    freeReplyObject(p->reply);
}
