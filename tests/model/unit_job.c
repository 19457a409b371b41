/* Reading a job by the settings of its queue. */
#include "model/job.h"
#include "suite.h"

#define BYTES(literal) ((slice_t){literal, sizeof(literal) - 1})

static const queue_policy_t all_paths = {
    .id_path = "/id", .type_path = "/meta/type", .created_path = "/at", .heartbeat = "*_alive"};

static job_t read_job(const queue_policy_t *policy, slice_t bytes) {
    job_t job;
    memset(&job, 'x', sizeof job);
    job_read(policy, bytes, &job);
    return job;
}

static void expect_digest_as_id(const job_t *job, slice_t bytes) {
    digest_t digest = digest_of(bytes.data, bytes.len);
    char hex[DIGEST_HEX_SIZE];
    digest_hex(&digest, hex);
    cr_expect_str_eq(job->id, hex, "%.*s", (int)bytes.len, bytes.data);
    cr_expect_eq(memcmp(&job->digest, &digest, sizeof digest), 0);
}

/* Returns a job whose id and type have `letters` letters, kept. */
static char *with_long_id(size_t letters) {
    char *letter = kept(malloc(letters + 1));
    memset(letter, 'a', letters);
    letter[letters] = '\0';
    char *text = mem_printf("{\"meta\":{\"type\":\"%s\"},\"id\":\"%s\"}", letter, letter);
    return kept(text);
}

Test(unit_job, reads_the_values_at_its_paths) {
    const slice_t bytes = BYTES(" {\"id\":\"a-7\", \"meta\":{\"type\":\"mail\"}, \"at\":1800000000123}");
    job_t job = read_job(&all_paths, bytes);
    cr_expect_str_eq(job.id, "a-7");
    cr_expect_str_eq(job.type, "mail");
    cr_expect_eq(job.created_ms, 1800000000123);
    digest_t digest = digest_of(bytes.data, bytes.len);
    cr_expect_eq(memcmp(&job.digest, &digest, sizeof digest), 0, "the digest is of all bytes, with the spaces");
}

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
/* The example of W3C Trace Context, 3.2.3, and what is none. */
Test(unit_job, only_a_traceparent_of_version_00_is_kept) {
    static const struct {
        const char *value;
        bool good;
    } rows[] = {
        {"\"00-" TRACE "-" PARENT "-01\"", true},
        {"\"00-" TRACE "-" PARENT "-00\"", true},
        {"\"00-00000000000000000000000000000001-" PARENT "-01\"", true},
        {"\"00-00000000000000000000000000000000-" PARENT "-01\"", false},
        {"\"00-" TRACE "-0000000000000000-01\"", false},
        {"\"01-" TRACE "-" PARENT "-01\"", false},
        {"\"ff-" TRACE "-" PARENT "-01\"", false},
        {"\"00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01\"", false},
        {"\"00-" TRACE "-" PARENT "-0g\"", false},
        {"\"00-" TRACE "-" PARENT "-1\"", false},
        {"\"00-" TRACE "-" PARENT "-01 \"", false},
        {"\"00-" TRACE "-" PARENT "-01-x\"", false},
        {"\"00_" TRACE "-" PARENT "-01\"", false},
        {"\"00-" TRACE "_" PARENT "-01\"", false},
        {"\"00-" TRACE "-" PARENT "_01\"", false},
        {"\"00-" TRACE PARENT "0-01-01\"", false},
        {"\"\"", false},
        {"0", false},
        {"null", false},
        {"[\"00-" TRACE "-" PARENT "-01\"]", false},
    };
    const queue_policy_t policy = {.trace_path = "/meta/traceparent"}, none = {.trace_path = ""};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        slice_t payload = slice_text(kept_printf("{\"meta\":{\"traceparent\":%s}}", rows[i].value));
        slice_t found = job_traceparent(&policy, payload);
        cr_expect_eq(found.len, rows[i].good ? strlen(rows[i].value) - 2 : 0, "%s", rows[i].value);
        if (found.len) cr_expect_eq(memcmp(found.data, rows[i].value + 1, found.len), 0);
        cr_expect_eq(job_traceparent(&none, payload).len, 0, "no path is set");
    }
    cr_expect_eq(job_traceparent(&policy, BYTES("no json")).len, 0);
    cr_expect_eq(job_traceparent(&policy, BYTES("{\"meta\":{\"traceparent\":\"a\",\"traceparent\":\"b\"}}")).len, 0);
}

Test(unit_job, uses_the_digest_as_id_without_paths) {
    static const queue_policy_t none = {.id_path = "", .type_path = "", .created_path = "", .heartbeat = "off"};
    job_t job = read_job(&none, BYTES("not json"));
    cr_expect_str_eq(job.id, "7ccfa1fbf3940e6f0c0375d87c0f9235a50514e14cb427bdfaf5077987b26ccf");
    cr_expect_str_empty(job.type);
    cr_expect_eq(job.created_ms, 0);
    slice_t bytes = BYTES("{\"id\":\"a\",\"meta\":{\"type\":\"b\"},\"at\":1}");
    job = read_job(&none, bytes);
    expect_digest_as_id(&job, bytes);
    cr_expect_str_empty(job.type, "an empty path is not set; it does not mean the whole text");
    bytes = BYTES("\"only a text\"");
    job = read_job(&none, bytes);
    expect_digest_as_id(&job, bytes);
    bytes = (slice_t){NULL, 0};
    job = read_job(&all_paths, bytes);
    expect_digest_as_id(&job, BYTES(""));
}

Test(unit_job, reads_each_path_alone) {
    const slice_t bytes = BYTES("{\"id\":\"a\",\"meta\":{\"type\":\"b\"},\"at\":1800000000005}");
    queue_policy_t policy = {.id_path = "", .type_path = "/meta/type", .created_path = ""};
    job_t job = read_job(&policy, bytes);
    cr_expect_str_eq(job.type, "b");
    cr_expect_eq(job.created_ms, 0);
    expect_digest_as_id(&job, bytes);
    policy = (queue_policy_t){.id_path = "", .type_path = "", .created_path = "/at"};
    job = read_job(&policy, bytes);
    cr_expect_eq(job.created_ms, 1800000000005);
    cr_expect_str_empty(job.type);
    policy = (queue_policy_t){.id_path = "/id", .type_path = "", .created_path = ""};
    cr_expect_str_eq(read_job(&policy, bytes).id, "a");
}

/* As a JSON pointer, "" means the whole text; as a setting, "" means not set. */
Test(unit_job, reads_no_lone_value_for_an_empty_path) {
    static const queue_policy_t id_only = {.id_path = "/id", .type_path = "", .created_path = ""};
    static const queue_policy_t type_only = {.id_path = "", .type_path = "/type", .created_path = ""};
    job_t job = read_job(&id_only, BYTES("5"));
    cr_expect_str_empty(job.type);
    cr_expect_eq(job.created_ms, 0);
    job = read_job(&type_only, BYTES("5"));
    expect_digest_as_id(&job, BYTES("5"));
}

Test(unit_job, ids) {
    const struct {
        slice_t bytes;
        const char *id; /* NULL: the digest */
    } rows[] = {
        {BYTES("{\"id\":42}"), "42"},
        {BYTES("{\"id\":-1.50e+3}"), "-1.50e+3"},
        {BYTES("{\"id\":123456789012345678901234567890}"), "123456789012345678901234567890"},
        {BYTES("{\"id\":0}"), "0"},
        {BYTES("{\"id\":\"\\u0061\\/\\n\"}"), "a/\n"},
        {BYTES("{\"id\":\"\\ud83d\\ude00\"}"), "\xf0\x9f\x98\x80"},
        {BYTES("{\"id\":\" \"}"), " "},
        {BYTES("{\"id\":\"a\",\"text\":\"\\ud83d\"}"), "a"}, /* a bad string elsewhere does no harm */
        {BYTES("{\"id\":\"\"}"), NULL},
        {BYTES("{\"id\":null}"), NULL},
        {BYTES("{\"id\":true}"), NULL},
        {BYTES("{\"id\":{}}"), NULL},
        {BYTES("{\"id\":[\"a\"]}"), NULL},
        {BYTES("{\"id\":\"a\\u0000b\"}"), NULL},
        {BYTES("{\"id\":\"\\ud83d\"}"), NULL},
        {BYTES("{\"id\":1,\"id\":1}"), NULL},
        {BYTES("{\"Id\":1}"), NULL},
        {BYTES("{\"id\":1"), NULL},
        {BYTES("{\"id\":1}\0"), NULL},
        {BYTES("{\"id\":1} x"), NULL},
        {BYTES("{\"id\":\"\xe9\"}"), NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_t job = read_job(&all_paths, rows[i].bytes);
        if (rows[i].id)
            cr_expect_str_eq(job.id, rows[i].id, "row %zu", i);
        else
            expect_digest_as_id(&job, rows[i].bytes);
    }
}

Test(unit_job, bounds_of_ids_and_types) {
    for (size_t len = MAX_JOB_ID - 1; len <= MAX_JOB_ID + 1; len++) {
        char *text = with_long_id(len);
        job_t job = read_job(&all_paths, slice_text(text));
        cr_expect_eq(strlen(job.id), len <= MAX_JOB_ID ? len : DIGEST_HEX_SIZE - 1);
        cr_expect_eq(strlen(job.type), len <= MAX_JOB_TYPE ? len : 0);
    }
    /* The bound is of the decoded text: 256 letters, here in 1536 bytes. */
    scoped(buffer_free) buffer_t escaped = {0};
    buffer_str(&escaped, "{\"id\":\"");
    for (int i = 0; i < MAX_JOB_ID; i++) buffer_str(&escaped, "\\u0061");
    buffer_str(&escaped, "\"}");
    cr_expect_eq(strspn(read_job(&all_paths, slice_text(buffer_text(&escaped))).id, "a"), MAX_JOB_ID);
}

Test(unit_job, types) {
    static const struct {
        const char *text, *type;
    } rows[] = {
        {"{\"meta\":{\"type\":\"a b\"}}", "a b"},
        {"{\"meta\":{\"type\":7}}", "7"},
        {"{\"meta\":{\"type\":\"\\u0000\"}}", ""},
        {"{\"meta\":{\"type\":null}}", ""},
        {"{\"meta\":\"type\"}", ""},
        {"{\"type\":\"a\"}", ""},
        {"[]", ""},
        {"{\"meta\":{\"type\":\"\\udc00\"}}", ""},
        {"{\"meta\":{\"type\":[]}}", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_str_eq(read_job(&all_paths, slice_text(rows[i].text)).type, rows[i].type, "row %zu", i);
}

Test(unit_job, reads_created_in_the_score_unit) {
    static const struct {
        const char *number;
        int64_t ms, s; /* the time in ms that the number means in each unit */
    } rows[] = {
        {"1800000000", 0, 1800000000000}, /* a time in seconds, read as ms, makes no job old */
        {"1800000000123", 1800000000123, 0},
        {"1800000000.123", 0, 1800000000123},
        {"99999999.999", 0, 0},
        {"100000000", 0, 100000000000},
        {"99999999999", 0, 99999999999000},
        {"100000000000", 100000000000, 100000000000000},
        {"1.8e9", 0, 1800000000000},
        {"1", 0, 0},
        {"0.6", 0, 0},
        {"0.0004", 0, 0},
        {"253402300799", 253402300799, 253402300799000},
        {"253402300799999", 253402300799999, 0},
        {"253402300800000", 0, 0},
        {"0", 0, 0},
        {"-0", 0, 0},
        {"-1800000000", 0, 0},
        {"1e999", 0, 0},
        {"-1e999", 0, 0},
        {"9223372036854775808", 0, 0},
        {"\"1800000000\"", 0, 0},
        {"\"2026-01-01T00:00:00Z\"", 0, 0},
        {"true", 0, 0},
        {"null", 0, 0},
        {"[1]", 0, 0},
        {"0000000001", 0, 0},
        {"1800000000.000000000000000000000000000000000000000000000000000000", 0, 0}, /* 65 bytes */
        {"1800000000.00000000000000000000000000000000000000000000000000000", 0, 1800000000000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        queue_policy_t policy = all_paths;
        char *text = kept_printf("{\"at\":%s}", rows[i].number);
        policy.score_unit = SCORE_MS;
        cr_expect_eq(read_job(&policy, slice_text(text)).created_ms, rows[i].ms, "%s ms", rows[i].number);
        policy.score_unit = SCORE_S;
        cr_expect_eq(read_job(&policy, slice_text(text)).created_ms, rows[i].s, "%s s", rows[i].number);
    }
}

Test(unit_job, keeps_nothing_of_the_job_before) {
    job_t job;
    job_read(&all_paths, BYTES("{\"id\":\"a\",\"meta\":{\"type\":\"b\"},\"at\":1800000000005}"), &job);
    cr_assert_str_eq(job.type, "b");
    job_read(&all_paths, BYTES("{"), &job);
    cr_expect_str_empty(job.type);
    cr_expect_eq(job.created_ms, 0);
    expect_digest_as_id(&job, BYTES("{"));
}

Test(unit_job, heartbeat_keys) {
    static const struct {
        const char *pattern, *id, *key;
    } rows[] = {
        {"*_alive", "a-7", "a-7_alive"},   {"alive:*", "a-7", "alive:a-7"}, {"a:*:b", "*", "a:*:b"}, {"*", "x", "x"},
        {"*_alive", "%s%n", "%s%n_alive"}, {"%s*%n", "x", "%sx%n"},         {"off", "a-7", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        queue_policy_t policy = {.heartbeat = (char *)rows[i].pattern};
        char *key = kept(job_heartbeat_key(&policy, rows[i].id));
        if (rows[i].key)
            cr_expect_str_eq(key, rows[i].key);
        else
            cr_expect_null(key);
    }
}
