/* Room in a failure stream. stream.min_records keeps records only while the stream has room: otherwise a full stream would stay
 * full. */
#include "auditor_fixture.h"
#include "queue/stream.h"

#define STREAM "sidecar:email:failures"
#define META   "sidecar:email:meta"

enum { LARGE = 100000, OLD = 10 };

/* Acknowledges the whole stream, as an auditor does. */
static void copied(fixture_t *f) {
    redis_ok(f->r, "EVAL %s 2 sidecar:email:auditors " STREAM,
             "local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1][1] "
             "redis.call('HSET', KEYS[1], 'a', last .. ' ' .. redis.call('TIME')[1] .. '000')");
}

static fixture_t setup(int min_records) {
    char *config = mem_printf("group = \"app\"; stream = { retain = \"1m\"; min_records = %d; max_bytes = \"1MiB\"; }; "
                              "queues = ( { name = \"email\"; } );",
                              min_records);
    fixture_t f = fixture_start(&(fixture_options_t){.config = config});
    free(config);
    redis_ok(f.r, "SET sidecar:app:lock T");
    redis_ok(f.r, "EVAL %s 2 " STREAM " " META " %d %d",
             "for i = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '1-' .. i, 'payload', string.rep('x', ARGV[2])) end "
             "redis.call('HSET', KEYS[2], 'bytes', ARGV[1] * ARGV[2], 'entries', ARGV[1])",
             OLD, LARGE);
    return f;
}

static stream_trimmed_t trim(fixture_t *f) {
    stream_trimmed_t done;
    const call_t call = fixture_call(f, "T");
    cr_assert_eq(stream_trim(&call, &done), OUTCOME_OK, "%s", f->error.text);
    return done;
}

Test(redis_auditor_room, a_full_stream_of_old_records_is_trimmed) {
    fixture_t f = setup(100);
    stream_ends_t ends;
    int64_t now_ms;
    cr_assert_eq(stream_read_ends(f.conn, f.keys, NULL, &ends, &now_ms, &f.error), OUTCOME_OK);
    cr_assert_eq(ends.bytes, OLD * LARGE);
    cr_assert_gt(ends.bytes, stream_room(f.keys));
    stream_trimmed_t done = trim(&f);
    cr_assert(done.removed == 0 && done.wait_ms == 0, "no auditor has copied the records: %lld", (long long)done.wait_ms);
    copied(&f);
    done = trim(&f);
    cr_assert_eq(done.left, 5, "%lld", (long long)done.left); /* 500,000 bytes are less than half a MiB */
    cr_assert_eq(done.wait_ms, -1);
    redis_expect(f.r, "500000", "HGET " META " bytes");
    redis_expect(f.r, "1-5", "HGET " META " trimmed");
    done = trim(&f);
    cr_assert(done.removed == 0 && done.wait_ms == -1, "the rest is kept by min_records");
    fixture_stop(&f);
}

/* Trimming ends when there is room and at most min_records are left. */
Test(redis_auditor_room, records_beyond_min_records_are_trimmed) {
    for (int min_records = 4; min_records <= 6; min_records++) {
        fixture_t f = setup(min_records);
        copied(&f);
        stream_trimmed_t done = trim(&f);
        cr_assert_eq(done.left, min_records < 5 ? min_records : 5, "min_records %d: %lld", min_records, (long long)done.left);
        cr_assert_eq(done.wait_ms, -1);
        fixture_stop(&f);
    }
}

Test(redis_auditor_room, young_records_stay_although_the_stream_is_full) {
    fixture_t f = setup(100);
    redis_ok(f.r, "EVAL %s 2 " STREAM " " META " %d",
             "for i = 1, 10 do redis.call('XADD', KEYS[1], '*', 'payload', string.rep('x', ARGV[1])) end "
             "redis.call('HINCRBY', KEYS[2], 'bytes', 10 * ARGV[1]) redis.call('HSET', KEYS[2], 'entries', 20)",
             LARGE);
    copied(&f);
    stream_trimmed_t done = trim(&f);
    cr_assert_eq(done.left, 10);
    cr_assert(done.wait_ms > 0 && done.wait_ms <= 60001, "%lld", (long long)done.wait_ms);
    fixture_stop(&f);
}

/* After a manual XTRIM the counted bytes are too high. Trimming must not remove records because of this count. */
Test(redis_auditor_room, a_stream_trimmed_by_others_has_room) {
    fixture_t f = setup(100);
    copied(&f);
    redis_ok(f.r, "XTRIM " STREAM " MAXLEN 4");
    stream_trimmed_t done = trim(&f);
    cr_assert(done.removed == 0 && done.left == 4 && done.wait_ms == -1, "%lld", (long long)done.left);
    fixture_stop(&f);
}

static long long held(redis_t *r) {
    return redis_int(r, "EVAL %s 1 " META, "return tonumber(redis.call('HGET', KEYS[1], 'bytes'))");
}

/* The leading auditor trims again and again, far below min_records. */
Test(redis_auditor_room, a_stream_does_not_stay_full) {
    enum { RECORDS = 3000, ROOM = 1 << 19 };
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "stream = { retain = \"1m\"; min_records = 100000; max_bytes = \"1MiB\"; };",
                 NULL);
    instance_lead(&d.instance, d.f.r);
    long long left = 0;
    for (int round = 1; round <= 2; round++) {
        audit_log_feed(d.f.r, "email", (round - 1) * RECORDS, RECORDS, "5");
        expect_rows(&d, round * RECORDS);
        fixture_step_boottime(301000);
        instance_lead(&d.instance, d.f.r);
        cr_assert(driver_until(&d.instance.driver, held(d.f.r) <= ROOM, 10000), "%lld", held(d.f.r));
        left = redis_int(d.f.r, "XLEN sidecar:email:failures");
        cr_assert(left > 100 && left < RECORDS, "%lld", left);
    }
    fixture_step_boottime(301000);
    instance_lead(&d.instance, d.f.r);
    settle(&d);
    cr_assert_eq(redis_int(d.f.r, "XLEN sidecar:email:failures"), left, "the rest is kept by min_records");
    close_auditor(&d);
}
