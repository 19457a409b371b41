/* Room in a failure stream. stream.retain and stream.min_records keep records only while the stream has room: otherwise a full
 * stream would stay full. Only records without enough copies may fill it. */
#include "auditor/internal.h"
#include "auditor_fixture.h"
#include "queue/stream.h"

#include "wait.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Trims until there is nothing more to trim. One call reads some 128 KiB. */
static stream_trimmed_t trim(fixture_t *f) {
    stream_trimmed_t done, all = {0};
    const call_t call = fixture_call(f, "T");
    bool more = true;
    while (more) {
        cr_assert_eq(stream_trim(&call, stream_room(f->keys), STREAM_TRIM_MAX, &done), OUTCOME_OK, "%s", f->error.text);
        more = done.removed > 0 && done.wait_ms == 0;
        done.removed = all.removed += done.removed;
        done.early = all.early += done.early;
    }
    return done;
}

Test(redis_auditor_room, a_full_stream_of_old_records_is_trimmed) {
    fixture_t f = setup(100);
    stream_ends_t ends = {0};
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

Test(redis_auditor_room, young_records_go_while_the_stream_is_above_half) {
    fixture_t f = setup(100);
    redis_ok(f.r, "EVAL %s 2 " STREAM " " META " %d",
             "for i = 1, 10 do redis.call('XADD', KEYS[1], '*', 'payload', string.rep('x', ARGV[1])) end "
             "redis.call('HINCRBY', KEYS[2], 'bytes', 10 * ARGV[1]) redis.call('HSET', KEYS[2], 'entries', 20)",
             LARGE);
    copied(&f);
    stream_trimmed_t done = trim(&f);
    cr_assert(done.left == 5 && done.early == 5 && done.bytes == 500000, "%lld left", (long long)done.left);
    cr_assert_eq(done.wait_ms, -1, "min_records keeps the rest");
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
        settle(&d); /* the trim goes on, in short scripts */
        left = redis_int(d.f.r, "XLEN sidecar:email:failures");
        cr_assert(left > 100 && left < RECORDS, "%lld", left);
    }
    fixture_step_boottime(301000);
    instance_lead(&d.instance, d.f.r);
    settle(&d);
    cr_assert_eq(redis_int(d.f.r, "XLEN sidecar:email:failures"), left, "the rest is kept by min_records");
    close_auditor(&d);
}

/* ---- Copied records make room at any age. */

enum { MIB = 1 << 20, HALF = MIB / 2, LOW = HALF - HALF / 8 };

#define STORM "stream = { retain = \"1h\"; min_records = 0; max_bytes = \"1MiB\"; %s };"

static void open_storm(setup_t *d, const char *more) {
    char *settings = mem_printf(STORM, more);
    open_auditor(d, (fixture_options_t){0}, "", settings, NULL);
    instance_lead(&d->instance, d->f.r);
    free(settings);
}

static long long records(setup_t *d) { return redis_int(d->f.r, "XLEN " STREAM); }

/* The count after the next record -> what happens. */
static const struct threshold_case {
    const char *what;
    long long bytes;
    bool trimmed;
} threshold_cases[] = {
    {"a stream with room", LOW, false},
    {"a stream below half", HALF - 1, false},
    {"half is not above half", HALF, false},
    {"one byte above half", HALF + 1, true},
    {"a full stream", MIB, true},
};

Test(redis_auditor_room, the_first_byte_above_half_trims_to_seven_sixteenths) {
    enum { RECORDS = 3000 };
    for (size_t i = 0; i < sizeof threshold_cases / sizeof *threshold_cases; i++) {
        const struct threshold_case *row = &threshold_cases[i];
        setup_t d = {0};
        open_storm(&d, "");
        audit_log_feed(d.f.r, "email", 0, 1, NULL);
        long long each = held(d.f.r); /* the bytes of one record, but for the digits of its number */
        audit_log_feed(d.f.r, "email", 1, RECORDS - 1, NULL);
        redis_ok(d.f.r, "HSET " META " bytes 0");
        expect_rows(&d, RECORDS);
        settle(&d);
        cr_assert_eq(records(&d), RECORDS, "%s", row->what);
        redis_ok(d.f.r, "HSET " META " bytes %lld", row->bytes - each - 3);
        audit_log_feed(d.f.r, "email", 9000, 1, NULL);
        cr_assert_eq(held(d.f.r), row->bytes, "%s", row->what);
        expect_rows(&d, RECORDS + 1);
        settle(&d);
        if (row->trimmed)
            cr_expect(held(d.f.r) <= LOW && held(d.f.r) > LOW - each - 3, "%s: %lld bytes", row->what, held(d.f.r));
        else
            cr_expect(held(d.f.r) == row->bytes && records(&d) == RECORDS + 1, "%s: %lld bytes", row->what, held(d.f.r));
        cr_expect_eq(fixture_log_count("trimming copied records before stream.retain"), row->trimmed, "%s", row->what);
        cr_expect_eq(metric_get(&metrics_queue(metrics_of(&d), "email")->trimmed_early), RECORDS + 1 - records(&d), "%s",
                     row->what);
        cr_expect_eq(redis_int(d.f.r, "HEXISTS " META " trimmed_early"), row->trimmed, "%s", row->what);
        cr_expect_eq(gaps(&d), 0, "%s", row->what);
        close_auditor(&d);
    }
}

/* Each part alone fits, all of them by far not. The log tells it once, and again an hour later. */
Test(redis_auditor_room, a_storm_never_fills_the_stream) {
    enum { PARTS = 10, RECORDS = 1500 };
    setup_t d = {0};
    open_storm(&d, "");
    for (int part = 0; part < PARTS; part++) {
        audit_log_feed(d.f.r, "email", part * RECORDS, RECORDS, NULL);
        cr_assert_lt(held(d.f.r), MIB, "part %d does not fit", part);
        expect_rows(&d, (part + 1) * RECORDS);
        cr_assert(driver_until(&d.instance.driver, held(d.f.r) <= HALF, 10000), "%lld", held(d.f.r));
        cr_assert_eq(fixture_log_count("trimming copied records before stream.retain"), part == PARTS - 1 ? 2 : part > 0);
        fixture_step_boottime(part == PARTS - 2 ? 3601000 : 11000); /* suppression of repeated lines ends after 10 s */
        instance_lead(&d.instance, d.f.r);
    }
    audit_log_expect(d.path, "email", 0, PARTS * RECORDS);
    cr_assert_eq(gaps(&d), 0);
    restart(&d); /* what was trimmed is in the log: reading the stream again finds no gap */
    instance_lead(&d.instance, d.f.r);
    redis_ok(d.f.r, "CLIENT KILL TYPE normal SKIPME yes");
    settle(&d);
    audit_log_feed(d.f.r, "email", PARTS * RECORDS, 1, NULL);
    expect_rows(&d, PARTS * RECORDS + 1);
    cr_assert_eq(gaps(&d), 0);
    close_auditor(&d);
}

/* Holds the reply for longer than a burst, and than a tick. */
static void *pass_late(void *proxy) {
    wait_for(proxy_fired(proxy) == 1, 20000);
    const int64_t held_until = wait_now_us() + 600000;
    wait_for(wait_now_us() >= held_until, 20000);
    proxy_pass(proxy);
    return NULL;
}

/* Redis is slow: the time of a burst is over after its first trim. Records may come faster than such trims remove them, so the
 * burst goes on for twice as many records as the last transaction had, and no longer. */
Test(redis_auditor_room, a_burst_on_a_slow_redis_removes_two_transactions) {
    enum { BEFORE = 6000, LAST = 3000 };
    setup_t d = {0};
    pthread_t thread;
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "stream = { min_records = 0; max_bytes = \"1MiB\"; };", NULL);
    audit_log_feed(d.f.r, "email", 0, BEFORE, NULL);
    expect_rows(&d, BEFORE);
    settle(&d);
    audit_log_feed(d.f.r, "email", BEFORE, LAST, NULL);
    expect_rows(&d, BEFORE + LAST);
    settle(&d);
    cr_assert_eq(records(&d), BEFORE + LAST, "a standby does not trim");
    const long long least = 2 * d.auditor->committed; /* a busy machine copies LAST in more than one transaction */
    cr_assert_gt(least, STREAM_TRIM_MAX, "one trim removes as many");
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = " 4 sidecar:app:lock " STREAM});
    cr_assert_eq(pthread_create(&thread, NULL, pass_late, d.f.proxy), 0);
    instance_lead(&d.instance, d.f.r);
    end_wait(&d);
    cr_assert(driver_until(&d.instance.driver, records(&d) < BEFORE + LAST, 10000));
    long long removed = BEFORE + LAST - records(&d);
    cr_assert_geq(removed, least);
    cr_assert_leq(removed, least + STREAM_TRIM_MAX);
    cr_assert_gt(held(d.f.r), LOW, "more could be trimmed");
    pthread_join(thread, NULL);
    cr_assert(driver_until(&d.instance.driver, held(d.f.r) <= LOW, 10000), "%lld", held(d.f.r));
    close_auditor(&d);
}

/* With two copies wanted, the trim waits for the other log, and follows it without a new record. */
Test(redis_auditor_room, records_without_enough_copies_stay) {
    enum { RECORDS = 2500 };
    setup_t d = {0};
    open_storm(&d, "min_copies = 2;");
    audit_log_feed(d.f.r, "email", 0, RECORDS, NULL);
    cr_assert_gt(held(d.f.r), HALF);
    expect_rows(&d, RECORDS);
    settle(&d);
    fixture_step_boottime(6000);
    instance_lead(&d.instance, d.f.r);
    settle(&d);
    cr_assert_eq(records(&d), RECORDS);
    cr_assert_eq(fixture_log_count("trimming copied records before stream.retain"), 0);
    other_copies(&d);
    fixture_step_boottime(6000);
    instance_lead(&d.instance, d.f.r);
    cr_assert(driver_until(&d.instance.driver, held(d.f.r) <= LOW, 10000), "%lld", held(d.f.r));
    close_auditor(&d);
}

/* The leader trims what others have copied, even if it cannot open its own log. */
Test(redis_auditor_room, a_leader_without_a_log_trims_for_others) {
    enum { RECORDS = 2500 };
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "missing/", "stream = { max_bytes = \"1MiB\"; };", NULL);
    audit_log_feed(d.f.r, "email", 0, RECORDS, NULL);
    other_copies(&d);
    fixture_step_boottime(6000);
    settle(&d);
    cr_assert_eq(records(&d), RECORDS, "a standby does not trim");
    instance_lead(&d.instance, d.f.r);
    fixture_step_boottime(6000);
    cr_assert(driver_until(&d.instance.driver, held(d.f.r) <= LOW, 10000), "%lld", held(d.f.r));
    cr_assert_gt(records(&d), 0);
    audit_log_feed(d.f.r, "email", RECORDS, RECORDS, NULL);
    fixture_step_boottime(6000);
    cr_assert(driver_until(&d.instance.driver, records(&d) == RECORDS, 10000), "%lld", records(&d));
    settle(&d);
    cr_assert_eq(records(&d), RECORDS, "nobody has these");
    char *dir = mem_printf("%s/missing", d.dir);
    cr_assert_eq(mkdir(dir, 0700), 0);
    free(dir);
    fixture_step_boottime(11000);
    instance_lead(&d.instance, d.f.r);
    expect_rows(&d, RECORDS);
    cr_assert_eq(gaps(&d), 1, "the first record was trimmed before this log was there");
    cr_assert(driver_until(&d.instance.driver, held(d.f.r) <= HALF, 10000), "%lld", held(d.f.r));
    close_auditor(&d);
}

/* Others have copied records that this auditor has not read, and they are trimmed: XREAD goes on behind them without a word. */
Test(redis_auditor_room, an_auditor_that_is_overtaken_notes_a_gap) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 10, "5");
    expect_rows(&d, 10);
    settle(&d);
    audit_log_feed(d.f.r, "email", 10, 1, "5"); /* the reply to the waiting XREAD has this record alone */
    audit_log_feed(d.f.r, "email", 11, 9, "5");
    redis_ok(d.f.r, "XTRIM " STREAM " MAXLEN 5");
    redis_ok(d.f.r, "HSET " META " trimmed %s", "5-14");
    expect_rows(&d, 16);
    audit_log_expect(d.path, "email", 0, 11);
    cr_assert_eq(audit_log_int(d.path, "SELECT count(*) FROM events WHERE kind = 'gap' AND reason = 'trimmed' AND "
                                       "job = '5-10..5-14'"),
                 1);
    long long before = gaps(&d);
    audit_log_feed(d.f.r, "email", 20, 10, "5");
    expect_rows(&d, 26);
    restart(&d);
    settle(&d);
    cr_assert_eq(gaps(&d), before);
    close_auditor(&d);
}

static void *trim_late(void *setup) {
    setup_t *d = setup;
    wait_for(proxy_fired(d->f.proxy) == 1, 20000);
    redis_t *r = redis_open(d->f.server);
    redis_ok(r, "XTRIM " STREAM " MAXLEN 5");
    redis_ok(r, "HSET " META " trimmed %s", "5-14");
    redis_close(r);
    proxy_pass(d->f.proxy);
    return NULL;
}

/* A trim comes before an XREAD whose reply also has records of a stream that nobody trims. */
Test(redis_auditor_room, an_auditor_that_is_overtaken_in_one_of_two_streams_notes_a_gap) {
    setup_t d = {0};
    pthread_t thread;
    open_auditor(&d, (fixture_options_t){.proxy = true}, "", "", "{ name = \"email\"; }, { name = \"sms\"; }");
    audit_log_feed(d.f.r, "email", 0, 10, "5");
    expect_rows(&d, 10);
    expect_acknowledged(&d, "email", "5-9 ");
    settle(&d);
    end_wait(&d); /* the next XREAD asks for one record */
    settle(&d);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = " 3 sidecar:email:auditors sidecar:email:failures"});
    cr_assert_eq(pthread_create(&thread, NULL, trim_late, &d), 0);
    audit_log_feed(d.f.r, "email", 10, 10, "5");
    audit_log_feed(d.f.r, "sms", 0, 10, "5");
    expect_rows(&d, 26);
    pthread_join(thread, NULL);
    cr_assert_eq(gaps(&d), 1);
    cr_assert_eq(audit_log_int(d.path, "SELECT count(*) FROM events WHERE kind = 'gap' AND job = '5-10..5-14'"), 1);
    close_auditor(&d);
}

/* The auditor has copied everything that was trimmed. */
Test(redis_auditor_room, a_trim_up_to_the_last_copied_record_is_no_gap) {
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 10, "5");
    expect_rows(&d, 10);
    expect_acknowledged(&d, "email", "5-9 ");
    redis_ok(d.f.r, "CLIENT KILL TYPE normal SKIPME yes");
    redis_ok(d.f.r, "XTRIM " STREAM " MAXLEN 0");
    redis_ok(d.f.r, "HSET " META " trimmed %s", "5-9");
    audit_log_feed(d.f.r, "email", 10, 1, "5");
    expect_rows(&d, 11);
    cr_assert_eq(gaps(&d), 0);
    close_auditor(&d);
}

/* After a restart only the size of the stream tells the new leader that it must trim. */
Test(redis_auditor_room, a_new_leader_trims_without_a_new_record) {
    enum { RECORDS = 2500 };
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "stream = { max_bytes = \"1MiB\"; };", NULL);
    audit_log_feed(d.f.r, "email", 0, RECORDS, NULL);
    expect_rows(&d, RECORDS);
    restart(&d);
    settle(&d);
    cr_assert_eq(records(&d), RECORDS, "a standby does not trim");
    instance_lead(&d.instance, d.f.r); /* while an XREAD waits */
    cr_assert(driver_until(&d.instance.driver, held(d.f.r) <= LOW, 10000), "%lld", held(d.f.r));
    close_auditor(&d);
}

/* The entry that proves after a reconnect that the stream is the same is trimmed, too. */
Test(redis_auditor_room, a_record_larger_than_half_is_trimmed_once_it_is_copied) {
    setup_t d = {0};
    open_storm(&d, "");
    for (int i = 1; i <= 2; i++) {
        redis_ok(d.f.r, "EVAL %s 2 " STREAM " " META " %d %d",
                 "redis.call('XADD', KEYS[1], '*', 'event', string.rep('0' .. ARGV[1], 32), 'kind', 'failed', 'dialect', 'list', "
                 "'job', ARGV[1], 'reason', 'reported', 'at', '1700000002000', 'payload', string.rep('x', ARGV[2])) "
                 "redis.call('HINCRBY', KEYS[2], 'bytes', ARGV[2])",
                 i, HALF + 1);
        expect_rows(&d, i);
        cr_assert(driver_until(&d.instance.driver, records(&d) == 0, 10000), "%lld", records(&d));
        redis_ok(d.f.r, "CLIENT KILL TYPE normal SKIPME yes");
        settle(&d);
    }
    cr_assert_eq(gaps(&d), 0);
    close_auditor(&d);
}

static void copy_keys(setup_t *d, const char *from, const char *to) {
    static const char *const names[] = {"failures", "meta", "auditors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        redis_ok(d->f.r, "COPY %s:email:%s %s:email:%s REPLACE", from, names[i], to, names[i]);
}

/* The new primary lacks the last records and trims. The log has all of them, so reading the stream again adds nothing. */
Test(redis_auditor_room, a_failover_to_a_lagging_replica_is_no_gap) {
    enum { PART = 1500, MORE = 10 };
    for (int early = 0; early < 2; early++) { /* the new primary gets records before the auditor is back */
        setup_t d = {0};
        open_storm(&d, "");
        for (int part = 0; part < 4; part++) {
            audit_log_feed(d.f.r, "email", part * PART, PART, NULL);
            expect_rows(&d, (part + 1) * PART);
            settle(&d);
            if (part == 0) copy_keys(&d, "sidecar", "replica");
        }
        cr_assert_eq(redis_int(d.f.r, "HEXISTS " META " trimmed_early"), 1);
        copy_keys(&d, "replica", "sidecar");
        redis_ok(d.f.r, "CLIENT KILL TYPE normal SKIPME yes");
        if (!early) settle(&d);
        audit_log_feed(d.f.r, "email", 4 * PART, MORE, NULL);
        expect_rows(&d, 4 * PART + MORE);
        settle(&d);
        audit_log_expect(d.path, "email", 0, 4 * PART + MORE);
        cr_assert_eq(gaps(&d), 0);
        audit_log_feed(d.f.r, "email", 5 * PART, PART, NULL); /* the acknowledgements count again */
        expect_rows(&d, 5 * PART + MORE);
        cr_assert(driver_until(&d.instance.driver, held(d.f.r) <= HALF, 10000), "%lld", held(d.f.r));
        close_auditor(&d);
    }
}
