/* The scripts of private_queues, called by EVAL: replies, and refusals that change no key. */
#include "dialects/private_queues/scripts.h"
#include "monitor/monitor_call.h"
#include "queue/scripts.h"

static const char LOCK[] = "sidecar:app:lock", RECORDED[] = "sidecar:email:recorded", FAILURES[] = "sidecar:email:failures";
static const char META[] = "sidecar:email:meta";

static redisReply *tails(redis_t *r, const char *most, const char *size, int keys, const char *const names[]) {
    char count[12];
    snprintf(count, sizeof count, "%d", keys);
    eval_t call = call_begin(&script_private_tails, count);
    for (int i = 0; i < keys; i++) call_text(&call, names[i]);
    call_text(&call, most);
    call_text(&call, size);
    redisReply *reply = call_in_vain(&call, r);
    cr_assert_eq(reply->type, REDIS_REPLY_ARRAY, "%s", reply->str);
    return reply;
}

static void expect_tail(const redisReply *reply, size_t nth, long long list, const char *tail, long long size) {
    cr_assert_eq(reply->element[1 + 4 * nth]->integer, list);
    cr_assert_str_eq(reply->element[2 + 4 * nth]->str, tail);
    cr_assert_eq(reply->element[3 + 4 * nth]->integer, size);
    cr_assert_eq(reply->element[4 + 4 * nth]->len, *tail ? 0 : 40);
}

static fixture_t f;
SUITE(redis_private_scripts, f = fixture_start(NULL), fixture_stop(&f));

Test(redis_private_scripts, tails_of_many_lists) {
    static const char *const names[] = {"queue-a", "queue-b", "queue-c", "queue-d", "queue-e"};
    redis_ok(f.r, "RPUSH queue-a behind tail-a");
    redis_ok(f.r, "SET queue-b text"); /* not a list: does not affect the others */
    redis_ok(f.r, "RPUSH queue-d %b", "\0x\0", (size_t)3);
    redis_ok(f.r, "RPUSH queue-e behind 123456789");
    redisReply *reply = kept(tails(f.r, "8", "1000", 5, names));
    cr_assert_eq(reply->element[0]->integer, 5);
    cr_assert_eq(reply->elements, 1 + 3 * 4);
    expect_tail(reply, 0, 1, "tail-a", 6);
    cr_assert(reply->element[6]->len == 3 && memcmp(reply->element[6]->str, "\0x\0", 3) == 0);
    expect_tail(reply, 2, 5, "", 9);
    cr_assert_str_eq(reply->element[12]->str, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"); /* SHA-1 of 123456789 */
    reply = kept(tails(f.r, "8", "5", 5, names));                                          /* the rest is for the next request */
    cr_assert_eq(reply->element[0]->integer, 1);
    cr_assert_eq(reply->elements, 1 + 4);
}

typedef struct {
    const char *token, *skip, *count, *most, *size, *renew, *forget;
} letters_t;

static const letters_t LETTERS = {"T", "0", "100", "1000", "100000", "3600000", ""};

static redisReply *letters(redis_t *r, letters_t ask) {
    eval_t call = call_begin(&script_dead_letters, "3");
    const char *const texts[] = {LOCK,      "fights-dlq", RECORDED, ask.token, ask.skip,
                                 ask.count, ask.most,     ask.size, ask.renew, ask.forget};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) call_text(&call, texts[i]);
    return call_end(&call, r);
}

static redisReply *expect_letters(redisReply *reply, long long looked, long long ended, size_t unknown) {
    cr_assert_eq(reply->type, REDIS_REPLY_ARRAY, "%s", reply->str);
    cr_assert_str_eq(reply->element[0]->str, "letters");
    cr_assert_eq(reply->element[2]->integer, looked);
    cr_assert_eq(reply->element[3]->integer, ended);
    cr_assert_eq(reply->elements, 4 + 3 * unknown);
    return reply;
}

Test(redis_private_scripts, letters_without_a_record) {
    redis_ok(f.r, "SET %s T", LOCK);
    freeReplyObject(expect_letters(letters(f.r, LETTERS), 0, 1, 0));
    for (int i = 0; i < 20; i++) redis_ok(f.r, "RPUSH fights-dlq job%d", i);
    redisReply *reply = kept(expect_letters(letters(f.r, LETTERS), 20, 1, 20));
    cr_assert_str_eq(reply->element[4]->str, "job0");
    cr_assert_eq(reply->element[5]->integer, 4);
    char *mark = redis_str(f.r, "EVAL %s 0", "return redis.sha1hex('job0')");
    cr_assert_str_eq(reply->element[6]->str, mark);
    redis_ok(f.r, "ZADD %s %lld %s", RECORDED, redis_ms(f.r), mark);
    freeReplyObject(expect_letters(letters(f.r, LETTERS), 20, 1, 19));
    letters_t ask = LETTERS;
    ask.skip = "18";
    freeReplyObject(expect_letters(letters(f.r, ask), 2, 1, 2));
    ask.skip = "20";
    freeReplyObject(expect_letters(letters(f.r, ask), 0, 1, 0));
    ask.skip = "-4", ask.count = "4";
    reply = kept(expect_letters(letters(f.r, ask), 4, 0, 4));
    cr_assert_str_eq(reply->element[4]->str, "job19");
    ask.skip = "-20", ask.count = "20", ask.size = "11"; /* from the tail the last entry comes first */
    reply = kept(expect_letters(letters(f.r, ask), 3, 0, 3));
    cr_assert_str_eq(reply->element[4]->str, "job19");
    ask.size = LETTERS.size;
    ask.skip = "-100", ask.count = "100"; /* more entries than the list has */
    freeReplyObject(expect_letters(letters(f.r, ask), 20, 0, 19));
    ask = LETTERS, ask.size = "9"; /* a call ends with the entry that reaches the bytes */
    freeReplyObject(expect_letters(letters(f.r, ask), 3, 0, 2));
    ask = LETTERS, ask.most = "4"; /* job10 to job19 are too large */
    reply = kept(expect_letters(letters(f.r, ask), 20, 1, 19));
    cr_assert_eq(reply->element[4 + 3 * 9]->len, 0);
    cr_assert_eq(reply->element[5 + 3 * 9]->integer, 5);
}

Test(redis_private_scripts, letters_of_the_wrong_type_change_nothing) {
    static const struct {
        const char *what, *key, *right;
    } keys[] = {{"fights-dlq", "fights-dlq", "list"}, {RECORDED, RECORDED, "zset"}};
    letters_t ask = LETTERS;
    ask.forget = "60000"; /* so that the call would also remove marks */
    for (size_t k = 0; k < 2; k++)
        for_other_types (type, keys[k].right) {
            redis_ok(f.r, "FLUSHALL");
            redis_ok(f.r, "SET %s T", LOCK);
            redis_ok(f.r, "RPUSH fights-dlq there");
            redis_ok(f.r, "ZADD %s 1000 gone", RECORDED);
            fixture_make_key(f.r, keys[k].key, type);
            char *before = fixture_digest(f.r);
            expect_type(letters(f.r, ask), keys[k].what, type);
            redis_expect(f.r, before, "DEBUG DIGEST");
        }
}

Test(redis_private_scripts, removes_marks_of_removed_dead_letters) {
    char *there = NULL, *gone = NULL;
    long long before = redis_ms(f.r);
    redis_ok(f.r, "SET %s T", LOCK);
    redis_ok(f.r, "RPUSH fights-dlq there");
    there = redis_str(f.r, "EVAL %s 0", "return redis.sha1hex('there')");
    gone = redis_str(f.r, "EVAL %s 0", "return redis.sha1hex('gone')");
    redis_ok(f.r, "ZADD %s 1000 %s 1000 %s", RECORDED, there, gone);
    letters_t ask = LETTERS;
    ask.count = "1", ask.forget = "60000";
    freeReplyObject(expect_letters(letters(f.r, ask), 1, 0, 0)); /* the call did not reach the end of the list */
    cr_assert_eq(redis_int(f.r, "ZCARD %s", RECORDED), 2);
    redis_ok(f.r, "RPUSH fights-dlq more");
    ask.count = "9", ask.size = "1";
    freeReplyObject(expect_letters(letters(f.r, ask), 1, 0, 0)); /* nor did this one, because of the bytes */
    cr_assert_eq(redis_int(f.r, "ZCARD %s", RECORDED), 2);
    redis_ok(f.r, "RPOP fights-dlq");
    ask.size = LETTERS.size;
    freeReplyObject(expect_letters(letters(f.r, ask), 1, 1, 0));
    redis_expect(f.r, NULL, "ZSCORE %s %s", RECORDED, gone);
    char *score = redis_str(f.r, "ZSCORE %s %s", RECORDED, there);
    cr_assert(score && strtoll(score, NULL, 10) >= before, "%s", score);
}

static redisReply *record(redis_t *r, const char *token, const char *mark, const char *most, bool in_vain) {
    eval_t call = call_begin(&script_record_once, "4");
    const char *const texts[] = {LOCK, RECORDED, FAILURES, META, token, mark, most, "", "kind", "failed", "payload", "bytes"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) call_text(&call, texts[i]);
    return in_vain ? call_in_vain(&call, r) : call_end(&call, r);
}

Test(redis_private_scripts, a_record_is_written_once) {
    redis_ok(f.r, "SET %s T", LOCK);
    expect_word(record(f.r, "T", "m", "1000", false), "settled");
    expect_word(record(f.r, "T", "m", "1000", true), "changed");
    cr_assert_eq(redis_int(f.r, "XLEN %s", FAILURES), 1);
    redis_expect(f.r, "24", "HGET %s bytes", META); /* the values of at, kind and payload */
    redis_expect(f.r, "1", "HGET %s entries", META);
    cr_assert_eq(redis_int(f.r, "EVAL %s 2 %s %s",
                           "return #redis.call('XRANGE', KEYS[1], redis.call('HGET', KEYS[2], 'last'), '+')", FAILURES, META),
                 1);
    expect_word(record(f.r, "T", "n", "47", true), "full");
    expect_word(record(f.r, "T", "n", "48", false), "settled");
    redis_expect(f.r, "48", "HGET %s bytes", META);
    expect_word(record(f.r, "t", "o", "1000", true), "fenced");
    static const struct {
        const char *what, *key, *right;
    } keys[] = {{"recorded", RECORDED, "zset"}, {"failures", FAILURES, "stream"}, {"meta", META, "hash"}};
    for (size_t k = 0; k < 3; k++)
        for_other_types (type, keys[k].right) {
            redis_ok(f.r, "FLUSHALL");
            redis_ok(f.r, "SET %s T", LOCK);
            fixture_make_key(f.r, keys[k].key, type);
            expect_type(record(f.r, "T", "m", "1000", true), keys[k].what, type);
        }
    redis_ok(f.r, "FLUSHALL");
    redis_ok(f.r, "SET %s T", LOCK);
    redis_ok(f.r, "XADD %s 18446744073709551615-18446744073709551615 event last", FAILURES); /* no id can follow */
    expect_word(record(f.r, "T", "m", "1000", true), "full");
}
