/* Dialect kmqueue without Redis: reading a task, rewriting it for a retry, and the marker. The real fastjson wrote the vectors
 * (tests/data/README.md). */
#include "base/json/json.h"
#include "dialects/kmqueue/task.h"
#include "suite.h"
#include "tempdir.h"

static const char VECTORS[] = "tests/data/kmqueue/fastjson-1.2.16.jsonl";
static const char BACKUP[] = "back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==";

static unsigned digit(char c) { return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10; }

static void add_hex(slice_t hex, buffer_t *out) {
    for (size_t i = 0; i + 1 < hex.len; i += 2) {
        char byte = (char)(digit(hex.data[i]) << 4 | digit(hex.data[i + 1]));
        buffer_add(out, &byte, 1);
    }
}

static slice_t bytes_of(const buffer_t *buffer) { return (slice_t){buffer->data, buffer->len}; }

/* A reader of the vector file, with its current line. what, key: borrowed from `file`; bytes: owned. */
typedef struct {
    char *file, *at;
    slice_t what, key;
    buffer_t bytes;
} vectors_t;

static vectors_t open_vectors(void) {
    vectors_t v = {.file = temp_read(VECTORS)};
    v.at = v.file;
    cr_assert(*v.file, "%s is missing", VECTORS);
    return v;
}

static bool next_vector(vectors_t *v) {
    char *end = strchr(v->at, '\n');
    json_pick_t fields[] = {{.pointer = "/what"}, {.pointer = "/key"}, {.pointer = "/hex"}};
    buffer_clear(&v->bytes);
    if (!end) return false;
    cr_assert(json_pick((slice_t){v->at, (size_t)(end - v->at)}, fields, 3));
    v->what = fields[0].value.raw;
    v->key = fields[1].value.raw;
    add_hex(fields[2].value.raw, &v->bytes);
    v->at = end + 1;
    return true;
}

static void close_vectors(vectors_t *v) {
    buffer_free(&v->bytes);
    free(v->file);
}

Test(unit_kmqueue, tasks_of_the_real_fastjson) {
    vectors_t v = open_vectors();
    int tasks = 0;
    while (next_vector(&v)) {
        if (slice_is(v.what, "names") || slice_is(v.what, "read") || slice_is(v.what, "marker")) continue;
        kmqueue_task_t task;
        cr_assert(kmqueue_task_read(bytes_of(&v.bytes), &task), "%.*s", (int)v.what.len, v.what.data);
        cr_expect(slice_is(task.queue, "worker2_queue"));
        cr_expect_eq(task.gen, 1700000000000);
        cr_expect_eq(task.exc, slice_is(v.key, "pushed") || slice_is(v.what, "over 64 KiB") ? 0 : 1700000005000);
        cr_expect_eq(task.retry, slice_is(v.key, "retried"));
        cr_expect(slice_is(task.state, slice_is(v.key, "retried") ? "retry" : "normal"));
        cr_expect_eq(task.unique, !slice_is(v.what, "over 64 KiB"));
        if (slice_is(v.what, "type none") || slice_is(v.what, "type empty, odd id"))
            cr_expect_eq(task.type.len, 0);
        else
            cr_expect(slice_is(task.type, "mail"));
        cr_expect_not(kmqueue_is_marker(bytes_of(&v.bytes), BACKUP), "%.*s", (int)v.what.len, v.what.data);
        tasks++;
    }
    cr_expect_geq(tasks, 25);
    close_vectors(&v);
}

/* The rewritten entry of backup equals the bytes that fastjson writes after setState and setRetry. */
Test(unit_kmqueue, a_retry_equals_that_of_the_real_monitor) {
    vectors_t v = open_vectors();
    buffer_t again = {0};
    int compared = 0;
    while (next_vector(&v)) {
        if (slice_is(v.key, "backup") && !slice_is(v.what, "names")) {
            kmqueue_task_t task;
            buffer_clear(&again);
            cr_assert(kmqueue_task_read(bytes_of(&v.bytes), &task));
            kmqueue_task_rewrite(&task, bytes_of(&v.bytes), task.retry + 1, "retry", task.gen, &again);
        } else if (slice_is(v.key, "retried")) {
            cr_expect(slice_equal(bytes_of(&again), bytes_of(&v.bytes)), "%.*s: %s", (int)v.what.len, v.what.data, again.data);
            compared++;
        }
    }
    cr_expect_eq(compared, 8);
    buffer_free(&again);
    close_vectors(&v);
}

/* A requeue equals a producer's push, except for the date of the last execution, which the next worker overwrites. */
Test(unit_kmqueue, a_requeue_begins_anew) {
    static const char before[] = "{\"data\":\"x\",\"id\":\"1\",\"queue\":\"q\",\"taskStatus\":{\"excTimestamp\":5,"
                                 "\"genTimestamp\":7,\"retry\":3,\"state\":\"retry\"},\"type\":\"t\",\"unique\":true}";
    static const char after[] =
        "{\"data\":\"x\",\"id\":\"1\",\"queue\":\"q\",\"taskStatus\":{\"excTimestamp\":5,"
        "\"genTimestamp\":1800000000123,\"retry\":0,\"state\":\"normal\"},\"type\":\"t\",\"unique\":true}";
    kmqueue_task_t task;
    scoped(buffer_free) buffer_t anew = {0};
    cr_assert(kmqueue_task_read(slice_text(before), &task));
    kmqueue_task_rewrite(&task, slice_text(before), 0, "normal", 1800000000123, &anew);
    cr_expect_str_eq(buffer_text(&anew), after);
}

#define STATUS(exc, gen, retry, state)                                                                                           \
    "\"taskStatus\":{\"excTimestamp\":" exc ",\"genTimestamp\":" gen ",\"retry\":" retry ",\"state\":" state "}"
#define TASK(status) "{\"id\":\"i\",\"queue\":\"q\"," status ",\"unique\":false}"
#define GOOD         STATUS("1", "2", "3", "\"normal\"")

static const struct {
    const char *text;
    int64_t exc, gen, retry; /* retry -1: not a task */
} rows[] = {
    {TASK(GOOD), 1, 2, 3},
    {TASK(STATUS("0", "0", "0", "\"\"")), 0, 0, 0},
    {TASK(STATUS("-5", "-1", "0", "\"x\"")), -5, -1, 0},
    {TASK(STATUS("9223372036854775807", "-9223372036854775808", "2147483647", "\"x\"")), INT64_MAX, INT64_MIN, 2147483647},
    {" {\t\"queue\" : \"q\",\r\n \"more\":[{}], \"id\":\"i\", \"unique\":true, " GOOD " } ", 1, 2, 3},
    {"{\"id\":\"i\",\"queue\":\"q\",\"type\":null," GOOD ",\"unique\":false}", 1, 2, 3},
    {"{\"id\":\"i\",\"queue\":\"q\",\"data\":{\"retry\":9,\"retry\":9},\"data\":1," GOOD ",\"unique\":false}", 1, 2, 3},
    /* invalid times and counts */
    {TASK(STATUS("1e3", "2", "3", "\"\"")), -1, -1, -1},
    {TASK(STATUS("\"1\"", "2", "3", "\"\"")), -1, -1, -1},
    {TASK(STATUS("1", "2.0", "3", "\"\"")), -1, -1, -1},
    {TASK(STATUS("1", "null", "3", "\"\"")), -1, -1, -1},
    {TASK(STATUS("1", "9223372036854775808", "3", "\"\"")), -1, -1, -1},
    {TASK(STATUS("1", "2", "-1", "\"\"")), -1, -1, -1},
    {TASK(STATUS("1", "2", "1.5", "\"\"")), -1, -1, -1},
    {TASK(STATUS("1", "2", "01", "\"\"")), -1, -1, -1},
    {TASK(STATUS("1", "2", "2147483648", "\"\"")), -1, -1, -1},
    {TASK(STATUS("1", "2", "[3]", "\"\"")), -1, -1, -1},
    {TASK(STATUS("1", "2", "3", "null")), -1, -1, -1},
    {TASK(STATUS("1", "2", "3", "0")), -1, -1, -1},
    /* a member is missing */
    {TASK("\"taskStatus\":{}"), -1, -1, -1},
    {TASK("\"taskStatus\":null"), -1, -1, -1},
    {TASK("\"taskStatus\":[1,2,3]"), -1, -1, -1},
    {TASK("\"x\":1"), -1, -1, -1},
    {"{\"queue\":\"q\"," GOOD ",\"unique\":false}", -1, -1, -1},
    {"{\"id\":\"i\"," GOOD ",\"unique\":false}", -1, -1, -1},
    {"{\"id\":\"i\",\"queue\":\"q\"," GOOD "}", -1, -1, -1},
    /* a member has another type */
    {"{\"id\":1,\"queue\":\"q\"," GOOD ",\"unique\":false}", -1, -1, -1},
    {"{\"id\":\"i\",\"queue\":[\"q\"]," GOOD ",\"unique\":false}", -1, -1, -1},
    {"{\"id\":\"i\",\"queue\":\"q\"," GOOD ",\"unique\":\"false\"}", -1, -1, -1},
    {"{\"id\":\"i\",\"queue\":\"q\"," GOOD ",\"unique\":0}", -1, -1, -1},
    {"{\"id\":\"i\",\"queue\":\"q\",\"type\":5," GOOD ",\"unique\":false}", -1, -1, -1},
    /* a member occurs twice, also with escapes */
    {"{\"id\":\"i\",\"id\":\"j\",\"queue\":\"q\"," GOOD ",\"unique\":false}", -1, -1, -1},
    {"{\"id\":\"i\",\"queue\":\"q\",\"\\u0071ueue\":\"r\"," GOOD ",\"unique\":false}", -1, -1, -1},
    {"{\"id\":\"i\",\"queue\":\"q\"," GOOD "," GOOD ",\"unique\":false}", -1, -1, -1},
    {TASK("\"taskStatus\":{\"excTimestamp\":1,\"genTimestamp\":2,\"retry\":3,\"\\u0072etry\":0,\"state\":\"\"}"), -1, -1, -1},
    /* not JSON, or not an object */
    {"", -1, -1, -1},
    {"no task", -1, -1, -1},
    {"[" TASK(GOOD) "]", -1, -1, -1},
    {TASK(GOOD) TASK(GOOD), -1, -1, -1},
    {TASK(GOOD) ",", -1, -1, -1},
    {"{\"id\":\"i\",\"queue\":\"q\"," GOOD ",\"unique\":false,}", -1, -1, -1},
    {"{\"id\":\"i\x01\",\"queue\":\"q\"," GOOD ",\"unique\":false}", -1, -1, -1},
    {"{\"id\":\"i\xff\",\"queue\":\"q\"," GOOD ",\"unique\":false}", -1, -1, -1},
};

Test(unit_kmqueue, read_table) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kmqueue_task_t task = {.exc = -1, .gen = -1, .retry = -1};
        bool good = kmqueue_task_read(slice_text(rows[i].text), &task);
        cr_expect_eq(good, rows[i].retry >= 0, "row %zu: %s", i, rows[i].text);
        if (!good || rows[i].retry < 0) continue;
        cr_expect_eq(task.exc, rows[i].exc, "row %zu", i);
        cr_expect_eq(task.gen, rows[i].gen, "row %zu", i);
        cr_expect_eq(task.retry, rows[i].retry, "row %zu", i);
    }
}

/* A task with long data is read. A task with too deep data is not. */
Test(unit_kmqueue, read_bounds) {
    for (int depth = 62; depth <= 64; depth++) {
        scoped(buffer_free) buffer_t text = {0};
        buffer_str(&text, "{\"id\":\"i\",\"queue\":\"q\",\"data\":");
        for (int i = 0; i < depth; i++) buffer_str(&text, "[");
        for (int i = 0; i < depth; i++) buffer_str(&text, "]");
        buffer_str(&text, "," GOOD ",\"unique\":false}");
        kmqueue_task_t task;
        cr_expect_eq(kmqueue_task_read(bytes_of(&text), &task), depth < 64, "%d", depth);
    }
    scoped(buffer_free) buffer_t text = {0}, again = {0};
    buffer_str(&text, "{\"data\":\"");
    while (text.len < 5 * 1024 * 1024) buffer_str(&text, "\\u00e9 \xc3\xa9 \\\"type\\\":\\\"marker\\\" ");
    buffer_str(&text, "\",\"id\":\"i\",\"queue\":\"q\"," GOOD ",\"unique\":false}");
    kmqueue_task_t task;
    cr_assert(kmqueue_task_read(bytes_of(&text), &task));
    kmqueue_task_rewrite(&task, bytes_of(&text), task.retry + 1, "retry", task.gen, &again);
    cr_expect_eq(again.len, text.len - 1, "\"normal\" has become \"retry\"");
    cr_assert(kmqueue_task_read(bytes_of(&again), &task));
    cr_expect_eq(task.retry, 4);
}

static const struct {
    const char *text, *copy; /* copy NULL: json_copy_text refuses the text */
} texts[] = {
    {"abc", "abc"},
    {"a\\\"b\\u00e9", "a\"b\xc3\xa9"},
    {"12345678", "12345678"},
    {"123456789", NULL},
    {"", NULL},
    {"a\\u0000b", NULL},
    {"\\ud800", NULL},
    {"\\u0031\\u0032", "12"},
    {"\\/", "/"},
    {"1234567\\u0038", "12345678"},
    {"12345678\\u0039", NULL},
};

Test(unit_kmqueue, copies_and_compares_texts) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char copy[9] = "";
        bool good = json_copy_text(slice_text(texts[i].text), copy, 8);
        cr_expect_eq(good, texts[i].copy != NULL, "%s", texts[i].text);
        if (texts[i].copy) cr_expect_str_eq(copy, texts[i].copy);
        if (texts[i].copy) cr_expect(kmqueue_text_is(slice_text(texts[i].text), slice_text(texts[i].copy)), "%s", texts[i].text);
        cr_expect_not(kmqueue_text_is(slice_text(texts[i].text), slice_text("abcd")));
    }
    cr_expect(kmqueue_text_is(slice_text("a\\u0000b"), (slice_t){"a\0b", 3}));
    cr_expect_not(kmqueue_text_is(slice_text("a\\u0000b"), slice_text("a")));
}

#define MARKER(queue, type)                                                                                                      \
    "{\"id\":\"00000000-0000-4000-8000-000000000000\",\"queue\":\"" queue "\",\"taskStatus\":{\"excTimestamp\":0,"               \
    "\"genTimestamp\":1700000000000,\"retry\":0,\"state\":\"normal\"},\"type\":\"" type "\",\"unique\":false}"

Test(unit_kmqueue, the_marker_equals_that_of_the_real_manager) {
    vectors_t v = open_vectors();
    buffer_t made = {0};
    kmqueue_marker(BACKUP, "00000000000000000000000000000000", 1700000000000, &made);
    bool found = false;
    while (next_vector(&v)) {
        if (!slice_is(v.what, "marker")) continue;
        found = true;
        cr_expect(slice_equal(bytes_of(&made), bytes_of(&v.bytes)), "%s", made.data);
        cr_expect(kmqueue_is_marker(bytes_of(&v.bytes), BACKUP));
        cr_expect_not(kmqueue_is_marker(bytes_of(&v.bytes), "other"));
    }
    cr_expect(found);
    buffer_clear(&made);
    kmqueue_marker("q", "0123456789abcdef0123456789abcdef", 1, &made);
    cr_expect(strstr(made.data, "{\"id\":\"01234567-89ab-4def-8123-456789abcdef\",\"queue\":\"q\",") == made.data, "%s",
              made.data);
    buffer_free(&made);
    close_vectors(&v);
}

/* Markers must be recognized for each list name, or each scan would add another marker. */
Test(unit_kmqueue, a_marker_is_recognized_for_any_list_name) {
    char controls[401], quotes[401];
    memset(controls, 1, 400);
    memset(quotes, '"', 400);
    controls[400] = quotes[400] = '\0';
    const char *names[] = {"q",     "a \"quoted\\\" name", "\t\x01\x7f", "\xc3\xa9\xe4\xbb\xbb\xe5\x8a\xa1", controls, quotes,
                           "marker"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        scoped(buffer_free) buffer_t made = {0};
        kmqueue_marker(names[i], "ffffffffffffffffffffffffffffffff", INT64_MAX, &made);
        cr_expect(json_pick(bytes_of(&made), NULL, 0), "%s", made.data);
        cr_expect(kmqueue_is_marker(bytes_of(&made), names[i]), "%s", made.data);
    }
}

Test(unit_kmqueue, refuses_half_a_marker) {
    static const char *const no[] = {
        MARKER("worker1_queue", "marker"),
        MARKER("back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==", "mail"),
        MARKER("back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ=", "marker"),
        MARKER("back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==", "marker\",\"type\":\"marker"),
        MARKER("back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==", "marker") "x",
        "{\"data\":\"\\\"type\\\":\\\"marker\\\"\",\"queue\":\"back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==\",\"type\":\"mail\"}",
        "{\"queue\":\"back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==\",\"x\":{\"type\":\"marker\"}}",
        "[\"back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==\",\"marker\"]",
        /* a task that a worker executed, and a task with data */
        "{\"queue\":\"back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==\",\"taskStatus\":{\"excTimestamp\":1},\"type\":\"marker\"}",
        "{\"data\":\"\",\"queue\":\"back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==\",\"taskStatus\":{\"excTimestamp\":0},\"type\":"
        "\"marker\"}",
        "{\"queue\":\"back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==\",\"taskStatus\":{\"excTimestamp\":\"0\"},\"type\":\"marker\"}",
        "{\"queue\":\"back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==\",\"type\":\"marker\"}",
        "\"marker\"",
        "marker",
        "",
    };
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) cr_expect_not(kmqueue_is_marker(slice_text(no[i]), BACKUP), "%s", no[i]);
    cr_expect(kmqueue_is_marker(slice_text(MARKER("back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ\\u003d=", "marker")), BACKUP));
    cr_expect(kmqueue_is_marker(slice_text("{\"data\":null, \"type\" : \"marker\", \"taskStatus\":{\"excTimestamp\" : 0}, "
                                           "\"queue\":\"back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==\"}"),
                                BACKUP));
}
