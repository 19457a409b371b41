/* base/json by tables: what is JSON, where a pointer leads, what an escape means. */
#include "json_fixture.h"
#include "suite.h"

#define ROW(literal)                                                                                                             \
    { literal, sizeof(literal) - 1 } /* of a table */
#define BYTES(literal) ((slice_t)ROW(literal))

static bool is_good(slice_t text) {
    bool good = is_good_text(text);
    scoped(buffer_free) buffer_t member = {0}; /* json_pick must agree about the text as a member of an object */
    buffer_str(&member, "{\"k\":");
    buffer_add(&member, text.data, text.len);
    buffer_str(&member, "}");
    json_pick_t pick = {.pointer = "/k"};
    cr_assert_eq(picks(slice_of(&member), &pick, 1), good, "%s", member.data);
    return good;
}

static const slice_t good_texts[] = {
    ROW("{}"),
    ROW("[]"),
    ROW("\"\""),
    ROW("0"),
    ROW("-0"),
    ROW("42"),
    ROW(" 42 "),
    ROW("\t\r\n 42"),
    ROW("true"),
    ROW("false"),
    ROW("null"),
    ROW(" null\n"),
    ROW("1.5"),
    ROW("1e5"),
    ROW("1E+5"),
    ROW("1e-05"),
    ROW("-1.25E-2"),
    ROW("1e999"),
    ROW("123456789012345678901234567890"),
    ROW("\"a\""),
    ROW("  \"a b\"  "),
    ROW("[1]"),
    ROW("[ 1 , 2 ]"),
    ROW("[[],{},[[]]]"),
    ROW("{\"a\":1}"),
    ROW(" { \"a\" : [ ] , \"b\" : { } } "),
    ROW("{\"\":0}"),
    ROW("{\"a\":1,\"a\":2}"),
    ROW("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\""),
    ROW("\"\\u0000\""),
    ROW("\"\\ud800\""),
    ROW("\"\\udc00\\ud800\""),
    ROW("\"\x7f\""),
    ROW("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""),
    ROW("\"\xf4\x8f\xbf\xbf\""),
    ROW("[\"{\",\"]\",\",\",\":\"]"),
    ROW("[true,false,null,\"x\",-1]"),
    ROW("{\"a\":{\"b\":{\"c\":[{},{\"d\":0}]}},\"e\":1}"),
};

Test(unit_json, accepts_good_texts) {
    for (size_t i = 0; i < sizeof good_texts / sizeof *good_texts; i++)
        cr_expect(is_good(good_texts[i]), "row %zu: %s", i, good_texts[i].data);
}

static const slice_t bad_texts[] = {
    /* nothing, or more than one value */
    ROW(""),
    ROW(" "),
    ROW("1 2"),
    ROW("{}{}"),
    ROW("{},"),
    ROW("\"a\" \"b\""),
    ROW("[] 1"),
    ROW("42]"),
    /* separators */
    ROW("[1 2]"),
    ROW("[1,]"),
    ROW("[,1]"),
    ROW("[,]"),
    ROW("[1,,2]"),
    ROW("[1:2]"),
    ROW("{\"a\"}"),
    ROW("{\"a\":}"),
    ROW("{\"a\" 1}"),
    ROW("{\"a\",1}"),
    ROW("{\"a\":1 \"b\":2}"),
    ROW("{\"a\":1,}"),
    ROW("{,}"),
    ROW("{\"a\":1,,\"b\":2}"),
    ROW("{\"a\"::1}"),
    ROW("{\"a\":1:2}"),
    ROW("{\"a\":\"b\":\"c\"}"),
    ROW(":"),
    ROW(","),
    ROW("{\"a\":1;\"b\":2}"),
    ROW("[1/2]"),
    ROW("[\"a\"\"b\"]"),
    ROW("[{}{}]"),
    ROW("[[][]]"),
    /* keys */
    ROW("{1:2}"),
    ROW("{a:1}"),
    ROW("{null:1}"),
    ROW("{[]:1}"),
    ROW("{{}:1}"),
    ROW("{'a':1}"),
    ROW("{1}"),
    /* ends */
    ROW("["),
    ROW("{"),
    ROW("[1"),
    ROW("{\"a\""),
    ROW("{\"a\":"),
    ROW("{\"a\":1"),
    ROW("[1}"),
    ROW("{\"a\":1]"),
    ROW("]"),
    ROW("}"),
    ROW("[[]"),
    ROW("[]]"),
    ROW("{\"a\":[}]"),
    ROW("{\"a\":1,"),
    /* numbers */
    ROW("01"),
    ROW("-"),
    ROW("-01"),
    ROW("+1"),
    ROW("1."),
    ROW(".5"),
    ROW("-.5"),
    ROW("1e"),
    ROW("1e+"),
    ROW("1.e5"),
    ROW("1e5.5"),
    ROW("0x10"),
    ROW("1_000"),
    ROW("--1"),
    ROW("1-"),
    ROW("1a"),
    ROW("NaN"),
    ROW("Infinity"),
    ROW("-Infinity"),
    ROW("[1e5e5]"),
    ROW("0123"),
    ROW("1 .5"),
    ROW("- 1"),
    /* words */
    ROW("tru"),
    ROW("truee"),
    ROW("True"),
    ROW("nul"),
    ROW("nulll"),
    ROW("t"),
    ROW("[falsee]"),
    ROW("undefined"),
    ROW("n"),
    ROW("[truefalse]"),
    ROW("[nu ll]"),
    /* strings and escapes */
    ROW("\""),
    ROW("\"a"),
    ROW("\"\\\""),
    ROW("\"\\"),
    ROW("\"\\x\""),
    ROW("\"\\'\""),
    ROW("\"\\u\""),
    ROW("\"\\u12\""),
    ROW("\"\\u123"),
    ROW("\"\\u12g4\""),
    ROW("\"\\U0041\""),
    ROW("\"\\u+123\""),
    ROW("\"\\u 123\""),
    ROW("\"\t\""),
    ROW("\"\n\""),
    ROW("\"\x01\""),
    ROW("\"\x1f\""),
    ROW("\"\\\n\""),
    ROW("'a'"),
    ROW("\"\\\0\""),
    /* bytes */
    ROW("\0"),
    ROW("{}\0"),
    ROW("{\"a\":1}\0{"),
    ROW("[\0]"),
    ROW("[1\0]"),
    ROW("\"a\0b\""),
    ROW("\0{}"),
    ROW("\"\x80\""),
    ROW("\"\xc3\""),
    ROW("\"\xc3\x28\""),
    ROW("\"\xc0\x80\""),
    ROW("\"\xe0\x80\x80\""),
    ROW("\"\xed\xa0\x80\""),
    ROW("\"\xf4\x90\x80\x80\""),
    ROW("\"\xf8\x88\x80\x80\x80\""),
    ROW("\"\xff\""),
    ROW("{\"\xe9\":1}"),
    ROW("\xef\xbb\xbf{}"),
    ROW("\"\xe2\x82"),
    ROW("\xc2\xa0{}"),
    ROW("{}\xff"),
    /* other notations */
    ROW("// x\n1"),
    ROW("/* x */ 1"),
    ROW("[1] # x"),
    ROW("\x0b{}"),
    ROW("\x0c{}"),
    ROW("(1)"),
    ROW("a=1"),
};

Test(unit_json, rejects_bad_texts) {
    for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++)
        cr_expect_not(is_good(bad_texts[i]), "row %zu: %s", i, bad_texts[i].data);
    cr_expect_not(is_good((slice_t){NULL, 0}));
}

/* The document of RFC 6901, section 5, and more. */
static const slice_t pointed =
    ROW("{\"foo\": [\"bar\", \"baz\"], \"\": 0, \"a/b\": 1, \"c%d\": 2, \"e^f\": 3, \"g|h\": 4, "
        "\"i\\\\j\": 5, \"k\\\"l\": 6, \" \": 7, \"m~n\": 8, \"~1\": 9, \"0\": [ [], {\"x\" : [1,[2]]} ,3], "
        "\"t\":true, \"f\":false, \"n\":null, \"\xc3\xa9\":-1.5e3, \"o\":{\"\":{\"\":10}}}");
static const struct {
    const char *pointer, *raw; /* raw: NULL = missing */
    json_type_t type;
} pointers[] = {
    {"", NULL, JSON_OBJECT}, /* compared below */
    {"/foo", "[\"bar\", \"baz\"]", JSON_ARRAY},
    {"/foo/0", "bar", JSON_STRING},
    {"/foo/1", "baz", JSON_STRING},
    {"/", "0", JSON_NUMBER},
    {"/a~1b", "1", JSON_NUMBER},
    {"/c%d", "2", JSON_NUMBER},
    {"/e^f", "3", JSON_NUMBER},
    {"/g|h", "4", JSON_NUMBER},
    {"/i\\j", "5", JSON_NUMBER},
    {"/k\"l", "6", JSON_NUMBER},
    {"/ ", "7", JSON_NUMBER},
    {"/m~0n", "8", JSON_NUMBER},
    {"/~01", "9", JSON_NUMBER},
    {"/0", "[ [], {\"x\" : [1,[2]]} ,3]", JSON_ARRAY},
    {"/0/0", "[]", JSON_ARRAY},
    {"/0/1", "{\"x\" : [1,[2]]}", JSON_OBJECT},
    {"/0/1/x/1/0", "2", JSON_NUMBER},
    {"/0/2", "3", JSON_NUMBER},
    {"/t", "true", JSON_BOOL},
    {"/f", "false", JSON_BOOL},
    {"/n", "null", JSON_NULL},
    {"/\xc3\xa9", "-1.5e3", JSON_NUMBER},
    {"/o//", "10", JSON_NUMBER},
    {"/bar", NULL, 0},
    {"/fo", NULL, 0},
    {"/fooo", NULL, 0},
    {"/FOO", NULL, 0},
    {"/foo/2", NULL, 0},
    {"/foo/-", NULL, 0},
    {"/foo/00", NULL, 0},
    {"/foo/01", NULL, 0},
    {"/foo/-1", NULL, 0},
    {"/foo/+1", NULL, 0},
    {"/foo/ 1", NULL, 0},
    {"/foo/1 ", NULL, 0},
    {"/foo/1e0", NULL, 0},
    {"/foo/", NULL, 0},
    {"/foo/4294967296", NULL, 0},
    {"/foo/18446744073709551616", NULL, 0},
    {"/foo/bar", NULL, 0},
    {"/foo/0/0", NULL, 0},
    {"/t/0", NULL, 0},
    {"//", NULL, 0},
    {"/0/0/0", NULL, 0},
    {"/x", NULL, 0},
    {"/m~n", NULL, 0}, /* these four are no pointers */
    {"/m~", NULL, 0},
    {"foo", NULL, 0},
    {"/~2", NULL, 0},
    {"/~1", NULL, 0}, /* the key "/" */
};

Test(unit_json, pointers) {
    json_value_t value;
    cr_assert_eq(json_find(pointed, "", &value), JSON_FOUND);
    cr_assert(value.type == JSON_OBJECT && slice_equal(value.raw, pointed));
    for (size_t i = 1; i < sizeof pointers / sizeof *pointers; i++) {
        cr_expect_eq(json_find(pointed, pointers[i].pointer, &value), pointers[i].raw ? JSON_FOUND : JSON_MISSING, "%s",
                     pointers[i].pointer);
        if (!pointers[i].raw) continue;
        cr_expect(slice_is(value.raw, pointers[i].raw), "%s: %.*s", pointers[i].pointer, (int)value.raw.len, value.raw.data);
        cr_expect_eq(value.type, pointers[i].type, "%s", pointers[i].pointer);
    }
}

Test(unit_json, finds_a_lone_value_without_spaces) {
    const slice_t texts[] = {
        BYTES("42"),
        BYTES(" \r42"),
        BYTES("42\n\t"),
        BYTES(" 42 "),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_value_t value;
        cr_assert_eq(json_find(texts[i], "", &value), JSON_FOUND);
        cr_assert(value.type == JSON_NUMBER && slice_is(value.raw, "42"), "row %zu", i);
        cr_assert_eq(json_find(texts[i], "/0", &value), JSON_MISSING);
    }
}

Test(unit_json, keys_are_compared_as_decoded) {
    static const struct {
        const char *text, *pointer;
        json_found_t found;
    } rows[] = {
        {"{\"\\u0069d\":1}", "/id", JSON_FOUND},
        {"{\"\\u00E9\":1}", "/\xc3\xa9", JSON_FOUND},
        {"{\"\\ud83d\\uDE00\":1}", "/\xf0\x9f\x98\x80", JSON_FOUND},
        {"{\"a\\/b\":1}", "/a~1b", JSON_FOUND},
        {"{\"\\u007e\":1}", "/~0", JSON_FOUND},
        {"{\"\\n\":1}", "/\n", JSON_FOUND},
        {"{\"\\\\n\":1}", "/\\n", JSON_FOUND},
        {"{\"\\\\n\":1}", "/\n", JSON_MISSING},
        {"{\"a\\u0000\":1}", "/a", JSON_MISSING},
        {"{\"\\u0000\":1}", "/", JSON_MISSING},
        {"{\"\\ud83d\":1}", "/\xef\xbf\xbd", JSON_MISSING}, /* no replacement character */
        {"{\"\\ud83d\":1}", "/", JSON_MISSING},
        {"{\"\\ud83d\":1,\"id\":2}", "/id", JSON_FOUND},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_value_t value;
        cr_expect_eq(json_find(slice_text(rows[i].text), rows[i].pointer, &value), rows[i].found, "row %zu: %s", i, rows[i].text);
    }
}

Test(unit_json, rejects_duplicate_keys_on_the_path) {
    static const struct {
        const char *text, *pointer;
        json_found_t found;
    } rows[] = {
        {"{\"id\":1,\"id\":1}", "/id", JSON_BAD},
        {"{\"id\":1,\"x\":0,\"\\u0069d\":2}", "/id", JSON_BAD},
        {"{\"id\":1,\"x\":[{\"id\":2}],\"y\":{\"id\":3}}", "/id", JSON_FOUND},
        {"{\"x\":{\"id\":2},\"id\":1}", "/id", JSON_FOUND},
        {"{\"a\":{\"id\":1},\"a\":{}}", "/a/id", JSON_BAD},
        {"{\"a\":{},\"a\":{}}", "/a/id", JSON_BAD},
        {"{\"a\":{\"id\":1,\"id\":2}}", "/a/id", JSON_BAD},
        {"{\"a\":{\"id\":1,\"id\":2}}", "/a", JSON_FOUND},
        {"{\"a\":{\"id\":1,\"id\":2}}", "", JSON_FOUND},
        {"{\"x\":1,\"x\":2,\"id\":3}", "/id", JSON_FOUND},
        {"{\"x\":1,\"x\":2}", "/id", JSON_MISSING},
        {"[{\"id\":1,\"id\":2},{\"id\":3}]", "/1/id", JSON_FOUND},
        {"[{\"id\":1,\"id\":2},{\"id\":3}]", "/0/id", JSON_BAD},
        {"{\"\":1,\"\":2}", "/", JSON_BAD},
        {"{\"id\":\"id\"}", "/id", JSON_FOUND},
        {"{\"a\":\"id\",\"id\":\"a\"}", "/id", JSON_FOUND},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_value_t value;
        cr_expect_eq(json_find(slice_text(rows[i].text), rows[i].pointer, &value), rows[i].found, "row %zu: %s", i, rows[i].text);
    }
}

Test(unit_json, strings_are_decoded) {
    const struct {
        const char *text;
        slice_t decoded; /* data NULL: cannot be decoded */
    } rows[] = {
        {"\"\"", BYTES("")},
        {"\"abc\"", BYTES("abc")},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", BYTES("\"\\/\b\f\n\r\t")},
        {"\"a\\u0041b\\u007fc\"", BYTES("aAb\x7f"
                                        "c")},
        {"\"\\u0080\\u07ff\\u0800\\uffff\"", BYTES("\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf")},
        {"\"\\ud800\\udc00\\uDBFF\\uDFFF\"", BYTES("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf")},
        {"\"x\\u0000y\"", BYTES("x\0y")},
        {"\"\\\\u0041\"", BYTES("\\u0041")},
        {"\"\xc3\xa9\\n\xe2\x82\xac\"", BYTES("\xc3\xa9\n\xe2\x82\xac")},
        {"\"\\ud7ff\\ue000\"", BYTES("\xed\x9f\xbf\xee\x80\x80")},
        {"\"\\ud800\"", {0}},
        {"\"\\udfff\"", {0}},
        {"\"\\ud83dx\"", {0}},
        {"\"\\ud83d\\n1234\"", {0}},
        {"\"\\ud83d\\u0041\"", {0}},
        {"\"\\ud83d\\ud83d\\ude00\"", {0}},
        {"\"abc\\ude00\\ud83d\"", {0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_value_t value;
        scoped(buffer_free) buffer_t out = {0};
        buffer_str(&out, "before:");
        cr_assert_eq(json_find(slice_text(rows[i].text), "", &value), JSON_FOUND, "row %zu", i);
        cr_assert_eq(value.type, JSON_STRING);
        cr_expect_eq(json_decode(value.raw, &out), rows[i].decoded.data != NULL, "row %zu", i);
        cr_expect(slice_equal((slice_t){out.data + 7, out.len - 7}, rows[i].decoded), "row %zu: %s", i, out.data);
        cr_expect(memcmp(out.data, "before:", 7) == 0 && out.data[out.len] == '\0');
    }
}

Test(unit_json, finds_each_pointer_on_its_own) {
    json_pick_t wanted[] = {{.pointer = "/id"},    {.pointer = "/a/b/2"}, {.pointer = "/a/b"},
                            {.pointer = "/a/x"},   {.pointer = "id"},     {.pointer = ""},
                            {.pointer = "/a/b/2"}, {.pointer = "/d"},     {.pointer = "/d/e"}};
    static const char *const raws[] = {NULL, "3", "[1,2,3]", NULL, NULL, NULL, "3", "4", NULL};
    const slice_t text = BYTES("{\"id\":1,\"a\":{\"b\":[1,2,3]},\"d\":4,\"id\":2}");
    enum { WANTED = sizeof wanted / sizeof *wanted };
    cr_assert(json_find_all(text, wanted, WANTED));
    cr_expect_eq(wanted[0].found, JSON_BAD, "the key occurs twice");
    cr_expect(wanted[5].found == JSON_FOUND && slice_equal(wanted[5].value.raw, text));
    for (size_t i = 1; i < WANTED; i++) {
        if (i == 5) continue;
        cr_assert_eq(wanted[i].found, raws[i] ? JSON_FOUND : JSON_MISSING, "pick %zu", i);
        if (raws[i]) cr_expect(slice_is(wanted[i].value.raw, raws[i]), "pick %zu", i);
    }
    cr_assert_not(json_find_all(BYTES("{\"a\":"), wanted, WANTED));
    for (size_t i = 0; i < WANTED; i++) cr_expect_eq(wanted[i].found, JSON_BAD, "pick %zu", i);
    cr_assert(json_find_all(BYTES("{\"a\":1}"), wanted, WANTED));
    for (size_t i = 0; i < WANTED; i++)
        cr_expect_eq(wanted[i].found, i == 5 ? JSON_FOUND : JSON_MISSING, "pick %zu: the results of the first text are gone", i);
}

Test(unit_json, pointers_lead_through_arrays) {
    static const struct {
        const char *text, *pointer, *raw;
    } rows[] = {
        {"[[1,[2,3]],4]", "/0/1/1", "3"},
        {"[[1,[2,3]],4]", "/0/0", "1"},
        {"[[1,[2,3]],4]", "/1", "4"},
        {"[[1,[2,3]],4]", "/2", NULL},
        {"[[1,[2,3]],4]", "/1/0", NULL},
        {"[{\"a\":[{\"a\":7}]},{\"a\":8}]", "/0/a/0/a", "7"},
        {"[{\"a\":[{\"a\":7}]},{\"a\":8}]", "/1/a", "8"},
        {"{\"0\":[[],[[5]],6]}", "/0/1/0/0", "5"},
        {"{\"0\":[[],[[5]],6]}", "/0/2", "6"},
        {"{\"a\":[9,[0]],\"b\":[1]}", "/b/0", "1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_value_t value;
        json_found_t found = json_find(slice_text(rows[i].text), rows[i].pointer, &value);
        cr_assert_eq(found, rows[i].raw ? JSON_FOUND : JSON_MISSING, "row %zu", i);
        if (rows[i].raw) cr_expect(slice_is(value.raw, rows[i].raw), "row %zu", i);
    }
}
