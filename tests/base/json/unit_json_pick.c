/* base/json_pick by tables: what is found, what is refused, what a splice leaves. */
#include "json_fixture.h"
#include "suite.h"

#include <inttypes.h>

/* As fastjson writes a task of KMQueue. */
#define TASK                                                                                                                     \
    "{\"data\":\"{\\\"retry\\\":9,\\\"n\\\":\\\"\xc3\xa9\\\"}\",\"id\":\"7\",\"queue\":\"q\",\"taskStatus\":{\"excTimestamp\":"  \
    "1700000000123,"                                                                                                             \
    "\"genTimestamp\":1700000000000,\"retry\":2,\"state\":\"normal\"},\"type\":\"mail\",\"unique\":true}"

static const struct {
    const char *text, *outer, *key;
    json_found_t found;
    json_type_t type;
    const char *raw;
} rows[] = {
    {TASK, NULL, "id", JSON_FOUND, JSON_STRING, "7"},
    {TASK, NULL, "unique", JSON_FOUND, JSON_BOOL, "true"},
    {TASK, NULL, "data", JSON_FOUND, JSON_STRING, "{\\\"retry\\\":9,\\\"n\\\":\\\"\xc3\xa9\\\"}"},
    {TASK, "taskStatus", "retry", JSON_FOUND, JSON_NUMBER, "2"},
    {TASK, "taskStatus", "state", JSON_FOUND, JSON_STRING, "normal"},
    {TASK, NULL, "retry", JSON_MISSING, 0, NULL},
    {TASK, "taskStatus", "id", JSON_MISSING, 0, NULL},
    {TASK, "id", "id", JSON_MISSING, 0, NULL},
    {TASK, "gone", "id", JSON_MISSING, 0, NULL},
    /* shapes */
    {"{}", NULL, "a", JSON_MISSING, 0, NULL},
    {"{}", "a", "b", JSON_MISSING, 0, NULL},
    {" { \"a\" :\t{ \"b\"\n: null } } \r\n", "a", "b", JSON_FOUND, JSON_NULL, "null"},
    {"{\"a\": { \"b\" : [ 1 , 2 ] , \"c\":0} }", "a", "b", JSON_FOUND, JSON_ARRAY, "[ 1 , 2 ]"},
    {"{\"a\": { \"b\" : 1 } }", NULL, "a", JSON_FOUND, JSON_OBJECT, "{ \"b\" : 1 }"},
    {"{\"a\":{}}", NULL, "a", JSON_FOUND, JSON_OBJECT, "{}"},
    {"{\"a\":[]}", NULL, "a", JSON_FOUND, JSON_ARRAY, "[]"},
    {"{\"a\":\"\"}", NULL, "a", JSON_FOUND, JSON_STRING, ""},
    {"{\"a\":-0.5e+10}", NULL, "a", JSON_FOUND, JSON_NUMBER, "-0.5e+10"},
    {"{\"a\":1e400}", NULL, "a", JSON_FOUND, JSON_NUMBER, "1e400"},
    {"{\"a\":false}", NULL, "a", JSON_FOUND, JSON_BOOL, "false"},
    /* only the outermost object and objects right in it */
    {"{\"x\":{\"a\":{\"b\":1}}}", "a", "b", JSON_MISSING, 0, NULL},
    {"{\"x\":{\"a\":1}}", NULL, "a", JSON_MISSING, 0, NULL},
    {"{\"a\":[{\"b\":1}]}", "a", "b", JSON_MISSING, 0, NULL},
    {"{\"a\":{\"x\":{\"b\":1}}}", "a", "b", JSON_MISSING, 0, NULL},
    {"{\"x\":{\"b\":1},\"a\":{\"b\":2},\"y\":{\"b\":3}}", "a", "b", JSON_FOUND, JSON_NUMBER, "2"},
    {"{\"a\":{\"b\":1},\"c\":[2,3]}", "a", "b", JSON_FOUND, JSON_NUMBER, "1"},
    {"{\"a\":{\"b\":[[1],2]},\"c\":{\"d\":4}}", "a", "b", JSON_FOUND, JSON_ARRAY, "[[1],2]"},
    {"{\"a\":1,\"c\":{\"b\":4}}", "a", "b", JSON_MISSING, 0, NULL},
    {"{\"a\":[\"b\",1]}", "a", "b", JSON_MISSING, 0, NULL},
    {"{\"x\":\"a\",\"a\":2}", NULL, "a", JSON_FOUND, JSON_NUMBER, "2"},
    /* keys by escapes, and keys that begin alike */
    {"{\"\\u0061\":1}", NULL, "a", JSON_FOUND, JSON_NUMBER, "1"},
    {"{\"a\\u006Ec\":1}", NULL, "anc", JSON_FOUND, JSON_NUMBER, "1"},
    {"{\"a\\/b\":1}", NULL, "a/b", JSON_FOUND, JSON_NUMBER, "1"},
    {"{\"a\\nb\":1}", NULL, "a\nb", JSON_FOUND, JSON_NUMBER, "1"},
    {"{\"a\\\"\":{\"\\\\\":1}}", "a\"", "\\", JSON_FOUND, JSON_NUMBER, "1"},
    {"{\"\":{\"\":1}}", "", "", JSON_FOUND, JSON_NUMBER, "1"},
    {"{\"ab\":1}", NULL, "a", JSON_MISSING, 0, NULL},
    {"{\"a\":1}", NULL, "ab", JSON_MISSING, 0, NULL},
    {"{\"a\\u0062\":1}", NULL, "a", JSON_MISSING, 0, NULL},
    {"{\"\\u0061\":1}", NULL, "ab", JSON_MISSING, 0, NULL},
    {"{\"a\\u0000\":1}", NULL, "a\0", JSON_MISSING, 0, NULL},
    {"{\"\\u0000\":1}", NULL, "\0", JSON_MISSING, 0, NULL},
    {"{\"\\u0161\":1}", NULL, "a", JSON_MISSING, 0, NULL},
    {"{\"\\ud861\":1}", NULL, "a", JSON_MISSING, 0, NULL},
    {"{\"\xc3\xa1\":1,\"A\":2,\"\\u0001\":3}", NULL, "a", JSON_MISSING, 0, NULL},
    /* twice */
    {"{\"a\":1,\"a\":1}", NULL, "a", JSON_BAD, 0, NULL},
    {"{\"a\":1,\"b\":{},\"\\u0061\":2}", NULL, "a", JSON_BAD, 0, NULL},
    {"{\"a\":{\"b\":1,\"b\":1}}", "a", "b", JSON_BAD, 0, NULL},
    {"{\"a\":{\"b\":[],\"\\u0062\":[]}}", "a", "b", JSON_BAD, 0, NULL},
    {"{\"a\":{\"b\":1},\"a\":{}}", "a", "b", JSON_BAD, 0, NULL},
    {"{\"a\":0,\"a\":{\"b\":1}}", "a", "b", JSON_BAD, 0, NULL},
    {"{\"a\":{\"b\":1},\"\\u0061\":0}", "a", "b", JSON_BAD, 0, NULL},
    {"{\"a\":{},\"a\":{}}", "a", "b", JSON_BAD, 0, NULL},
    {"{\"b\":1,\"b\":2,\"a\":3}", NULL, "a", JSON_FOUND, JSON_NUMBER, "3"},
    {"{\"a\":{\"a\":1,\"a\":2}}", NULL, "a", JSON_FOUND, JSON_OBJECT, "{\"a\":1,\"a\":2}"},
    {"{\"a\":{\"c\":1,\"c\":2,\"b\":3}}", "a", "b", JSON_FOUND, JSON_NUMBER, "3"},
    {"{\"c\":{\"b\":1,\"b\":2},\"a\":{\"b\":3}}", "a", "b", JSON_FOUND, JSON_NUMBER, "3"},
    {"{\"a\":{\"b\":{\"b\":1,\"b\":2}}}", "a", "b", JSON_FOUND, JSON_OBJECT, "{\"b\":1,\"b\":2}"},
    /* no good object */
    {"[{\"a\":1}]", NULL, "a", JSON_BAD, 0, NULL},
    {"\"a\"", NULL, "a", JSON_BAD, 0, NULL},
    {"1", NULL, "a", JSON_BAD, 0, NULL},
    {"null", NULL, "a", JSON_BAD, 0, NULL},
    {"", NULL, "a", JSON_BAD, 0, NULL},
    {"{\"a\":1}{}", NULL, "a", JSON_BAD, 0, NULL},
    {"{\"a\":1},", NULL, "a", JSON_BAD, 0, NULL},
    {"{\"a\":1", NULL, "a", JSON_BAD, 0, NULL},
    {"{\"a\":1,\"b\":[}", NULL, "a", JSON_BAD, 0, NULL},
    {"{\"a\":1,\"b\":01}", NULL, "a", JSON_BAD, 0, NULL},
    {"{\"a\":1,}", NULL, "a", JSON_BAD, 0, NULL},
    {"{\"a\":1,\"b\":\"\xff\"}", NULL, "a", JSON_BAD, 0, NULL},
    {"\xef\xbb\xbf{\"a\":1}", NULL, "a", JSON_BAD, 0, NULL},
};

Test(unit_json_pick, finds_and_rejects_by_the_table) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        slice_t text = slice_text(rows[i].text);
        char *pointer = pointer_to(rows[i].outer, rows[i].key);
        json_pick_t pick = {.pointer = pointer};
        cr_expect_eq(picks(text, &pick, 1), rows[i].found != JSON_BAD, "row %zu: %s", i, rows[i].text);
        cr_assert_eq(json_pick(text, &pick, 1), rows[i].found != JSON_BAD, "row %zu: %s", i, rows[i].text);
        cr_assert_eq(pick.found, rows[i].found, "row %zu: %s", i, rows[i].text);
        if (pick.found != JSON_FOUND) continue;
        cr_expect_eq(pick.value.type, rows[i].type, "row %zu: %s", i, rows[i].text);
        cr_expect(slice_is(pick.value.raw, rows[i].raw), "row %zu: %.*s", i, (int)pick.value.raw.len, pick.value.raw.data);
    }
}

Test(unit_json_pick, finds_many_values_in_one_walk) {
    json_pick_t wanted[] = {
        {.pointer = "/queue"},
        {.pointer = "/id"},
        {.pointer = "/taskStatus"},
        {.pointer = "/taskStatus/state"},
        {.pointer = "/taskStatus/retry"},
        {.pointer = "/taskStatus/retry"}, /* wanted twice, in the text once */
        {.pointer = "/taskStatus/gone"},
        {.pointer = "/data/retry"},
        {.pointer = "/type"},
    };
    static const char *const raws[] = {"q", "7", NULL, "normal", "2", "2", NULL, NULL, "mail"};
    enum { WANTED = sizeof wanted / sizeof *wanted };
    cr_assert(json_pick(slice_text(TASK), wanted, WANTED));
    for (size_t i = 0; i < WANTED; i++) {
        if (i == 2) continue;
        cr_assert_eq(wanted[i].found, raws[i] ? JSON_FOUND : JSON_MISSING, "pick %zu", i);
        if (raws[i]) cr_expect(slice_is(wanted[i].value.raw, raws[i]), "pick %zu", i);
    }
    cr_assert_eq(wanted[2].value.type, JSON_OBJECT);
    cr_assert_eq(wanted[2].value.raw.data + 1, strstr(wanted[2].value.raw.data, "\"excTimestamp\""));
    /* The results of the first text are gone. */
    cr_assert(json_pick(slice_text("{\"id\":1}"), wanted, WANTED));
    for (size_t i = 0; i < WANTED; i++) cr_expect_eq(wanted[i].found, i == 1 ? JSON_FOUND : JSON_MISSING, "pick %zu", i);
    /* A key that occurs twice makes all picks bad. */
    cr_assert_not(json_pick(slice_text("{\"id\":1,\"queue\":\"q\",\"queue\":\"r\"}"), wanted, WANTED));
    for (size_t i = 0; i < WANTED; i++) cr_expect_eq(wanted[i].found, JSON_BAD, "pick %zu", i);
    cr_assert_not(json_pick(slice_text("{\"taskStatus\":{\"gone\":1,\"gone\":2},\"id\":1}"), wanted, WANTED));
}

Test(unit_json_pick, accepts_at_most_json_max_picks) {
    char keys[JSON_MAX_PICKS + 1][8];
    json_pick_t wanted[JSON_MAX_PICKS + 1];
    buffer_t text = {0};
    for (int i = 0; i <= JSON_MAX_PICKS; i++) {
        snprintf(keys[i], sizeof keys[i], i % 2 ? "/o/k%d" : "/k%d", i);
        wanted[i] = (json_pick_t){.pointer = keys[i]};
    }
    buffer_str(&text, "{\"o\":{");
    for (int i = 1; i < JSON_MAX_PICKS; i += 2) buffer_printf(&text, "\"\\u006b%d\":%d,", i, i);
    buffer_str(&text, "\"x\":0}");
    for (int i = 0; i < JSON_MAX_PICKS; i += 2) buffer_printf(&text, ",\"k%d\":%d", i, i);
    buffer_str(&text, "}");
    cr_assert(json_pick(slice_of(&text), wanted, JSON_MAX_PICKS));
    for (int i = 0; i < JSON_MAX_PICKS; i++) {
        int64_t value = -1;
        cr_assert(wanted[i].found == JSON_FOUND && json_integer(wanted[i].value.raw, &value), "pick %d of %s", i, text.data);
        cr_assert_eq(value, i);
    }
    cr_assert_not(json_pick(slice_of(&text), wanted, JSON_MAX_PICKS + 1));
    cr_assert_eq(wanted[JSON_MAX_PICKS].found, JSON_BAD);
    buffer_free(&text);
    cr_assert(json_pick(slice_text("{\"a\":1,\"a\":2}"), NULL, 0), "a good object, of which nothing is wanted");
    cr_assert_not(json_pick((slice_t){NULL, 0}, NULL, 0));
}

/* Far beyond the bounds of json_find. */
Test(unit_json_pick, reads_texts_of_any_size) {
    scoped(buffer_free) buffer_t text = {0};
    buffer_str(&text, "{\"data\":[");
    while (text.len < 20 * 1024 * 1024)
        buffer_str(&text, "{\"a\":\"0123456789abcdef\\\"\\\\\xe2\x82\xac\",\"b\":[1,-2.5e3,null]},\n");
    buffer_str(&text, "0],\"s\":{\"retry\":41}}");
    json_pick_t wanted[] = {{.pointer = "/s/retry"}, {.pointer = "/data"}};
    cr_assert(json_pick(slice_of(&text), wanted, 2));
    cr_assert(slice_is(wanted[0].value.raw, "41"));
    cr_assert_eq(wanted[1].value.raw.len, text.len - sizeof "{\"data\":" - sizeof ",\"s\":{\"retry\":41}}" + 2);
    text.data[text.len / 2 + 1] = '\x01'; /* one bad byte in the middle of the text */
    cr_assert_not(json_pick(slice_of(&text), wanted, 2));
}

Test(unit_json_pick, bounds_of_depth) {
    for (int depth = 2; depth <= JSON_MAX_DEPTH + 2; depth++) {
        for (int object = 0; object < 2; object++) {
            scoped(buffer_free) buffer_t text = {0};
            buffer_str(&text, "{\"deep\":");
            for (int i = 1; i < depth; i++) buffer_str(&text, object ? "{\"a\":" : "[");
            buffer_str(&text, "0");
            for (int i = 1; i < depth; i++) buffer_str(&text, object ? "}" : "]");
            buffer_str(&text, ",\"a\":7}");
            json_pick_t pick = {.pointer = "/a"};
            cr_assert_eq(picks(slice_of(&text), &pick, 1), depth <= JSON_MAX_DEPTH, "%d", depth);
        }
    }
}

/* json_pick checks strings 8 bytes at a time: it must find a bad byte at each position. */
Test(unit_json_pick, checks_every_byte_of_a_string) {
    for (int byte = 0; byte < 256; byte++) {
        for (size_t at = 0; at < 20; at++) {
            char text[] = "{\"a\":\"01234567890123456789\"}";
            text[6 + at] = (char)byte;
            json_pick_t pick = {.pointer = "/a"};
            bool good = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
            cr_assert_eq(picks(slice_text(byte ? text : "{\"a\":\""), &pick, 1), good, "byte %d at %zu", byte, at);
            if (!byte) cr_assert_not(picks((slice_t){text, sizeof text - 1}, &pick, 1), "a NUL byte at %zu", at);
        }
    }
}

static const struct {
    const char *raw;
    bool good;
    int64_t value;
} integers[] = {
    {"0", true, 0},
    {"-0", true, 0},
    {"7", true, 7},
    {"-12", true, -12},
    {"9223372036854775807", true, INT64_MAX},
    {"-9223372036854775808", true, INT64_MIN},
    {"9223372036854775808", false, 0},
    {"-9223372036854775809", false, 0},
    {"99999999999999999999999999999999", false, 0},
    {"", false, 0},
    {"-", false, 0},
    {"--1", false, 0},
    {"+1", false, 0},
    {"01", false, 0},
    {"-01", false, 0},
    {"00", false, 0},
    {"1.0", false, 0},
    {"1e3", false, 0},
    {"1E3", false, 0},
    {" 1", false, 0},
    {"1 ", false, 0},
    {"0x1", false, 0},
    {"true", false, 0},
};

Test(unit_json_pick, integers) {
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        int64_t value = 77;
        cr_expect_eq(json_integer(slice_text(integers[i].raw), &value), integers[i].good, "%s", integers[i].raw);
        cr_expect_eq(value, integers[i].good ? integers[i].value : 77, "%s: %" PRId64, integers[i].raw, value);
    }
    int64_t value;
    cr_expect_not(json_integer((slice_t){NULL, 0}, &value));
    cr_expect(json_integer((slice_t){"123", 2}, &value) && value == 12, "it reads no byte behind the slice");
}
