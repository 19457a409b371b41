/* Jobs of Bull: the payload rebuilds the same job, byte for byte. Messages of Bull's channel `failed`. */
#include "base/json/json.h"
#include "cluster.h"
#include "dialects/bull/failed.h"
#include "dialects/bull/job.h"

static bull_job_t job_new(void) {
    bull_job_t job = {.id = slice_text("17")};
    job.fields[BULL_NAME] = slice_text("resize");
    job.fields[BULL_DATA] = slice_text("{\"image\":12345678901234567890,\"x\":[1e400,null]}");
    job.fields[BULL_OPTS] = slice_text("{\"attempts\":3,\"delay\":0}");
    job.fields[BULL_TIMESTAMP] = slice_text("1700000000000");
    job.fields[BULL_ATTEMPTS_MADE] = slice_text("3");
    return job;
}

/* Makes the payload and expects that it rebuilds the job. Returns the payload; the caller frees it. */
static buffer_t expect_both_ways(const bull_job_t *job) {
    buffer_t payload = {0};
    scoped(buffer_free) buffer_t room = {0};
    bull_job_t again;
    bull_payload(job, &payload);
    cr_assert(json_pick((slice_t){payload.data, payload.len}, NULL, 0), "no JSON: %s", payload.data);
    cr_assert(bull_rebuild((slice_t){payload.data, payload.len}, &again, &room), "%s", payload.data);
    cr_assert(slice_equal(again.id, job->id), "%s", payload.data);
    for (size_t i = 0; i < BULL_KEPT_FIELDS; i++)
        cr_assert(slice_equal(again.fields[i], job->fields[i]), "%s: %s", bull_field_names[i], payload.data);
    return payload;
}

static void expect_payload(const bull_job_t *job, const char *expected) {
    scoped(buffer_free) buffer_t payload = expect_both_ways(job);
    cr_expect_str_eq(payload.data, expected);
}

Test(unit_bull_job, a_payload_holds_the_fields_of_the_hash) {
    bull_job_t job = job_new();
    job.fields[BULL_FAILED_REASON] = slice_text("not kept"); /* it belongs to the failure, not to the job */
    job.fields[BULL_PROCESSED_ON] = slice_text("1");
    expect_payload(&job, "{\"id\":\"17\",\"name\":\"resize\",\"data\":{\"image\":12345678901234567890,\"x\":[1e400,null]},"
                         "\"opts\":{\"attempts\":3,\"delay\":0},\"timestamp\":1700000000000,\"attemptsMade\":3}");
}

/* A field that is not exactly one JSON value must not change the structure of the payload. */
Test(unit_bull_job, reads_fields_that_are_not_json) {
    static const struct {
        const char *data, *expected;
    } rows[] = {
        {"plain", "\"data64\":\"cGxhaW4=\""},
        {"\"a string\"", "\"data\":\"a string\""},
        {"\"\"", "\"data\":\"\""},
        {"null", "\"data\":null"},
        {"007", "\"data64\":\"MDA3\""},
        {" 1", "\"data64\":\"IDE=\""},
        {"1 ", "\"data64\":\"MSA=\""},
        {"1,\"x\":2", "\"data64\":\"MSwieCI6Mg==\""},
        {"{},\"opts\":{}", "\"data64\":\"e30sIm9wdHMiOnt9\""},
        {"1}", "\"data64\":\"MX0=\""},
        {"{\"a\":1,\"a\":2}", "\"data\":{\"a\":1,\"a\":2}"}, /* duplicate members inside a value are kept */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bull_job_t job = {.id = slice_text("1")};
        char expected[128];
        job.fields[BULL_NAME] = slice_text("n");
        job.fields[BULL_DATA] = slice_text(rows[i].data);
        snprintf(expected, sizeof expected, "{\"id\":\"1\",\"name\":\"n\",%s}", rows[i].expected);
        expect_payload(&job, expected);
    }
}

Test(unit_bull_job, ids_and_names_are_any_bytes) {
    bull_job_t job = {.id = {"a:\"\\\0\n\xc3\xa9", 8}};
    job.fields[BULL_NAME] = (slice_t){"\xff\x00", 2};
    job.fields[BULL_DEID] = slice_text("d 1");
    expect_payload(&job, "{\"id\":\"a:\\\"\\\\\\u0000\\u000a\xc3\xa9\",\"name64\":\"/wA=\",\"deid\":\"d 1\"}");
    job.id = (slice_t){"\x80", 1};
    expect_payload(&job, "{\"id64\":\"gA==\",\"name64\":\"/wA=\",\"deid\":\"d 1\"}");
}

/* A random field that is often JSON, or almost JSON. */
static size_t random_field(uint64_t *seed, char *out, size_t most) {
    static const char *const parts[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        "\"",
                                        ":",
                                        ",",
                                        "1",
                                        "-0",
                                        "1e5",
                                        "null",
                                        "true",
                                        "\\",
                                        "\"a\"",
                                        " ",
                                        "\xc3\xa9",
                                        "\xff",
                                        "\\u00e9",
                                        "\\ud800",
                                        "{}",
                                        "[]",
                                        "\"data\":",
                                        "\"data64\":\"AA==\""};
    size_t len = 0;
    for (uint64_t n = cluster_random(seed, 7); n > 0; n--) {
        const char *part = parts[cluster_random(seed, sizeof parts / sizeof *parts)];
        if (len + strlen(part) > most) break;
        memcpy(out + len, part, strlen(part));
        len += strlen(part);
    }
    if (cluster_random(seed, 9) == 0 && len < most) out[len++] = '\0';
    return len;
}

Test(unit_bull_job, rebuilds_any_hash) {
    enum { ROUNDS = 50000, MOST = 96 };
    uint64_t seed = cluster_seed("bull_job");
    static char room[BULL_KEPT_FIELDS][MOST];
    for (int round = 0; round < ROUNDS; round++) {
        bull_job_t job = {.id = slice_text("1")};
        for (size_t i = 0; i < BULL_KEPT_FIELDS; i++) job.fields[i] = (slice_t){room[i], random_field(&seed, room[i], MOST)};
        if (!job.fields[BULL_NAME].len) job.fields[BULL_NAME] = slice_text("n");
        scoped(buffer_free) buffer_t payload = expect_both_ways(&job);
    }
}

Test(unit_bull_job, refuses_foreign_payloads) {
    static const char *const bad[] = {"",
                                      "x",
                                      "[]",
                                      "{}",
                                      "{\"id\":\"1\"}",
                                      "{\"name\":\"n\"}",
                                      "{\"id\":1,\"name\":\"n\"}",
                                      "{\"id\":\"1\",\"name\":2}",
                                      "{\"id\":\"1\",\"id\":\"2\",\"name\":\"n\"}",
                                      "{\"id\":\"1\",\"name\":\"n\",\"data64\":\"A\"}",
                                      "{\"id\":\"1\",\"name\":\"n\",\"data64\":5}",
                                      "{\"id\":\"1\",\"name\":\"n\",\"data\":1,\"data64\":\"AA==\"}",
                                      "{\"id\":\"1\",\"name\":\"\\ud800\"}"};
    scoped(buffer_free) buffer_t room = {0};
    bull_job_t job;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) cr_expect(!bull_rebuild(slice_text(bad[i]), &job, &room), "%s", bad[i]);
}

/* The same truth test as Bull's `opts.lifo ? 'R' : 'L'`. */
Test(unit_bull_job, reads_lifo_as_javascript_does) {
    static const struct {
        const char *opts;
        bool lifo;
    } rows[] = {{"{\"lifo\":true}", true},
                {"{\"lifo\":false}", false},
                {"{\"lifo\":1}", true},
                {"{\"lifo\":0}", false},
                {"{\"lifo\":0.0}", false},
                {"{\"lifo\":-0e9}", false},
                {"{\"lifo\":\"x\"}", true},
                {"{\"lifo\":\"\"}", false},
                {"{\"lifo\":null}", false},
                {"{\"lifo\":[]}", true},
                {"{}", false},
                {"x", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bull_job_t job = {.id = slice_text("1")};
        job.fields[BULL_OPTS] = slice_text(rows[i].opts);
        cr_expect_eq(bull_is_lifo(&job), rows[i].lifo, "%s", rows[i].opts);
    }
}

Test(unit_bull_job, an_error_is_the_reason_and_the_last_stack) {
    static const struct {
        const char *reason, *stacks, *expected;
    } rows[] = {
        {"boom", "[\"old\",\"Error: boom\\n    at x (\\\"a\\\")\"]", "boom\nError: boom\n    at x (\"a\")"},
        {"boom", "[\"ends in a backslash \\\\\"]", "boom\nends in a backslash \\"},
        {"boom", "[\"a\\\\\\\"]\"]", "boom\na\\\"]"},
        {"boom", "[\"old\",null]", "boom"},
        {"boom", "[]", "boom"},
        {"boom", "null", "boom"},
        {"boom", "[\"\"]", "boom"},
        {"boom", "\"]", "boom"},
        {"boom", "x\"]", "boom"},
        {"", "", ""},
        {BULL_STALLED_REASON, "[\"of an earlier failure\"]", BULL_STALLED_REASON},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bull_job_t job = {.id = slice_text("1")};
        scoped(buffer_free) buffer_t error = {0};
        job.fields[BULL_FAILED_REASON] = slice_text(rows[i].reason);
        job.fields[BULL_STACKTRACE] = slice_text(rows[i].stacks);
        bull_error(&job, &error);
        cr_expect_str_eq(buffer_text(&error), rows[i].expected);
    }
}

Test(unit_bull_job, an_error_is_cut_at_64_KiB) {
    enum { LONG = 100000 };
    char *text = kept(malloc(LONG + 5));
    memset(text, 'x', LONG + 4);
    memcpy(text, "[\"", 2);
    memcpy(text + LONG, "\"]", 3);
    bull_job_t job = {.id = slice_text("1")};
    scoped(buffer_free) buffer_t error = {0};
    job.fields[BULL_FAILED_REASON] = slice_text("boom");
    job.fields[BULL_STACKTRACE] = slice_text(text);
    bull_error(&job, &error);
    cr_expect_eq(error.len, 65536);
    buffer_clear(&error);
    job.fields[BULL_FAILED_REASON] = slice_text(text);
    bull_error(&job, &error);
    cr_expect_eq(error.len, 65536);
}

Test(unit_bull_job, reads_invalid_numbers_as_0) {
    static const struct {
        const char *text;
        int64_t number;
    } rows[] = {{"0", 0},
                {"3", 3},
                {"-1", 0},
                {"1.5", 0},
                {"1e3", 0},
                {"", 0},
                {"x", 0},
                {"9007199254740993", 0},
                {"99999999999999999999", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bull_job_t job = {.id = slice_text("1")};
        job.fields[BULL_ATTEMPTS_MADE] = slice_text(rows[i].text);
        cr_expect_eq(bull_number(&job, BULL_ATTEMPTS_MADE), rows[i].number, "%s", rows[i].text);
    }
}

static failed_messages_t *messages_new(void) {
    failed_messages_t *messages = calloc(1, sizeof *messages);
    cr_assert(messages);
    return messages;
}

static void messages_free(failed_messages_t *messages) {
    failed_messages_clear(messages);
    free(messages);
}

Test(unit_bull_messages, reads_id_and_error) {
    static const struct {
        const char *message, *id, *error; /* id NULL: the message is ignored */
    } rows[] = {
        {"{\"jobId\":\"1\",\"val\":\"boom, caf\xc3\xa9\"}", "1", "boom, caf\xc3\xa9"},
        {"{\"jobId\":\"1\", \"val\": \"job stalled more than maxStalledCount\"}", "1", BULL_STALLED_MESSAGE},
        {"{\"jobId\":17,\"val\":\"a\\nb\"}", "17", "a\nb"},
        {"{\"jobId\":\"1\"}", "1", ""}, /* JSON.stringify omits undefined values */
        {"{\"jobId\":\"1\",\"val\":null}", "1", ""},
        {"{\"jobId\":\"1\",\"val\":{\"a\":1}}", "1", "{\"a\":1}"},
        {"{\"jobId\":\"1\",\"val\":\"\\ud800\"}", "1", "\\ud800"},
        {"{\"jobId\":\"1\",\"val\":\"x\"," BULL_OUR_MESSAGE "}", NULL, NULL},
        {"{\"jobId\":\"1\",\"val\":\"x\",\"by\":\"somebody\"}", "1", "x"},
        {"{\"val\":\"x\"}", NULL, NULL},
        {"no JSON", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        failed_messages_t *messages = messages_new();
        cr_expect(bull_messages_add(messages, slice_text(rows[i].message)));
        cr_assert_eq(messages->count, rows[i].id ? 1 : 0, "%s", rows[i].message);
        if (messages->count)
            cr_expect(slice_is(messages->all[0]->id, rows[i].id) && slice_is(messages->all[0]->error, rows[i].error));
        messages_free(messages);
    }
}

static void add(failed_messages_t *messages, int number, bool fits) {
    char message[64];
    snprintf(message, sizeof message, "{\"jobId\":\"%d\",\"val\":\"boom\"}", number);
    cr_assert_eq(bull_messages_add(messages, slice_text(message)), fits, "%d", number);
}

Test(unit_bull_messages, keeps_a_bounded_list_in_order) {
    enum { MOST = 4096 };
    failed_messages_t *messages = messages_new();
    for (int i = 0; i < MOST; i++) add(messages, i, true);
    add(messages, MOST, false);
    cr_expect(messages->count == MOST && slice_is(messages->all[0]->id, "1"));
    failed_messages_drop(messages, slice_text("2"));
    failed_messages_drop(messages, slice_text("2"));
    failed_messages_drop(messages, slice_text("4096")); /* the last message */
    failed_messages_pop(messages);
    cr_expect(messages->count == MOST - 3 && slice_is(messages->all[0]->id, "3"));
    add(messages, 5000, true);
    while (messages->count > 1) failed_messages_pop(messages);
    cr_expect(slice_is(messages->all[0]->id, "5000") && messages->bytes == 8);
    failed_messages_pop(messages);
    failed_messages_pop(messages);
    cr_expect(messages->count == 0 && messages->bytes == 0);
    add(messages, 1, true);
    cr_expect(slice_is(messages->all[0]->id, "1"));
    messages_free(messages);
}

Test(unit_bull_messages, large_messages_make_room) {
    enum { LARGE = 1 << 20 };
    char *message = kept(malloc(LARGE + 64));
    int at = sprintf(message, "{\"jobId\":\"1\",\"val\":\"");
    memset(message + at, 'x', LARGE);
    strcpy(message + at + LARGE, "\"}");
    failed_messages_t *messages = messages_new();
    for (int i = 0; i < 3; i++) cr_expect(bull_messages_add(messages, slice_text(message)));
    cr_expect(!bull_messages_add(messages, slice_text(message)));
    cr_expect_eq(messages->count, 3);
    messages_free(messages);
}

Test(unit_bull_messages, expects_a_message_for_a_minute) {
    const mono_t now = {1000 * NS_PER_S};
    failed_messages_t *messages = messages_new();
    failed_messages_expect(messages, slice_text("1"), now);
    cr_expect(failed_messages_expected(messages, slice_text("1"), now));
    cr_expect(!failed_messages_expected(messages, slice_text("2"), now));
    cr_expect(failed_messages_expected(messages, slice_text("1"), mono_add(now, 60 * NS_PER_S)));
    cr_expect(!failed_messages_expected(messages, slice_text("1"), mono_add(now, 61 * NS_PER_S)));
    failed_messages_expect(messages, slice_text("1"), now);
    cr_expect_eq(failed_messages_expected(messages, slice_text("1"), now), 2);
    failed_messages_take_expected(messages, slice_text("1"));
    failed_messages_take_expected(messages, slice_text("2"));
    cr_expect_eq(failed_messages_expected(messages, slice_text("1"), now), 1, "each expected failure matches one message");
    for (int i = 0; i < FAILED_EXPECTED_MAX; i++) failed_messages_expect(messages, slice_text("other"), now);
    cr_expect(!failed_messages_expected(messages, slice_text("1"), now));
    messages_free(messages);
}
