/* acknowledge.lua, trim.lua and stream_ends.lua with each precondition broken, and the functions of stream.h that call them. */
#include "trim_call.h"

static fixture_t f;
SUITE(redis_stream, , fixture_stop(&f));

Test(redis_stream, trim_is_fenced) {
    f = fixture_start_locked();
    add(&f, 5);
    add_auditor(&f, "a", "1-5", 0);
    ask_t ask = ask_new();
    ask.token = "other";
    expect_kind(&f, ask, "fenced", NULL, NULL);
    redis_ok(f.r, "DEL sidecar:app:lock");
    expect_kind(&f, ask_new(), "fenced", NULL, NULL);
    redis_ok(f.r, "SET sidecar:app:lock T");
    cr_assert_eq(trim(&f, ask_new(), NULL), 5);
}

Test(redis_stream, trim_touches_no_key_of_another_type) {
    static const struct {
        const char *key, *name, *type;
    } rows[] = {{STREAM, "failures", "stream"}, {AUDITORS, "auditors", "hash"}, {META, "meta", "hash"}};
    f = fixture_start_locked();
    for (size_t row = 0; row < 3; row++) {
        for (int i = 0; i < FIXTURE_TYPES; i++) {
            if (strcmp(fixture_types[i], rows[row].type) == 0) continue;
            redis_ok(f.r, "DEL " STREAM " " AUDITORS " " META);
            add(&f, 5);
            add_auditor(&f, "a", "1-5", 0);
            fixture_make_key(f.r, rows[row].key, fixture_types[i]);
            expect_kind(&f, ask_new(), "type", rows[row].name, fixture_types[i]);
        }
    }
    redis_ok(f.r, "DEL " STREAM " " AUDITORS " " META);
    long long wait_ms;
    cr_assert_eq(trim(&f, ask_new(), &wait_ms), 0);
    cr_assert_eq(wait_ms, -1);
    cr_assert_eq(redis_int(f.r, "EXISTS " STREAM " " AUDITORS " " META), 0, "a trim of an absent stream creates no key");
}

Test(redis_stream, trim_removes_only_records_with_min_copies) {
    f = fixture_start_locked();
    ask_t two = ask_new();
    two.copies = 2;
    long long wait_ms;
    add(&f, 10);
    cr_assert_eq(trim(&f, ask_new(), &wait_ms), 0, "nobody has acknowledged anything");
    cr_assert_eq(wait_ms, 0);
    add_auditor(&f, "a", "1-7", 0);
    cr_assert_eq(trim(&f, two, NULL), 0);
    add_auditor(&f, "b", "1-3", 0);
    cr_assert_eq(trim(&f, two, NULL), 3);
    add_auditor(&f, "c", "1-5", 86400000 + 60000); /* silent for more than a day */
    cr_assert_eq(trim(&f, two, NULL), 0);
    add_auditor(&f, "c", "1-5", 86400000 - 60000);
    cr_assert_eq(trim(&f, two, NULL), 2);
    redis_ok(f.r, "HSET " AUDITORS " d rubbish e %s", "1-9");
    cr_assert_eq(trim(&f, two, NULL), 0);
    cr_assert_eq(redis_int(f.r, "HLEN " AUDITORS), 3, "malformed positions are removed");
    cr_assert_eq(trim(&f, ask_new(), NULL), 2);
    cr_assert_eq(redis_int(f.r, "XLEN " STREAM), 3);
    redis_expect(f.r, "1-7", "HGET " META " trimmed");
    redis_expect(f.r, "15", "HGET " META " bytes");
}

Test(redis_stream, trim_removes_an_auditor_silent_for_a_day) {
    f = fixture_start_locked();
    add(&f, 5);
    add_auditor(&f, "old", "1-5", 86400000 + 60000);
    add_auditor(&f, "young", "1-5", 86400000 - 60000);
    trim(&f, ask_new(), NULL);
    cr_assert_eq(redis_int(f.r, "HEXISTS " AUDITORS " old"), 0);
    cr_assert_eq(redis_int(f.r, "HEXISTS " AUDITORS " young"), 1);
}

/* Adds auditors p1 to pn, which acknowledged 1-1, the first one longest ago. */
static void add_pods(int n, long long youngest_ms) {
    redis_ok(f.r, "EVAL %s 1 " AUDITORS " %d %lld %lld",
             "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], 'p' .. i, '1-1 ' .. string.format('%.0f', "
             "ARGV[2] - ARGV[3] - (ARGV[1] - i) * 10)) end",
             n, redis_ms(f.r), youngest_ms);
}

/* A CronJob leaves a field for each of its pods. Those that hold the records back stay, although they are silent for longest. */
Test(redis_stream, trim_keeps_few_auditors) {
    enum { PODS = 300, MOST = 256 };
    f = fixture_start_locked();
    add(&f, 5);
    ask_t ask = ask_new();
    ask.copies = 2;
    add_pods(PODS, 1000);
    add_auditor(&f, "a", "1-5", 86000000);
    add_auditor(&f, "b", "1-4", 86000000);
    for (int calls = 0; redis_int(f.r, "HLEN " AUDITORS) > MOST; calls++) {
        cr_assert_lt(calls, 10);
        redisReply *reply = call(&f, ask);
        cr_assert_eq(reply->element[8]->integer, redis_int(f.r, "HLEN " AUDITORS) > MOST);
    }
    cr_assert_eq(redis_int(f.r, "HEXISTS " AUDITORS " a"), 1);
    cr_assert_eq(redis_int(f.r, "HEXISTS " AUDITORS " b"), 1);
    cr_assert_eq(redis_int(f.r, "HEXISTS " AUDITORS " p300"), 1);
    redis_expect(f.r, "1-4", "HGET " META " trimmed");
    add_pods(MOST - 2, 1000);
    trim(&f, ask, NULL);
    cr_assert_eq(redis_int(f.r, "HLEN " AUDITORS), MOST);
}

/* A script reads some of many fields, so that Redis serves others in time. */
Test(redis_stream, many_auditors_cost_a_trim_little) {
    enum { PODS = 10080, PAGE_MOST = 600 };
    f = fixture_start_locked();
    add(&f, 5);
    for (int young = 0; young <= 1; young++) {
        long long calls = 0, left = PODS;
        redis_ok(f.r, "DEL " AUDITORS);
        add_pods(PODS, young ? 1000 : 2 * 86400000LL);
        for (long long more = 1; more; calls++) {
            redisReply *reply = call(&f, ask_new());
            more = reply->element[8]->integer;
            long long now_left = redis_int(f.r, "HLEN " AUDITORS);
            cr_assert(now_left <= left && left - now_left < PAGE_MOST, "%lld, then %lld", left, now_left);
            left = now_left;
        }
        cr_assert_leq(left, 256);
        cr_assert_lt(calls, 400);
    }
    redis_expect(f.r, "1-1", "HGET " META " trimmed");
}

Test(redis_stream, trim_keeps_young_records_and_min_records) {
    f = fixture_start_locked();
    ask_t ask = ask_new();
    long long now = redis_ms(f.r), wait_ms;
    ask.retain = 60000;
    redis_ok(f.r, "XADD " STREAM " %lld-1 event abc", now - 70000);
    redis_ok(f.r, "XADD " STREAM " %lld-1 event abc", now - 30000);
    redis_ok(f.r, "XADD " STREAM " %lld-1 event abc", now);
    redis_ok(f.r, "HSET " META " bytes 9");
    acknowledge_all(&f);
    ask.records = 3;
    cr_assert_eq(trim(&f, ask, &wait_ms), 0);
    cr_assert_eq(wait_ms, -1);
    ask.records = 2;
    cr_assert_eq(trim(&f, ask, &wait_ms), 1);
    cr_assert_eq(wait_ms, -1);
    ask.records = 0;
    cr_assert_eq(trim(&f, ask, &wait_ms), 0);
    cr_assert(wait_ms > 0 && wait_ms <= 30001, "%lld", wait_ms);
    ask.retain = 365LL * 86400000 * 100; /* before 1970 */
    cr_assert_eq(trim(&f, ask, &wait_ms), 0);
    ask.retain = 29000;
    cr_assert_eq(trim(&f, ask, &wait_ms), 1);
    cr_assert(wait_ms > 20000, "%lld", wait_ms);
    redis_expect(f.r, "3", "HGET " META " bytes");
}

/* 2^53 and 2^53 + 1 are the same double. */
Test(redis_stream, ids_above_2_to_the_53_are_distinct) {
    f = fixture_start_locked();
    redis_ok(f.r, "XADD " STREAM " 1-9007199254740992 event a");
    redis_ok(f.r, "XADD " STREAM " 1-9007199254740993 event b");
    redis_ok(f.r, "XADD " STREAM " 1-18446744073709551614 event c");
    redis_ok(f.r, "XADD " STREAM " 9007199254740993-0 event d");
    stream_id_t position = "1-9007199254740992", lower = "1-9007199254740991", *none = &(stream_id_t){""};
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)&position, &f.error), OUTCOME_OK);
    cr_assert_eq(trim(&f, ask_new(), NULL), 1);
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)&lower, &f.error), OUTCOME_OK);
    char *value = redis_str(f.r, "HGET " AUDITORS " me");
    cr_assert_eq(strncmp(value, "1-9007199254740992 ", 19), 0, "%s", value);
    strcpy(position, "1-9007199254740993");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)&position, &f.error), OUTCOME_OK);
    cr_assert_eq(trim(&f, ask_new(), NULL), 1);
    strcpy(lower, "1-9007199254740992"); /* the same double */
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)&lower, &f.error), OUTCOME_OK);
    value = redis_str(f.r, "HGET " AUDITORS " me");
    cr_assert_eq(strncmp(value, "1-9007199254740993 ", 19), 0, "%s", value);
    strcpy(position, "9007199254740993-0");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)&position, &f.error), OUTCOME_OK);
    long long wait_ms;
    cr_assert_eq(trim(&f, ask_new(), &wait_ms), 1, "the last id is far in the future, so its entry counts as new");
    cr_assert_eq(wait_ms, 1);
    redis_expect(f.r, "1-18446744073709551614", "HGET " META " trimmed");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)none, &f.error), OUTCOME_OK);
}

Test(redis_stream, ids_are_compared_as_numbers) {
    cr_assert_eq(stream_id_compare("1-1", "1-1"), 0);
    cr_assert_lt(stream_id_compare("9-9", "10-0"), 0);
    cr_assert_gt(stream_id_compare("1-10", "1-9"), 0);
    cr_assert_lt(stream_id_compare("1-9007199254740992", "1-9007199254740993"), 0);
    cr_assert_lt(stream_id_compare("18446744073709551614-0", HUGE "-0"), 0);
    static const char *const none[] = {"", "-", "5", "5-", "x-1", "5-1x"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) cr_assert_eq(stream_id_compare(none[i], "0-0"), 0, "%s", none[i]);
    cr_assert_eq(stream_id_ms("1700000000000-5"), 1700000000000);
    cr_assert_eq(stream_id_ms(HUGE "-0"), INT64_MAX);
}

/* Redis's clock was a year ahead and was corrected, so for a year new ids are in the future. The entries must age nevertheless.
 */
Test(redis_stream, entries_with_future_ids_grow_old) {
    enum { RETAIN_MS = 60000, YEAR_S = 365 * 86400 };
    f = fixture_start(&(fixture_options_t){.preload = "shim_clock"});
    ask_t ask = ask_new();
    long long wait_ms;
    ask.retain = RETAIN_MS;
    redis_ok(f.r, "SET sidecar:app:lock T");
    server_step_clock(f.server, YEAR_S * 1000LL);
    for (int i = 0; i < 5; i++) redis_ok(f.r, "XADD " STREAM " * event abcde");
    server_step_clock(f.server, -YEAR_S * 1000LL);
    acknowledge_all(&f);
    cr_assert_eq(trim(&f, ask, &wait_ms), 0);
    cr_assert(wait_ms > RETAIN_MS - 5000 && wait_ms <= RETAIN_MS + 1, "%lld", wait_ms);
    redis_ok(f.r, "XADD " STREAM " * event young");
    acknowledge_all(&f);
    server_step_clock(f.server, RETAIN_MS - 10000);
    cr_assert_eq(trim(&f, ask, &wait_ms), 0);
    cr_assert_leq(wait_ms, 10001);
    server_step_clock(f.server, 11000);
    cr_assert_eq(trim(&f, ask, &wait_ms), 5);
    cr_assert_gt(wait_ms, 5000);
    cr_assert_eq(redis_int(f.r, "XLEN " STREAM), 1);
    server_step_clock(f.server, RETAIN_MS + 1000);
    cr_assert_eq(trim(&f, ask, &wait_ms), 1);
    redis_ok(f.r, "XADD " STREAM " * event again");
    acknowledge_all(&f);
    redis_ok(f.r, "HSET " META " ahead %s", HUGE "-0 99999999999999"); /* written by a clock that was ahead */
    cr_assert_eq(trim(&f, ask, &wait_ms), 0);
    cr_assert_leq(wait_ms, RETAIN_MS + 1);
    server_step_clock(f.server, RETAIN_MS + 1000);
    cr_assert_eq(trim(&f, ask, &wait_ms), 1);
}

Test(redis_stream, ten_thousand_entries_go_in_bounded_steps) {
    f = fixture_start_locked();
    ask_t ask = ask_new();
    enum { ENTRIES = 10000, RECORDS = 500 };
    add(&f, ENTRIES);
    acknowledge_all(&f);
    ask.records = RECORDS;
    long long total = 0, removed, wait_ms;
    while ((removed = trim(&f, ask, &wait_ms)) > 0) {
        cr_assert_leq(removed, 1000);
        total += removed;
        cr_assert_eq(wait_ms, total == ENTRIES - RECORDS ? -1 : 0);
    }
    cr_assert_eq(total, ENTRIES - RECORDS);
    redis_expect(f.r, "2500", "HGET " META " bytes");
    redis_expect(f.r, "1-9500", "HGET " META " trimmed");
    ask.records = 0;
    cr_assert_eq(trim(&f, ask, NULL), RECORDS);
    redis_expect(f.r, "0", "HGET " META " bytes");
}

Test(redis_stream, large_entries_end_a_step_early) {
    f = fixture_start_locked();
    ask_t ask = ask_new();
    char *large = kept(calloc(1, 300000));
    for (int i = 0; i < 30; i++) redis_ok(f.r, "XADD " STREAM " 1-%d event %b", i + 1, large, (size_t)300000);
    acknowledge_all(&f);
    long long wait_ms, removed = trim(&f, ask, &wait_ms);
    cr_assert(removed >= 7 && removed <= 9, "%lld", removed);
    cr_assert_eq(wait_ms, 0);
    for (long long more; (more = trim(&f, ask, NULL)) > 0;) removed += more;
    cr_assert_eq(removed, 30);
}

Test(redis_stream, a_wrong_count_of_bytes_does_not_go_below_zero) {
    f = fixture_start_locked();
    add(&f, 10);
    add_auditor(&f, "a", "1-5", 0);
    redis_ok(f.r, "HSET " META " bytes 7 group app");
    cr_assert_eq(trim(&f, ask_new(), NULL), 5);
    redis_expect(f.r, "0", "HGET " META " bytes");
    redis_ok(f.r, "HSET " META " bytes rubbish");
    add_auditor(&f, "a", "1-6", 0);
    cr_assert_eq(trim(&f, ask_new(), NULL), 1);
    redis_expect(f.r, "0", "HGET " META " bytes");
    redis_expect(f.r, "app", "HGET " META " group");
}

Test(redis_stream, reads_the_event_of_a_wanted_entry) {
    f = fixture_start(
        &(fixture_options_t){.config = "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; } );"});
    static const char event[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    stream_wanted_t wanted[2] = {{.event_of = "7-1"}, {.event_of = ""}};
    stream_ends_t *ends = mem_array(2, sizeof *ends);
    int64_t now_ms;
    redis_ok(f.r, "XADD " STREAM " 7-1 kind failed event %s", event);
    redis_ok(f.r, "XADD " STREAM " 7-2 kind failed");
    redis_ok(f.r, "XADD sidecar:sms:failures 7-1 event x");
    cr_assert_eq(stream_read_ends(f.conn, f.keys, wanted, ends, &now_ms, &f.error), OUTCOME_OK);
    cr_assert_str_eq(ends[0].event, event);
    cr_assert_str_eq(ends[1].event, "");
    strcpy(wanted[0].event_of, "7-2");
    strcpy(wanted[1].event_of, "7-2");
    cr_assert_eq(stream_read_ends(f.conn, f.keys, wanted, ends, &now_ms, &f.error), OUTCOME_OK);
    cr_assert_str_eq(ends[0].event, STREAM_NO_EVENT);
    cr_assert_str_eq(ends[1].event, "", "no such entry");
    strcpy(wanted[1].event_of, "6-9");
    cr_assert_eq(stream_read_ends(f.conn, f.keys, wanted, ends, &now_ms, &f.error), OUTCOME_OK);
    cr_assert_str_eq(ends[1].event, "", "only one behind it");
    stream_ends_free(ends, 2);
}

Test(redis_stream, reads_where_streams_begin_and_end) {
    f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; }, { name = \"fax\"; } );"});
    stream_ends_t *looks = mem_array(3, sizeof *looks);
    const stream_wanted_t firsts[3] = {0};
    int64_t now_ms;
    add(&f, 5);
    redis_ok(f.r, "XTRIM " STREAM " MAXLEN 3");
    redis_ok(f.r, "HSET " META " trimmed %s", "1-2");
    redis_ok(f.r, "LPUSH sidecar:sms:failures x");
    cr_assert_eq(stream_read_ends(f.conn, f.keys, firsts, looks, &now_ms, &f.error), OUTCOME_OK);
    cr_assert(llabs(now_ms - redis_ms(f.r)) < 60000);
    cr_assert(!looks[0].error && looks[0].length == 3);
    cr_assert_str_eq(looks[0].first, "1-3");
    cr_assert_str_eq(looks[0].last, "1-5");
    cr_assert_str_eq(looks[0].trimmed, "1-2");
    cr_assert(looks[1].error && strstr(looks[1].error, "list") && strstr(looks[1].error, "sidecar:sms:failures"), "%s",
              looks[1].error);
    cr_assert(!looks[2].error && looks[2].length == 0);
    cr_assert_str_eq(looks[2].last, STREAM_ID_NONE);
    redis_ok(f.r, "XTRIM " STREAM " MAXLEN 0");
    cr_assert_eq(stream_read_ends(f.conn, f.keys, firsts, looks, &now_ms, &f.error), OUTCOME_OK);
    cr_assert_str_eq(looks[0].first, STREAM_ID_NONE);
    cr_assert_str_eq(looks[0].last, "1-5");
    stream_ends_free(looks, 3);
}

/* Redis gives an entry only as a whole: 7 ms for one of 4 MB. One script for all streams would keep Redis from others for too
 * long. */
Test(redis_stream, the_ends_of_streams_with_large_entries_are_read_one_by_one) {
    static const char *const queues[] = {"email", "sms", "fax"};
    f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; }, { name = \"fax\"; } );"});
    stream_ends_t *looks = mem_array(3, sizeof *looks);
    stream_wanted_t wanted[3] = {{.after = "1-3"}, {.after = "1-3"}, {.after = "1-2"}};
    int64_t now_ms;
    for (int i = 0; i < 3; i++)
        redis_ok(
            f.r, "EVAL %s 2 sidecar:%s:failures sidecar:%s:meta",
            "for i = 1, 3 do redis.call('XADD', KEYS[1], '1-' .. i, 'event', 'e' .. i, 'payload', string.rep('x', 1000000)) end "
            "redis.call('HSET', KEYS[2], 'last', '1-3')",
            queues[i], queues[i]);
    redis_ok(f.r, "CONFIG RESETSTAT");
    cr_assert_eq(stream_read_ends(f.conn, f.keys, wanted, looks, &now_ms, &f.error), OUTCOME_OK);
    cr_assert_eq(server_commandstat(f.server, "evalsha"), 1);
    for (int i = 0; i < 3; i++) {
        cr_assert_str_eq(looks[i].first, i < 2 ? STREAM_ID_NONE : "1-1", "only a stream with entries above `after` is read");
        cr_assert_str_eq(looks[i].last, "1-3");
        wanted[i] = (stream_wanted_t){.event_of = "1-2"};
    }
    redis_ok(f.r, "CONFIG RESETSTAT");
    cr_assert_eq(stream_read_ends(f.conn, f.keys, wanted, looks, &now_ms, &f.error), OUTCOME_OK);
    cr_assert_eq(server_commandstat(f.server, "evalsha"), 3);
    cr_assert_eq(server_commandstat(f.server, "xinfo|stream") + server_commandstat(f.server, "xinfo"), 0);
    for (int i = 0; i < 3; i++) {
        cr_assert_str_eq(looks[i].first, "1-1");
        cr_assert_str_eq(looks[i].event, "e2");
    }
    stream_ends_free(looks, 3);
}

typedef struct {
    int entries, known;
    char log[256];
} seen_t;

static void see(void *self, size_t queue, const char *id, const event_t *event, size_t bytes) {
    seen_t *seen = self;
    size_t at = strlen(seen->log);
    snprintf(seen->log + at, sizeof seen->log - at, "%zu:%s:%.*s:%d:%zu ", queue, id, (int)event->payload.len,
             event->payload.data, (int)event->attempts, bytes);
    seen->entries++;
    seen->known += event->event.len > 0;
}

static outcome_t take(seen_t *seen, bool *arrived) {
    outcome_t outcome = stream_read_take(f.conn, f.keys, see, seen, arrived, &f.error);
    while (outcome == OUTCOME_OK && !*arrived) {
        poll(&(struct pollfd){.fd = conn_fd(f.conn), .events = POLLIN}, 1, 5000);
        outcome = stream_read_take(f.conn, f.keys, see, seen, arrived, &f.error);
    }
    return outcome;
}

Test(redis_stream, one_read_waits_for_all_queues) {
    f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; }, { name = \"fax\"; } );"});
    stream_id_t positions[3] = {STREAM_ID_NONE, STREAM_ID_NONE, ""};
    seen_t seen = {0};
    bool arrived;
    stream_read_append(f.conn, f.keys, (const stream_id_t *)positions, 10, 60000);
    cr_assert_eq(conn_flush(f.conn, &f.error), OUTCOME_OK);
    cr_assert(wait_for(server_info_int(f.server, "clients", "blocked_clients") == 1, 5000));
    cr_assert_eq(stream_read_take(f.conn, f.keys, see, &seen, &arrived, &f.error), OUTCOME_OK);
    cr_assert(!arrived);
    redis_ok(f.r, "XADD sidecar:fax:failures 1-1 event e"); /* the read does not include this queue */
    redis_ok(f.r, "XADD sidecar:sms:failures 1-1 event e payload hello attempts 3 strange field");
    cr_assert_eq(take(&seen, &arrived), OUTCOME_OK);
    cr_assert_str_eq(seen.log, "1:1-1:hello:3:12 ");
    redis_ok(f.r, "XADD sidecar:email:failures 1-1 stranger x");
    redis_ok(f.r, "XADD sidecar:email:failures 1-2 event e attempts many");
    stream_read_append(f.conn, f.keys, (const stream_id_t *)positions, 10, 0);
    conn_flush(f.conn, &f.error);
    seen = (seen_t){0};
    cr_assert_eq(take(&seen, &arrived), OUTCOME_OK);
    cr_assert_str_eq(seen.log, "0:1-1::0:1 0:1-2::0:5 1:1-1:hello:3:12 ");
    cr_assert_eq(seen.known, 2);
    stream_read_append(f.conn, f.keys, (const stream_id_t *)&(stream_id_t[3]){"9-9", "9-9", ""}, 10, 1);
    conn_flush(f.conn, &f.error);
    cr_assert_eq(take(&seen, &arrived), OUTCOME_OK);
    cr_assert(arrived && seen.entries == 3);
    redis_ok(f.r, "SET sidecar:sms:failures x");
    stream_read_append(f.conn, f.keys, (const stream_id_t *)positions, 10, 1);
    conn_flush(f.conn, &f.error);
    cr_assert_eq(take(&seen, &arrived), OUTCOME_REFUSED);
    cr_assert(arrived);
}

Test(redis_stream, stream_trim_follows_the_config) {
    f = fixture_start(&(fixture_options_t){.config = "group = \"app\"; stream = { retain = \"1m\"; min_records = 4; };"
                                                     "queues = ( { name = \"email\"; } );"});
    stream_trimmed_t done;
    const call_t call = fixture_call(&f, "T"), fenced = fixture_call(&f, "other");
    redis_ok(f.r, "SET sidecar:app:lock T");
    add(&f, 10);
    add_auditor(&f, "a", "1-9", 0);
    cr_assert_eq(stream_trim(&fenced, stream_room(f.keys), STREAM_TRIM_MAX, &done), OUTCOME_FENCED);
    cr_assert_eq(stream_trim(&call, stream_room(f.keys), STREAM_TRIM_MAX, &done), OUTCOME_OK);
    cr_assert(done.removed == 6 && done.left == 4 && done.wait_ms == -1);
    redis_ok(f.r, "SET " META " x");
    cr_assert_eq(stream_trim(&call, stream_room(f.keys), STREAM_TRIM_MAX, &done), OUTCOME_REFUSED);
    cr_assert(strstr(f.error.text, "meta"), "%s", f.error.text);
}
