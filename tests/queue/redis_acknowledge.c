/* acknowledge.lua stores how far each audit log has copied a stream; trim.lua believes it. */
#include "monitor/monitor_call.h"
#include "queue/stream.h"
#include "text.h"

#define STREAM   "sidecar:email:failures"
#define AUDITORS "sidecar:email:auditors"

static fixture_t f;
SUITE(redis_acknowledge, , fixture_stop(&f));

Test(redis_acknowledge, acknowledgements_go_upwards_and_one_bad_key_spoils_no_other) {
    f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; }, { name = \"fax\"; } );"});
    stream_id_t all[3] = {"5-1", "6-1", ""};
    redis_ok(f.r, "SET sidecar:email:auditors x");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)all, &f.error), OUTCOME_REFUSED);
    cr_assert(strstr(f.error.text, "email") && strstr(f.error.text, "string"), "%s", f.error.text);
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:sms:auditors"), 1);
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:fax:auditors"), 0);
    redis_ok(f.r, "HSET sidecar:sms:auditors me %s", "6-1 7");
    redis_ok(f.r, "XADD sidecar:sms:failures 6-1 event x");
    strcpy(all[0], ""), strcpy(all[1], "5-99");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)all, &f.error), OUTCOME_OK);
    char *value = redis_str(f.r, "HGET sidecar:sms:auditors me");
    cr_assert(strncmp(value, "6-1 ", 4) == 0 && strtoll(value + 4, NULL, 10) > redis_ms(f.r) - 60000, "%s", value);
}

static void store(const char *instance, const char *position) {
    redis_ok(f.r, "EVAL %s 1 " AUDITORS " %s %s",
             "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. redis.call('TIME')[1] .. '000')", instance, position);
}

static int64_t trimmed(void) {
    stream_trimmed_t done;
    const call_t call = fixture_call(&f, "T");
    cr_assert_eq(stream_trim(&call, stream_room(f.keys), STREAM_TRIM_MAX, &done), OUTCOME_OK, "%s", f.error.text);
    return done.removed;
}

/* An id above the last one of the stream is of an earlier stream. It vouches for no record of the new one. */
Test(redis_acknowledge, positions_of_an_earlier_stream_do_not_count) {
    f = fixture_start(&(fixture_options_t){.config = "group = \"app\"; stream = { retain = \"1m\"; min_records = 0; "
                                                     "min_copies = 2; }; queues = ( { name = \"email\"; } );"});
    stream_id_t position = "1-3";
    redis_ok(f.r, "SET sidecar:app:lock T");
    for (int i = 1; i <= 5; i++) redis_ok(f.r, "XADD " STREAM " 1-%d event abc", i);
    store("a", "1-5");
    store("b", STREAM_ID_MAX);
    cr_assert_eq(trimmed(), 0, "one log has the records");
    cr_assert_eq(redis_int(f.r, "HEXISTS " AUDITORS " b"), 0);
    store("b", STREAM_ID_MAX);
    store("c", "1-6");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "b", (const stream_id_t *)&position, &f.error), OUTCOME_OK);
    char *value = redis_str(f.r, "HGET " AUDITORS " b");
    cr_assert(strncmp(value, "1-3 ", 4) == 0, "%s", value);
    cr_assert_eq(redis_int(f.r, "HEXISTS " AUDITORS " c"), 0);
    cr_assert_eq(redis_int(f.r, "HEXISTS " AUDITORS " a"), 1);
    cr_assert_eq(trimmed(), 3);
}

/* Each pod that ever was has left a field. The acknowledgements of the logs that live stay, or nothing would be trimmed for an
 * hour. */
Test(redis_acknowledge, a_lower_position_removes_no_acknowledgement_of_300_logs) {
    f = fixture_start(&(fixture_options_t){.config = "group = \"app\"; queues = ( { name = \"email\"; } );"});
    stream_id_t position = "1-3";
    for (int i = 1; i <= 5; i++) redis_ok(f.r, "XADD " STREAM " 1-%d event abc", i);
    redis_ok(f.r, "CONFIG SET hash-max-ziplist-entries 8"); /* HSCAN reads a small hash as a whole */
    for (int i = 0; i < 300; i++) store(kept_printf("log%d", i), "1-4");
    store("me", "1-5");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)&position, &f.error), OUTCOME_OK);
    cr_assert_eq(redis_int(f.r, "HLEN " AUDITORS), 301);
    cr_assert(has(redis_str(f.r, "HGET " AUDITORS " me"), "1-5 "), "the position goes down only behind another stream");
    for (int i = 0; i < 50; i++) { /* a script reads some of the fields */
        char *me = kept_printf("me%d", i);
        store(me, "1-6");
        cr_assert_eq(stream_acknowledge(f.conn, f.keys, me, (const stream_id_t *)&position, &f.error), OUTCOME_OK);
        cr_assert(has(redis_str(f.r, kept_printf("HGET " AUDITORS " %s", me)), "1-3 "), "the former one is of an earlier stream");
    }
    cr_assert_eq(redis_int(f.r, "HLEN " AUDITORS), 351);
}
