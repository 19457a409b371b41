/* failed_seen, failed_page and failed_record: each failure of Bull gets one record, for any content of the keys. */
#include "bull_failure.h"
#include "dialects/failed/scripts.h"

#define OVERLAP "600000"

/* ---- failed_seen */

static redisReply *ask_seen(redis_t *r, const char *token, const char *most, const char *seen) {
    eval_t call = call_begin(&script_failed_seen, "3");
    const char *const words[] = {BULL_LOCK, BULL "failed", SIDECAR "recorded", token, OVERLAP, most, seen, "1", "0"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) call_text(&call, words[i]);
    return kept(call_end(&call, r));
}

static long long seen(redis_t *r, const char *most, const char *move) {
    redisReply *reply = ask_seen(r, "T", most, move);
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 3, "%s", reply->str);
    cr_assert_str_eq(reply->element[0]->str, "seen");
    cr_assert_leq(llabs(strtoll(reply->element[1]->str, NULL, 10) - redis_ms(r)), 60000);
    return strtoll(reply->element[2]->str, NULL, 10);
}

static void fail_ago(redis_t *r, const char *id, long long ago_ms) {
    char finished[32];
    snprintf(finished, sizeof finished, "%lld", redis_ms(r) - ago_ms);
    bull_fail(r, id, finished, "boom");
}

static fixture_t f;
SUITE(redis_bull_failed, f = fixture_start_locked(), fixture_stop(&f));

Test(redis_bull_failed, failures_before_adoption_count_as_recorded) {
    fail_ago(f.r, "old", 3600000);
    fail_ago(f.r, "new", 1000);
    fail_ago(f.r, "ahead", -3600000);
    long long at = seen(f.r, "100", "");
    cr_expect_leq(llabs(at - redis_ms(f.r)), 60000);
    cr_expect_eq(redis_int(f.r, "ZCARD " SIDECAR "recorded"), 3); /* new, ahead and :seen; older failures are never read */
    cr_expect_eq(seen(f.r, "100", ""), at, "a second call does not move `:seen`");
}

/* More jobs failed within the overlap than get a mark, so reads must begin behind the failures without one. */
Test(redis_bull_failed, a_queue_with_many_failures_is_adopted_in_one_bounded_step) {
    long long now = redis_ms(f.r);
    redis_ok(f.r, "EVAL %s 1 " BULL "failed %lld",
             "for i = 1, 3000 do redis.call('ZADD', KEYS[1], ARGV[1] - 300000 + i, 'job' .. i) end", now);
    long long at = seen(f.r, "1200", "");
    cr_expect_eq(redis_int(f.r, "ZCARD " SIDECAR "recorded"), 1201);
    cr_expect_eq(at - 600000, now - 300000 + 1801, "reads begin at the oldest failure with a mark");
}

Test(redis_bull_failed, seen_moves_forwards_and_removes_old_marks) {
    char move[32], before[32];
    long long at = seen(f.r, "100", "");
    snprintf(move, sizeof move, "%lld", at + 1000);
    snprintf(before, sizeof before, "%lld", at - 5000);
    redis_ok(f.r, "ZADD " SIDECAR "recorded %lld gone %lld kept", at + 1000 - 600000 - 1, at + 1000 - 600000);
    cr_expect_eq(seen(f.r, "100", move), at + 1000);
    cr_expect_eq(seen(f.r, "100", before), at + 1000);
    cr_expect_eq(redis_int(f.r, "ZCARD " SIDECAR "recorded"), 2);
    redis_expect(f.r, NULL, "ZSCORE " SIDECAR "recorded gone");
}

/* Redis's clock may be set back, which makes the sidecar read old failures again: without their marks it would record them again.
 */
Test(redis_bull_failed, marks_stay_as_long_as_their_failures) {
    char move[32];
    long long at = seen(f.r, "100", ""), old = at - 7200000;
    snprintf(move, sizeof move, "%lld", at);
    redis_ok(f.r, "ZADD " BULL "failed %lld a:b %lld again", old, at);
    redis_ok(f.r, "ZADD " SIDECAR "recorded %lld a:b:%lld %lld again:%lld %lld gone:%lld %lld earlier:%lld", old, old, old + 1,
             old + 1, old + 2, old + 2, old - 1, old - 1);
    redis_ok(f.r, "EVAL %s 1 " SIDECAR "recorded %lld",
             "for i = 1, 2500 do redis.call('ZADD', KEYS[1], ARGV[1] + i, 'job' .. i .. ':' .. string.format('%.0f', ARGV[1] + "
             "i)) end",
             old);
    for (int i = 0; i < 3; i++) cr_expect_eq(seen(f.r, "100", move), at); /* each call sweeps a thousand */
    cr_expect_eq(redis_int(f.r, "ZCARD " SIDECAR "recorded"), 2);
    cr_expect_eq(redis_int(f.r, "EVAL %s 1 " SIDECAR "recorded %lld",
                           "return redis.call('ZSCORE', KEYS[1], 'a:b:' .. ARGV[1]) and 1 or 0", old),
                 1);
}

/* Redis's clock was a day ahead and has been corrected. */
Test(redis_bull_failed, seen_in_the_future_is_corrected) {
    char now[32];
    long long at = seen(f.r, "100", ""), day = 86400000;
    snprintf(now, sizeof now, "%lld", at);
    redis_ok(f.r, "ZADD " SIDECAR "recorded %lld :seen %lld old %lld new", at + day, at - 600001, at);
    cr_expect_eq(seen(f.r, "100", ""), at + day, "a call that only asks does not move `:seen`");
    cr_expect_eq(seen(f.r, "100", now), at);
    redis_expect(f.r, NULL, "ZSCORE " SIDECAR "recorded old");
    cr_expect_eq(redis_int(f.r, "ZCARD " SIDECAR "recorded"), 2);
}

Test(redis_bull_failed, seen_is_fenced_and_checks_types) {
    expect_word(ask_seen(f.r, "other", "100", ""), "fenced");
    cr_expect_eq(redis_int(f.r, "EXISTS " SIDECAR "recorded"), 0);
    fixture_make_key(f.r, BULL "failed", "list");
    expect_type(ask_seen(f.r, "T", "100", ""), "failed", "list");
    fixture_make_key(f.r, SIDECAR "recorded", "hash");
    redis_ok(f.r, "DEL " BULL "failed");
    expect_type(ask_seen(f.r, "T", "100", ""), "recorded", "hash");
}

/* ---- failed_page */

/* Arguments of one failed_page call. */
typedef struct {
    const char *from, *skip, *count, *jobs, *size, *most;
    const char *ids[4];
} page_t;

static page_t page_new(void) {
    return (page_t){.from = "-inf", .skip = "0", .count = "500", .jobs = "64", .size = "4194304", .most = "1048576"};
}

static redisReply *read_page(redis_t *r, page_t ask) {
    char fields[8];
    eval_t call = call_begin(&script_failed_page, "2");
    snprintf(fields, sizeof fields, "%d", (int)BULL_FIELDS);
    const char *const words[] = {BULL "failed", SIDECAR "recorded", BULL,     ask.from, ask.skip,
                                 ask.count,     ask.jobs,           ask.size, ask.most, fields};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) call_text(&call, words[i]);
    for (size_t i = 0; i < BULL_FIELDS; i++) call_text(&call, bull_field_names[i]);
    for (size_t i = 0; i < 4 && ask.ids[i]; i++) call_text(&call, ask.ids[i]);
    redisReply *reply = call_in_vain(&call, r);
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements >= 4, "%s", reply->str);
    cr_assert_eq((reply->elements - 4) % (3 + BULL_FIELDS), 0);
    return kept(reply);
}

static const redisReply *page_value(const redisReply *page, size_t index, size_t of) {
    return page->element[4 + index * (3 + BULL_FIELDS) + of];
}

/* Expects a page: entries read, the last score, how many entries have that score, and the returned jobs as id=state. */
static void expect_page(redis_t *r, page_t ask, long long looked, const char *last, long long same, const char *ids) {
    redisReply *page = read_page(r, ask);
    scoped(buffer_free) buffer_t found = {0};
    for (size_t i = 0; 4 + i * (3 + BULL_FIELDS) < page->elements; i++)
        buffer_printf(&found, "%s%s=%s", i ? " " : "", page_value(page, i, 0)->str, page_value(page, i, 2)->str);
    cr_expect_eq(page->element[1]->integer, looked, "%lld entries read", page->element[1]->integer);
    cr_expect_str_eq(page->element[2]->str, last);
    cr_expect_eq(page->element[3]->integer, same, "%lld have the last score", page->element[3]->integer);
    cr_expect_str_eq(buffer_text(&found), ids, "%s", buffer_text(&found));
}

Test(redis_bull_failed, a_page_has_the_fields_of_a_record) {
    bull_fail(f.r, "7", "1700000001000", "boom");
    redisReply *page = read_page(f.r, page_new());
    bull_job_t job = {0};
    cr_assert_eq(page->elements, 4 + 3 + BULL_FIELDS);
    cr_expect_str_eq(page_value(page, 0, 0)->str, "7");
    cr_expect_str_eq(page_value(page, 0, 1)->str, "1700000001000");
    cr_expect_str_eq(page_value(page, 0, 2)->str, "");
    for (size_t i = 0; i < BULL_FIELDS; i++)
        job.fields[i] = (slice_t){page_value(page, 0, 3 + i)->str, page_value(page, 0, 3 + i)->len};
    cr_expect(slice_is(job.fields[BULL_DATA], BULL_DATA_OF));
    cr_expect(slice_is(job.fields[BULL_FAILED_REASON], "boom"));
    cr_expect_eq(bull_number(&job, BULL_ATTEMPTS_MADE), 2);
    cr_expect_eq(bull_number(&job, BULL_PROCESSED_ON), 1700000000010);
    cr_expect_eq(job.fields[BULL_DEID].len, 0);
}

Test(redis_bull_failed, each_page_begins_where_the_last_ended) {
    page_t ask = page_new();
    expect_page(f.r, ask, 0, "", 0, "");
    for (int i = 0; i < 5; i++) {
        char id[2] = {(char)('a' + i), '\0'};
        bull_fail(f.r, id, i < 2 ? "1000" : "2000", "boom");
    }
    expect_page(f.r, ask, 5, "2000", 3, "a= b= c= d= e=");
    ask.count = "3";
    expect_page(f.r, ask, 3, "2000", 1, "a= b= c=");
    ask.from = "2000";
    ask.skip = "1";
    expect_page(f.r, ask, 2, "2000", 2, "d= e=");
    ask = page_new();
    ask.jobs = "2";
    expect_page(f.r, ask, 2, "1000", 2, "a= b=");
    ask = page_new();
    ask.size = "1";
    expect_page(f.r, ask, 1, "1000", 1, "a=");
    redis_ok(f.r, "ZADD " SIDECAR "recorded 1000 a:1000 2000 c:2000 1999 d:1999");
    ask.jobs = "2";
    ask.size = "4194304";
    expect_page(f.r, ask, 4, "2000", 2, "b= d="); /* d failed again since 1999 */
}

Test(redis_bull_failed, strange_jobs_do_not_affect_others) {
    char *large = kept(calloc(1, 2000001));
    memset(large, 'x', 2000000);
    bull_fail(f.r, "good", "4", "boom");
    bull_fail(f.r, "large", "3", "boom");
    redis_ok(f.r, "HSET " BULL "large data %s", large);
    redis_ok(f.r, "ZADD " BULL "failed 1 gone 2 meta-paused inf later -inf first");
    redis_ok(f.r, "SET " BULL "meta-paused 1");
    redis_ok(f.r, "HSET " BULL "first other x");
    redisReply *page = read_page(f.r, page_new());
    static const char *const states[][2] = {{"first", "none"},       {"gone", "none"}, {"meta-paused", "string"},
                                            {"large", "large 2000"}, {"good", ""},     {"later", "none"}};
    cr_assert_eq(page->elements, 4 + 6 * (3 + BULL_FIELDS));
    for (size_t i = 0; i < 6; i++) {
        cr_expect_str_eq(page_value(page, i, 0)->str, states[i][0]);
        cr_expect(strncmp(page_value(page, i, 2)->str, states[i][1], strlen(states[i][1])) == 0, "%s: %s", states[i][0],
                  page_value(page, i, 2)->str);
    }
    cr_expect_eq(page_value(page, 3, 3 + BULL_DATA)->len, 0);
    cr_expect_str_eq(page_value(page, 3, 3 + BULL_FAILED_REASON)->str, "boom");
}

Test(redis_bull_failed, reads_jobs_by_id) {
    page_t ask = page_new();
    bull_fail(f.r, "behind", "5", "boom");
    bull_fail(f.r, "known", "6", "boom");
    bull_fail(f.r, "retried", "7", "boom");
    redis_ok(f.r, "ZREM " BULL "failed retried");
    redis_ok(f.r, "ZADD " SIDECAR "recorded 6 known:6");
    ask.from = "";
    ask.ids[0] = "gone";
    ask.ids[1] = "behind";
    ask.ids[2] = "known";
    ask.ids[3] = "retried";
    expect_page(f.r, ask, 4, "", 1, "gone=none behind= retried=");
}

/* ---- failed_record */

static eval_t record_call(const char *token, const char *id, const char *score, const char *most) {
    eval_t call = call_begin(&script_failed_record, "5");
    const char *const words[] = {BULL_LOCK,
                                 BULL "failed",
                                 SIDECAR "recorded",
                                 SIDECAR "failures",
                                 SIDECAR "meta",
                                 token,
                                 id,
                                 score,
                                 "",
                                 *score ? "1" : "",
                                 most,
                                 "",
                                 "kind",
                                 "failed",
                                 "payload",
                                 "0123456789"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) call_text(&call, words[i]);
    return call;
}

static void expect_refused(redis_t *r, const char *token, const char *id, const char *score, const char *most, const char *word) {
    eval_t call = record_call(token, id, score, most);
    expect_word(call_in_vain(&call, r), word);
}

static void expect_recorded(redis_t *r, const char *id, const char *score) {
    eval_t call = record_call("T", id, score, "1000000");
    expect_word(call_end(&call, r), "settled");
}

Test(redis_bull_failed, a_failure_is_recorded_once) {
    bull_fail(f.r, "7", "1700000001000", "boom");
    expect_recorded(f.r, "7", "1700000001000");
    expect_refused(f.r, "T", "7", "1700000001000", "1000000", "changed"); /* a lost reply: the same request again */
    redis_expect(f.r, "1700000001000", "ZSCORE " SIDECAR "recorded 7:1700000001000");
    expect_records(f.r, "payload", "0123456789");
    redis_expect(f.r, "29", "HGET " SIDECAR "meta bytes"); /* at, kind, payload */
    redis_expect(f.r, "1", "HGET " SIDECAR "meta entries");
    cr_expect_eq(redis_int(f.r, "ZCARD " BULL "failed"), 1);
    cr_expect_eq(redis_int(f.r, "EXISTS " BULL "7"), 1);
    redis_ok(f.r, "ZADD " BULL "failed 1700000002000 7"); /* requeued, and failed again */
    expect_refused(f.r, "T", "7", "1700000001000", "1000000", "gone");
    expect_recorded(f.r, "7", "1700000002000");
    cr_expect_eq(redis_int(f.r, "XLEN " SIDECAR "failures"), 2);
}

Test(redis_bull_failed, each_failed_precondition_refuses_the_record) {
    expect_refused(f.r, "T", "7", "5", "1000000", "gone");
    bull_fail(f.r, "7", "5", "boom");
    expect_refused(f.r, "other", "7", "5", "1000000", "fenced");
    expect_refused(f.r, "T", "7", "5", "28", "full");
    redis_ok(f.r, "HSET " SIDECAR "meta bytes 999972");
    expect_refused(f.r, "T", "7", "5", "1000000", "full");
    redis_ok(f.r, "HSET " SIDECAR "meta entries 5"); /* a client deleted entries of the stream */
    expect_recorded(f.r, "7", "5");
    redis_ok(f.r, "DEL " BULL_LOCK);
    expect_refused(f.r, "T", "7", "5", "1000000", "fenced");
}

/* Bull removed the job at once, so only its message is left, and there is no score to mark. */
Test(redis_bull_failed, a_message_alone_leaves_no_mark) {
    expect_recorded(f.r, "7", "");
    cr_expect_eq(redis_int(f.r, "EXISTS " SIDECAR "recorded"), 0);
    cr_expect_eq(redis_int(f.r, "XLEN " SIDECAR "failures"), 1);
}

Test(redis_bull_failed, keys_of_the_wrong_type_change_nothing) {
    static const struct {
        const char *what, *key, *right;
    } keys[] = {{"failed", BULL "failed", "zset"},
                {"recorded", SIDECAR "recorded", "zset"},
                {"failures", SIDECAR "failures", "stream"},
                {"meta", SIDECAR "meta", "hash"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            redis_ok(f.r, "FLUSHALL");
            redis_ok(f.r, "SET " BULL_LOCK " T");
            bull_fail(f.r, "7", "5", "boom");
            fixture_make_key(f.r, keys[k].key, type);
            eval_t call = record_call("T", "7", "5", "1000000");
            expect_type(call_in_vain(&call, f.r), keys[k].what, type);
        }
}

/* Without any one right there is no record without its mark. Such a failure would be recorded again and again. */
Test(redis_bull_failed, a_missing_right_leaves_no_record_without_its_mark) {
    static const char *const rights[] = {"-xadd", "-zadd", "-hset", "-zscore", "-hmget", "-xlen", "-time", "-type", "-get"};
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        redis_ok(f.r, "DEL " SIDECAR "failures " SIDECAR "recorded " SIDECAR "meta");
        bull_fail(f.r, "7", "5", "boom");
        redis_ok(f.r, "ACL SETUSER default %s", rights[i]);
        eval_t call = record_call("T", "7", "5", "1000000");
        freeReplyObject(call_end(&call, f.r));
        redis_ok(f.r, "ACL SETUSER default +@all");
        cr_expect_eq(redis_int(f.r, "XLEN " SIDECAR "failures"), redis_int(f.r, "ZCARD " SIDECAR "recorded"), "%s", rights[i]);
    }
}

Test(redis_bull_failed, records_failures_when_redis_is_full) {
    bull_fail(f.r, "7", "5", "boom");
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    expect_recorded(f.r, "7", "5");
}
