/* settle.lua against a real server: after each call a job is in exactly one place, or has ended with a record. */
#include "settle_call.h"

static fixture_t f;
SUITE(redis_script_settle, f = fixture_start(NULL); lay_out(f.r), fixture_stop(&f));

Test(redis_script_settle, a_retry_goes_to_the_front_of_ready) {
    long long before = redis_ms(f.r);
    settled(f.r, ask_new(), 1);
    redis_expect(f.r, JOB, "RPOP email"); /* the next worker takes this job */
    redis_expect(f.r, "other", "RPOP email");
    cr_assert_eq(redis_int(f.r, "LLEN email:backup"), 2);
    stamp_t stamp = stamp_of(f.r, slice_text(JOB));
    cr_assert(same_stamp(stamp, NEW));
    expect_field(f.r, "kind", "retried");
    expect_field(f.r, "error", NULL);
    char *at = field(f.r, "at");
    cr_assert(strtoll(at, NULL, 10) >= before && strtoll(at, NULL, 10) <= redis_ms(f.r));
    char *bytes = redis_str(f.r, "HGET sidecar:email:meta bytes");
    cr_assert_eq(strtoll(bytes, NULL, 10), 13 + 7 + 10, "at, kind, payload");
    refused(f.r, ask_new(), "changed"); /* a lost reply, sent again */
}

Test(redis_script_settle, workers_that_take_from_the_left_get_a_retry_next) {
    ask_t ask = ask_new();
    ask.takes_left = true;
    settled(f.r, ask, 1);
    redis_expect(f.r, JOB, "LPOP email"); /* the next worker takes this job */
    redis_expect(f.r, "other", "LPOP email");
    lay_out(f.r);
    ask.delay = "1000";
    redis_ok(f.r, "ZADD email:delayed 5 %s", JOB); /* so the retry cannot wait there */
    settled(f.r, ask, 1);
    redis_expect(f.r, JOB, "LPOP email");
    redis_expect(f.r, "other", "LPOP email");
}

Test(redis_script_settle, an_end_leaves_a_record_and_nothing_else) {
    settled(f.r, ask_end(), 1);
    cr_assert_eq(in_list(f.r, "email:backup", slice_text(JOB)) + in_list(f.r, "email", slice_text(JOB)), 0);
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:stamps"), 0);
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 1);
    cr_assert_eq(redis_int(f.r, "EVAL %s 2 sidecar:email:failures sidecar:email:meta",
                           "return #redis.call('XRANGE', KEYS[1], redis.call('HGET', KEYS[2], 'last'), '+')"),
                 1, "the last id is stored, so that no script has to ask the stream");
    refused(f.r, ask_end(), "changed");
}

static double score(redis_t *r) {
    char *text = redis_str(r, "ZSCORE email:delayed %s", JOB);
    cr_assert_not_null(text);
    double found = strtod(text, NULL);
    return found;
}

Test(redis_script_settle, a_delayed_retry_is_never_early) {
    static const struct {
        const char *unit;
        double per_ms;
    } rows[] = {{"ms", 1}, {"s", 1e-3}};
    for (size_t i = 0; i < 2; i++) {
        ask_t ask = ask_new();
        ask.unit = rows[i].unit;
        ask.delay = "1501";
        lay_out(f.r);
        double before = (double)redis_ms(f.r);
        settled(f.r, ask, 1);
        double due = score(f.r) / rows[i].per_ms;
        cr_assert(due >= before + 1501 - 0.01 && due <= (double)redis_ms(f.r) + 1501.01, "%f", due - before);
        cr_assert_eq(redis_int(f.r, "LLEN email"), 1);
        cr_assert_eq(redis_int(f.r, "LLEN email:backup"), 2);
    }
}

Test(redis_script_settle, the_same_bytes_in_delayed_do_not_swallow_the_job) {
    ask_t ask = ask_new();
    ask.delay = "1000";
    redis_ok(f.r, "ZADD email:delayed 5 %s", JOB);
    settled(f.r, ask, 1);
    cr_assert_eq(score(f.r), 5, "the other job keeps its time");
    redis_expect(f.r, JOB, "LINDEX email -1");
    cr_assert_eq(in_list(f.r, "email:backup", slice_text(JOB)), 0);
}

Test(redis_script_settle, each_broken_precondition_leaves_everything_as_it_is) {
    for (int ends = 0; ends < 2; ends++) {
        ask_t ask = ask_new();
        ask.ends = ends;
        static const char *const tokens[] = {"", "t", "TT", "other"};
        for (size_t i = 0; i < 4; i++) {
            ask.token = tokens[i];
            refused(f.r, ask, "fenced");
        }
        ask.token = "T";
        ask.old.seen++;
        refused(f.r, ask, "changed");
        ask.old = (stamp_t){0};
        refused(f.r, ask, "changed");
        ask.old = OLD;
        ask.heartbeat = "1_alive";
        for (size_t t = 0; t < FIXTURE_TYPES; t++) { /* a key of any type is a heartbeat */
            fixture_make_key(f.r, "1_alive", fixture_types[t]);
            refused(f.r, ask, "alive");
        }
        redis_ok(f.r, "DEL 1_alive");
        ask.report = "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"; /* of "a" */
        refused(f.r, ask, "changed");
        redis_ok(f.r, "HSET email:errors %s b", JOB);
        refused(f.r, ask, "changed");
        ask.report = "";
        refused(f.r, ask, "changed"); /* a report came after the scan read the job: the next scan settles */
        redis_ok(f.r, "DEL email:errors");
        ask.job = slice_text("gone");
        set_stamp(f.r, ask.job, OLD);
        refused(f.r, ask, "gone");
        redis_ok(f.r, "HDEL sidecar:email:stamps gone");
        lay_out(f.r);
    }
    redis_ok(f.r, "DEL sidecar:app:lock");
    refused(f.r, ask_end(), "fenced");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:failures"), 0, "nothing was ended or retried");
}

Test(redis_script_settle, keys_of_the_wrong_type_lose_nothing) {
    static const struct {
        const char *what, *key, *right, *delay;
    } keys[] = {{"backup", "email:backup", "list", ""},
                {"ready", "email", "list", ""},
                {"delayed", "email:delayed", "zset", "5"},
                {"ready", "email", "list", "5"},
                {"stamps", "sidecar:email:stamps", "hash", ""},
                {"errors", "email:errors", "hash", ""},
                {"failures", "sidecar:email:failures", "stream", ""},
                {"meta", "sidecar:email:meta", "hash", ""}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            lay_out(f.r);
            fixture_make_key(f.r, keys[k].key, type);
            ask_t ask = ask_new();
            ask.delay = keys[k].delay;
            expect_type(settle_with(f.r, ask, true), keys[k].what, type);
            if (*ask.delay) continue;
            ask.ends = true;
            expect_type(settle_with(f.r, ask, true), keys[k].what, type);
        }
    lay_out(f.r);
    fixture_make_key(f.r, "sidecar:app:lock", "list");
    redisReply *reply = settle_with(f.r, ask_end(), true);
    cr_assert_eq(reply->type, REDIS_REPLY_ERROR);
}

/* The text of a report becomes the error, cut at 64 KiB. */
Test(redis_script_settle, a_report_is_answered_once) {
    static const char SHA1[] = "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8";
    for (int ends = 0; ends < 2; ends++) {
        lay_out(f.r);
        redis_ok(f.r, "HSET email:errors %s a keeps it", JOB);
        ask_t ask = ask_new();
        ask.ends = ends;
        ask.report = SHA1;
        settled(f.r, ask, 1);
        expect_field(f.r, "error", "a");
        cr_assert_eq(redis_int(f.r, "HEXISTS email:errors %s", JOB), 0);
        cr_assert_eq(redis_int(f.r, "HLEN email:errors"), 1);
    }
    lay_out(f.r);
    size_t size = 70000;
    char *text = kept(malloc(size));
    memset(text, 'x', size);
    text[5] = '\0';
    redis_ok(f.r, "HSET email:errors %s %b", JOB, text, size);
    char *id =
        redis_str(f.r, "EVAL %s 0 %b", "return redis.sha1hex(string.sub(ARGV[1], 1, 65536)) .. ':' .. #ARGV[1]", text, size);
    ask_t ask = ask_end();
    ask.report = id;
    redis_ok(f.r, "HSET email:errors %s %b", JOB, text, size - 1);
    refused(f.r, ask, "changed"); /* the texts differ behind the head */
    redis_ok(f.r, "HSET email:errors %s %b", JOB, text, size);
    ask.most = "65564"; /* the other values of the record have 29 bytes */
    redis_ok(f.r, "CONFIG RESETSTAT");
    refused(f.r, ask, "full");
    cr_assert_eq(server_commandstat(f.server, "hget"), 0, "a full stream needs no text of a report");
    ask.most = "65565";
    settled(f.r, ask, 1);
    redis_expect(f.r, "65565", "HGET sidecar:email:meta bytes");
    redis_expect(f.r, "65536", "EVAL %s 1 sidecar:email:failures",
                 "local e = redis.call('XREVRANGE', KEYS[1], '+', '-')[1][2] "
                 "for i = 1, #e, 2 do if e[i] == 'error' then return tostring(#e[i + 1]) end end");
    free(id);
}

/* A dlq of a wrong type is refused before the first write. */
Test(redis_script_settle, an_ended_job_goes_to_the_dead_letter_list) {
    ask_t ask = ask_end();
    ask.dlq = "email:dead";
    for_other_types (type, "list") {
        fixture_make_key(f.r, "email:dead", type);
        expect_type(settle_with(f.r, ask, true), "dlq", type);
    }
    fixture_make_key(f.r, "email:dead", "list");
    settled(f.r, ask, 1);
    redis_expect(f.r, JOB, "LINDEX email:dead 0");
    cr_assert_eq(in_list(f.r, "email:backup", slice_text(JOB)), 0);
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 1);
}

Test(redis_script_settle, copies_are_not_ended_and_one_retry_takes_one) {
    redis_ok(f.r, "LPUSH email:backup %s", JOB);
    refused(f.r, ask_end(), "duplicates");
    settled(f.r, ask_new(), 1);
    cr_assert_eq(in_list(f.r, "email:backup", slice_text(JOB)), 1);
    redis_expect(f.r, "first", "LINDEX email:backup 0"); /* the copy at the head is gone, where the scan read it */
    lay_out(f.r);
    redis_ok(f.r, "RPUSH email:backup %s", JOB);
    ask_t ask = ask_end();
    ask.alone = "0";
    ask.from = "-1";
    settled(f.r, ask, 1);
    cr_assert_eq(in_list(f.r, "email:backup", slice_text(JOB)), 1);
    redis_expect(f.r, "last", "LINDEX email:backup -1");
}

/* Workers have pushed jobs since the page was read, so the entries that the script reads at once are not enough. */
Test(redis_script_settle, searches_behind_the_entries_that_it_reads_at_once) {
    ask_t retry = ask_new(), end = ask_end();
    retry.near = "1";
    end.near = "2";
    settled(f.r, retry, 1);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 2, "the job stands behind the entry that was read");
    lay_out(f.r);
    redis_ok(f.r, "RPUSH email:backup %s", JOB);
    long long entries = redis_int(f.r, "LLEN email:backup"), records = redis_int(f.r, "XLEN sidecar:email:failures");
    refused(f.r, end, "duplicates");
    end.near = "1";
    refused(f.r, end, "duplicates");
    cr_assert_eq(redis_int(f.r, "LLEN email:backup"), entries, "both copies must stay");
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), records, "no copy may end");
}

Test(redis_script_settle, searches_no_deeper_than_depth) {
    ask_t ask = ask_end();
    ask.depth = "1";
    refused(f.r, ask, "gone");
    ask.from = "-1";
    refused(f.r, ask, "gone");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:failures"), 0);
    ask.depth = "2";
    settled(f.r, ask, 1);
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 1);
}

Test(redis_script_settle, a_full_stream_ends_nothing_and_retries_go_on) {
    ask_t ask = ask_end();
    ask.most = "28"; /* at, kind and payload are 13 + 6 + 10 */
    refused(f.r, ask, "full");
    ask.most = "29";
    settled(f.r, ask, 1);
    lay_out(f.r);
    ask = ask_new();
    ask.most = "29";
    settled(f.r, ask, 0);
    redis_expect(f.r, JOB, "LINDEX email -1");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:failures sidecar:email:meta"), 0);
    lay_out(f.r);
    redis_ok(f.r, "HSET sidecar:email:meta bytes 9007199254740993"); /* 2^53 + 1, not exact as a double */
    refused(f.r, ask_end(), "full");
    static const char *const strange[] = {"abc", "", "1.5", "-3", "1e300", "nan", "inf"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) { /* a bad value does not stop the script after the record */
        lay_out(f.r);
        redis_ok(f.r, "HSET sidecar:email:meta bytes %b", strange[i], strlen(strange[i]));
        settled(f.r, ask_end(), 1);
        redis_expect(f.r, "29", "HGET sidecar:email:meta bytes");
        cr_assert_eq(in_list(f.r, "email:backup", slice_text(JOB)), 0);
    }
}

Test(redis_script_settle, a_stream_at_its_last_id_ends_nothing_and_retries_go_on) {
    redis_ok(f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551615 f v");
    ask_t ask = ask_end();
    ask.dlq = "email:dead";
    refused(f.r, ask, "full");
    settled(f.r, ask_new(), 0);
    redis_expect(f.r, JOB, "LINDEX email -1");
    cr_assert_eq(in_list(f.r, "email:backup", slice_text(JOB)), 0);
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:meta"), 0, "the retry has no record");
}

Test(redis_script_settle, works_when_redis_is_full) {
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    char *refusal = redis_error(f.r, "SET x y");
    cr_assert(strncmp(refusal, "OOM", 3) == 0, "%s", refusal);
    settled(f.r, ask_new(), 1);
    ask_t ask = ask_end();
    redis_ok(f.r, "CONFIG SET maxmemory 0");
    lay_out(f.r);
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    settled(f.r, ask, 1);
}

Test(redis_script_settle, bytes_do_not_change) {
    enum { HUGE_JOB = 16 << 20 };
    char *huge = kept(malloc(HUGE_JOB));
    for (size_t i = 0; i < HUGE_JOB; i++) huge[i] = (char)(i * 7);
    const slice_t jobs[] = {{"", 0}, {"a\0b", 3}, {"\0", 1}, {"\xff\xfe\xc3", 3}, {"12345678901234567890", 20}, {huge, HUGE_JOB}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        ask_t ask = ask_new();
        ask.job = jobs[i];
        for (int delayed = 0; delayed < 2; delayed++) {
            lay_out(f.r);
            redis_ok(f.r, "LPUSH email:backup %b", ask.job.data, ask.job.len);
            set_stamp(f.r, ask.job, OLD);
            ask.delay = delayed ? "60000" : "";
            settled(f.r, ask, 1);
            cr_assert_eq(in_list(f.r, "email", ask.job), !delayed, "job %zu", i);
            cr_assert_eq(is_delayed(f.r, ask.job), delayed);
            cr_assert_eq(in_list(f.r, "email:backup", ask.job), 0);
        }
    }
}

/* A random history: jobs are taken, rotated, stamped, reported, retried and ended, by right and wrong requests. A job is always
 * in exactly one place; the set of ended jobs is one of these. */
typedef struct {
    redis_t *r;
    unsigned seed;
    int added;
} history_t;

enum { JOBS = 150, STEPS = 4000 };

static unsigned draw(history_t *h, unsigned below) { return (unsigned)rand_r(&h->seed) % below; }

static slice_t name_of(int number) {
    static char text[24];
    int len = snprintf(text, sizeof text, "%d%c\xff job", number, 0);
    return (slice_t){text, (size_t)len};
}

static long long places(redis_t *r, slice_t job) {
    long long ended = redis_int(r, "SISMEMBER ended %b", job.data, job.len);
    return in_list(r, "email", job) + in_list(r, "email:backup", job) + is_delayed(r, job) + ended;
}

/* Settles a random job, with some arguments wrong or out of date. */
static void settle_some(history_t *h) {
    if (h->added == 0) return;
    slice_t job = name_of((int)draw(h, (unsigned)h->added));
    ask_t ask = ask_new();
    ask.job = job;
    ask.old = stamp_of(h->r, job);
    ask.ends = draw(h, 3) == 0;
    ask.from = draw(h, 2) ? "1" : "-1";
    ask.delay = draw(h, 3) ? "" : "1";
    ask.payload = draw(h, 200);
    if (draw(h, 5) == 0) ask.old.seen ^= 1;
    if (draw(h, 5) == 0) ask.token = "S";
    if (draw(h, 5) == 0) ask.depth = "3";
    if (draw(h, 8) == 0) ask.most = "10";
    char *report = redis_str(h->r, "HGET email:errors %b", job.data, job.len), *sha1 = NULL;
    if (report && draw(h, 4)) ask.report = sha1 = redis_str(h->r, "EVAL %s 0 %s", "return redis.sha1hex(ARGV[1])", report);
    redisReply *reply = settle(h->r, ask);
    cr_assert_neq(reply->type, REDIS_REPLY_ERROR, "%s", reply->str);
    if (ask.ends && reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "settled") == 0)
        redis_ok(h->r, "SADD ended %b", job.data, job.len);
}

static void step(history_t *h) {
    slice_t job = name_of((int)draw(h, (unsigned)h->added + 1));
    switch (draw(h, 6)) {
    case 0:
        if (h->added == JOBS) return;
        job = name_of(h->added++);
        redis_ok(h->r, "LPUSH email %b", job.data, job.len);
        return;
    case 1: redis_ok(h->r, "LMOVE email email:backup RIGHT LEFT"); return;
    case 2: redis_ok(h->r, "RPOPLPUSH email:backup email:backup"); return;
    case 3:
        if (in_list(h->r, "email:backup", job)) set_stamp(h->r, job, (stamp_t){.born_us = 1 + draw(h, 9), .seen = draw(h, 2)});
        return;
    case 4:
        if (in_list(h->r, "email:backup", job)) redis_ok(h->r, "HSET email:errors %b %d", job.data, job.len, (int)draw(h, 3));
        return;
    default: settle_some(h);
    }
}

Test(redis_script_settle, no_random_history_loses_or_doubles_a_job) {
    redis_ok(f.r, "DEL email email:backup sidecar:email:stamps");
    const char *chosen = getenv("QS_TEST_SEED");
    unsigned seed = chosen ? (unsigned)strtoul(chosen, NULL, 10) : (unsigned)wait_now_us();
    history_t h = {.r = f.r, .seed = seed};
    cr_log_info("QS_TEST_SEED=%u", seed);
    for (int i = 0; i < STEPS; i++) {
        step(&h);
        if (i % 50) continue;
        for (int n = 0; n < h.added; n++) cr_assert_eq(places(f.r, name_of(n)), 1, "job %d, QS_TEST_SEED=%u", n, seed);
    }
    cr_assert_gt(redis_int(f.r, "SCARD ended"), 10, "this history ended too few jobs, seed %u", seed);
    cr_assert_geq(redis_int(f.r, "XLEN sidecar:email:failures"), redis_int(f.r, "SCARD ended"));
}
