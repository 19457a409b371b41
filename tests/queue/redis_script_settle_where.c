/* settle.lua with the keys that only some dialects have: other bytes to push, a mark to remove, a set of finished jobs. */
#include "settle_call.h"

#define OTHER "{\"id\":1,\"retry\":1}"

static void has_stamp(redis_t *r, bool expected) { cr_assert_eq(stamp_of(r, slice_text(JOB)).born_us != 0, expected); }

static fixture_t f;
SUITE(redis_script_settle_where, f = fixture_start(NULL); lay_out(f.r), fixture_stop(&f));

Test(redis_script_settle_where, a_retry_may_push_other_bytes_and_leave_no_stamp) {
    ask_t ask = ask_new();
    ask.again = OTHER;
    ask.forgets = true;
    settled(f.r, ask, 1);
    redis_expect(f.r, OTHER, "LINDEX email -1");
    cr_assert_eq(in_list(f.r, "email", slice_text(JOB)), 0);
    cr_assert_eq(in_list(f.r, "email:backup", slice_text(JOB)), 0);
    cr_assert_eq(redis_int(f.r, "LLEN email:backup"), 2);
    has_stamp(f.r, false);
    expect_field(f.r, "kind", "retried");
    ask.old = (stamp_t){0};
    refused(f.r, ask, "gone"); /* a lost reply, sent again */
    lay_out(f.r);
    ask = ask_new();
    ask.again = OTHER;
    ask.delay = "60000";
    settled(f.r, ask, 1);
    cr_assert(is_delayed(f.r, slice_text(OTHER)) && !is_delayed(f.r, slice_text(JOB)));
    has_stamp(f.r, true);
    lay_out(f.r);
    ask = ask_end();
    ask.again = OTHER; /* an end does not push these bytes */
    settled(f.r, ask, 1);
    cr_assert_eq(in_list(f.r, "email", slice_text(OTHER)) + in_list(f.r, "email", slice_text(JOB)), 0);
}

/* The mark keeps out a second job of the same id, so the mark must stay until the first job ends. */
Test(redis_script_settle_where, the_mark_of_a_job_goes_with_its_end) {
    redis_ok(f.r, "SADD email_unique mark_id other");
    ask_t ask = ask_end();
    ask.mark = "email_unique";
    ask.most = "1";
    refused(f.r, ask, "full");
    ask.most = "1000000";
    ask.token = "S";
    refused(f.r, ask, "fenced");
    ask.token = "T";
    settled(f.r, ask, 1);
    cr_assert_eq(redis_int(f.r, "SISMEMBER email_unique mark_id"), 0);
    cr_assert_eq(redis_int(f.r, "SCARD email_unique"), 1);
    lay_out(f.r);
    settled(f.r, ask, 1); /* without a mark: not every job is unique */
}

Test(redis_script_settle_where, a_done_job_is_dropped_without_a_record) {
    for (int ends = 0; ends < 2; ends++) {
        lay_out(f.r);
        redis_ok(f.r, "SADD finished other");
        ask_t ask = ask_new();
        ask.ends = ends;
        ask.done = "finished";
        ask.old.seen++;
        redis_ok(f.r, "SADD finished done_id");
        refused(f.r, ask, "changed");
        ask.old = OLD;
        ask.heartbeat = "1_alive";
        redis_ok(f.r, "SET 1_alive x");
        refused(f.r, ask, "alive");
        redis_ok(f.r, "DEL 1_alive");
        expect_word(settle(f.r, ask), "dropped");
        cr_assert_eq(in_list(f.r, "email:backup", slice_text(JOB)) + in_list(f.r, "email", slice_text(JOB)), 0);
        cr_assert_eq(redis_int(f.r, "LLEN email:backup"), 2);
        cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:failures"), 0);
        has_stamp(f.r, false);
        lay_out(f.r);
        redis_ok(f.r, "SADD finished other");
        settled(f.r, ask, 1); /* the set has another id */
        cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 1);
    }
}

/* A scan of the dead-letter list then knows which entries have a record already. A refused record leaves no SHA-1. */
Test(redis_script_settle_where, a_dead_letter_is_noted_in_recorded) {
    ask_t ask = ask_end();
    ask.dlq = "email:dead";
    ask.recorded = "sidecar:email:recorded";
    long long before = redis_ms(f.r);
    settled(f.r, ask, 1);
    char *sha1 = redis_str(f.r, "EVAL %s 0 %s", "return redis.sha1hex(ARGV[1])", JOB);
    char *when = redis_str(f.r, "ZSCORE sidecar:email:recorded %s", sha1);
    cr_assert(when && strtoll(when, NULL, 10) >= before && strtoll(when, NULL, 10) <= redis_ms(f.r));
    redis_expect(f.r, JOB, "LINDEX email:dead 0");
    lay_out(f.r);
    redis_ok(f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551615 f v");
    refused(f.r, ask, "full"); /* a SHA-1 would hide the next dead letter of these bytes */
}

Test(redis_script_settle_where, other_keys_of_the_wrong_type_lose_nothing) {
    static const char *const keys[][2] = {{"mark", "set"}, {"done", "set"}, {"recorded", "zset"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k][1]) {
            lay_out(f.r);
            ask_t ask = ask_end();
            *(const char **[]){&ask.mark, &ask.done, &ask.recorded}[k] = "some";
            fixture_make_key(f.r, "some", type);
            expect_type(settle_with(f.r, ask, true), keys[k][0], type);
        }
}

/* KMQueue trims a heartbeat by Java's String.trim(): every byte up to the space counts as white space. */
Test(redis_script_settle_where, a_blank_heartbeat_may_count_as_none) {
    static const slice_t blank[] = {{"", 0}, {" ", 1}, {" \t\r\n\v\f", 6}, {"\0\1\37", 3}};
    static const slice_t beats[] = {{"x", 1}, {"  worker 1  ", 12}, {"\0x", 2}, {"\xff", 1}, {"\177", 1}};
    ask_t ask = ask_new();
    ask.heartbeat = "1_alive";
    for (size_t i = 0; i < sizeof beats / sizeof *beats; i++) {
        ask.blank = "1";
        redis_ok(f.r, "SET 1_alive %b", beats[i].data, beats[i].len);
        refused(f.r, ask, "alive");
    }
    for_other_types (type, "string") { /* a key of another type is not blank */
        fixture_make_key(f.r, "1_alive", type);
        refused(f.r, ask, "alive");
    }
    for (size_t i = 0; i < sizeof blank / sizeof *blank; i++) {
        lay_out(f.r);
        redis_ok(f.r, "SET 1_alive %b", blank[i].data, blank[i].len);
        ask.blank = "0";
        refused(f.r, ask, "alive");
        cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:failures"), 0);
        ask.blank = "1";
        settled(f.r, ask, 1);
        cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 1);
    }
    lay_out(f.r);
    settled(f.r, ask, 1);
}

/* A search settles reported jobs that have no stamp yet. */
Test(redis_script_settle_where, a_job_without_a_stamp_is_settled) {
    digest_t digest = digest_of(JOB, strlen(JOB));
    for (int n = 0; n < 4; n++) {
        ask_t ask = n % 2 ? ask_end() : ask_new();
        lay_out(f.r);
        redis_ok(f.r, "DEL sidecar:email:stamps");
        if (n / 2) redis_ok(f.r, "HSET sidecar:email:stamps %b short", digest.bytes, (size_t)STAMP_FIELD_BYTES);
        refused(f.r, ask, "changed");
        ask.old = (stamp_t){0};
        settled(f.r, ask, 1);
        cr_assert_eq(redis_int(f.r, "HSTRLEN sidecar:email:stamps %b", digest.bytes, (size_t)STAMP_FIELD_BYTES),
                     ask.ends ? 0 : STAMP_BYTES);
    }
}
