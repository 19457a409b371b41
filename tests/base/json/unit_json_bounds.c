/* The bounds of base/json: bytes, tokens, depth, time. */
#include "json_fixture.h"
#include "suite.h"

#include <stdint.h>
#include <time.h>

static void add_times(buffer_t *out, const char *text, int times) {
    for (int i = 0; i < times; i++) buffer_str(out, text);
}

Test(unit_json, bounds_of_bytes) {
    scoped(buffer_free) buffer_t text = {0};
    buffer_str(&text, "{\"id\":7,\"x\":\"");
    while (text.len < JSON_MAX_BYTES - 2) buffer_str(&text, "a");
    buffer_str(&text, "\"}");
    cr_assert_eq(text.len, JSON_MAX_BYTES);
    json_value_t value;
    cr_assert_eq(json_find(slice_of(&text), "/id", &value), JSON_FOUND);
    cr_assert_eq(json_find(slice_of(&text), "/x", &value), JSON_FOUND);
    cr_assert_eq(value.raw.len, JSON_MAX_BYTES - 15);
    buffer_str(&text, " ");
    cr_assert_eq(json_find(slice_of(&text), "/id", &value), JSON_BAD);
}

Test(unit_json, bounds_of_tokens) {
    static const struct {
        const char *open, *each, *last;
        int times;
        bool good;
    } rows[] = {
        {"[", "1,", "1]", 4094, true},
        {"[", "1,", "1]", 4095, false},
        {"[", "{},", "{}]", 4095, false},
        {"[", "\"\",", "[]]", 4094, true},
        {"{", "\"a\":1,", "\"b\":[]}", 2046, true},
        {"{", "\"a\":1,", "\"b\":[1]}", 2046, true},
        {"{", "\"a\":1,", "\"b\":[1,1]}", 2046, false},
        {"{", "\"a\":1,", "\"b\":1}", 2047, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buffer_t text = {0};
        buffer_str(&text, rows[i].open);
        add_times(&text, rows[i].each, rows[i].times);
        buffer_str(&text, rows[i].last);
        cr_expect_eq(is_good_text(slice_of(&text)), rows[i].good, "row %zu", i);
        buffer_free(&text);
    }
    buffer_t text = {0};
    buffer_str(&text, "[");
    add_times(&text, "0,", 4094);
    buffer_str(&text, "9]");
    json_value_t value;
    cr_assert_eq(json_find(slice_of(&text), "/4094", &value), JSON_FOUND);
    cr_assert(slice_is(value.raw, "9"));
    cr_assert_eq(json_find(slice_of(&text), "/4095", &value), JSON_MISSING);
    buffer_free(&text);
}

Test(unit_json, bounds_of_depth) {
    for (int depth = 1; depth <= JSON_MAX_DEPTH + 2; depth++) {
        buffer_t arrays = {0}, objects = {0}, pointer = {0};
        add_times(&arrays, "[", depth);
        add_times(&arrays, "]", depth);
        add_times(&objects, "{\"a\":", depth - 1);
        buffer_str(&objects, "{");
        add_times(&objects, "}", depth);
        add_times(&pointer, "/a", depth - 1);
        cr_assert_eq(is_good_text(slice_of(&arrays)), depth <= JSON_MAX_DEPTH, "%d", depth);
        json_value_t value;
        cr_assert_eq(json_find(slice_of(&objects), buffer_text(&pointer), &value),
                     depth <= JSON_MAX_DEPTH ? JSON_FOUND : JSON_BAD);
        if (depth <= JSON_MAX_DEPTH) cr_assert(slice_is(value.raw, "{}"));
        buffer_free(&arrays);
        buffer_free(&objects);
        buffer_free(&pointer);
    }
    scoped(buffer_free) buffer_t wide = {0}; /* only open containers count as depth */
    buffer_str(&wide, "[");
    add_times(&wide, "[[]],", 1000);
    buffer_str(&wide, "[]]");
    cr_assert(is_good_text(slice_of(&wide)));
}

static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* CPU time in ns to read a text of `members` members `rounds` times; the best of 7 attempts. */
static int64_t cost_of(const char *member, int members, int rounds) {
    scoped(buffer_free) buffer_t text = {0};
    buffer_str(&text, "{");
    add_times(&text, member, members);
    buffer_str(&text, "\"id\":1}");
    json_value_t value;
    int64_t best = INT64_MAX;
    for (int attempt = 0; attempt < 7; attempt++) {
        int64_t start = cpu_ns();
        for (int i = 0; i < rounds; i++) cr_assert_eq(json_find(slice_of(&text), "/id", &value), JSON_FOUND);
        int64_t took = cpu_ns() - start;
        if (took < best) best = took;
    }
    return best;
}

Test(unit_json, time_grows_with_the_length_only) {
    static const char *const members[] = {"\"a\":1,", "\"a\":\"b\",", "\"\\u0069\":[],", "\"a\":{\"id\":0},"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        int64_t small = cost_of(members[i], 50, 200),
                large = cost_of(members[i], 1000, 10); /* the same number of members in all */
        cr_expect_lt(large, 4 * small, "%s: %lld ns, and %lld ns in texts 20 times as long", members[i], (long long)small,
                     (long long)large);
    }
}

/* CPU time in ns to pick from one text what a scan picks from a task of KMQueue; the best of 7 attempts. */
static int64_t pick_cost(slice_t text, int rounds) {
    int64_t best = INT64_MAX;
    for (int attempt = 0; attempt < 7; attempt++) {
        int64_t start = cpu_ns();
        for (int i = 0; i < rounds; i++) {
            json_pick_t wanted[] = {{.pointer = "/queue"}, {.pointer = "/id"}, {.pointer = "/s/retry"}, {.pointer = "/s/state"}};
            cr_assert(json_pick(text, wanted, sizeof wanted / sizeof *wanted));
        }
        int64_t took = (cpu_ns() - start) / rounds;
        if (took < best) best = took;
    }
    return best;
}

Test(unit_json_pick, time_grows_with_the_length_only) {
    static const char *const members[] = {
        "\"a\":1,",          "\"a\":\"0123456789abcdef0123456789abcdef\",", "\"\\u0069\":[],",
        "\"r\":{\"id\":0},", "\"q\":\"\\\"\\\\\\n\xe2\x82\xac\",",
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        slice_t texts[2];
        buffer_t buffers[2] = {{0}, {0}};
        for (int large = 0; large < 2; large++) {
            buffer_str(&buffers[large], "{");
            add_times(&buffers[large], members[i], large ? 20000 : 20);
            buffer_str(&buffers[large], "\"id\":1,\"s\":{\"retry\":0,\"state\":\"normal\"}}");
            texts[large] = slice_of(&buffers[large]);
        }
        int64_t small = pick_cost(texts[0], 1000), large = pick_cost(texts[1], 3);
        cr_log_info("%s %zu bytes: %lld ns, %zu bytes: %lld ns, %lld MB/s", members[i], texts[0].len, (long long)small,
                    texts[1].len, (long long)large, (long long)texts[1].len * 1000 / large);
        cr_expect_lt(large, 4 * 1000 * small, "%s: %lld ns, and %lld ns in texts 1000 times as long", members[i],
                     (long long)small, (long long)large);
        for (int b = 0; b < 2; b++) buffer_free(&buffers[b]);
    }
}
