/* erase.lua and stream_texts.lua against a real server: which entries of a failure stream lose their texts. */
#include "dialects/erase.h"
#include "dialects/requeue.h"
#include "fixture.h"
#include "queue/scripts.h"

static fixture_t f;
SUITE(redis_script_erase, f = fixture_start(NULL), fixture_stop(&f));

static const char *id_of(int n) {
    char id[EVENT_ID_SIZE];
    digest_t digest = digest_of(&n, sizeof(n));
    digest_hex(&digest, id);
    return kept_printf("%s", id);
}

/* Adds the record of event n: a failure, or a retry of the job. */
static void add(int n, const char *kind, const char *queue, const char *job, const char *error) {
    bool failed = strcmp(kind, "failed") == 0;
    redis_ok(f.r, "XADD sidecar:email:failures * event %s kind %s queue %s job %s error %s size 6 %s %s %s %s", id_of(n), kind,
             queue, job, error, failed ? "payload" : "term", failed ? "secret" : "T", failed ? "traceparent" : "group",
             failed ? "trace" : "app");
}

static call_t call(void) { return fixture_call(&f, NULL); }

/* Erases failure n of a job; returns the answer. */
static requeued_t erase(int n, const char *job, bool again) {
    scoped(stream_texts_free) stream_texts_t texts = {0};
    const call_t of = call();
    requeue_reply_t reply;
    event_t record = {.kind = slice_text("erased"),
                      .queue = slice_text("email"),
                      .job = slice_text(job),
                      .worker = slice_text("ann"),
                      .answers = slice_text(id_of(n))};
    char id[EVENT_ID_SIZE];
    event_id(&record, 0, 0, id);
    cr_assert_eq(stream_texts_find(&of, &texts), OUTCOME_OK, "%s", f.error.text);
    erase_append(
        f.conn, f.keys,
        &(erase_request_t){
            .queue = 0, .texts = &texts, .marker = "sidecar:email:requeued", .by = "ann", .again = again, .record = &record});
    cr_assert_eq(requeue_read(f.conn, &reply, &f.error), OUTCOME_OK, "%s", f.error.text);
    return reply.kind;
}

/* "kind job error payload|" of each entry. */
static char *stream(void) {
    return redis_str(f.r, "EVAL %s 1 sidecar:email:failures",
                     "local out = '' for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do local has = {} "
                     "for i = 1, #e[2], 2 do has[e[2][i]] = e[2][i + 1] end "
                     "out = out .. table.concat({has.kind, has.job, has.error or '-', (has.payload or '-') .. (has.traceparent "
                     "or '')}, ' ') .. '|' end return out");
}

Test(redis_script_erase, replaces_the_failure_and_the_retries_of_its_job) {
    add(1, "retried", "email", "a", "one");
    add(2, "retried", "sms", "a", "two");
    add(3, "retried", "email", "b", "three");
    add(4, "failed", "email", "a", "four");
    add(5, "failed", "email", "a", "five");
    cr_expect_eq(erase(4, "a", false), REQUEUE_DONE);
    cr_expect_str_eq(stream(),
                     "retried a two -|retried b three -|failed a five secrettrace|failed a - -|retried a - -|erased a - -|");
    cr_expect_eq(erase(4, "a", false), REQUEUE_KNOWN);
    cr_expect_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 6);
    cr_expect_eq(erase(4, "a", true), REQUEUE_DONE);
    cr_expect_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 7);
    cr_expect_eq(redis_int(f.r, "HLEN sidecar:email:requeued"), 1);
}

/* Its stream may have been trimmed; and another server may have another entry under this id. */
Test(redis_script_erase, leaves_an_entry_of_another_event) {
    scoped(stream_texts_free) stream_texts_t texts = {0};
    const call_t of = call();
    add(1, "failed", "email", "a", "one");
    cr_assert_eq(stream_texts_find(&of, &texts), OUTCOME_OK);
    cr_assert_eq(texts.count, 1);
    char *text = kept_printf("%s", texts.all[0].id);
    redis_ok(f.r, "DEL sidecar:email:failures");
    redis_ok(f.r, "XADD sidecar:email:failures %s event %s kind failed job b payload other", text, id_of(2));
    size_t len;
    const char *script = fixture_script(&script_erase, &len);
    redisReply *reply = kept(redis_do(f.r,
                                      "EVAL %b 3 sidecar:email:requeued sidecar:email:failures sidecar:email:meta field ann 0 1 "
                                      "%s %s kind erased job a",
                                      script, len, text, id_of(1)));
    cr_assert(reply->type == REDIS_REPLY_ARRAY && strcmp(reply->element[0]->str, "done") == 0, "%s", reply->str);
    cr_expect_str_eq(stream(), "failed b - other|erased a - -|");
}

Test(redis_script_erase, finds_each_entry_of_a_long_stream) {
    enum { MANY = 3000 };
    scoped(stream_texts_free) stream_texts_t texts = {0};
    const call_t of = call();
    for (int i = 0; i < MANY; i++) add(i, i % 3 ? "failed" : "retried", "email", "a", i % 3 == 2 ? "" : "error");
    redis_ok(f.r, "XADD sidecar:email:failures * event %s kind requeued queue email job a", id_of(MANY));
    cr_assert_eq(stream_texts_find(&of, &texts), OUTCOME_OK, "%s", f.error.text);
    cr_expect_eq(texts.count, MANY);
}

/* The id of the oldest entry proves that others have removed entries. It does not where an erasure has removed them. */
Test(redis_script_erase, an_erasure_is_not_taken_for_a_loss) {
    stream_ends_t ends[2] = {{0}};
    stream_wanted_t wanted[2] = {{.event_of = ""}};
    int64_t now_ms;
    add(1, "failed", "email", "a", "one");
    char *erased =
        kept(redis_str(f.r, "EVAL %s 1 sidecar:email:failures", "return redis.call('XRANGE', KEYS[1], '-', '+')[1][1]"));
    cr_expect_eq(erase(1, "a", false), REQUEUE_DONE);
    char *first =
        kept(redis_str(f.r, "EVAL %s 1 sidecar:email:failures", "return redis.call('XRANGE', KEYS[1], '-', '+')[1][1]"));
    for (int i = 0; i < 2; i++) {
        snprintf(wanted[0].after, sizeof(wanted[0].after), "%s", i ? first : erased);
        cr_assert_eq(stream_read_ends(f.conn, f.keys, wanted, ends, &now_ms, &f.error), OUTCOME_OK);
        cr_expect_str_eq(ends[0].first, i ? first : STREAM_ID_NONE);
    }
}
