/* quarantine_settle.lua with pages of many members: each is answered for by itself. One bad member, wherever it stands, stays as
 * it was and keeps no other back. */
#include "delayed_call.h"
#include "queue/quarantine.h"

#define CONFIG                                                                                                                   \
    "group = \"app\"; stream = { max_bytes = \"1MiB\"; }; queues = ( { name = \"email\"; dialect = \"delayed_queue\"; types = "  \
    "[\"" PAYMENT "\"]; } );"
#define SCORE "1800000000000.25"

enum { MOST_JOBS = QUARANTINE_PAGE_JOBS, WORD = 160 };

typedef struct {
    fixture_t *f;
    size_t count, bad, answered;
    quarantine_verdict_t verdict;
    char members[MOST_JOBS][WORD], envelopes[MOST_JOBS][WORD], pushed[MOST_JOBS][WORD];
    quarantined_t jobs[MOST_JOBS];
    event_t events[MOST_JOBS];
    quarantine_decision_t decisions[MOST_JOBS];
    settled_t answers[MOST_JOBS];
    pace_t pace;
} page_t;

static void page_lay_out(page_t *p) {
    redis_t *r = p->f->r;
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET sidecar:app:lock T");
    for (size_t i = 0; i < p->count; i++) {
        snprintf(p->members[i], WORD, PAYMENT "###%zu", i);
        snprintf(p->envelopes[i], WORD, "{\"payload\":{\"id\":%zu}" TAIL(2), i);
        snprintf(p->pushed[i], WORD, "{\"payload\":{\"id\":%zu}" TAIL(1), i);
        redis_ok(r, "ZADD " DELAYED_KEYS " " SCORE " %s", p->members[i]);
        redis_ok(r, "HSET de_events %s %s", p->members[i], p->envelopes[i]);
        redis_ok(r, "ZADD sidecar:email:aside 1700000000000 %s", p->members[i]);
        p->jobs[i] = (quarantined_t){
            .member = slice_text(p->members[i]), .score = SCORE, .has_envelope = true, .envelope = slice_text(p->envelopes[i])};
        p->events[i] = (event_t){.kind = slice_text("failed"),
                                 .queue = slice_text("email"),
                                 .job = slice_text(p->members[i]),
                                 .payload = slice_text(p->envelopes[i])};
        p->decisions[i] = (quarantine_decision_t){.job = &p->jobs[i],
                                                  .verdict = p->verdict,
                                                  .events = "de_events",
                                                  .ready = "de_paymentcheck",
                                                  .next = slice_text("next"),
                                                  .pushed = slice_text(p->pushed[i]),
                                                  .delay_ms = 20000,
                                                  .last = true,
                                                  .event = &p->events[i]};
    }
}

/* With `at_once` in one script. */
static void page_settle(page_t *p, const char *token, bool at_once) {
    const quarantine_decision_t *asks[MOST_JOBS];
    const call_t call = fixture_call(p->f, token);
    for (size_t i = 0; i < p->count; i++) asks[i] = &p->decisions[i];
    p->f->error = (redis_error_t){0};
    p->pace = (pace_t){.job_us = at_once ? 0.001 : 0};
    p->answered = quarantine_settle(&call, asks, p->count, &p->pace, p->answers);
}

static bool member_is(const page_t *p, size_t i, bool aside, const char *envelope) {
    redis_t *r = p->f->r;
    bool there = *de_score(r, "sidecar:email:aside", p->members[i]) != '\0';
    char *stored = redis_str(r, "HGET de_events %s", p->members[i]);
    return there == aside && (envelope ? stored && strcmp(stored, envelope) == 0 : !stored);
}

static long long waits(const page_t *p, size_t i) {
    return redis_int(p->f->r, "EVAL %s 1 de_paymentcheck %s", "return #redis.call('LPOS', KEYS[1], ARGV[1], 'COUNT', 0)",
                     p->envelopes[i]);
}

static bool is_quarantined(const page_t *p, size_t i) {
    return member_is(p, i, true, p->envelopes[i]) && waits(p, i) == 0 &&
           strcmp(de_score(p->f->r, DELAYED_KEYS, p->members[i]), SCORE) == 0;
}

static bool is_settled(const page_t *p, size_t i) {
    const char *score = de_score(p->f->r, DELAYED_KEYS, p->members[i]), *point = strchr(score, '.');
    switch (p->verdict) {
    case QUARANTINE_RELEASE: return strcmp(score, SCORE) == 0 && member_is(p, i, false, p->envelopes[i]) && waits(p, i) == 0;
    case QUARANTINE_PUSH:
        return point && strcmp(point, ".5") == 0 && de_delay(p->f->r, p->members[i]) <= 20000 && member_is(p, i, false, "next") &&
               waits(p, i) == 1;
    default: return *score == '\0' && member_is(p, i, false, NULL) && waits(p, i) == 0;
    }
}

/* Each member but the bad one is settled, with one record; the bad one has this answer. */
static void expect_others(page_t *p, settled_t bad) {
    cr_assert_eq(p->answered, p->count, "%s", p->f->error.text);
    for (size_t i = 0; i < p->count; i++) {
        settled_t wanted = i == p->bad ? bad : SETTLED;
        cr_assert_eq(p->answers[i], wanted, "member %zu of %zu: %d, not %d", i, p->count, (int)p->answers[i], (int)wanted);
        if (i != p->bad) cr_assert(is_settled(p, i), "verdict %d, member %zu of %zu", (int)p->verdict, i, p->count);
    }
    long long records = p->verdict == QUARANTINE_END ? (long long)p->count - 1 : 0;
    cr_assert_eq(redis_int(p->f->r, "XLEN sidecar:email:failures"), records);
}

/* A way to spoil one member. Returns the answer that the member then gets. */
typedef settled_t spoil_fn(page_t *p, size_t bad);

static settled_t spoil_score(page_t *p, size_t bad) {
    p->jobs[bad].score = "1800000000000.75";
    return SETTLED_CHANGED;
}
static settled_t spoil_envelope(page_t *p, size_t bad) {
    p->jobs[bad].envelope = slice_text("{}");
    return SETTLED_CHANGED;
}
static settled_t spoil_hash(page_t *p, size_t bad) { /* the id names a job of Bull now */
    static char keys[MOST_JOBS][WORD];
    for (size_t i = 0; i < p->count; i++) {
        snprintf(keys[i], WORD, "bull:%zu", i);
        p->decisions[i].hash = keys[i];
    }
    redis_ok(p->f->r, "HSET %s name x", keys[bad]);
    return SETTLED_CHANGED;
}
static settled_t spoil_pushed(page_t *p, size_t bad) {
    redis_ok(p->f->r, "LPUSH de_paymentcheck %s", p->pushed[bad]);
    return SETTLED_ALIVE;
}
static settled_t spoil_list(page_t *p, size_t bad) {
    p->decisions[bad].ready = "long";
    redis_ok(p->f->r, "EVAL %s 1 long", "for i = 1, 2001 do redis.call('LPUSH', KEYS[1], i) end");
    return SETTLED_ALIVE;
}
static settled_t spoil_type(page_t *p, size_t bad) {
    p->decisions[bad].ready = "not_a_list";
    redis_ok(p->f->r, "SET not_a_list x");
    return SETTLED_TYPE;
}
static settled_t spoil_record(page_t *p, size_t bad) { /* larger than the whole stream may be */
    static char large[2 << 20];
    memset(large, 'x', sizeof large);
    p->events[bad].reason = (slice_t){large, sizeof large};
    return SETTLED_FULL;
}

/* `verdicts`: bits of the verdicts to try. Returns the number of pages that were settled. */
static int each_place(spoil_fn *spoil, unsigned verdicts) {
    static const size_t counts[] = {1, 2, 17, MOST_JOBS};
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = CONFIG});
    page_t *p = kept(mem_alloc(sizeof *p));
    int pages = 0;
    p->f = &f;
    for (int v = QUARANTINE_RELEASE; v <= QUARANTINE_END; v++)
        for (size_t n = 0; (verdicts & 1U << v) && n < sizeof counts / sizeof *counts; n++)
            for (int place = 0; place < 3; place++) {
                p->verdict = (quarantine_verdict_t)v;
                p->count = counts[n];
                p->bad = place == 0 ? 0 : place == 1 ? p->count / 2 : p->count - 1;
                page_lay_out(p);
                settled_t answer = spoil(p, p->bad);
                page_settle(p, "T", pages % 2 == 0);
                expect_others(p, answer);
                cr_assert(is_quarantined(p, p->bad), "verdict %d, member %zu of %zu", v, p->bad, p->count);
                pages++;
            }
    return pages;
}

enum { PLACES = 4 * 3, RELEASE = 1 << QUARANTINE_RELEASE, PUSH = 1 << QUARANTINE_PUSH, END = 1 << QUARANTINE_END };

static fixture_t f;
SUITE(redis_delayed_settle_page, , fixture_stop(&f));

Test(redis_delayed_settle_page, a_changed_score_keeps_one_member) {
    cr_assert_eq(each_place(spoil_score, RELEASE | PUSH | END), 3 * PLACES);
}
Test(redis_delayed_settle_page, a_changed_envelope_keeps_one_member) {
    cr_assert_eq(each_place(spoil_envelope, PUSH | END), 2 * PLACES);
}
Test(redis_delayed_settle_page, a_job_that_exists_keeps_one_member) { cr_assert_eq(each_place(spoil_hash, END), PLACES); }
Test(redis_delayed_settle_page, a_waiting_push_keeps_one_member) {
    cr_assert_eq(each_place(spoil_pushed, PUSH | END), 2 * PLACES);
}
Test(redis_delayed_settle_page, a_long_list_keeps_one_member) { cr_assert_eq(each_place(spoil_list, PUSH | END), 2 * PLACES); }
Test(redis_delayed_settle_page, a_list_of_the_wrong_type_keeps_one_member) {
    cr_assert_eq(each_place(spoil_type, PUSH | END), 2 * PLACES);
}
Test(redis_delayed_settle_page, a_record_without_room_keeps_one_member) { cr_assert_eq(each_place(spoil_record, END), PLACES); }

Test(redis_delayed_settle_page, a_member_twice_in_a_page_is_settled_once) {
    f = fixture_start(&(fixture_options_t){.config = CONFIG});
    page_t *p = kept(mem_alloc(sizeof *p));
    p->f = &f;
    for (int v = QUARANTINE_RELEASE; v <= QUARANTINE_END; v++) {
        p->verdict = (quarantine_verdict_t)v;
        p->count = 3;
        page_lay_out(p);
        p->decisions[2].job = &p->jobs[0];
        page_settle(p, "T", true);
        cr_assert(p->answers[0] == SETTLED && p->answers[1] == SETTLED && p->answers[2] == SETTLED_CHANGED, "verdict %d", v);
        cr_assert(is_settled(p, 0) && is_settled(p, 1) && is_quarantined(p, 2));
        cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), v == QUARANTINE_END ? 2 : 0);
    }
}

/* Pushes, releases and ends share a page. The stream fills up in the middle of it. */
Test(redis_delayed_settle_page, a_stream_that_fills_up_takes_what_fits) {
    static char large[100 << 10];
    f = fixture_start(&(fixture_options_t){.config = CONFIG});
    page_t *p = kept(mem_alloc(sizeof *p));
    memset(large, 'x', sizeof large);
    p->f = &f;
    for (int at_once = 0; at_once < 2; at_once++) {
        long long records = 0;
        p->verdict = QUARANTINE_END;
        p->count = MOST_JOBS;
        page_lay_out(p);
        for (size_t i = 0; i < p->count; i++) {
            p->decisions[i].verdict = (quarantine_verdict_t)(i % 3);
            p->events[i].reason = (slice_t){large, sizeof large};
        }
        page_settle(p, "T", at_once);
        for (size_t i = 0; i < p->count; i++) {
            p->verdict = p->decisions[i].verdict;
            bool full = p->verdict == QUARANTINE_END && records == 10;
            records += p->verdict == QUARANTINE_END && !full;
            cr_assert_eq(p->answers[i], full ? SETTLED_FULL : SETTLED, "member %zu: %d", i, (int)p->answers[i]);
            cr_assert(full ? is_quarantined(p, i) : is_settled(p, i), "member %zu", i);
        }
        cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 10);
        redis_expect(f.r, "10", "HGET sidecar:email:meta entries");
    }
}

Test(redis_delayed_settle_page, a_stream_out_of_ids_takes_what_it_can) {
    f = fixture_start(&(fixture_options_t){.config = CONFIG});
    page_t *p = kept(mem_alloc(sizeof *p));
    *p = (page_t){.f = &f, .count = 8, .verdict = QUARANTINE_END};
    page_lay_out(p);
    redis_ok(f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551612 f v");
    page_settle(p, "T", true);
    for (size_t i = 0; i < p->count; i++) {
        cr_assert_eq(p->answers[i], i < 3 ? SETTLED : SETTLED_FULL, "member %zu: %d", i, (int)p->answers[i]);
        cr_assert(i < 3 ? is_settled(p, i) : is_quarantined(p, i), "member %zu", i);
    }
}

Test(redis_delayed_settle_page, another_leader_keeps_every_member) {
    f = fixture_start(&(fixture_options_t){.config = CONFIG});
    page_t *p = kept(mem_alloc(sizeof *p));
    p->f = &f;
    for (int v = QUARANTINE_RELEASE; v <= QUARANTINE_END; v++) {
        p->verdict = (quarantine_verdict_t)v;
        p->count = MOST_JOBS;
        page_lay_out(p);
        char *before = fixture_digest(f.r);
        page_settle(p, "S", false);
        cr_assert_eq(p->answered, 0);
        cr_assert_eq(f.error.outcome, OUTCOME_FENCED, "%s", f.error.text);
        redis_expect(f.r, before, "DEBUG DIGEST");
    }
}
