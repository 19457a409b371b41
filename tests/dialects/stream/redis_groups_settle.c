/* Dialect stream: one call of stream_settle.lua. A refused call changes no key. */
#include "dialects/registry.h"
#include "dialects/stream/scripts.h"
#include "stream_fixture.h"

static const stamp_t OLD = {.born_us = 1700000000000001, .seen = 1700000000000};
static const stamp_t NEW = {.born_us = 1700000000000001, .retries = 1, .retried_at = 1700000000500};

static setup_t d;

static void lay_out(void) {
    redis_t *r = d.f.r;
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET sidecar:app:lock T");
    make_group(&d);
    redis_ok(r, "XADD mail 5-5 data job");
    redis_ok(r, "XADD mail 6-6 data next");
    redis_ok(r, "XREADGROUP GROUP workers w1 STREAMS mail >");
    redis_ok(r, "XCLAIM mail workers w1 0 5-5 6-6 IDLE 5000 RETRYCOUNT 1");
    set_stamp(r, slice_text("job"), OLD);
}

static void begin(void) {
    d.f = fixture_start(
        &(fixture_options_t){.config = MAIL_IN("3s", "dlq = \"mail:dead\"; heartbeat = \"alive:*\"; retry_backoff = "
                                                     "\"fixed\"; retry_window = \"1h\";")});
    lay_out();
}

typedef struct {
    bool ends, deleted;
    const char *id, *report;
    int64_t delay_ms;
} ask_settle_t;

static settled_t settle(ask_settle_t with) {
    const queue_keys_t *at = &d.f.keys->queues[0];
    const digest_t digest = digest_of("job", 3);
    const pending_entry_t note = {
        .id = with.id ? with.id : "5-5", .consumer = slice_text("w1"), .deliveries = 1, .deleted = with.deleted};
    const settle_where_t where = {.pending = &note, .ready = at->config->ready};
    stamp_raw_t new = stamp_pack(&NEW);
    if (with.ends) new.len = 0;
    const event_t event = {.kind = slice_text(with.ends ? "failed" : "retried"),
                           .reason = slice_text("x"),
                           .payload = slice_text(with.ends ? "job" : "")};
    const call_t call = fixture_call(&d.f, "T");
    const settle_ask_t ask = {.job = slice_text("job"),
                              .digest = &digest,
                              .where = &where,
                              .old = stamp_pack(&OLD),
                              .new = new,
                              .heartbeat = "alive:w1",
                              .report = with.report ? with.report : "",
                              .delay_ms = with.delay_ms,
                              .event = &event};
    const settle_ask_t *const asks[] = {&ask};
    settled_t settled;
    settle_reply_t reply;
    d.f.error = (redis_error_t){0};
    dialect_stream.scan->settle_append(&call, asks, 1);
    if (!settle_read_answers(&call, 1, &settled, &reply)) settled = SETTLED_REFUSED;
    return settled;
}

/* Whether a retry and an end both get this answer and change no key. */
static bool refused(settled_t expected) {
    bool all = true;
    for (int ends = 0; ends < 2; ends++) {
        char *before = fixture_digest(d.f.r);
        settled_t found = settle((ask_settle_t){.ends = ends});
        all &= found == expected && strcmp(before, fixture_digest(d.f.r)) == 0;
        if (!all) fprintf(stderr, "ends %d: %d, not %d: %s\n", ends, found, expected, d.f.error.text);
    }
    return all;
}

SUITE(redis_groups_settle, begin(), fixture_stop(&d.f));

Test(redis_groups_settle, a_retry_is_a_copy) {
    cr_assert_eq(settle((ask_settle_t){.ends = false}), SETTLED);
    cr_assert_eq(count(&d, "XLEN mail"), 2);
    cr_assert_eq(entries(&d, "mail", "job"), 1);
    cr_assert_eq(pending(&d), 1);
    cr_assert(same_stamp(stamp_of(d.f.r, slice_text("job")), NEW));
    cr_assert(refused(SETTLED_CHANGED)); /* a lost reply, sent again */
}

Test(redis_groups_settle, an_end_leaves_a_record_and_a_letter) {
    cr_assert_eq(settle((ask_settle_t){.ends = true}), SETTLED);
    cr_assert_eq(entries(&d, "mail", "job"), 0);
    cr_assert_eq(entries(&d, "mail:dead", "job"), 1);
    cr_assert_eq(count(&d, "EXISTS sidecar:email:stamps"), 0);
    expect_value(&d, "failed", "payload", "job");
}

Test(redis_groups_settle, a_delayed_retry_goes_to_the_zset_once) {
    cr_assert_eq(settle((ask_settle_t){.delay_ms = 60000}), SETTLED);
    cr_assert_eq(count(&d, "ZCARD mail:delayed"), 1);
    cr_assert_eq(entries(&d, "mail", "job"), 0);
    lay_out();
    redis_ok(d.f.r, "ZADD mail:delayed 4000000000000 job"); /* the same bytes are scheduled: two jobs must stay two */
    cr_assert_eq(settle((ask_settle_t){.delay_ms = 60000}), SETTLED);
    cr_assert_eq(count(&d, "ZCARD mail:delayed") + entries(&d, "mail", "job"), 2);
}

Test(redis_groups_settle, refuses_what_has_changed) {
    redis_ok(d.f.r, "XACK mail workers 5-5");
    cr_assert(refused(SETTLED_GONE));
    lay_out();
    redis_ok(d.f.r, "XCLAIM mail workers w1 0 5-5 IDLE 0 RETRYCOUNT 1 JUSTID"); /* read again just now */
    cr_assert(refused(SETTLED_GONE));
    lay_out();
    redis_ok(d.f.r, "XCLAIM mail workers w2 0 5-5 IDLE 5000 RETRYCOUNT 1");
    cr_assert(refused(SETTLED_CHANGED));
    lay_out();
    redis_ok(d.f.r, "XCLAIM mail workers w1 0 5-5 IDLE 5000 RETRYCOUNT 2");
    cr_assert(refused(SETTLED_CHANGED));
    lay_out();
    redis_ok(d.f.r, "XDEL mail 5-5");
    cr_assert(refused(SETTLED_CHANGED));
    lay_out();
    redis_ok(d.f.r, "HSET mail:errors 5-5 text");
    cr_assert(refused(SETTLED_CHANGED));
    lay_out();
    set_stamp(d.f.r, slice_text("job"), NEW);
    cr_assert(refused(SETTLED_CHANGED));
    lay_out();
    redis_ok(d.f.r, "SET alive:w1 1");
    cr_assert(refused(SETTLED_ALIVE));
}

Test(redis_groups_settle, refuses_a_stream_of_two_groups_or_none) {
    redis_ok(d.f.r, "XGROUP CREATE mail audit 0");
    cr_assert(refused(SETTLED_REFUSED));
    cr_assert_not_null(strstr(d.f.error.text, "the stream \"mail\" has 2 groups (\"audit\", \"workers\")"), "%s", d.f.error.text);
    redis_ok(d.f.r, "XGROUP DESTROY mail workers");
    cr_assert(refused(SETTLED_REFUSED));
    cr_assert_str_eq(d.f.error.text, "the stream \"mail\" has no group \"workers\", only \"audit\": correct `group`, or make it: "
                                     "XGROUP CREATE mail workers 0 MKSTREAM");
    redis_ok(d.f.r, "XGROUP DESTROY mail audit");
    cr_assert(refused(SETTLED_REFUSED));
    cr_assert_str_eq(
        d.f.error.text,
        "the stream \"mail\" has no group \"workers\": correct `group`, or make it: XGROUP CREATE mail workers 0 MKSTREAM");
    redis_ok(d.f.r, "DEL mail");
    cr_assert(refused(SETTLED_REFUSED));
}

/* A report settles an entry of a living worker that is not idle. */
Test(redis_groups_settle, a_report_needs_no_idle_time) {
    redis_ok(d.f.r, "SET alive:w1 1");
    redis_ok(d.f.r, "HSET mail:errors 5-5 text");
    redis_ok(d.f.r, "XCLAIM mail workers w1 0 5-5 IDLE 0 RETRYCOUNT 1 JUSTID");
    cr_assert_eq(settle((ask_settle_t){.report = "372ea08cab33e71c02c651dbc83a474d32c676ea"}), SETTLED);
    expect_value(&d, "retried", "error", "text");
    cr_assert_eq(count(&d, "EXISTS mail:errors"), 0);
}

Test(redis_groups_settle, an_end_of_a_deleted_entry_has_no_payload) {
    redis_ok(d.f.r, "XDEL mail 5-5");
    cr_assert_eq(settle((ask_settle_t){.ends = true, .deleted = true}), SETTLED);
    expect_value(&d, "failed", "payload", NULL);
    cr_assert_eq(pending(&d), 1);
    cr_assert_eq(count(&d, "EXISTS mail:dead"), 0);
}

/* Only XADD notices a stream that is out of ids. */
Test(redis_groups_settle, streams_without_further_ids_lose_nothing) {
    redis_ok(d.f.r, "XADD mail 18446744073709551615-18446744073709551615 data last");
    char *before = fixture_digest(d.f.r);
    cr_assert_eq(settle((ask_settle_t){.ends = false}), SETTLED_REFUSED);
    cr_assert_str_eq(before, fixture_digest(d.f.r));
    lay_out();
    redis_ok(d.f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551615 event last");
    cr_assert_eq(settle((ask_settle_t){.ends = true}), SETTLED_FULL);
    cr_assert_eq(pending(&d), 2);
    cr_assert_eq(count(&d, "XLEN mail:dead"), 0, "an end that has no record must leave no copy");
    cr_assert_eq(settle((ask_settle_t){.ends = false}), SETTLED_UNRECORDED);
    cr_assert_eq(pending(&d), 1);
}

/* Each scan tries again, so a record at each try would fill the failure stream. */
Test(redis_groups_settle, an_end_that_its_dlq_refuses_has_one_record) {
    redis_ok(d.f.r, "XADD mail:dead 18446744073709551615-18446744073709551615 data last");
    char *before = fixture_digest(d.f.r);
    for (int i = 0; i < 3; i++) cr_assert_eq(settle((ask_settle_t){.ends = true}), SETTLED_REFUSED);
    cr_expect_not_null(strstr(d.f.error.text, "cannot add to the stream \"mail:dead\": "), "%s", d.f.error.text);
    cr_assert_str_eq(before, fixture_digest(d.f.r));
    redis_ok(d.f.r, "DEL mail:dead");
    cr_assert_eq(settle((ask_settle_t){.ends = true}), SETTLED);
    cr_assert_eq(entries(&d, "mail:dead", "job"), 1);
    cr_assert_eq(records(&d), 1);
}

Test(redis_groups_settle, keys_of_the_wrong_type_lose_nothing) {
    static const struct {
        const char *key, *right;
    } keys[] = {{"sidecar:email:stamps", "hash"}, {"mail:errors", "hash"}, {"sidecar:email:failures", "stream"},
                {"sidecar:email:meta", "hash"},   {"mail:dead", "stream"}, {"mail", "stream"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            lay_out();
            fixture_make_key(d.f.r, keys[k].key, type);
            cr_assert(refused(SETTLED_TYPE), "%s as a %s", keys[k].key, type);
        }
}

/* Returns the ids that a page of stream_page.lua has after `slice_us`, separated by spaces; kept. */
static char *page_within(const char *slice_us, const char *from, const char *count, const char *timeout) {
    size_t len;
    const char *text = fixture_script(&script_stream_page, &len);
    redisReply *reply = kept(redis_do(d.f.r, "EVAL %b 2 mail mail:errors workers %s + 3000 %s %s 9999 9999 %s", text, len, from,
                                      count, slice_us, timeout));
    cr_assert_eq(reply->type, REDIS_REPLY_ARRAY, "%s", reply->str);
    buffer_t ids = {0};
    for (size_t i = 3; i < reply->elements; i += 7) buffer_printf(&ids, "%s%s", ids.len ? " " : "", reply->element[i]->str);
    buffer_printf(&ids, "; to %s%s", reply->element[1]->str, reply->element[2]->integer ? ", the end" : "");
    return kept(ids.data);
}

static char *page_of(const char *from, const char *count, const char *timeout) {
    return page_within("1000000", from, count, timeout);
}

Test(redis_groups_settle, a_page_has_only_entries_that_may_need_an_action) {
    redis_ok(d.f.r, "XADD mail 7-7 data young");
    redis_ok(d.f.r, "XREADGROUP GROUP workers w2 STREAMS mail >");
    cr_assert_str_eq(page_of("-", "9", ""), "5-5 6-6; to 7-7, the end");
    cr_assert_str_eq(page_of("-", "1", ""), "5-5; to 5-5");
    cr_assert_str_eq(page_of("(5-5", "1", ""), "6-6; to 6-6");
    redis_ok(d.f.r, "HSET mail:errors 7-7 text");
    cr_assert_str_eq(page_of("-", "9", ""), "5-5 6-6 7-7; to 7-7, the end");
    cr_assert_str_eq(page_of("-", "9", "60000"), "7-7; to 7-7, the end", "w1 has read within the timeout");
}

/* The clock is looked at between the entries of one XPENDING, because each of them costs more than its line there. */
Test(redis_groups_settle, a_page_ends_after_its_slice) {
    for (int i = 10; i < 50; i++) redis_ok(d.f.r, "XADD mail %d-1 data x", i);
    redis_ok(d.f.r, "XREADGROUP GROUP workers w1 STREAMS mail >");
    for (int i = 10; i < 50; i++) redis_ok(d.f.r, "XCLAIM mail workers w1 0 %d-1 IDLE 5000 RETRYCOUNT 1", i);
    cr_assert_str_eq(page_within("1", "-", "99", ""), "5-5 6-6 10-1 11-1 12-1 13-1 14-1 15-1; to 15-1");
    cr_assert_str_eq(page_within("1", "(15-1", "3", ""), "16-1 17-1 18-1; to 18-1");
    cr_assert_str_eq(page_within("1", "(43-1", "99", ""), "44-1 45-1 46-1 47-1 48-1 49-1; to 49-1, the end");
}

/* Returns how many XRANGE a page of all entries takes. */
static long long reads_of_a_page(void) {
    redis_ok(d.f.r, "CONFIG RESETSTAT");
    page_of("-", "99", "");
    return server_commandstat(d.f.server, "xrange");
}

/* Entries of others may be large: at most one read meets some. */
Test(redis_groups_settle, a_page_reads_ahead_until_others_stand_between) {
    for (int i = 10; i < 48; i++) redis_ok(d.f.r, "XADD mail %d-1 data x", i);
    redis_ok(d.f.r, "XREADGROUP GROUP workers w1 STREAMS mail >");
    for (int i = 10; i < 48; i++) redis_ok(d.f.r, "XCLAIM mail workers w1 0 %d-1 IDLE 5000 RETRYCOUNT 1", i);
    cr_assert_leq(reads_of_a_page(), 12, "of 40 entries");
    for (int i = 10; i < 48; i += 2) redis_ok(d.f.r, "XACK mail workers %d-1", i);
    cr_assert_geq(reads_of_a_page(), 18, "of 21 entries, others between");
}
