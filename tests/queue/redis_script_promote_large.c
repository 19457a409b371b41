/* promote.lua and the size of entries: oversized entries stay and are named, and no call reads much more than `bytes`. */
#include "promote_call.h"

static void fill(fixture_t *f, const char *pattern) {
    char large[2000];
    memset(large, 'L', sizeof large);
    redis_ok(f->r, "DEL email email:delayed");
    for (int i = 0; pattern[i]; i++) {
        large[0] = (char)('a' + i);
        redis_ok(f->r, "ZADD email:delayed %d %b", i - 3, large, pattern[i] == 'L' ? sizeof large : (size_t)1);
    }
}

static fixture_t f;
SUITE(redis_script_promote_large, f = fixture_start_locked(), fixture_stop(&f));

Test(redis_script_promote_large, large_entries_stay_and_are_named) {
    fill(&f, "sLsLs");
    ask_t ask = ask_new();
    ask.payload = 1999;
    redisReply *reply = promote(&f, ask);
    cr_assert_str_eq(word(reply, 3), "-3");
    cr_assert_eq(number(reply, 4), 3 + 2 * 2000, "bytes read");
    cr_assert_str_eq(word(reply, 6), "-2", "score of the first large one");
    cr_assert_eq(number(reply, 7), 2000);
    redisReply *first = redis_do(f.r, "ZRANGE email:delayed 0 0");
    redis_expect(f.r, word(reply, 8), "EVAL %s 0 %b", "return redis.sha1hex(ARGV[1])", first->element[0]->str,
                 first->element[0]->len);
    long long large;
    cr_assert_eq(take_moved(reply, &large), 3);
    cr_assert_eq(large, 2);
    redis_expect(f.r, "a", "RPOP email");
    redis_expect(f.r, "c", "RPOP email");
    redis_expect(f.r, "e", "RPOP email");
    cr_assert_eq(redis_int(f.r, "ZCARD email:delayed"), 2);
    ask.payload = 2000;
    cr_assert_eq(take_moved(promote(&f, ask), &large), 2, "an entry of max_payload bytes fits");
    cr_assert_eq(large, 0);
}

/* With `skip` too, the reply has the score and the SHA-1 of the same entry. */
Test(redis_script_promote_large, names_the_first_large_entry_behind_skip) {
    static const char *const first[] = {"-3", "-2", "0", "0", "1"}; /* score of the first L of "LLsLLs" behind each skip */
    ask_t ask = ask_new();
    ask.payload = 1999;
    for (ask.skip = 0; ask.skip < (long long)(sizeof first / sizeof *first); ask.skip++) {
        fill(&f, "LLsLLs");
        const char *score = first[ask.skip];
        char *digest = redis_str(f.r, "EVAL %s 1 email:delayed %s",
                                 "return redis.sha1hex(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[1])[1])", score);
        redisReply *reply = promote(&f, ask);
        cr_assert_str_eq(word(reply, 6), score, "%s, skip %lld", word(reply, 6), ask.skip);
        cr_assert_eq(number(reply, 7), 2000);
        cr_assert_str_eq(word(reply, 8), digest, "skip %lld", ask.skip);
    }
}

Test(redis_script_promote_large, large_entries_in_any_place) {
    static const char *const patterns[] = {"Lss", "sLs", "ssL", "LLL", "LLLsss", "sssLLL", "LsLsLs", "sLLs", "LLLLLLLLs", "L"};
    ask_t ask = ask_new();
    ask.payload = 100;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        const char *pattern = patterns[p];
        long long all = (long long)strlen(pattern), small = 0;
        for (const char *at = pattern; *at; at++) small += *at == 's';
        for (ask.batch = 1; ask.batch <= 4; ask.batch++) {
            fill(&f, pattern);
            long long moved = 0, large = 0;
            ask.skip = 0;
            for (long long n = -1; n != 0 || large; ask.skip += large) { /* the dispatcher skips like this */
                n = take_moved(promote(&f, ask), &large);
                moved += n;
                cr_assert_leq(n + large, ask.batch);
                cr_assert_eq(redis_int(f.r, "LLEN email") + redis_int(f.r, "ZCARD email:delayed"), all, "%s", pattern);
            }
            cr_assert_eq(moved, small, "%s, batch %lld", pattern, ask.batch);
            cr_assert_eq(ask.skip, all - small);
            /* An operator removes the large entries, so skip is 0 again. */
            redis_ok(f.r, "DEL email:delayed");
            redis_ok(f.r, "ZADD email:delayed 1 next");
            ask.skip = 0;
            cr_assert_eq(take_moved(promote(&f, ask), NULL), 1);
        }
    }
}

/* No call reads many more bytes than `bytes`, even if jobs are large. */
Test(redis_script_promote_large, ends_a_batch_by_its_bytes) {
    static const char fill[] = "for i = 100, 139 do redis.call('ZADD', KEYS[1], i, i .. string.rep('x', 997)) end";
    ask_t ask = ask_new();
    ask.bytes = 5000;
    redis_ok(f.r, "EVAL %s 1 email:delayed", fill);
    for (long long left = 40, moved = 0; left > 0; left -= moved) {
        moved = take_moved(promote(&f, ask), NULL);
        cr_assert(moved >= 1 && moved <= 6, "%lld jobs of 1000 bytes at once", moved);
    }
    cr_assert_eq(
        redis_int(f.r, "EVAL %s 1 email",
                  "for i = 100, 139 do if redis.call('RPOP', KEYS[1]):sub(1, 3) + 0 ~= i then return i end end return 0"),
        0);
}

/* promote.lua reads oversized entries too, so their bytes count. */
Test(redis_script_promote_large, bytes_of_skipped_jobs_end_a_batch_too) {
    fill(&f, "LLLLLLLLs");
    ask_t ask = ask_new();
    ask.payload = 100;
    ask.bytes = 5000;
    long long large = 0;
    cr_assert_eq(take_moved(promote(&f, ask), &large), 0);
    cr_assert(large >= 2 && large <= 4, "%lld entries of 2000 bytes were read", large);
}

Test(redis_script_promote_large, reads_as_many_entries_as_first_allows) {
    static const struct { long long first, calls; } rows[] = {{100, 1}, {500, 1}, {40, 2}, {2, 3}, {1, 4}, {0, 4}, {-5, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(f.r, "EVAL %s 1 email:delayed", "for i = 1, 150 do redis.call('ZADD', KEYS[1], 1.6e12 + i, 'job' .. i) end");
        redis_ok(f.r, "CONFIG RESETSTAT");
        ask_t ask = ask_new();
        ask.batch = 100;
        ask.first = rows[i].first;
        cr_assert_eq(take_moved(promote(&f, ask), NULL), 100);
        cr_assert_eq(server_commandstat(f.server, "zrangebyscore"), rows[i].calls, "first %lld", ask.first);
        cr_assert_eq(take_moved(promote(&f, ask), NULL), 50);
    }
}

/* A call reads in chunks of 128 entries. The first chunk has an oversized entry, which stays before those of the next chunks. */
Test(redis_script_promote_large, chunks_behind_a_large_entry_move_and_it_stays) {
    enum { SMALL = 400 };
    static const char large[] = "an entry of more than payload bytes";
    redis_ok(f.r, "EVAL %s 1 email:delayed %d", "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], i, i) end return 1", SMALL);
    redis_ok(f.r, "ZADD email:delayed 3 %b", large, sizeof large - 1);
    ask_t ask = ask_new();
    ask.payload = 10;
    long long stay = 0;
    cr_assert_eq(take_moved(promote(&f, ask), &stay), SMALL);
    cr_assert_eq(stay, 1);
    redis_expect(f.r, large, "EVAL %s 1 email:delayed", "return table.concat(redis.call('ZRANGE', KEYS[1], 0, -1), ' ')");
    for (int i = 1; i <= SMALL; i++) redis_expect(f.r, kept_printf("%d", i), "RPOP email");
    cr_assert_eq(redis_int(f.r, "LLEN email"), 0);
}
