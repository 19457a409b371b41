/* json_splice by tables; unit_json_documents.c has random documents. */
#include "json_fixture.h"
#include "suite.h"

static const struct {
    const char *text;
    struct {
        const char *outer, *key, *with;
    } cuts[3];
    const char *after;
} rows[] = {
    {"{\"a\":1}", {{NULL, "a", "2"}}, "{\"a\":2}"},
    {"{\"a\":9}", {{NULL, "a", "10"}}, "{\"a\":10}"},
    {"{\"a\":10000}", {{NULL, "a", "1"}}, "{\"a\":1}"},
    {" {\t\"a\" : -1.50e+3 , \"b\":1.0}\r\n", {{NULL, "a", "0"}}, " {\t\"a\" : 0 , \"b\":1.0}\r\n"},
    {"{\"a\":\"x\"}", {{NULL, "a", "retry"}}, "{\"a\":\"retry\"}"},
    {"{\"a\":\"\"}", {{NULL, "a", "retry"}}, "{\"a\":\"retry\"}"},
    {"{\"a\":\"x\\\"y\\u00e9\"}", {{NULL, "a", ""}}, "{\"a\":\"\"}"},
    {"{\"a\":null}", {{NULL, "a", "[1,2]"}}, "{\"a\":[1,2]}"},
    {"{\"a\":{\"b\":1}}", {{NULL, "a", "0"}}, "{\"a\":0}"},
    {"{\"s\":{\"n\":1,\"t\":\"x\"},\"n\":5}", {{"s", "n", "2"}, {"s", "t", "y"}}, "{\"s\":{\"n\":2,\"t\":\"y\"},\"n\":5}"},
    /* in any order */
    {"{\"s\":{\"n\":1,\"t\":\"x\"},\"n\":5}",
     {{NULL, "n", "66"}, {"s", "t", ""}, {"s", "n", "222"}},
     "{\"s\":{\"n\":222,\"t\":\"\"},\"n\":66}"},
    {"{\"a\":\"\",\"b\":\"\"}", {{NULL, "b", "2"}, {NULL, "a", "1"}}, "{\"a\":\"1\",\"b\":\"2\"}"},
    /* one of several equal values */
    {"{\"x\":1,\"a\":1,\"y\":1}", {{NULL, "a", "2"}}, "{\"x\":1,\"a\":2,\"y\":1}"},
    {"{\"x\":{\"a\":1},\"a\":1}", {{NULL, "a", "2"}}, "{\"x\":{\"a\":1},\"a\":2}"},
    /* what a JSON library would write differently */
    {"{\"b\":1e400,\"b\":123456789012345678901234567890,\"\\u0061\":0,\"c\":\"\\/\\ud800\"}",
     {{NULL, "a", "1"}},
     "{\"b\":1e400,\"b\":123456789012345678901234567890,\"\\u0061\":1,\"c\":\"\\/\\ud800\"}"},
};

Test(unit_json_splice, changes_only_its_token) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        slice_t text = slice_text(rows[i].text);
        json_pick_t wanted[3];
        json_cut_t cuts[3];
        size_t count = 0;
        for (; count < 3 && rows[i].cuts[count].key; count++)
            wanted[count] = (json_pick_t){.pointer = pointer_to(rows[i].cuts[count].outer, rows[i].cuts[count].key)};
        cr_assert(json_pick(text, wanted, count), "row %zu", i);
        for (size_t c = 0; c < count; c++) {
            free((char *)wanted[c].pointer);
            cr_assert_eq(wanted[c].found, JSON_FOUND, "row %zu", i);
            cuts[c] = (json_cut_t){wanted[c].value.raw, slice_text(rows[i].cuts[c].with)};
        }
        scoped(buffer_free) buffer_t out = {0};
        buffer_str(&out, "before:");
        cr_assert(json_splice(text, cuts, count, &out), "row %zu", i);
        cr_expect(slice_is((slice_t){out.data + 7, out.len - 7}, rows[i].after), "row %zu: %s", i, out.data);
        cr_expect_eq(strncmp(out.data, "before:", 7), 0);
    }
}

Test(unit_json_splice, copies_the_text_without_cuts) {
    scoped(buffer_free) buffer_t out = {0};
    cr_assert(json_splice((slice_t){"no\0JSON", 7}, NULL, 0, &out));
    cr_assert(slice_equal(slice_of(&out), (slice_t){"no\0JSON", 7}));
    cr_assert(json_splice((slice_t){NULL, 0}, NULL, 0, &out));
    cr_assert_eq(out.len, 7);
}

/* Places in "0123456789", of which a part is the text. */
static const struct {
    size_t from, len;
    struct {
        size_t at, len;
    } cuts[3];
    size_t count;
    const char *after; /* NULL: refused */
} places[] = {
    {2, 6, {{2, 1}}, 1, "x34567"},
    {2, 6, {{7, 1}}, 1, "23456x"},
    {2, 6, {{2, 6}}, 1, "x"},
    {2, 6, {{2, 0}}, 1, "x234567"},
    {2, 6, {{8, 0}}, 1, "234567x"},
    {2, 6, {{7, 1}, {2, 1}, {4, 1}}, 3, "x3x56x"},
    {2, 6, {{1, 1}}, 1, NULL},
    {2, 6, {{1, 2}}, 1, NULL},
    {2, 6, {{7, 2}}, 1, NULL},
    {2, 6, {{8, 1}}, 1, NULL},
    {2, 6, {{9, 0}}, 1, NULL},
    {2, 6, {{4, 1}, {0, 1}}, 2, NULL},
    {2, 6, {{2, 7}}, 1, NULL},
    /* overlapping, touching, or the same */
    {2, 6, {{2, 3}, {4, 2}}, 2, NULL},
    {2, 6, {{4, 2}, {2, 3}}, 2, NULL},
    {2, 6, {{2, 5}, {3, 1}}, 2, NULL},
    {2, 6, {{2, 2}, {4, 1}}, 2, NULL},
    {2, 6, {{4, 0}, {4, 0}}, 2, NULL},
    {2, 6, {{4, 1}, {4, 1}}, 2, NULL},
    {2, 6, {{2, 2}, {5, 1}}, 2, "x4x67"},
};

Test(unit_json_splice, refuses_cuts_outside_the_text_or_overlapping) {
    static const char digits[] = "0123456789";
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        json_cut_t cuts[3];
        for (size_t c = 0; c < places[i].count; c++)
            cuts[c] = (json_cut_t){{digits + places[i].cuts[c].at, places[i].cuts[c].len}, slice_text("x")};
        buffer_t out = {0};
        bool good = json_splice((slice_t){digits + places[i].from, places[i].len}, cuts, places[i].count, &out);
        cr_expect_eq(good, places[i].after != NULL, "row %zu", i);
        cr_expect_str_eq(buffer_text(&out), good ? places[i].after : "", "row %zu", i);
        buffer_free(&out);
    }
    buffer_t out = {0};
    cr_expect_not(json_splice(slice_text(digits), &(json_cut_t){{NULL, 0}, {"x", 1}}, 1, &out), "a value that was not found");
    cr_expect_not(json_splice((slice_t){NULL, 0}, &(json_cut_t){{digits, 0}, {"x", 1}}, 1, &out));
    cr_expect_eq(out.len, 0);
    buffer_free(&out);
}
