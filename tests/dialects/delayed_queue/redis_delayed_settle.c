/* quarantine_read.lua, quarantine_settle.lua and delayed_requeue.lua, called by EVAL: the fence, the preconditions, and errors
 * of Redis. */
#include "delayed_call.h"
#include "dialects/delayed_queue/scripts.h"
#include "queue/scripts.h"
#include "queue/settle_reply.h"
#include "wait.h"

#define MEMBER PAYMENT "###1"
#define SCORE  "1800000000000.25"

/* The arguments of one call of quarantine_settle. */
typedef struct {
    const char *token, *member, *score, *envelope, *verdict, *next, *last, *most, *pushed, *events, *hash;
} settle_t;

static settle_t settle_new(const char *verdict) {
    return (settle_t){.token = "T",
                      .member = MEMBER,
                      .score = SCORE,
                      .envelope = ENVELOPE(1),
                      .verdict = verdict,
                      .next = ENVELOPE(2),
                      .last = "",
                      .most = "1000000",
                      .pushed = "",
                      .events = "de_events",
                      .hash = DELAYED_KEYS};
}

static eval_t settle_call(const settle_t *ask) {
    bool pushes = strcmp(ask->verdict, "push") == 0, hash = strcmp(ask->hash, DELAYED_KEYS) != 0;
    const char *const rest[] = {
        ask->token,       ask->most, "",          "2",        "queue",      "email",       "2",
        "kind",           "payload", ask->member, ask->score, ask->verdict, ask->envelope, pushes ? "7" : "0",
        hash ? "8" : "0", ask->next, "20000",     ask->last,  ask->pushed,  "failed",      ask->envelope};
    eval_t call = call_begin(&script_quarantine_settle, hash ? "8" : "7");
    call_text(&call, "sidecar:app:lock");
    call_text(&call, "sidecar:email:aside");
    call_text(&call, DELAYED_KEYS);
    call_text(&call, ask->events);
    call_text(&call, "sidecar:email:failures");
    call_text(&call, "sidecar:email:meta");
    call_text(&call, "de_paymentcheck");
    if (hash) call_text(&call, ask->hash);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) call_text(&call, rest[i]);
    return call;
}

static redisReply *settle(redis_t *r, settle_t ask) {
    eval_t call = settle_call(&ask);
    return settle_answer(call_end(&call, r));
}

static redisReply *settle_in_vain(redis_t *r, settle_t ask) {
    eval_t call = settle_call(&ask);
    return settle_answer(call_in_vain(&call, r));
}

/* Writes one quarantined member. */
static void lay_out(redis_t *r) {
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET sidecar:app:lock T");
    redis_ok(r, "ZADD " DELAYED_KEYS " " SCORE " " MEMBER);
    redis_ok(r, "HSET de_events " MEMBER " %s", ENVELOPE(1));
    redis_ok(r, "ZADD sidecar:email:aside 1700000000000 " MEMBER);
}

static const char *const verdicts[] = {"forget", "push", "end"};

static fixture_t f;
SUITE(redis_delayed_settle, f = fixture_start_locked(), fixture_stop(&f));

Test(redis_delayed_settle, applies_each_verdict) {
    lay_out(f.r);
    expect_word(settle(f.r, settle_new("forget")), "settled");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:aside"), 0);
    cr_assert_str_eq(de_score(f.r, DELAYED_KEYS, MEMBER), SCORE);
    de_expect_stored(f.r, MEMBER, slice_text(ENVELOPE(1)));
    for (int last = 0; last < 2; last++) {
        settle_t ask = settle_new("push");
        ask.last = last ? ".5" : "";
        lay_out(f.r);
        expect_word(settle(f.r, ask), "settled");
        cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:aside sidecar:email:failures"), 0);
        de_expect_popped(f.r, "de_paymentcheck", slice_text(ENVELOPE(1)));
        de_expect_stored(f.r, MEMBER, slice_text(ENVELOPE(2)));
        const char *score = de_score(f.r, DELAYED_KEYS, MEMBER), *point = strchr(score, '.');
        long long delay = strtoll(score, NULL, 10) - redis_ms(f.r);
        cr_assert(delay > 15000 && delay <= 20000);
        cr_assert_str_eq(point ? point : "", last ? ".5" : "");
    }
    lay_out(f.r);
    expect_word(settle(f.r, settle_new("end")), "settled");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:aside de_events " DELAYED_KEYS " de_paymentcheck"), 0);
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 1);
}

/* The last push waits in the list, or the list is too long to search. */
Test(redis_delayed_settle, does_not_send_again_what_waits_in_its_list) {
    settle_t ask = settle_new("push");
    ask.envelope = ENVELOPE(2);
    ask.pushed = ENVELOPE(1);
    lay_out(f.r);
    redis_ok(f.r, "HSET de_events " MEMBER " %s", ask.envelope);
    redis_ok(f.r, "LPUSH de_paymentcheck %s", ask.pushed);
    expect_word(settle_in_vain(f.r, ask), "alive");
    redis_ok(f.r, "EVAL %s 1 de_paymentcheck",
             "redis.call('DEL', KEYS[1]) for i = 1, 2001 do redis.call('LPUSH', KEYS[1], 'x') end");
    expect_word(settle_in_vain(f.r, ask), "alive");
    redis_ok(f.r, "LPOP de_paymentcheck");
    expect_word(settle(f.r, ask), "settled");
    cr_assert_eq(redis_int(f.r, "LLEN de_paymentcheck"), 2001);
}

/* The lock, the score or the envelope changes between the read and the settle. */
Test(redis_delayed_settle, refuses_changed_events) {
    static const struct {
        const char *change[2], *word;
        bool forgets; /* verdict `forget` settles all the same, because it compares only the score */
    } rows[] = {
        {{"SET", "sidecar:app:lock"}, "fenced", false}, {{"ZADD", "1800000000000.75"}, "changed", false},
        {{"ZADD", "1800000000000"}, "changed", false},  {{"ZREM", NULL}, "changed", false},
        {{"HSET", ENVELOPE(2)}, "changed", true},       {{"HDEL", NULL}, "changed", true},
    };
    for (size_t v = 0; v < 3; v++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            lay_out(f.r);
            const char *command = rows[i].change[0], *value = rows[i].change[1];
            if (strcmp(command, "SET") == 0) redis_ok(f.r, "SET %s another", value);
            if (strcmp(command, "ZADD") == 0) redis_ok(f.r, "ZADD " DELAYED_KEYS " %s " MEMBER, value);
            if (strcmp(command, "ZREM") == 0) redis_ok(f.r, "ZREM " DELAYED_KEYS " " MEMBER);
            if (strcmp(command, "HSET") == 0) redis_ok(f.r, "HSET de_events " MEMBER " %s", value);
            if (strcmp(command, "HDEL") == 0) redis_ok(f.r, "HDEL de_events " MEMBER);
            settle_t ask = settle_new(verdicts[v]);
            bool forgets = v == 0 && rows[i].forgets;
            expect_word(forgets ? settle(f.r, ask) : settle_in_vain(f.r, ask), forgets ? "settled" : rows[i].word);
        }
    /* A member that has left delayed can be forgotten; a member that has returned to delayed cannot. */
    lay_out(f.r);
    redis_ok(f.r, "ZREM " DELAYED_KEYS " " MEMBER);
    settle_t ask = settle_new("forget");
    ask.score = "";
    expect_word(settle(f.r, ask), "settled");
    lay_out(f.r);
    expect_word(settle(f.r, ask), "changed");
}

Test(redis_delayed_settle, settles_bull_jobs_without_envelopes) {
    settle_t ask = settle_new("end");
    ask.events = DELAYED_KEYS;
    ask.envelope = "";
    ask.hash = "bull:q:1";
    lay_out(f.r);
    redis_ok(f.r, "HSET bull:q:1 name x");
    expect_word(settle_in_vain(f.r, ask), "changed"); /* the job's hash exists */
    redis_ok(f.r, "DEL bull:q:1");
    redis_ok(f.r, "SET bull:q:1 x"); /* a key that is no hash is no job */
    expect_word(settle(f.r, ask), "settled");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:aside " DELAYED_KEYS), 0);
    de_expect_stored(f.r, MEMBER, slice_text(ENVELOPE(1)));
}

Test(redis_delayed_settle, keys_of_the_wrong_type_change_nothing) {
    static const struct {
        const char *key, *name, *right;
        bool push; /* only verdict `push` checks this key */
    } keys[] = {{"sidecar:email:aside", "aside", "zset", false},
                {DELAYED_KEYS, "delayed", "zset", false},
                {"de_events", "events", "hash", false},
                {"de_paymentcheck", "ready", "list", true},
                {"sidecar:email:failures", "failures", "stream", false},
                {"sidecar:email:meta", "meta", "hash", false}};
    for (size_t v = 0; v < 3; v++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            for (size_t t = 0; t < FIXTURE_TYPES; t++) {
                if (strcmp(fixture_types[t], keys[k].right) == 0 || (keys[k].push && v != 1)) continue;
                lay_out(f.r);
                fixture_make_key(f.r, keys[k].key, fixture_types[t]);
                settle_t ask = settle_new(verdicts[v]);
                expect_type(settle_in_vain(f.r, ask), keys[k].name, fixture_types[t]);
            }
}

/* If Redis refuses any command of an end, the event stays and has no record. A refused push does not push twice. */
Test(redis_delayed_settle, a_missing_right_loses_and_records_nothing) {
    static const char *const commands[] = {"zrem", "hdel", "xadd", "xlen", "hmget", "zscore", "hget", "lpush", "zadd", "hset"};
    for (size_t v = 1; v < 3; v++)
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
            lay_out(f.r);
            redis_ok(f.r, "ACL SETUSER default -%s", commands[i]);
            freeReplyObject(settle(f.r, settle_new(verdicts[v])));
            freeReplyObject(settle(f.r, settle_new(verdicts[v])));
            redis_ok(f.r, "ACL SETUSER default +@all");
            bool there = redis_int(f.r, "HEXISTS de_events " MEMBER) && *de_score(f.r, DELAYED_KEYS, MEMBER);
            long long records = redis_int(f.r, "XLEN sidecar:email:failures");
            cr_assert_leq(redis_int(f.r, "LLEN de_paymentcheck"), 1, "%s without %s", verdicts[v], commands[i]);
            cr_assert(there || records == 1, "%s without %s: the event was removed without a record", verdicts[v], commands[i]);
            /* HSET comes between the record and the removal, so an end may repeat; both records are one event in the log. */
            if (strcmp(commands[i], "hset") != 0)
                cr_assert_eq(records, v == 2 && !there, "%s without %s", verdicts[v], commands[i]);
        }
}

Test(redis_delayed_settle, a_full_stream_ends_nothing) {
    settle_t ask = settle_new("end");
    ask.most = "10";
    lay_out(f.r);
    expect_word(settle_in_vain(f.r, ask), "full");
    /* Entries that somebody trimmed by hand do not count. */
    redis_ok(f.r, "XADD sidecar:email:failures * a b");
    redis_ok(f.r, "HSET sidecar:email:meta bytes 1000 entries 100");
    ask.most = "400";
    expect_word(settle(f.r, ask), "settled");
    redis_expect(f.r, "2", "HGET sidecar:email:meta entries");
}

static redisReply *read_page(redis_t *r, const char *skip, const char *count, const char *size, const char *payload) {
    const char *const rest[] = {"sidecar:email:aside", DELAYED_KEYS, "de_events", skip, count, size, payload};
    eval_t call = call_begin(&script_quarantine_read, "3");
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) call_text(&call, rest[i]);
    return call_end(&call, r);
}

Test(redis_delayed_settle, a_read_is_bounded) {
    for (int i = 0; i < 10; i++) {
        redis_ok(f.r, "ZADD sidecar:email:aside %d m%d", i, i);
        if (i != 4) redis_ok(f.r, "ZADD " DELAYED_KEYS " %d.25 m%d", 100 + i, i);
        if (i != 5) redis_ok(f.r, "HSET de_events m%d %s", i, "0123456789");
    }
    redisReply *reply = kept(read_page(f.r, "0", "10", "1000", "1000"));
    cr_assert_eq(reply->elements, 41);
    cr_assert_str_eq(reply->element[1]->str, "m0");
    cr_assert_str_eq(reply->element[3]->str, "100.25");
    cr_assert_str_eq(reply->element[4 * 4 + 3]->str, "");
    cr_assert_eq(reply->element[4 * 5 + 4]->type, REDIS_REPLY_INTEGER);
    reply = kept(read_page(f.r, "8", "10", "1000", "9"));
    cr_assert_eq(reply->elements, 9);
    cr_assert_eq(reply->element[4]->integer, 10, "an oversized envelope must be replaced by its size");
    reply = kept(read_page(f.r, "0", "10", "13", "1000"));
    cr_assert_eq(reply->elements, 9, "two envelopes exceed 13 bytes, so the reply must end");
    static const char *const keys[] = {"sidecar:email:aside", DELAYED_KEYS, "de_events"}, *const names[] = {"aside", "delayed",
                                                                                                            "events"};
    for (size_t i = 0; i < 3; i++) {
        redis_ok(f.r, "FLUSHALL");
        fixture_make_key(f.r, keys[i], "set");
        expect_type(read_page(f.r, "0", "10", "13", "1000"), names[i], "set");
    }
}

/* ---- delayed_requeue */

static eval_t requeue_call(const char *again) {
    static const char *const keys[] = {
        "sidecar:email:requeued", "sidecar:email:failures", "sidecar:email:meta", DELAYED_KEYS, "de_events",
        "sidecar:email:meta"};
    const char *const rest[] = {"event", "ann", again, MEMBER, ENVELOPE(1), "8", PAYMENT, "kind", "requeued"};
    eval_t call = call_begin(&script_delayed_requeue, "6");
    for (size_t i = 0; i < 6; i++) call_text(&call, keys[i]);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) call_text(&call, rest[i]);
    return call;
}

static redisReply *requeue(redis_t *r, const char *again) {
    eval_t call = requeue_call(again);
    return call_end(&call, r);
}

Test(redis_delayed_settle, a_requeue_schedules_at_once_and_once) {
    expect_word(requeue(f.r, "0"), "done");
    de_expect_stored(f.r, MEMBER, slice_text(ENVELOPE(1)));
    long long due = strtoll(de_score(f.r, DELAYED_KEYS, MEMBER), NULL, 10);
    cr_assert(due <= redis_ms(f.r) && due > redis_ms(f.r) - 5000);
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 1);
    eval_t call = requeue_call("0");
    redisReply *reply = call_in_vain(&call, f.r);
    cr_assert(strncmp(reply->element[1]->str, "requeued 1", 10) == 0 && strstr(reply->element[1]->str, " ann"));
    expect_word(reply, "known");
    call = requeue_call("1");
    expect_word(call_in_vain(&call, f.r), "waiting"); /* the event is scheduled already */
    redis_ok(f.r, "DEL de_events");
    call = requeue_call("1");
    expect_word(call_in_vain(&call, f.r), "waiting");
    redis_ok(f.r, "DEL " DELAYED_KEYS);
    expect_word(requeue(f.r, "1"), "done");
    cr_assert(wait_for(de_moved(f.r, de_new()) == 1, 1000)); /* its score has a fraction of a millisecond */
}

/* The leader's config may lack a class that the config of the operator has. */
Test(redis_delayed_settle, a_requeue_waits_until_the_leader_sends_its_class) {
    static const struct {
        const char *classes;
        bool done;
    } rows[] = {{"", false},
                {" " WELCOME " ", false},
                {" " PAYMENT "s ", false},
                {" x." PAYMENT " ", false},
                {" " WELCOME "  " PAYMENT " ", true},
                {NULL, true}}; /* a leader of an older version says nothing */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(f.r, "DEL sidecar:email:meta");
        if (rows[i].classes) redis_ok(f.r, "HSET sidecar:email:meta types %s", rows[i].classes);
        eval_t call = requeue_call("1");
        expect_word(rows[i].done ? call_end(&call, f.r) : call_in_vain(&call, f.r), rows[i].done ? "done" : "unfit");
        redis_ok(f.r, "DEL de_events " DELAYED_KEYS);
    }
}

Test(redis_delayed_settle, a_requeue_that_is_refused_leaves_nothing) {
    redis_ok(f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551615 f v");
    eval_t last = requeue_call("0");
    redisReply *reply = kept(call_in_vain(&last, f.r));
    cr_assert(reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "last possible"), "%s", reply->str);
    static const char *const keys[] = {"sidecar:email:requeued", "sidecar:email:failures", "sidecar:email:meta", DELAYED_KEYS,
                                       "de_events"};
    for (size_t i = 0; i < 5; i++) {
        redis_ok(f.r, "FLUSHALL");
        fixture_make_key(f.r, keys[i], "set");
        eval_t call = requeue_call("0");
        expect_type(call_in_vain(&call, f.r), keys[i], "set");
    }
}
