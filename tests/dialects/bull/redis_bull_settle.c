/* bull_settle against a real server: it treats a stalled job as Bull's own check does, and adds a record. After any refusal or
 * error each job is in exactly one place. */
#include "bull_layout.h"
#include "cluster.h"
#include "dialects/bull/scripts.h"
#include "queue/settle_reply.h"
#include "wait.h"

#define MESSAGE "{\"jobId\":\"1\", \"val\": \"job stalled more than maxStalledCount\"}"

typedef struct {
    const char *token, *id, *counter, *verdict, *error, *message, *remove, *most, *deid, *from, *to;
} ask_t;

static ask_t ask_new(const char *verdict) {
    return (ask_t){.token = "T",
                   .id = "1",
                   .counter = "",
                   .verdict = verdict,
                   .error = "job stalled more than allowable limit",
                   .message = MESSAGE,
                   .remove = "0",
                   .most = "1000000",
                   .from = "0",
                   .to = "0"};
}

static redisReply *settle_with(redis_t *r, ask_t ask, bool unchanged) {
    bool ends = strcmp(ask.verdict, "end") == 0, removes = ends && strcmp(ask.remove, "1") == 0, debounces = ends && ask.deid;
    char job[200], lock[200], logs[200], debounce[200], flags[4];
    snprintf(job, sizeof job, BULL "%s", ask.id);
    snprintf(lock, sizeof lock, BULL "%s:lock", ask.id);
    snprintf(logs, sizeof logs, BULL "%s:logs", ask.id);
    snprintf(debounce, sizeof debounce, BULL "de:%s", ask.deid ? ask.deid : "");
    snprintf(flags, sizeof flags, "%c%s%s", *ask.verdict, removes ? "x" : "", debounces ? "d" : "");
    const char *const keys[] = {BULL_LOCK,
                                BULL "stalled",
                                BULL "active",
                                BULL "wait",
                                BULL "paused",
                                BULL "meta-paused",
                                BULL "failed",
                                RECORDED,
                                STREAM,
                                META,
                                job,
                                lock,
                                removes     ? logs
                                : debounces ? debounce
                                            : NULL,
                                removes && debounces ? debounce : NULL,
                                NULL};
    eval_t call = bull_begin(&script_bull_settle, keys);
    const char *const argv[] = {ask.token, ask.most, "",     ask.from,    ask.to, "2",       "payload",   "0123456789",
                                "1",       "kind",   ask.id, ask.counter, flags,  ask.error, ask.message, "x"};
    for (size_t i = 0; i < sizeof argv / sizeof *argv; i++) call_text(&call, argv[i]);
    return settle_answer(unchanged ? call_in_vain(&call, r) : call_end(&call, r));
}

static void refused(redis_t *r, ask_t ask, const char *word) { bull_expect(settle_with(r, ask, true), word, NULL, NULL); }

static void settled(redis_t *r, ask_t ask, int recorded) {
    bull_expect(settle_with(r, ask, false), recorded ? "settled" : "unrecorded", NULL, NULL);
}

static void expect_field(redis_t *r, const char *name, const char *value) {
    redis_expect(r, value, "EVAL %s 1 " STREAM " %s",
                 "local e = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][2] "
                 "for i = 1, #e, 2 do if e[i] == ARGV[1] then return e[i + 1] end end return false",
                 name);
}

static fixture_t f;
SUITE(redis_bull_settle, f = fixture_start(NULL); lay_out(f.r), fixture_stop(&f));

Test(redis_bull_settle, workers_take_a_retry_next) {
    settled(f.r, ask_new("retry"), 1);
    redis_expect(f.r, "1", "RPOP " BULL "wait");
    redis_expect(f.r, "1", "HGET " BULL "1 stalledCounter");
    cr_assert_eq(redis_int(f.r, "LLEN " BULL "active"), 1);
    cr_assert_eq(redis_int(f.r, "SISMEMBER " BULL "stalled 1"), 0);
    expect_field(f.r, "kind", "x");
    expect_field(f.r, "error", NULL);
    refused(f.r, ask_new("retry"), "gone"); /* a lost reply, sent again */
}

Test(redis_bull_settle, an_end_is_a_failure_of_bull_and_a_record) {
    long long before = redis_ms(f.r);
    redis_ok(f.r, "HSET " BULL "1 stalledCounter 1");
    ask_t ask = ask_new("end");
    ask.counter = "1";
    settled(f.r, ask, 1);
    redis_expect(f.r, "2", "HGET " BULL "1 stalledCounter");
    redis_expect(f.r, ask.error, "HGET " BULL "1 failedReason");
    char *score = redis_str(f.r, "ZSCORE " BULL "failed 1"), *finished = redis_str(f.r, "HGET " BULL "1 finishedOn");
    cr_assert_str_eq(score, finished);
    cr_assert(strtoll(score, NULL, 10) >= before && strtoll(score, NULL, 10) <= redis_ms(f.r));
    redis_expect(f.r, score, "ZSCORE " RECORDED " 1:%s", score);
    expect_field(f.r, "error", ask.error);
    expect_field(f.r, "at", score);
    char *bytes = redis_str(f.r, "HGET " META " bytes");
    cr_assert_eq((size_t)strtoll(bytes, NULL, 10), 13 + 1 + 10 + strlen(ask.error));
    redis_expect(f.r, "1", "HGET " META " entries");
    refused(f.r, ask, "gone");
}

Test(redis_bull_settle, each_failed_precondition_changes_nothing) {
    static const char *const verdicts[] = {"retry", "end", "broken"};
    for (size_t v = 0; v < 3; v++) {
        ask_t ask = ask_new(verdicts[v]);
        lay_out(f.r);
        if (v == 2) redis_ok(f.r, "DEL " BULL "1");
        ask.token = "t";
        refused(f.r, ask, "fenced");
        ask.token = "T";
        redis_ok(f.r, "SET " BULL "1:lock w"); /* its worker renewed the lock */
        refused(f.r, ask, "alive");
        redis_ok(f.r, "DEL " BULL "1:lock");
        redis_ok(f.r, "SREM " BULL "stalled 1"); /* its worker renewed the lock, then lost it */
        refused(f.r, ask, "gone");
        redis_ok(f.r, "SADD " BULL "stalled 1");
        redis_ok(f.r, "LREM " BULL "active 0 1"); /* the job is finished */
        bull_expect(settle_with(f.r, ask, false), "gone", NULL, NULL);
        cr_assert_eq(redis_int(f.r, "SISMEMBER " BULL "stalled 1"), 0, "the mark of a finished job is removed");
        refused(f.r, ask, "gone");
        redis_ok(f.r, "SADD " BULL "stalled 1");
        redis_ok(f.r, "LPUSH " BULL "active 1");
        if (v == 2) {
            bull_job(f.r, "1", "0");
            refused(f.r, ask, "changed");
            continue;
        }
        redis_ok(f.r, "HSET " BULL "1 stalledCounter 1"); /* a worker's stalled check retried it, and it runs again */
        refused(f.r, ask, "changed");
        redis_ok(f.r, "HDEL " BULL "1 stalledCounter");
        redis_ok(f.r, "HDEL " BULL "1 name");
        refused(f.r, ask, "changed");
    }
}

Test(redis_bull_settle, keys_of_the_wrong_type_lose_nothing) {
    static const struct {
        const char *what, *key, *right;
    } keys[] = {{"stalled", BULL "stalled", "set"},
                {"active", BULL "active", "list"},
                {"wait", BULL "wait", "list"},
                {"paused", BULL "paused", "list"},
                {"meta-paused", BULL "meta-paused", "string"},
                {"failed", BULL "failed", "zset"},
                {"recorded", RECORDED, "zset"},
                {"failures", STREAM, "stream"},
                {"meta", META, "hash"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            lay_out(f.r);
            fixture_make_key(f.r, keys[k].key, type);
            bull_expect(settle_with(f.r, ask_new("retry"), true), "type", keys[k].what, type);
            bull_expect(settle_with(f.r, ask_new("end"), true), "type", keys[k].what, type);
        }
    for_other_types (type, "hash") { /* a job key of another type: only `broken` ends the id */
        lay_out(f.r);
        fixture_make_key(f.r, BULL "1", type);
        refused(f.r, ask_new("retry"), "changed");
        refused(f.r, ask_new("end"), "changed");
        settled(f.r, ask_new("broken"), 1);
        redis_expect(f.r, type, "TYPE " BULL "1");
        cr_assert_eq(redis_int(f.r, "LLEN " BULL "active"), 1);
        cr_assert_eq(redis_int(f.r, "EXISTS " BULL "failed"), 0);
    }
}

Test(redis_bull_settle, a_full_stream_stops_ends_but_not_retries) {
    ask_t ask = ask_new("end");
    ask.most = "30";
    refused(f.r, ask, "full");
    ask = ask_new("retry");
    ask.most = "3";
    settled(f.r, ask, 0);
    cr_assert_eq(redis_int(f.r, "EXISTS " STREAM), 0);
    redis_expect(f.r, "1", "RPOP " BULL "wait");
    lay_out(f.r);
    redis_ok(f.r, "HSET " META " bytes 999999999 entries 10"); /* trimmed by hand: removed entries do not count */
    settled(f.r, ask_new("end"), 1);
    static const char *const strange[] = {"abc", "", "1.5", "-3", "1e300", "nan", "inf"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        lay_out(f.r);
        redis_ok(f.r, "HSET " META " bytes %s entries %s", strange[i], strange[i]);
        settled(f.r, ask_new("end"), 1);
    }
    lay_out(f.r);
    redis_ok(f.r, "XADD " STREAM " 18446744073709551615-18446744073709551615 f v");
    refused(f.r, ask_new("end"), "full");
    settled(f.r, ask_new("retry"), 0);
}

Test(redis_bull_settle, settles_without_the_right_to_publish) {
    scoped(redis_drop) redis_t *user = redis_open(f.server);
    redis_ok(f.r, "ACL SETUSER worker reset on >x +@all ~* &* -publish");
    redis_ok(user, "AUTH worker x");
    lay_out(f.r);
    settled(user, ask_new("retry"), 1);
    redis_expect(f.r, "1", "RPOP " BULL "wait");
    cr_assert_eq(redis_int(f.r, "XLEN " STREAM), 1);
    cr_assert_eq(redis_int(f.r, "LLEN " BULL "active"), 1, "job 2 is still active, job 1 is not");
}

/* ---- Comparison with Bull's own check. */

static void stalled_job(redis_t *r, const char *opts, const char *counter, bool paused, int debounce) {
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET " BULL_LOCK " T");
    bull_job(r, "1", "0");
    bull_job(r, "2", "0");
    redis_ok(r, "HSET " BULL "1 opts %s", opts);
    if (*counter) redis_ok(r, "HSET " BULL "1 stalledCounter %s", counter);
    redis_ok(r, "RPUSH " BULL "1:logs line");
    redis_ok(r, "LPUSH " BULL "active 1");
    redis_ok(r, "SADD " BULL "stalled 1 other");
    redis_ok(r, "LPUSH " BULL "%s 2", paused ? "paused" : "wait");
    if (paused) redis_ok(r, "SET " BULL "meta-paused 1");
    if (debounce) redis_ok(r, "HSET " BULL "1 deid d");
    if (debounce) redis_ok(r, debounce > 1 ? "SET " BULL "de:d 1 PX 3600000" : "SET " BULL "de:d 1");
}

/* bull_dump with T for each number of 13 digits (a time in ms), and without the keys of the stalled check. */
static char *plain_dump(redis_t *r) {
    redis_ok(r, "DEL " BULL "stalled-check " BULL "stalled");
    char *dump = bull_dump(r), *to = dump;
    for (const char *from = dump; *from;) {
        if (strspn(from, "0123456789") == 13) {
            *to++ = 'T';
            from += 13;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
    return kept(dump);
}

static char *message_of(redis_t *subscriber) {
    redisReply *reply;
    if (redisGetReply(subscriber, (void **)&reply) != REDIS_OK) cr_assert_fail("%s", subscriber->errstr);
    char *text = strdup(reply->element[reply->elements - 1]->str);
    freeReplyObject(reply);
    return kept(text);
}

Test(redis_bull_settle, changes_a_job_as_bull_does) {
    char *script = bull_own_script("4.16.5", "moveStalledJobsToWait");
    static const struct {
        const char *opts, *counter;
        bool ends, removes, paused;
        int debounce;
    } rows[] = {{"{}", "", false, false, false, 0},
                {"{}", "", false, false, true, 1},
                {"{}", "1", true, false, false, 0},
                {"{}", "7", true, false, true, 1},
                {"{}", "1", true, false, false, 2},
                {"{\"removeOnFail\":true}", "1", true, true, false, 1},
                {"{\"removeOnFail\":true}", "", false, false, false, 1},
                {"{\"removeOnFail\":false}", "1", true, false, false, 0},
                {"{\"removeOnFail\":0}", "1", true, true, false, 0},
                {"{\"removeOnFail\":5}", "1", true, false, false, 0},
                {"{\"removeOnFail\":{\"age\":3600,\"count\":9}}", "1", true, false, false, 0}};
    scoped(redis_drop) redis_t *subscriber = redis_open(f.server);
    redis_do(subscriber, "SUBSCRIBE " BULL "failed");
    redis_do(subscriber, "PSUBSCRIBE " BULL "stalled*");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char now[24];
        stalled_job(f.r, rows[i].opts, rows[i].counter, rows[i].paused, rows[i].debounce);
        snprintf(now, sizeof now, "%lld", redis_ms(f.r));
        redis_ok(f.r,
                 "EVAL %s 7 " BULL "stalled " BULL "wait " BULL "active " BULL "failed " BULL "stalled-check " BULL
                 "meta-paused " BULL "paused 1 " BULL " %s 30000",
                 script, now);
        char *theirs = plain_dump(f.r), *their_message = message_of(subscriber);
        stalled_job(f.r, rows[i].opts, rows[i].counter, rows[i].paused, rows[i].debounce);
        ask_t ask = ask_new(rows[i].ends ? "end" : "retry");
        ask.counter = rows[i].counter;
        ask.remove = rows[i].removes ? "1" : "0";
        if (rows[i].debounce) ask.deid = "d";
        settled(f.r, ask, 1);
        char *ours = plain_dump(f.r), *our_message = message_of(subscriber);
        cr_assert_str_eq(ours, theirs, "row %zu", i);
        cr_assert_str_eq(our_message, their_message, "row %zu", i);
    }
}
