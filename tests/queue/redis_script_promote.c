/* promote.lua against a real server: no job is lost, none is early, and none is in two places. redis_script_promote_large.c tests
 * large entries. */
#include "promote_call.h"

#include <math.h>

static fixture_t f;
SUITE(redis_script_promote, f = fixture_start_locked(), fixture_stop(&f));

Test(redis_script_promote, moves_due_jobs_oldest_first) {
    redis_ok(f.r, "RPUSH email earlier");
    redis_ok(f.r, "ZADD email:delayed 3000 c 1000 a 2000 b 9999999999999 later");
    redisReply *reply = promote(&f, ask_new());
    cr_assert_str_eq(word(reply, 3), "1000", "score of the oldest");
    cr_assert_eq(number(reply, 4), 3, "bytes");
    cr_assert_eq(take_moved(reply, NULL), 3);
    static const char *const order[] = {"earlier", "a", "b", "c", NULL};
    for (size_t i = 0; i < 5; i++) redis_expect(f.r, order[i], "RPOP email");
    cr_assert_eq(redis_int(f.r, "ZCARD email:delayed"), 1);
    cr_assert_eq(take_moved(promote(&f, ask_new()), NULL), 0);
    cr_assert_eq(redis_int(f.r, "EXISTS email"), 0);
}

Test(redis_script_promote, the_oldest_come_first_to_workers_that_take_from_the_left) {
    ask_t ask = ask_new();
    ask.take = "left";
    redis_ok(f.r, "RPUSH email earlier");
    redis_ok(f.r, "ZADD email:delayed 3000 c 1000 a 2000 b 9999999999999 later");
    cr_assert_eq(take_moved(promote(&f, ask), NULL), 3);
    static const char *const order[] = {"earlier", "a", "b", "c", NULL};
    for (size_t i = 0; i < 5; i++) redis_expect(f.r, order[i], "LPOP email");
    cr_assert_eq(redis_int(f.r, "ZCARD email:delayed"), 1);
}

Test(redis_script_promote, never_early) {
    static const char *const units[] = {"ms", "s"};
    static const double per_us[] = {1e-3, 1e-6};
    for (int round = 0; round < 20; round++) {
        ask_t ask = ask_new();
        ask.unit = units[round % 2];
        double due_us = (double)redis_us(f.r) + 1000 + 97 * round; /* falls between two ms */
        redis_ok(f.r, "ZADD email:delayed %.17g job", due_us * per_us[round % 2]);
        for (long long moved = 0; !moved;) {
            redisReply *reply = promote(&f, ask);
            double now_us = strtod(word(reply, 2), NULL);
            moved = take_moved(reply, NULL);
            if (moved) cr_assert_geq(now_us, due_us - 0.6, "early by %g us", due_us - now_us);
            cr_assert_lt(now_us, due_us + 3e6, "the job does not become ready");
        }
        redis_expect(f.r, "job", "RPOP email");
    }
}

Test(redis_script_promote, odd_scores) {
    redis_ok(f.r, "ZADD email:delayed -inf e -1.5e300 d -7 c -0.5 b 0 a 0.25 f 1e-320 g +inf never 1e300 far");
    double soon = (double)redis_us(f.r) / 1e3 + 3600e3;
    redis_ok(f.r, "ZADD email:delayed %.17g hour %.17g seconds", soon, soon / 1e3);
    redisReply *reply = promote(&f, ask_new());
    cr_assert_str_eq(word(reply, 3), "-inf");
    cr_assert_eq(take_moved(reply, NULL), 8, "a score in seconds is long due if the unit is ms");
    static const char *const order[] = {"e", "d", "c", "b", "a", "g", "f", "seconds"};
    for (size_t i = 0; i < 8; i++) redis_expect(f.r, order[i], "RPOP email");
    cr_assert_eq(redis_int(f.r, "ZCARD email:delayed"), 3);
    ask_t ask = ask_new();
    ask.unit = "s";
    redis_ok(f.r, "ZADD email:delayed 1500000000000 milliseconds 1500000000 due");
    cr_assert_eq(take_moved(promote(&f, ask), NULL), 1, "a score in ms is far in the future if the unit is s");
    redis_expect(f.r, "due", "RPOP email");
    cr_assert_eq(redis_int(f.r, "ZCARD email:delayed"), 4);
}

/* Each such job is told, wherever it is in the batch. Jobs that stay are not. */
Test(redis_script_promote, jobs_whose_score_is_no_time_are_counted) {
    static const struct {
        const char *jobs, *unit, *first;
        long long moved, early;
    } rows[] = {
        {"0 a 5000 b 6000 c 7000 d", "ms", "5000", 4, 3},
        {"5 large 6 a 0 b 100000000001 c 99999999999 d", "ms", "6", 4, 2},
        {"-1 a 0 b 1500000000 c 999999999 d", "s", "999999999", 4, 1},
        {"0 a 100000000001 b", "ms", "", 2, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(f.r, "DEL email email:delayed");
        redis_ok(f.r, kept_printf("ZADD email:delayed %s", rows[i].jobs));
        for (long long first = 2; first < 20; first += 10) { /* with and without scores in the first read */
            ask_t ask = ask_new();
            ask.unit = rows[i].unit, ask.payload = 4, ask.first = first;
            redisReply *reply = promote(&f, ask);
            cr_assert_eq(number(reply, 1), rows[i].moved, "row %zu", i);
            cr_assert_eq(reply->elements > 11 ? number(reply, 11) : 0, rows[i].early, "row %zu", i);
            if (rows[i].early) cr_assert_str_eq(word(reply, 12), rows[i].first, "row %zu", i);
            freeReplyObject(reply);
            redis_ok(f.r, kept_printf("ZADD email:delayed %s", rows[i].jobs));
        }
    }
    redis_ok(f.r, "DEL email:delayed");
    for (int i = 0; i < 500; i++) redis_ok(f.r, "ZADD email:delayed %d %d", 5001 + i, i);
    cr_assert_eq(number(kept(promote(&f, ask_new())), 11), 500, "all chunks of a batch");
}

Test(redis_script_promote, bytes_do_not_change) {
    static const struct {
        const char *bytes;
        size_t len;
    } jobs[] = {{"", 0},
                {"a\0b", 3},
                {"\0", 1},
                {"\xff\xfe\xc3", 3},
                {"line\r\n", 6},
                {"{\"n\":1e999999}", 13},
                {"12345678901234567890", 20},
                {" ", 1},
                {"-inf", 4}};
    enum { JOBS = sizeof jobs / sizeof *jobs };
    for (size_t i = 0; i < JOBS; i++) redis_ok(f.r, "ZADD email:delayed %d %b", (int)i, jobs[i].bytes, jobs[i].len);
    cr_assert_eq(take_moved(promote(&f, ask_new()), NULL), JOBS);
    for (size_t i = 0; i < JOBS; i++) {
        redisReply *reply = redis_do(f.r, "RPOP email");
        cr_assert_eq(reply->type, REDIS_REPLY_STRING);
        cr_assert_eq(reply->len, jobs[i].len);
        cr_assert_eq(memcmp(reply->str, jobs[i].bytes, reply->len), 0, "job %zu", i);
    }
    cr_assert_eq(redis_int(f.r, "DBSIZE"), 1, "only the lock is left");
}

Test(redis_script_promote, the_largest_batch) {
    for (int i = 0; i < 6000; i++) redisAppendCommand(f.r, "ZADD email:delayed %d job%d", i / 7, i);
    for (int i = 0; i < 6000; i++) {
        redisReply *reply;
        cr_assert_eq(redisGetReply(f.r, (void **)&reply), REDIS_OK);
        freeReplyObject(reply);
    }
    ask_t ask = ask_new();
    ask.batch = 5000;
    cr_assert_eq(take_moved(promote(&f, ask), NULL), 5000);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 5000);
    cr_assert_eq(redis_int(f.r, "ZCARD email:delayed"), 1000);
    cr_assert_eq(take_moved(promote(&f, ask), NULL), 1000);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 6000);
    redis_expect(f.r, "job0", "RPOP email");
}

Test(redis_script_promote, small_batches_move_all_equal_scores) {
    for (int i = 0; i < 100; i++) redis_ok(f.r, "ZADD email:delayed %s job%02d", i < 50 ? "-3" : "5", i);
    ask_t ask = ask_new();
    ask.batch = 7;
    long long sum = 0;
    for (long long moved; (moved = take_moved(promote(&f, ask), NULL)) > 0; sum += moved) {
        cr_assert_leq(moved, 7);
        cr_assert_eq(redis_int(f.r, "LLEN email") + redis_int(f.r, "ZCARD email:delayed"), 100);
    }
    cr_assert_eq(sum, 100);
    char expected[8];
    for (int i = 0; i < 100; i++) {
        snprintf(expected, sizeof expected, "job%02d", i);
        redis_expect(f.r, expected, "RPOP email");
    }
}

Test(redis_script_promote, bytes_that_are_in_ready_already_are_a_job_of_their_own) {
    redis_ok(f.r, "LPUSH email same");
    redis_ok(f.r, "ZADD email:delayed 1 same");
    cr_assert_eq(take_moved(promote(&f, ask_new()), NULL), 1);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 2);
    cr_assert_eq(redis_int(f.r, "EXISTS email:delayed"), 0);
}

Test(redis_script_promote, ready_grows_to_its_limit) {
    redis_ok(f.r, "RPUSH email x");
    redis_ok(f.r, "ZADD email:delayed 1 a 2 b 3 c 4 d 5 e");
    ask_t ask = ask_new();
    ask.limit = 3;
    cr_assert_eq(take_moved(promote(&f, ask), NULL), 2);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 3);
    for (int extra = 0; extra < 2; extra++) { /* at the limit, and above it */
        char *before = fixture_digest(f.r);
        redisReply *reply = promote(&f, ask);
        check_now(word(reply, 1));
        cr_assert_eq(reply->elements, 2);
        expect_reply(reply, "full", NULL, NULL);
        redis_expect(f.r, before, "DEBUG DIGEST");
        redis_ok(f.r, "LPUSH email y");
    }
    redis_ok(f.r, "DEL email");
    cr_assert_eq(take_moved(promote(&f, ask), NULL), 3);
}

Test(redis_script_promote, skip_never_removes_a_job_that_was_not_pushed) {
    for (long long skip = 0; skip < 8; skip++) {
        redis_ok(f.r, "DEL email email:delayed");
        redis_ok(f.r, "ZADD email:delayed -9 a -8 b -inf c 0 d 5 e 9999999999999 later");
        ask_t ask = ask_new();
        ask.skip = skip;
        ask.batch = 2;
        long long due = skip < 5 ? 5 - skip : 0;
        cr_assert_eq(take_moved(promote(&f, ask), NULL), due < 2 ? due : 2);
        cr_assert_eq(redis_int(f.r, "LLEN email") + redis_int(f.r, "ZCARD email:delayed"), 6);
        static const char *const order[] = {"c", "a", "b", "d", "e"};
        for (size_t i = 0; i < 5; i++) {
            bool pushed = (long long)i >= skip && (long long)i < skip + 2;
            redis_expect(f.r, pushed ? "0" : "1", "EVAL %s 2 email:delayed email %s",
                         "local there = redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0 "
                         "local pushed = #redis.call('LPOS', KEYS[2], ARGV[1], 'COUNT', 0) "
                         "if there + pushed ~= 1 then return 'lost or doubled' end return tostring(there)",
                         order[i]);
        }
        if (due) redis_expect(f.r, order[skip], "RPOP email");
    }
}

/* Calls promote.lua and checks that the call changes nothing. */
static redisReply *promote_in_vain(void) {
    char *before = fixture_digest(f.r);
    redisReply *reply = promote(&f, ask_new());
    redis_expect(f.r, before, "DEBUG DIGEST");
    return kept(reply);
}

Test(redis_script_promote, moves_nothing_without_the_lock) {
    redis_ok(f.r, "ZADD email:delayed 1 a 2 b");
    static const char *const locks[] = {"SET sidecar:app:lock other", "SET sidecar:app:lock %b", "DEL sidecar:app:lock",
                                        "SET sidecar:app:lock TT", "SET sidecar:app:lock t"};
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        redis_ok(f.r, locks[i], "", (size_t)0);
        redisReply *reply = promote_in_vain();
        cr_assert_eq(reply->elements, 1);
        expect_reply(reply, "fenced", NULL, NULL);
    }
    redis_ok(f.r, "SET sidecar:app:lock T PX 1");
    cr_assert(wait_for(redis_int(f.r, "EXISTS sidecar:app:lock") == 0, 3000));
    expect_reply(promote_in_vain(), "fenced", NULL, NULL);
}

Test(redis_script_promote, leaves_the_queues_of_other_groups_alone) {
    redis_ok(f.r, "ZADD email:delayed 1 a");
    redis_ok(f.r, "HSET sidecar:email:meta group others");
    expect_reply(promote_in_vain(), "owner", "others", NULL);
    redis_ok(f.r, "HSET sidecar:email:meta group %b", "", (size_t)0);
    expect_reply(promote_in_vain(), "owner", "", NULL);
    redis_ok(f.r, "DEL sidecar:email:meta");
    redis_ok(f.r, "HSET sidecar:email:meta another field");
    cr_assert_eq(take_moved(promote(&f, ask_new()), NULL), 1);
    redis_ok(f.r, "ZADD email:delayed 1 a");
    redis_ok(f.r, "HSET sidecar:email:meta group app");
    cr_assert_eq(take_moved(promote(&f, ask_new()), NULL), 1);
}

Test(redis_script_promote, keys_of_the_wrong_type_lose_nothing) {
    static const struct {
        const char *what, *key, *right;
    } keys[] = {{"delayed", "email:delayed", "zset"}, {"ready", "email", "list"}, {"meta", "sidecar:email:meta", "hash"}};
    for (size_t k = 0; k < 3; k++) {
        for_other_types (type, keys[k].right) {
            redis_ok(f.r, "DEL email email:delayed sidecar:email:meta");
            redis_ok(f.r, "ZADD email:delayed 1 a 2 b");
            fixture_make_key(f.r, keys[k].key, type);
            expect_reply(promote_in_vain(), "type", keys[k].what, type);
        }
    }
    redis_ok(f.r, "DEL sidecar:email:meta");
    for (size_t t = 0; t < FIXTURE_TYPES; t++) { /* a string is the token of another leader */
        fixture_make_key(f.r, "sidecar:app:lock", fixture_types[t]);
        redisReply *reply = promote_in_vain();
        if (strcmp(fixture_types[t], "string") == 0)
            cr_assert_str_eq(word(reply, 0), "fenced");
        else
            cr_assert(reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "WRONGTYPE "), "%s", reply->str);
    }
}

/* Three queues with 300 due jobs each, in one call. Kept. */
static redisReply *promote_three(long long slice, const char *change) {
    size_t len;
    const char *text = fixture_script(&script_promote, &len);
    redis_ok(f.r, "DEL a b c");
    redis_ok(f.r, "EVAL %s 3 a:delayed b:delayed c:delayed",
             "for _, key in ipairs(KEYS) do for i = 1, 300 do redis.call('ZADD', key, i, i) end end return 1");
    redis_ok(f.r, change);
#define OF_QUEUE " 500 ms 0 9999 0 999999 2 right"
    return redis_do(
        f.r, "EVAL %b 10 sidecar:app:lock a:delayed a am b:delayed b bm c:delayed c cm T app %lld" OF_QUEUE OF_QUEUE OF_QUEUE,
        text, len, slice);
}

static void expect_moved_of(const char *queue, const redisReply *reply, const char *kind, long long moved) {
    cr_assert_str_eq(word(reply, 0), kind, "%s", queue);
    if (moved) cr_assert_eq(number(reply, 1), moved, "%s", queue);
    cr_assert_eq(redis_int(f.r, "LLEN %s", queue), moved);
    cr_assert_eq(redis_int(f.r, "ZCARD %s:delayed", queue), 300 - moved);
}

/* The first queue has its turn even if there is no time at all. A batch ends between two chunks. */
Test(redis_script_promote, ends_when_the_slice_is_over) {
    enum { CHUNK = 128 };
    redisReply *reply = promote_three(1, "PING");
    cr_assert_eq(reply->elements, 3);
    expect_moved_of("a", reply->element[0], "more", CHUNK);
    expect_moved_of("b", reply->element[1], "later", 0);
    expect_moved_of("c", reply->element[2], "later", 0);
    reply = promote_three(1000000000, "PING");
    for (size_t i = 0; i < 3; i++) expect_moved_of(i == 0 ? "a" : i == 1 ? "b" : "c", reply->element[i], "moved", 300);
    redis_expect(f.r, "1", "RPOP c");
    redis_expect(f.r, "300", "LPOP c");
}

/* A chunk of 128 jobs of 10 KB would take Redis some 3 ms. */
Test(redis_script_promote, a_chunk_of_long_jobs_is_short) {
    enum { JOBS = 40, CHUNK_BYTES = 128 * 1024, LONG = 10000 };
    redis_ok(f.r, "EVAL %s 1 email:delayed %d %d",
             "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], i, string.format('%04d', i) .. string.rep('x', ARGV[2] - 4)) end "
             "return 1",
             JOBS, LONG);
    ask_t ask = ask_new();
    ask.slice = 1;
    redisReply *reply = promote(&f, ask);
    cr_assert_str_eq(word(reply, 0), "more");
    cr_assert_eq(number(reply, 1), CHUNK_BYTES / LONG + 1);
    cr_assert_eq(redis_int(f.r, "ZCARD email:delayed") + redis_int(f.r, "LLEN email"), JOBS);
    ask.slice = 1000000000;
    cr_assert_eq(take_moved(promote(&f, ask), NULL), JOBS - CHUNK_BYTES / LONG - 1, "a batch goes on behind a short chunk");
}

/* The size of the entries before says nothing about the next ones. 600 of them at once would take Redis 30 ms. */
Test(redis_script_promote, long_jobs_behind_short_ones_are_read_in_steps) {
    enum { SHORT = 128, LONG = 600, LONG_BYTES = 60000, STEPS_BYTES = 8 * 1024 * 1024 };
    redis_ok(f.r, "EVAL %s 1 email:delayed %d %d %d",
             "for i = 1, ARGV[1] + ARGV[2] do local job = string.format('%04d', i) "
             "if i > tonumber(ARGV[1]) then job = job .. string.rep('x', ARGV[3] - 4) end "
             "redis.call('ZADD', KEYS[1], i, job) end return 1",
             SHORT, LONG, LONG_BYTES);
    ask_t ask = ask_new();
    ask.slice = 20000;
    ask.batch = 5000;
    ask.bytes = 2 * 1024 * 1024;
    long long moved = 0;
    for (int calls = 0; moved <= SHORT && calls < 10; calls++) { /* a busy machine ends a slice before the long jobs */
        redisReply *reply = promote(&f, ask);
        moved += number(reply, 1);
        cr_assert_lt(number(reply, 4), STEPS_BYTES, "%lld bytes", number(reply, 4));
    }
    cr_assert_gt(moved, SHORT);
    cr_assert_eq(redis_int(f.r, "ZCARD email:delayed") + redis_int(f.r, "LLEN email"), SHORT + LONG);
}

Test(redis_script_promote, an_error_of_one_queue_leaves_the_others_valid) {
    static const char *const breaks[] = {"SET b x", "HSET bm group others", "SET bm x"}, *const kinds[] = {"type", "owner",
                                                                                                           "type"};
    for (size_t i = 0; i < 3; i++) {
        fixture_stop(&f);
        f = fixture_start_locked();
        redisReply *reply = promote_three(1000000000, breaks[i]);
        expect_moved_of("a", reply->element[0], "moved", 300);
        cr_assert_str_eq(word(reply->element[1], 0), kinds[i]);
        cr_assert_eq(redis_int(f.r, "ZCARD b:delayed"), 300);
        expect_moved_of("c", reply->element[2], "moved", 300);
    }
}

/* A random history of one queue: producers add, workers take, promote runs with random settings. */
typedef struct {
    fixture_t *f;
    unsigned seed;
    int added;
} history_t;

enum { MEMBERS = 3000, LONGEST = 120 };

static unsigned draw(history_t *h, unsigned below) { return (unsigned)rand_r(&h->seed) % below; }

/* Adds a job whose bytes begin with its number; its score may be anything, and often equals others. */
static void add_job(history_t *h) {
    static const char *const odd[] = {"-inf", "+inf", "-1e308", "1e308", "0", "-0.5"};
    char job[LONGEST], score[40];
    int len = snprintf(job, sizeof job, "%05d ", h->added++);
    int tail = (int)draw(h, 10) ? (int)draw(h, 20) : (int)draw(h, LONGEST - 10);
    for (int i = 0; i < tail; i++) job[len++] = (char)draw(h, 256);
    switch (draw(h, 6)) {
    case 0: snprintf(score, sizeof score, "%s", odd[draw(h, 6)]); break;
    case 1: snprintf(score, sizeof score, "%lld", redis_us(h->f->r) / 1000 + 3600000); break;
    case 2: snprintf(score, sizeof score, "%.17g", (double)redis_us(h->f->r) / 1000 + 2); break;
    default: snprintf(score, sizeof score, "%d", (int)draw(h, 40) - 20); break;
    }
    redis_ok(h->f->r, "ZADD email:delayed %s %b", score, job, (size_t)len);
}

static void take_some(history_t *h) {
    for (unsigned n = draw(h, 30); n > 0; n--) redis_ok(h->f->r, "LMOVE email done RIGHT LEFT");
}

static void promote_some(history_t *h) {
    redis_t *r = h->f->r;
    ask_t ask = ask_new();
    ask.batch = 1 + draw(h, 3) * draw(h, 40);
    ask.limit = draw(h, 3) ? 0 : 1 + draw(h, 60);
    ask.payload = draw(h, 2) ? LONGEST : draw(h, LONGEST);
    ask.bytes = draw(h, 2) ? 1 << 30 : draw(h, 20 * LONGEST);
    ask.skip = draw(h, 2) ? 0 : draw(h, 20);
    ask.unit = draw(h, 8) ? "ms" : "s";
    ask.first = draw(h, 2) ? 2 : draw(h, 600);
    long long ready = redis_int(r, "LLEN email"), delayed = redis_int(r, "ZCARD email:delayed"), large = 0;
    redisReply *reply = promote(h->f, ask);
    if (strcmp(word(reply, 0), "full") == 0) {
        cr_assert(ask.limit > 0 && ready >= ask.limit, "seed %u", h->seed);
        return;
    }
    long long moved = take_moved(reply, &large);
    cr_assert_leq(moved + large, ask.batch);
    cr_assert(!ask.limit || ready + moved <= ask.limit, "limit %lld broken, seed %u", ask.limit, h->seed);
    cr_assert_eq(redis_int(r, "LLEN email"), ready + moved, "seed %u", h->seed);
    cr_assert_eq(redis_int(r, "ZCARD email:delayed"), delayed - moved, "seed %u", h->seed);
}

/* Marks in `seen` the job whose number begins these bytes. */
static void mark(char *seen, const redisReply *job, unsigned seed) {
    long number_of = strtol(job->str, NULL, 10);
    cr_assert(number_of >= 0 && number_of < MEMBERS && seen[number_of] == 0, "job %ld is there twice, seed %u", number_of, seed);
    seen[number_of] = 1;
}

static void mark_all(char *seen, redis_t *r, const char *command, unsigned seed) {
    redisReply *reply = redis_do(r, command);
    for (size_t i = 0; i < reply->elements; i++) mark(seen, reply->element[i], seed);
}

Test(redis_script_promote, no_random_history_loses_or_doubles_a_job) {
    const char *chosen = getenv("QS_TEST_SEED");
    unsigned seed = chosen ? (unsigned)strtoul(chosen, NULL, 10) : (unsigned)wait_now_us();
    history_t h = {.f = &f, .seed = seed};
    cr_log_info("QS_TEST_SEED=%u", seed);
    while (h.added < MEMBERS) {
        for (unsigned n = draw(&h, 60); n > 0 && h.added < MEMBERS; n--) add_job(&h);
        promote_some(&h);
        if (draw(&h, 3) == 0) take_some(&h);
        promote_some(&h);
    }
    char *seen = kept(calloc(MEMBERS, 1));
    mark_all(seen, f.r, "LRANGE email 0 -1", seed);
    mark_all(seen, f.r, "LRANGE done 0 -1", seed);
    mark_all(seen, f.r, "ZRANGE email:delayed 0 -1", seed);
    for (int i = 0; i < MEMBERS; i++) cr_assert(seen[i], "job %d is lost, QS_TEST_SEED=%u", i, seed);
    redisReply *reply = redis_do(f.r, "LRANGE done 0 -1");
    cr_assert_gt(reply->elements, 100, "this history moved too few jobs, seed %u", seed);
}
