/* stream_read_ends and stream_acknowledge, with a key of a wrong type in one of several queues. */
#include "fixture.h"
#include "queue/stream.h"

#define TWO "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; } );"

/* The auditor would take it for another stream, and lower its acknowledgement. */
Test(redis_stream, a_refused_read_of_an_entry_is_no_missing_entry) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = TWO});
    stream_wanted_t wanted[2] = {{"7-1", "7-1"}, {"7-1", "7-1"}};
    stream_ends_t *ends = mem_array(2, sizeof *ends);
    int64_t now_ms;
    redis_ok(f.r, "XADD sidecar:sms:failures 7-1 event abc");
    redis_ok(f.r, "ACL SETUSER default -xrange");
    cr_assert_eq(stream_read_ends(f.conn, f.keys, wanted, ends, &now_ms, &f.error), OUTCOME_OK);
    cr_assert(!ends[0].error, "there is no stream");
    cr_assert(ends[1].error, "the entry seems to be missing");
    stream_ends_free(ends, 2);
}

/* acknowledge.lua has written to earlier queues, and the queues behind have their turn. */
Test(redis_stream, a_stream_of_the_wrong_type_stops_no_acknowledgement) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = TWO});
    stream_id_t all[2] = {"5-1", "6-1"};
    redis_ok(f.r, "SET sidecar:email:failures x");
    redis_ok(f.r, "HSET sidecar:email:meta last 7-1");
    redis_ok(f.r, "HSET sidecar:email:auditors me %s", "7-1 1");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)all, &f.error), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:sms:auditors"), 1);
}

/* acknowledge.lua and stream_ends.lua read keys of many queues. The error names a key of a wrong type, the key stays, and the
 * other queues are served. */
Test(redis_stream, keys_of_every_wrong_type_are_named_and_spoil_no_other) {
    static const struct {
        const char *key, *type;
        bool ends; /* true: stream_ends.lua reads the key; false: acknowledge.lua */
    } rows[] = {{"sidecar:email:auditors", "hash", false},
                {"sidecar:email:failures", "stream", true},
                {"sidecar:email:meta", "hash", true}};
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = TWO});
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
        for (int i = 0; i < FIXTURE_TYPES; i++) {
            stream_id_t all[2] = {"5-1", "6-1"};
            int64_t now_ms;
            if (strcmp(fixture_types[i], rows[row].type) == 0) continue;
            stream_ends_t *looks = mem_array(2, sizeof *looks);
            redis_ok(f.r, "FLUSHALL");
            redis_ok(f.r, "XADD sidecar:sms:failures 7-1 event abc");
            fixture_make_key(f.r, rows[row].key, fixture_types[i]);
            const char *why = f.error.text;
            f.error.text[0] = '\0';
            if (rows[row].ends) {
                cr_assert_eq(stream_read_ends(f.conn, f.keys, NULL, looks, &now_ms, &f.error), OUTCOME_OK);
                why = looks[0].error;
                cr_expect(!looks[1].error && strcmp(looks[1].last, "7-1") == 0);
            } else {
                cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", (const stream_id_t *)all, &f.error), OUTCOME_REFUSED);
                cr_expect_eq(redis_int(f.r, "HLEN sidecar:sms:auditors"), 1);
            }
            cr_expect(why && *why, "%s as a %s is not named", rows[row].key, fixture_types[i]);
            redis_expect(f.r, fixture_types[i], "TYPE %s", rows[row].key);
            stream_ends_free(looks, 2);
        }
}
