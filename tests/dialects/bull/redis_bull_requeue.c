/* bull_requeue.lua requeues a failed job of Bull once, as Bull's Job.retry() does, and makes the hash again if it is gone. */
#include "bull_call.h"
#include "bull_failure.h"
#include "dialects/bull/scripts.h"

#define EVENT "0123456789abcdef"

/* One call; begins as ask_new gives it. */
typedef struct {
    const char *id, *by, *again, *made, *lifo, *stalls;
    bool bare; /* the audit log has no fields of the job */
} ask_t;

static ask_t ask_new(void) {
    return (ask_t){.id = "7", .by = "ann@host", .again = "0", .made = "1700000000000", .lifo = "0", .stalls = "1"};
}

/* The fields that the payload has for a job of bull_fail. */
static const char *const FIELDS[] = {"name",         "__default__",
                                     "data",         BULL_DATA_OF,
                                     "opts",         "{\"attempts\":2,\"delay\":0}",
                                     "timestamp",    "1700000000000",
                                     "delay",        "0",
                                     "priority",     "0",
                                     "attemptsMade", "2",
                                     "stacktrace",   "[\"Error: first\",\"Error: boom\\n    at x\"]"};
enum { FIELD_WORDS = sizeof FIELDS / sizeof *FIELDS };

static eval_t requeue_call(ask_t ask) {
    eval_t call = call_begin(&script_bull_requeue, "12");
    static char job[256], lock[256], count[8]; /* the call borrows them */
    snprintf(job, sizeof job, BULL "%s", ask.id);
    snprintf(lock, sizeof lock, BULL "%s:lock", ask.id);
    snprintf(count, sizeof count, "%d", ask.bare ? 0 : (int)FIELD_WORDS);
    const char *const words[] = {
        SIDECAR "requeued", SIDECAR "failures", SIDECAR "meta", job,       lock,  BULL "failed", BULL "wait", BULL "paused",
        BULL "meta-paused", BULL "active",      BULL "delayed", BULL "id", EVENT, ask.by,        ask.again,   ask.id,
        ask.made,           ask.lifo,           ask.stalls,     "26",      count};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) call_text(&call, words[i]);
    for (size_t i = 0; !ask.bare && i < FIELD_WORDS; i++) call_text(&call, FIELDS[i]);
    const char *const record[] = {"kind", "requeued", "worker", ask.by, "x", "1234567890"};
    for (size_t i = 0; i < sizeof record / sizeof *record; i++) call_text(&call, record[i]);
    return call;
}

static void requeued(redis_t *r, ask_t ask) {
    eval_t call = requeue_call(ask);
    expect_word(call_end(&call, r), "done");
}

/* Expects a reply `word` with a detail that begins with `detail`, and no changed key. */
static void refused(redis_t *r, ask_t ask, const char *word, const char *detail) {
    eval_t call = requeue_call(ask);
    redisReply *reply = call_in_vain(&call, r);
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 2, "%s", reply->str);
    cr_expect(strncmp(reply->element[1]->str, detail, strlen(detail)) == 0, "%s", reply->element[1]->str);
    expect_word(reply, word);
}

/* The hash of a job as sorted "field=value", without retriedOn, which this function deletes. Kept. */
static char *hash_of(redis_t *r, const char *id) {
    redisReply *all =
        redis_do(r, "EVAL %s 1 " BULL "%s",
                 "redis.call('HDEL', KEYS[1], 'retriedOn') local all = redis.call('HGETALL', KEYS[1]) local out = {} "
                 "for i = 1, #all, 2 do out[#out + 1] = all[i] .. '=' .. all[i + 1] end table.sort(out) "
                 "return table.concat(out, ' ')",
                 id);
    char *text = strdup(all->str);
    freeReplyObject(all);
    return kept(text);
}

static fixture_t f;
SUITE(redis_bull_requeue, f = fixture_start(NULL); bull_fail(f.r, "7", "1700000001000", "boom");
      redis_ok(f.r, "SET " BULL "id 7"), fixture_stop(&f));

Test(redis_bull_requeue, pushes_the_job_and_writes_a_record) {
    redis_ok(f.r, "RPUSH " BULL "wait newest oldest");
    redis_ok(f.r, "HSET " SIDECAR "meta bytes 100");
    requeued(f.r, ask_new());
    redis_expect(f.r, "7", "LINDEX " BULL "wait 0"); /* taken last */
    cr_expect_eq(redis_int(f.r, "EXISTS " BULL "failed"), 0);
    cr_expect_eq(redis_int(f.r, "HEXISTS " BULL "7 finishedOn"), 0);
    cr_expect_eq(redis_int(f.r, "HEXISTS " BULL "7 processedOn"), 0);
    cr_expect_eq(redis_int(f.r, "HEXISTS " BULL "7 failedReason"), 0);
    redis_expect(f.r, "2", "HGET " BULL "7 attemptsMade");
    char *at = redis_str(f.r, "HGET " BULL "7 retriedOn");
    cr_expect_leq(llabs(strtoll(at, NULL, 10) - redis_ms(f.r)), 60000);
    expect_records(f.r, "kind", "requeued");
    expect_records(f.r, "worker", "ann@host");
    redis_expect(f.r, "139", "HGET " SIDECAR "meta bytes"); /* 100, 26, and 13 of `at` */
    refused(f.r, ask_new(), "known", "requeued ");
}

Test(redis_bull_requeue, lifo_and_paused) {
    ask_t ask = ask_new();
    redis_ok(f.r, "SET " BULL "meta-paused 1");
    redis_ok(f.r, "RPUSH " BULL "paused other");
    ask.lifo = "1";
    requeued(f.r, ask);
    redis_expect(f.r, "7", "LINDEX " BULL "paused -1");
    cr_expect_eq(redis_int(f.r, "EXISTS " BULL "wait"), 0);
}

Test(redis_bull_requeue, workers_get_a_message) {
    scoped(redis_drop) redis_t *subscriber = redis_open(f.server);
    redis_ok(subscriber, "PSUBSCRIBE " BULL "waiting*");
    requeued(f.r, ask_new());
    redisReply *reply;
    cr_assert_eq(redisGetReply(subscriber, (void **)&reply), REDIS_OK);
    cr_expect_str_eq(reply->element[2]->str, BULL "waiting@sidecar");
    cr_expect_str_eq(reply->element[3]->str, "7");
    freeReplyObject(reply);
}

Test(redis_bull_requeue, rebuilds_a_removed_job) {
    requeued(f.r, ask_new());
    char *kept = hash_of(f.r, "7");
    redis_ok(f.r, "FLUSHALL");
    requeued(f.r, ask_new());
    char *made = hash_of(f.r, "7");
    cr_expect_str_eq(made, kept);
    redis_expect(f.r, "7", "LINDEX " BULL "wait 0");
    redis_expect(f.r, "7", "GET " BULL "id"); /* otherwise Bull would drop the seventh new job */
    ask_t again = ask_new();
    again.again = "1";
    refused(f.r, again, "waiting", "it is no longer failed");
}

/* If a job is removed while it runs, its worker still writes some fields (Job._saveAttempt). A hash of these is no job. */
Test(redis_bull_requeue, a_hash_without_a_name_is_no_job) {
    redis_ok(f.r, "DEL " BULL "7 " BULL "failed");
    redis_ok(f.r, "HSET " BULL "7 attemptsMade 9 failedReason x");
    requeued(f.r, ask_new());
    redis_expect(f.r, BULL_DATA_OF, "HGET " BULL "7 data");
    redis_expect(f.r, "2", "HGET " BULL "7 attemptsMade");
    cr_expect_eq(redis_int(f.r, "HEXISTS " BULL "7 failedReason"), 0);
}

Test(redis_bull_requeue, the_counter_of_ids_is_only_raised) {
    static const struct {
        const char *id, *before, *after;
    } rows[] = {{"7", "99", "99"},
                {"7", "6", "7"},
                {"7", NULL, "7"},
                {"a:7", NULL, NULL},
                {"007", NULL, NULL},
                {"7", "odd", "7"},
                {"1234567890123456", "5", "5"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ask_t ask = ask_new();
        redis_ok(f.r, "FLUSHALL");
        if (rows[i].before) redis_ok(f.r, "SET " BULL "id %s", rows[i].before);
        ask.id = rows[i].id;
        requeued(f.r, ask);
        redis_expect(f.r, rows[i].after, "GET " BULL "id");
    }
}

Test(redis_bull_requeue, a_job_that_is_not_failed_stays_where_it_is) {
    ask_t again = ask_new();
    redis_ok(f.r, "SET " BULL "7:lock token");
    refused(f.r, ask_new(), "waiting", "a worker has it");
    redis_ok(f.r, "DEL " BULL "7:lock");
    redis_ok(f.r, "RPUSH " BULL "active 7");
    refused(f.r, ask_new(), "waiting", "it is active");
    redis_ok(f.r, "DEL " BULL "active");
    redis_ok(f.r, "ZADD " BULL "delayed 5 7");
    refused(f.r, ask_new(), "waiting", "it is delayed, or waits");
    redis_ok(f.r, "DEL " BULL "delayed");
    redis_ok(f.r, "HSET " BULL "7 timestamp 1700000009999");
    refused(f.r, ask_new(), "waiting", "another job has its id");
    redis_ok(f.r, "HSET " BULL "7 timestamp 1700000000000");
    redis_ok(f.r, "ZREM " BULL "failed 7");
    refused(f.r, ask_new(), "waiting", "it is no longer failed");
    again.bare = true;
    redis_ok(f.r, "DEL " BULL "7");
    refused(f.r, again, "waiting", "its hash is gone");
    for_other_types (type, "hash") {
        fixture_make_key(f.r, BULL "7", type);
        refused(f.r, ask_new(), "waiting", "its key holds a ");
    }
    cr_assert_eq(redis_int(f.r, "EXISTS " BULL "wait"), 0, "no job was requeued");
}

Test(redis_bull_requeue, resets_a_stall_counter_above_max_stalled) {
    static const struct {
        const char *stalls, *before, *after;
    } rows[] = {{"1", "2", "0"}, {"1", "1", "1"}, {"3", "2", "2"}, {"0", "1", "0"}, {"1", "odd", "odd"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ask_t ask = ask_new();
        redis_ok(f.r, "FLUSHALL");
        bull_fail(f.r, "7", "5", BULL_STALLED_REASON);
        redis_ok(f.r, "HSET " BULL "7 stalledCounter %s", rows[i].before);
        ask.stalls = rows[i].stalls;
        requeued(f.r, ask);
        redis_expect(f.r, rows[i].after, "HGET " BULL "7 stalledCounter");
    }
}

Test(redis_bull_requeue, again_requeues_a_job_that_failed_again) {
    ask_t again = ask_new();
    again.again = "1";
    again.by = "bob@host";
    requeued(f.r, ask_new());
    redis_ok(f.r, "DEL " BULL "wait");
    redis_ok(f.r, "ZADD " BULL "failed 1700000002000 7");
    refused(f.r, ask_new(), "known", "requeued ");
    requeued(f.r, again);
    char *mark = redis_str(f.r, "HGET " SIDECAR "requeued %s", EVENT);
    cr_expect(strstr(mark, " bob@host"), "%s", mark);
}

Test(redis_bull_requeue, keys_of_the_wrong_type_change_nothing) {
    static const struct {
        const char *key, *right;
    } keys[] = {{SIDECAR "requeued", "hash"},   {SIDECAR "failures", "stream"}, {SIDECAR "meta", "hash"},
                {BULL "failed", "zset"},        {BULL "wait", "list"},          {BULL "paused", "list"},
                {BULL "meta-paused", "string"}, {BULL "active", "list"},        {BULL "delayed", "zset"},
                {BULL "id", "string"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            redis_ok(f.r, "FLUSHALL");
            bull_fail(f.r, "7", "5", "boom");
            fixture_make_key(f.r, keys[k].key, type);
            eval_t call = requeue_call(ask_new());
            expect_type(call_in_vain(&call, f.r), keys[k].key, type);
        }
}

/* Without any one right, the script either requeues the job in full or changes nothing. */
Test(redis_bull_requeue, a_missing_right_leaves_no_job_in_two_places) {
    static const char *const rights[] = {"-lpush", "-zrem",   "-hset",  "-hdel", "-set", "-del",    "-publish", "-xadd",
                                         "-lpos",  "-zscore", "-hmget", "-hget", "-get", "-exists", "-time",    "-type"};
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++)
        for (int gone = 0; gone < 2; gone++) {
            redis_ok(f.r, "FLUSHALL");
            bull_fail(f.r, "7", "5", "boom");
            if (gone) redis_ok(f.r, "DEL " BULL "7 " BULL "failed");
            redis_ok(f.r, "ACL SETUSER default %s", rights[i]);
            eval_t call = requeue_call(ask_new());
            freeReplyObject(call_end(&call, f.r));
            redis_ok(f.r, "ACL SETUSER default +@all");
            long long waits = redis_int(f.r, "LLEN " BULL "wait"), failed = redis_int(f.r, "ZCARD " BULL "failed");
            cr_expect_eq(waits + failed, gone && !waits ? 0 : 1, "%s, gone %d: %lld wait, %lld failed", rights[i], gone, waits,
                         failed);
            cr_expect_eq(redis_int(f.r, "HLEN " SIDECAR "requeued"), waits, "%s, gone %d: the mark", rights[i], gone);
            if (waits) redis_expect(f.r, BULL_DATA_OF, "HGET " BULL "7 data");
            if (gone && !waits && strcmp(rights[i], "-del") != 0)
                cr_expect_eq(redis_int(f.r, "EXISTS " BULL "7"), 0, "%s", rights[i]);
        }
}

Test(redis_bull_requeue, a_full_redis_refuses_the_script) {
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    if (server_major(f.server) < 7) { /* the proof of rights has written, and then Redis 6.2 refuses nothing for lack of memory */
        requeued(f.r, ask_new());
        fixture_stop(&f);
        return;
    }
    eval_t call = requeue_call(ask_new());
    redisReply *reply = kept(call_in_vain(&call, f.r));
    cr_assert(reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "OOM", 3) == 0, "%s", reply->str);
}

Test(redis_bull_requeue, a_stream_at_its_last_id_leaves_the_failure_as_it_was) {
    redis_ok(f.r, "XADD " SIDECAR "failures 18446744073709551615-18446744073709551615 f v");
    eval_t call = requeue_call(ask_new());
    redisReply *reply = kept(call_in_vain(&call, f.r));
    cr_assert(reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "last possible"), "%s", reply->str);
}

/* Requeues a job by the sidecar's script and by Bull's own (Job.retry), from eight states of the queue. All of Bull's keys must
 * be equal afterwards, except retriedOn. */
static void expect_as_bulls_own(const char *version) {
    char *script = bull_own_script(version, "reprocessJob");
    for (int way = 0; way < 8; way++) {
        char *dumps[2];
        ask_t ask = ask_new();
        ask.lifo = way & 1 ? "1" : "0";
        for (int own = 0; own < 2; own++) {
            redis_ok(f.r, "FLUSHALL");
            bull_fail(f.r, "7", "1700000001000", "boom");
            bull_fail(f.r, "8", "1700000002000", "boom");
            redis_ok(f.r, "SET " BULL "id 9");
            redis_ok(f.r, "RPUSH " BULL "wait 5 6");
            redis_ok(f.r, "RPUSH " BULL "active 9");
            if (way & 2) redis_ok(f.r, "SET " BULL "meta-paused 1");
            if (way & 2) redis_ok(f.r, "RENAME " BULL "wait " BULL "paused");
            if (way & 4) redis_ok(f.r, "HSET " BULL "7 stalledCounter 1 priority 3 progress 50");
            if (own)
                cr_assert_eq(redis_int(f.r,
                                       "EVAL %s 6 " BULL "7 " BULL "7:lock " BULL "failed " BULL "wait " BULL "meta-paused " BULL
                                       "paused 7 %s token 1700000009000",
                                       script, way & 1 ? "RPUSH" : "LPUSH"),
                             1);
            else
                requeued(f.r, ask);
            cr_assert_eq(redis_int(f.r, "HDEL " BULL "7 retriedOn"), 1);
            dumps[own] = bull_dump(f.r);
        }
        cr_expect_str_eq(dumps[0], dumps[1], "Bull %s, way %d: ours\n%s\nand Bull's own\n%s", version, way, dumps[0], dumps[1]);
        free(dumps[0]);
        free(dumps[1]);
    }
}

Test(redis_bull_requeue, as_bulls_own_script_4_10) { expect_as_bulls_own("4.10.4"); }
Test(redis_bull_requeue, as_bulls_own_script_4_16) { expect_as_bulls_own("4.16.5"); }
