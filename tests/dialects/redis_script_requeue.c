/* requeue.lua against a real server: it requeues or discards a failure at most once, and pushes the job once or not at all. */
#include "dialects/requeue.h"
#include "monitor/monitor_call.h"
#include "queue/scripts.h"

#define JOB   "{\"id\":1}"
#define EVENT "0123456789abcdef"

/* Arguments of one call. */
typedef struct {
    const char *what, *by, *again, *to, *mark, *letters, *recorded, *take;
    slice_t job;
    bool stamp;
} ask_t;

static ask_t ask_new(void) {
    return (ask_t){.what = "requeued",
                   .by = "ann@host",
                   .again = "0",
                   .to = "email",
                   .mark = "sidecar:email:requeued",
                   .letters = "sidecar:email:requeued",
                   .recorded = "sidecar:email:requeued",
                   .take = "right",
                   .job = slice_text(JOB)};
}

static ask_t ask_discard(void) {
    ask_t ask = ask_new();
    ask.what = "discarded";
    return ask;
}

static redisReply *answer_with(redis_t *r, ask_t ask, bool in_vain) {
    digest_t digest = digest_of(ask.job.data, ask.job.len);
    char *stamps = kept_printf("sidecar:%s:stamps", ask.to), *births = kept_printf("sidecar:%s:meta", ask.to);
    eval_t call = call_begin(&script_requeue, "9");
    const char *const keys[] = {"sidecar:email:requeued",
                                "sidecar:email:failures",
                                "sidecar:email:meta",
                                ask.to,
                                stamps,
                                births,
                                ask.mark,
                                ask.letters,
                                ask.recorded,
                                EVENT,
                                ask.what,
                                ask.by,
                                ask.again};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) call_text(&call, keys[i]);
    call_add(&call, ask.job.data, ask.job.len);
    call_add(&call, digest.bytes, ask.stamp ? STAMP_FIELD_BYTES : 0);
    const char *const rest[] = {"21", "id", ask.take, "kind", ask.what, "worker", ask.by, "x", "12345"};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) call_text(&call, rest[i]);
    redisReply *reply = in_vain ? call_in_vain(&call, r) : call_end(&call, r);
    return kept(reply);
}

static void answered(redis_t *r, ask_t ask) { expect_word(answer_with(r, ask, false), "done"); }

/* Expects a reply `word` with a detail that begins with `detail`, and no changed key. */
static void refused(redis_t *r, ask_t ask, const char *word, const char *detail) {
    redisReply *reply = answer_with(r, ask, true);
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 2, "%s", reply->str);
    cr_assert(strncmp(reply->element[1]->str, detail, strlen(detail)) == 0, "%s", reply->element[1]->str);
    expect_word(reply, word);
}

static char *mark_of(redis_t *r) { return redis_str(r, "HGET sidecar:email:requeued %s", EVENT); }

static void expect_mark(redis_t *r, const char *what, const char *by) {
    char *mark = mark_of(r), state[16] = "", who[64] = "";
    long long at = 0;
    cr_assert_eq(sscanf(mark ? mark : "", "%15s %lld %63s", state, &at, who), 3, "%s", mark);
    cr_assert_str_eq(state, what);
    cr_assert_str_eq(who, by);
    cr_assert(at > redis_ms(r) - 60000 && at <= redis_ms(r));
}

static fixture_t f;
SUITE(redis_script_requeue, f = fixture_start(NULL), fixture_stop(&f));

Test(redis_script_requeue, pushes_behind_waiting_jobs_and_writes_a_record) {
    redis_ok(f.r, "RPUSH email newest oldest");
    redis_ok(f.r, "HSET sidecar:email:meta bytes 100");
    answered(f.r, ask_new());
    redis_expect(f.r, JOB, "LINDEX email 0"); /* taken last */
    cr_assert_eq(redis_int(f.r, "LLEN email"), 3);
    expect_mark(f.r, "requeued", "ann@host");
    redisReply *entry = redis_do(f.r, "XREVRANGE sidecar:email:failures + - COUNT 1");
    const redisReply *fields = entry->element[0]->element[1];
    const char *const expected[] = {"at", NULL, "kind", "requeued", "worker", "ann@host", "x", "12345"};
    cr_assert_eq(fields->elements, 8);
    for (size_t i = 0; i < 8; i++)
        if (expected[i]) cr_assert_str_eq(fields->element[i]->str, expected[i]);
    cr_assert_leq(llabs(strtoll(fields->element[1]->str, NULL, 10) - redis_ms(f.r)), 60000);
    redis_expect(f.r, "134", "HGET sidecar:email:meta bytes"); /* 100, 21, and 13 of `at` */
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:stamps"), 0);
}

Test(redis_script_requeue, pushes_behind_waiting_jobs_of_workers_that_take_from_the_left) {
    ask_t ask = ask_new();
    ask.take = "left";
    redis_ok(f.r, "RPUSH email oldest newest");
    answered(f.r, ask);
    redis_expect(f.r, "oldest", "LINDEX email 0"); /* taken first */
    redis_expect(f.r, JOB, "LINDEX email 2");      /* taken last */
    cr_assert_eq(redis_int(f.r, "LLEN email"), 3);
}

Test(redis_script_requeue, a_second_answer_needs_again) {
    ask_t other = ask_new();
    other.by = "bob@host";
    answered(f.r, ask_new());
    refused(f.r, ask_new(), "known", "requeued ");
    refused(f.r, other, "known", "requeued ");
    refused(f.r, ask_discard(), "known", "requeued ");
    other.again = "1";
    answered(f.r, other);
    cr_assert_eq(in_list(f.r, "email", slice_text(JOB)), 2);
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 2);
    expect_mark(f.r, "requeued", "bob@host");
}

Test(redis_script_requeue, a_discarded_job_is_not_pushed_and_stays_discarded) {
    answered(f.r, ask_discard());
    cr_assert_eq(redis_int(f.r, "EXISTS email"), 0);
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 1);
    expect_mark(f.r, "discarded", "ann@host");
    refused(f.r, ask_new(), "known", "discarded ");
    ask_t again = ask_new();
    again.again = "1";
    answered(f.r, again);
    expect_mark(f.r, "requeued", "ann@host");
    cr_assert_eq(redis_int(f.r, "LLEN email"), 1);
}

Test(redis_script_requeue, a_stamp_begins_a_new_life) {
    ask_t ask = ask_new();
    ask.stamp = true;
    set_stamp(f.r, ask.job, (stamp_t){.born_us = 5, .seen = 5, .retries = 3, .retried_at = 5});
    long long before = redis_ms(f.r);
    answered(f.r, ask);
    stamp_t stamp = stamp_of(f.r, ask.job);
    cr_assert(stamp.born_us / 1000 >= before && stamp.retried_at >= before && !stamp.seen && !stamp.retries && stamp.requeued);
    char *life = redis_str(f.r, "HGET sidecar:email:meta life");
    cr_assert_eq(strtoll(life, NULL, 10), stamp.born_us);
    redis_ok(f.r, "HSET sidecar:email:meta life 9000000000000999"); /* by a clock that was ahead */
    ask.again = "1";
    answered(f.r, ask);
    stamp = stamp_of(f.r, ask.job);
    cr_assert(stamp.born_us % 1000 == 0 && stamp.born_us / 1000 >= before && stamp.born_us / 1000 <= redis_ms(f.r));
}

Test(redis_script_requeue, another_queue_gets_job_and_stamp_and_the_first_gets_the_record) {
    ask_t ask = ask_new();
    ask.to = "sms";
    ask.stamp = true;
    answered(f.r, ask);
    cr_assert_eq(redis_int(f.r, "LLEN sms"), 1);
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:sms:stamps"), 1);
    cr_assert_eq(redis_int(f.r, "HEXISTS sidecar:sms:meta life"), 1);
    cr_assert_eq(redis_int(f.r, "EXISTS email sidecar:email:stamps sidecar:sms:failures sidecar:sms:requeued"), 0);
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:failures sidecar:email:requeued"), 2);
}

Test(redis_script_requeue, keys_of_the_wrong_type_change_nothing) {
    static const struct {
        const char *key, *right;
    } keys[] = {{"sidecar:email:requeued", "hash"}, {"sidecar:email:failures", "stream"},
                {"sidecar:email:meta", "hash"},     {"sms", "list"},
                {"sidecar:sms:stamps", "hash"},     {"sidecar:sms:meta", "hash"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            redis_ok(f.r, "FLUSHALL");
            fixture_make_key(f.r, keys[k].key, type);
            ask_t ask = ask_new();
            ask.to = "sms";
            ask.stamp = true;
            expect_type(answer_with(f.r, ask, true), keys[k].key, type);
            ask.what = "discarded";
            expect_type(answer_with(f.r, ask, true), keys[k].key, type);
        }
}

/* Expects an error that contains the text, and no changed key. */
static void refused_by_error(redis_t *r, ask_t ask, const char *text) {
    redisReply *reply = answer_with(r, ask, true);
    cr_assert(reply->type == REDIS_REPLY_ERROR && strstr(reply->str, text), "%s", reply->str);
}

Test(redis_script_requeue, a_stream_at_its_last_id_leaves_the_failure_as_it_was) {
    redis_ok(f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551615 f v");
    refused_by_error(f.r, ask_discard(), "last possible");
    refused_by_error(f.r, ask_new(), "last possible");
    redis_ok(f.r, "DEL sidecar:email:failures");
    answered(f.r, ask_new());
    cr_assert_eq(redis_int(f.r, "LLEN email"), 1);
}

Test(redis_script_requeue, a_full_redis_refuses_the_script) {
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    if (server_major(f.server) < 7) { /* the proof of rights has written, and then Redis 6.2 refuses nothing for lack of memory */
        answered(f.r, ask_new());
        cr_assert_eq(redis_int(f.r, "LLEN email"), 1);
        fixture_stop(&f);
        return;
    }
    redisReply *reply = answer_with(f.r, ask_new(), true);
    cr_assert(reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "OOM", 3) == 0, "%s", reply->str);
    redis_ok(f.r, "CONFIG SET maxmemory 0");
    answered(f.r, ask_new());
}

Test(redis_script_requeue, names_a_missing_right_and_keeps_the_earlier_marker) {
    redis_ok(f.r, "HSET sidecar:email:requeued %s %s", EVENT, "discarded 5 bob");
    ask_t again = ask_new();
    again.again = "1";
    redis_ok(f.r, "ACL SETUSER default -lpush");
    refused_by_error(f.r, again, "NOPERM the user ");
    refused_by_error(f.r, again, " (LPUSH on the key email)");
    redis_ok(f.r, "ACL SETUSER default +lpush -xadd");
    refused_by_error(f.r, again, "(XADD on the key sidecar:email:failures)");
    redis_ok(f.r, "ACL SETUSER default +xadd");
    cr_assert_eq(redis_int(f.r, "EXISTS email sidecar:email:failures"), 0, "a refused requeue writes nothing");
    refused(f.r, ask_new(), "known", "discarded 5 bob");
    answered(f.r, again);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 1);
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 1);
}

/* A queue with unique ids, as in KMQueue: an id is in a set while its job waits or runs. */
Test(redis_script_requeue, unique_job_is_queued_once) {
    ask_t ask = ask_new();
    ask.mark = "email_unique";
    answered(f.r, ask);
    cr_assert_eq(redis_int(f.r, "SISMEMBER email_unique id"), 1);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 1);
    refused(f.r, ask, "known", "requeued ");
    redis_ok(f.r, "DEL sidecar:email:requeued sidecar:email:failures sidecar:email:meta");
    refused(f.r, ask, "waiting",
            "its id is taken, so its job may wait or run; use --again"); /* the application pushed the job again */
    ask.again = "1";
    answered(f.r, ask);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 2);
    for_other_types (type, "set") {
        fixture_make_key(f.r, "email_unique", type);
        expect_type(answer_with(f.r, ask, true), "email_unique", type);
    }
}

Test(redis_script_requeue, keeps_the_bytes_of_a_job) {
    enum { HUGE_JOB = 16 << 20 };
    char *huge = kept(malloc(HUGE_JOB));
    for (size_t i = 0; i < HUGE_JOB; i++) huge[i] = (char)(i * 7);
    const slice_t jobs[] = {{"", 0}, {"a\0b", 3}, {"\0", 1}, {"\xff\xfe\xc3", 3}, {"12345678901234567890", 20}, {huge, HUGE_JOB}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        redis_ok(f.r, "FLUSHALL");
        ask_t ask = ask_new();
        ask.job = jobs[i];
        answered(f.r, ask);
        cr_assert_eq(in_list(f.r, "email", ask.job), 1, "job %zu", i);
        cr_assert_eq(redis_int(f.r, "LLEN email"), 1);
    }
}

Test(redis_script_requeue, malformed_counters_do_not_stop_a_requeue) {
    static const char *const strange[] = {"abc", "", "1.5", "-3", "1e300", "nan", "inf"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        redis_ok(f.r, "FLUSHALL");
        redis_ok(f.r, "HSET sidecar:email:meta bytes %b life %b", strange[i], strlen(strange[i]), strange[i], strlen(strange[i]));
        ask_t ask = ask_new();
        ask.stamp = true;
        answered(f.r, ask);
        redis_expect(f.r, "34", "HGET sidecar:email:meta bytes");
        cr_assert(stamp_of(f.r, ask.job).born_us > 0);
    }
}

/* Prunes requeue markers as the leader does, until the whole hash was read. */
static void prune(const char *token, int64_t before_ms, outcome_t expected) {
    const call_t call = fixture_call(&f, token);
    uint64_t cursor = 0;
    do cr_assert_eq(requeue_prune(&call, before_ms, &cursor), expected, "%s", f.error.text);
    while (cursor && expected == OUTCOME_OK);
}

Test(redis_script_requeue, the_leader_prunes_old_requeue_markers) {
    enum { MARKS = 3000 };
    redis_ok(f.r, "SET sidecar:app:lock T");
    redis_ok(f.r, "EVAL %s 1 sidecar:email:requeued %d",
             "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], 'm' .. i, 'requeued ' .. i .. ' ann b') end", MARKS);
    redis_ok(f.r, "HSET sidecar:email:requeued strange text");
    prune("other", MARKS, OUTCOME_FENCED);
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:email:requeued"), MARKS + 1);
    prune("T", 1001, OUTCOME_OK);
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:email:requeued"), MARKS - 1000 + 1);
    cr_assert_eq(redis_int(f.r, "HEXISTS sidecar:email:requeued m1001"), 1);
    cr_assert_eq(redis_int(f.r, "HEXISTS sidecar:email:requeued m1000"), 0);
    prune("T", 1001, OUTCOME_OK);
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:email:requeued"), MARKS - 1000 + 1);
}

/* In private_queues a requeued job is no dead letter any more, and may become one again. */
Test(redis_script_requeue, removes_the_dead_letter) {
    char *sha1 = redis_str(f.r, "EVAL %s 0 %s", "return redis.sha1hex(ARGV[1])", JOB);
    ask_t ask = ask_new();
    ask.letters = "email:dead";
    ask.recorded = "sidecar:email:recorded";
    ask.again = "1";
    redis_ok(f.r, "RPUSH email:dead other %s another %s", JOB, JOB);
    redis_ok(f.r, "ZADD sidecar:email:recorded 1 %s 2 others", sha1);
    answered(f.r, ask);
    cr_assert_eq(redis_int(f.r, "LLEN email:dead"), 3);
    cr_assert_eq(redis_int(f.r, "ZCARD sidecar:email:recorded"), 2, "a second dead letter of equal bytes still needs the entry");
    answered(f.r, ask);
    cr_assert_eq(redis_int(f.r, "LLEN email:dead"), 2);
    redis_expect(f.r, NULL, "ZSCORE sidecar:email:recorded %s", sha1);
    cr_assert_eq(redis_int(f.r, "ZCARD sidecar:email:recorded"), 1);
    redis_ok(f.r, "ZADD sidecar:email:recorded 1 %s", sha1);
    answered(f.r, ask); /* the dead letter was removed by hand */
    redis_expect(f.r, NULL, "ZSCORE sidecar:email:recorded %s", sha1);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 3);
    redis_ok(f.r, "LPUSH email:dead %s", JOB);
    ask.what = "discarded";
    answered(f.r, ask);
    cr_assert_eq(redis_int(f.r, "LLEN email:dead"), 3, "a discard keeps the dead letter");
    ask.what = "requeued";
    fixture_make_key(f.r, "email:dead", "string");
    expect_type(answer_with(f.r, ask, true), "email:dead", "string");
}
