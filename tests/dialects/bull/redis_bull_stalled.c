/* bull_mark and bull_stalled against a real server: they find the jobs that Bull's own check would find. */
#include "bull_layout.h"
#include "dialects/bull/scripts.h"
#include "dialects/bull_tasks/scripts.h"
#include "wait.h"

/* Marks `count` entries of active behind the last `passed` ones. */
static redisReply *mark_part(redis_t *r, const char *const argv[3], long long passed, const char *count, bool unchanged) {
    char number[24];
    const char *const keys[] = {
        BULL_LOCK,          BULL "stalled", BULL "active", BULL "stalled-check", META, BULL "events", BULL "marker",
        BULL "prioritized", BULL "pc",      NULL};
    eval_t call = bull_begin(&script_bull_mark, keys);
    snprintf(number, sizeof number, "%lld", passed);
    for (int i = 0; i < 3; i++) call_text(&call, argv[i]);
    call_text(&call, number);
    call_text(&call, count);
    return kept(unchanged ? call_in_vain(&call, r) : call_end(&call, r));
}

static redisReply *mark_with(redis_t *r, const char *token, const char *interval, const char *ttl, bool unchanged) {
    return mark_part(r, (const char *const[]){token, interval, ttl}, 0, "4000", unchanged);
}

/* Marks the next part, and returns the entries that are marked so far; 0 = all are marked. */
static long long mark_next(redis_t *r, long long passed, const char *count) {
    redisReply *reply = mark_part(r, (const char *const[]){"T", "0", "90000"}, passed, count, false);
    bool more = strcmp(bull_word(reply), "marking") == 0;
    if (!more) cr_assert_str_eq(bull_word(reply), "marked");
    if (more) cr_assert_gt(reply->element[1]->integer, 0, "the script tells how long it took");
    passed = more ? reply->element[2]->integer : 0;
    return passed;
}

static void mark(redis_t *r, const char *interval, const char *word) {
    bull_expect(mark_with(r, "T", interval, "90000", false), word, NULL, NULL);
}

static redisReply *read_from(redis_t *r, const char *cursor, const char *interval, const char *skip, const char *most,
                             const char *payload) {
    const char *const keys[] = {BULL "stalled", BULL "stalled-check", META, BULL "active", NULL};
    eval_t call = bull_begin(&script_bull_stalled, keys);
    const char *const argv[] = {BULL, interval, cursor, "100", skip, most, "1000000", payload, "name", "data"};
    for (size_t i = 0; i < sizeof argv / sizeof *argv; i++) call_text(&call, argv[i]);
    return call_in_vain(&call, r);
}

static redisReply *read_stalled(redis_t *r, const char *interval, const char *skip, const char *most, const char *payload) {
    return read_from(r, "0", interval, skip, most, payload);
}

static redisReply *stalled_now(redis_t *r) { return read_stalled(r, "0", "0", "100", "1000"); }

/* Expects `all` stalled jobs, of which the reply returns exactly `ids`, in any order; the last of `ids` is NULL. */
static void expect_stalled(redisReply *reply, long long all, const char *const *ids) {
    size_t count = 0;
    cr_assert_str_eq(bull_word(reply), "stalled");
    cr_assert_eq(reply->element[2]->integer, all);
    cr_assert_str_eq(reply->element[3]->str, "0", "one part holds so few marks");
    for (; ids[count]; count++) {
        bool found = false;
        for (size_t i = 4; i < reply->elements; i += 4) found |= strcmp(reply->element[i]->str, ids[count]) == 0;
        cr_assert(found, "%s", ids[count]);
    }
    cr_assert_eq(reply->elements, 4 + 4 * count);
    freeReplyObject(reply);
}

static fixture_t f;
SUITE(redis_bull_stalled, f = fixture_start(NULL); lay_out(f.r), fixture_stop(&f));

Test(redis_bull_stalled, marks_exactly_the_active_jobs) {
    redis_ok(f.r, "SADD " BULL "stalled old");
    redis_ok(f.r, "LPUSH " BULL "active 4");
    mark(f.r, "60000", "marked");
    cr_assert_eq(redis_int(f.r, "SCARD " BULL "stalled"), 3);
    cr_assert_eq(redis_int(f.r, "SISMEMBER " BULL "stalled 4"), 1);
    redis_ok(f.r, "SREM " BULL "stalled 4"); /* its worker has made the lock */
    mark(f.r, "60000", "held");
    cr_assert_eq(redis_int(f.r, "SISMEMBER " BULL "stalled 4"), 0, "no job is marked again within the interval");
    redis_ok(f.r, "EVAL %s 1 " BULL "active", "for i = 1, 12000 do redis.call('LPUSH', KEYS[1], 'x' .. i) end");
    long long passed = 0;
    do passed = mark_next(f.r, passed, "4000");
    while (passed);
    cr_assert_eq(redis_int(f.r, "SCARD " BULL "stalled"), 12003);
    redis_ok(f.r, "LTRIM " BULL "active -3 -1");
    mark(f.r, "0", "marked");
    cr_assert_eq(redis_int(f.r, "SCARD " BULL "stalled"), 3);
}

/* While parts of active are not marked yet, no job has stalled, whatever the time of the last interval was. */
Test(redis_bull_stalled, an_interval_begins_with_the_last_part) {
    redis_ok(f.r, "EVAL %s 1 " BULL "active", "for i = 1, 998 do redis.call('LPUSH', KEYS[1], 'x' .. i) end");
    mark(f.r, "0", "marked");
    long long passed = mark_next(f.r, 0, "400");
    cr_assert_eq(passed, 400);
    cr_assert_eq(redis_int(f.r, "SCARD " BULL "stalled"), 400, "old marks are gone");
    bull_expect(stalled_now(f.r), "early", NULL, NULL);
    redis_ok(f.r, "LPUSH " BULL "active y1 y2"); /* workers take jobs at the head */
    passed = mark_next(f.r, passed, "400");
    cr_assert_eq(passed, 800);
    bull_expect(stalled_now(f.r), "early", NULL, NULL);
    /* As many jobs finish as two parts overlap. */
    redis_ok(f.r, "EVAL %s 1 " BULL "active", "redis.call('LTRIM', KEYS[1], 0, -65)");
    cr_assert_eq(mark_next(f.r, passed, "400"), 0);
    cr_assert_eq(redis_int(f.r, "SCARD " BULL "stalled"), 1002);
}

/* stalled-check has expired between two parts, so workers may have changed the marks; or another leader begins. */
Test(redis_bull_stalled, marking_begins_again_when_others_may_have_marked) {
    redis_ok(f.r, "EVAL %s 1 " BULL "active", "for i = 1, 998 do redis.call('LPUSH', KEYS[1], 'x' .. i) end");
    for (int way = 0; way < 3; way++) {
        redis_ok(f.r, "DEL " META);
        long long passed = mark_next(f.r, mark_next(f.r, 0, "400"), "400");
        redis_ok(f.r, "SADD " BULL "stalled old");
        if (way == 0) redis_ok(f.r, "DEL " BULL "stalled-check");
        if (way == 1) redis_ok(f.r, "SET " BULL "stalled-check 1700000000000");
        if (way == 2) passed = 0;
        cr_assert_eq(mark_next(f.r, passed, "10"), 10);
        cr_assert_eq(redis_int(f.r, "SISMEMBER " BULL "stalled old"), 0);
        cr_assert_eq(redis_int(f.r, "SCARD " BULL "stalled"), 10);
        bull_expect(stalled_now(f.r), "early", NULL, NULL);
    }
}

/* A job has stalled if it has no lock when a whole interval has passed since the sidecar marked it. */
Test(redis_bull_stalled, no_job_is_stalled_before_a_whole_interval) {
    bull_expect(stalled_now(f.r), "early", NULL, NULL); /* no job is marked */
    redis_ok(f.r, "SET " BULL "stalled-check 1700000000000 PX 60000");
    redis_ok(f.r, "HSET " META " marked 1");
    bull_expect(stalled_now(f.r), "early", NULL, NULL); /* workers marked the jobs after the sidecar */
    mark(f.r, "60000", "marked");
    bull_expect(read_stalled(f.r, "60000", "0", "9", "1000"), "early", NULL, NULL);
    expect_stalled(stalled_now(f.r), 1, (const char *const[]){"1", NULL});
    redis_ok(f.r, "LPUSH " BULL "active 3"); /* taken after the mark, and not yet locked */
    expect_stalled(stalled_now(f.r), 1, (const char *const[]){"1", NULL});
    redis_ok(f.r, "DEL " BULL "stalled-check"); /* the key expired, so workers may have changed the marks */
    bull_expect(stalled_now(f.r), "early", NULL, NULL);
    mark(f.r, "60000", "marked");
    redis_ok(f.r, "HSET " META " marked 99999999999999"); /* the clock was set back */
    bull_expect(stalled_now(f.r), "early", NULL, NULL);
    mark(f.r, "60000", "marked");
}

Test(redis_bull_stalled, a_check_has_the_fields_of_a_record) {
    redis_ok(f.r, "LPUSH " BULL "active ghost remains text large");
    redis_ok(f.r, "SET " BULL "text x");
    redis_ok(f.r, "HSET " BULL "remains data x"); /* of a job that is gone */
    char large[5000];
    memset(large, 'l', sizeof large);
    redis_ok(f.r, "HSET " BULL "large name n data %b", large, sizeof large);
    mark(f.r, "0", "marked");
    redisReply *reply = kept(stalled_now(f.r)), *some = kept(read_stalled(f.r, "0", "1", "2", "1000"));
    cr_assert_eq(reply->element[2]->integer, 5);
    for (size_t i = 4; i < reply->elements; i += 4) {
        const char *id = reply->element[i]->str, *state = reply->element[i + 1]->str, *name = reply->element[i + 2]->str;
        const char *data = reply->element[i + 3]->str;
        if (strcmp(id, "1") == 0) cr_assert(strcmp(state, "") == 0 && strcmp(name, "n") == 0 && strcmp(data, "{}") == 0);
        if (strcmp(id, "ghost") == 0 || strcmp(id, "remains") == 0) cr_assert_str_eq(state, "none");
        if (strcmp(id, "text") == 0) cr_assert_str_eq(state, "string");
        if (strcmp(id, "large") == 0) cr_assert(strcmp(state, "large 5001") == 0 && strcmp(name, "n") == 0 && *data == '\0');
    }
    cr_assert(some->element[2]->integer == 5 && some->elements == 4 + 2 * 4, "the second and third of five jobs");
    for (size_t i = 4; i < some->elements; i += 4) cr_assert_str_eq(some->element[i]->str, reply->element[i + 4]->str);
}

/* Reads a part of active and expects the ids from `from` down to `to`, in this order, and skips those with a lock. */
static void expect_walk(redisReply *reply, const char *next, long long passed, int from, int to) {
    size_t at = 4;
    cr_assert_str_eq(bull_word(reply), "stalled");
    cr_assert_str_eq(reply->element[3]->str, next);
    cr_assert_eq(reply->element[2]->integer, passed, "%lld entries have not stalled", reply->element[2]->integer);
    for (int id = from; id >= to; id--) {
        if (id % 10 == 0) continue;
        cr_assert_lt(at, reply->elements);
        cr_assert_eq(atoi(reply->element[at]->str), id);
        at += 4;
    }
    cr_assert_eq(at, reply->elements);
    freeReplyObject(reply);
}

/* Job 200 is the oldest. Each tenth job has a lock. */
Test(redis_bull_stalled, many_marks_are_read_along_active) {
    redis_ok(f.r, "FLUSHALL");
    redis_ok(f.r, "SET " BULL_LOCK " T");
    redis_ok(f.r, "EVAL %s 0",
             "for i = 1, 200 do local job = 'bull:video:' .. i redis.call('HSET', job, 'name', 'n') "
             "redis.call('RPUSH', 'bull:video:active', i) if i % 10 == 0 then redis.call('SET', job .. ':lock', 'w') end end");
    mark(f.r, "0", "marked");
    expect_walk(read_from(f.r, "begin", "0", "0", "18", "1000"), "tail", 2, 199, 180);
    expect_walk(read_from(f.r, "begin", "0", "0", "999", "1000"), "tail", 13, 200, 73); /* four chunks of 32 cover `count` */
    expect_walk(read_from(f.r, "tail", "0", "150", "999", "1000"), "end", 5, 50, 1);
    expect_walk(read_from(f.r, "tail", "0", "195", "3", "1000"), "tail", 0, 5, 3);
    expect_walk(read_from(f.r, "tail", "0", "300", "999", "1000"), "end", 0, 0, 1);
    redis_ok(f.r, "SREM " BULL "stalled 5"); /* its worker has just made the lock, which has expired */
    redisReply *reply = kept(read_from(f.r, "tail", "0", "192", "999", "1000"));
    cr_assert(reply->element[2]->integer == 1 && reply->elements == 4 + 7 * 4);
    redis_ok(f.r, "LTRIM " BULL "active -64 -1"); /* few marks: their order in active does not matter */
    mark(f.r, "0", "marked");
    reply = kept(read_from(f.r, "begin", "0", "0", "999", "1000"));
    cr_assert_str_eq(reply->element[3]->str, "0");
    cr_assert(reply->element[2]->integer == 57 && reply->elements == 4 + 57 * 4, "%lld", reply->element[2]->integer);
}

static long long stalled_check_ttl_ms(redis_t *r) { return redis_int(r, "PTTL " BULL "stalled-check"); }

/* Workers do their own check only when the marks are a whole interval old, also after the sidecar ended or died. */
Test(redis_bull_stalled, stalled_check_key_outlives_the_interval) {
    bull_expect(mark_with(f.r, "T", "600000", "10", false), "marked", NULL, NULL);
    cr_assert_gt(stalled_check_ttl_ms(f.r), 580000);
    bull_expect(mark_with(f.r, "T", "600000", "900000", false), "held", NULL, NULL);
    cr_assert_gt(stalled_check_ttl_ms(f.r), 880000);
    bull_expect(mark_with(f.r, "T", "600000", "", false), "left", NULL, NULL);
    cr_assert(stalled_check_ttl_ms(f.r) <= 600000 && stalled_check_ttl_ms(f.r) > 580000);
    redis_ok(f.r, "HSET " META " marked 1"); /* the marks are old: workers may check at once */
    bull_expect(mark_with(f.r, "T", "60000", "", false), "left", NULL, NULL);
    cr_assert(wait_for(redis_int(f.r, "EXISTS " BULL "stalled-check") == 0, 3000));
    redis_ok(f.r, "SET " BULL "stalled-check 17 PX 60000"); /* written by a worker */
    bull_expect(mark_with(f.r, "T", "60000", "", true), "left", NULL, NULL);
}

Test(redis_bull_stalled, marking_is_fenced_and_checks_types_first) {
    bull_expect(mark_with(f.r, "t", "60000", "90000", true), "fenced", NULL, NULL);
    bull_expect(mark_with(f.r, "t", "60000", "", true), "fenced", NULL, NULL);
    static const struct {
        const char *what, *key, *right;
    } keys[] = {{"stalled", BULL "stalled", "set"},
                {"active", BULL "active", "list"},
                {"stalled-check", BULL "stalled-check", "string"},
                {"meta", META, "hash"},
                {BULL "events", BULL "events", "hash"},
                {BULL "marker", BULL "marker", "hash"},
                {BULL "prioritized", BULL "prioritized", "hash"},
                {BULL "pc", BULL "pc", "hash"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            lay_out(f.r);
            fixture_make_key(f.r, keys[k].key, type);
            char *found = kept_printf("%s%s", type, keys[k].what == keys[k].key ? OF_BULLMQ : "");
            bull_expect(mark_with(f.r, "T", "60000", "90000", true), "type", keys[k].what, found);
        }
}
