/* The parts of a payload that page and API may show. */
#include "operate/hide.h"
#include "suite.h"

enum { MIB = 1 << 20 };

/* Hides the values of up to three pointers. Kept until the test ends. */
static char *hide(const char *one, const char *two, slice_t payload) {
    char *pointers[] = {(char *)(uintptr_t)one, (char *)(uintptr_t)two};
    scoped(buffer_free) buffer_t memory = {0};
    slice_t shown = hide_payload(&(strings_t){pointers, two ? 2 : one ? 1 : 0}, payload, &memory);
    return kept_printf("%.*s", (int)shown.len, shown.data);
}

static const struct {
    const char *one, *two, *payload, *shown; /* shown NULL: the payload */
} rows[] = {
    {NULL, NULL, "no JSON", NULL},
    {"/card", NULL, "{\"id\":1,\"card\":\"4111\",\"n\":2}", "{\"id\":1,\"card\":\"(hidden)\",\"n\":2}"},
    {"/card", NULL, "{\"card\":4111}", "{\"card\":\"(hidden)\"}"},
    {"/card", NULL, "{\"card\":null}", "{\"card\":\"(hidden)\"}"},
    {"/card", NULL, "{\"card\":\"\"}", "{\"card\":\"(hidden)\"}"},
    {"/card", NULL, " { \"card\" : {\"n\": [1, 2]} } ", " { \"card\" : \"(hidden)\" } "},
    {"/card", NULL, "{\"x\":{\"card\":1}}", NULL},
    {"/card/n", "/name", "{\"card\":{\"n\":1,\"m\":2},\"name\":\"Ann\"}",
     "{\"card\":{\"n\":\"(hidden)\",\"m\":2},\"name\":\"(hidden)\"}"},
    /* a value within another, and the same twice */
    {"/card/n", "/card", "{\"card\":{\"n\":1}}", "{\"card\":\"(hidden)\"}"},
    {"/card", "/card/n", "{\"card\":{\"n\":1}}", "{\"card\":\"(hidden)\"}"},
    {"/card", "/card", "{\"card\":1}", "{\"card\":\"(hidden)\"}"},
    /* keys as the text may write them */
    {"/card", NULL, "{\"c\\u0061rd\":1}", "{\"c\\u0061rd\":\"(hidden)\"}"},
    {"/a~1b", "/c~0d", "{\"a/b\":1,\"c~d\":2,\"a~1b\":3}", "{\"a/b\":\"(hidden)\",\"c~d\":\"(hidden)\",\"a~1b\":3}"},
    {"/", NULL, "{\"\":1}", "{\"\":\"(hidden)\"}"},
    {"/\xc3\xa9", NULL, "{\"\\u00e9\":1}", "{\"\\u00e9\":\"(hidden)\"}"},
    /* arrays, also as the whole payload */
    {"/a/1", NULL, "{\"a\":[1,2,3]}", "{\"a\":[1,\"(hidden)\",3]}"},
    {"/1/n", NULL, " [{\"n\":1},{\"n\":2}]", " [{\"n\":1},{\"n\":\"(hidden)\"}]"},
    {"/n", NULL, "[]", NULL},
    {"/0/n", NULL, "[{\"n\":1,\"n\":2}]", HIDDEN},
    /* parsers disagree, or there is nothing to disagree about */
    {"/card", NULL, "{\"card\":1,\"card\":2}", HIDDEN},
    {"/card", NULL, "{\"card\":1,\"c\\u0061rd\":2}", HIDDEN},
    {"/card/n", NULL, "{\"card\":{\"n\":1},\"card\":{}}", HIDDEN},
    {"/card", NULL, "{\"n\":1,\"n\":2}", NULL},
    {"/card", NULL, "{\"card\":1", HIDDEN},
    {"/card", NULL, "{\"card\":1}x", HIDDEN},
    {"/card", NULL, "{'card':1}", HIDDEN},
    {"/card", NULL, "\xef\xbb\xbf{\"card\":1}", HIDDEN},
    {"/card", NULL, "card=4111", HIDDEN},
    {"/card", NULL, "", HIDDEN},
    {"/card", NULL, " ", HIDDEN},
    {"/card", NULL, "\"{\\\"card\\\":4111}\"", HIDDEN},
    {"/card", NULL, "4111", HIDDEN},
};

Test(unit_hide, values_of_the_pointers_are_replaced) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *shown = hide(rows[i].one, rows[i].two, slice_text(rows[i].payload));
        cr_expect_str_eq(shown, rows[i].shown ? rows[i].shown : rows[i].payload, "%zu: %s", i, rows[i].payload);
    }
}

/* Bytes that are no UTF-8 are no JSON. */
Test(unit_hide, bytes_that_are_no_text_hide_the_payload) {
    cr_assert_str_eq(hide("/card", NULL, slice_text("{\"a\":\"\xff\xfe\",\"card\":4111}")), HIDDEN);
    cr_assert_str_eq(hide("/card", NULL, slice_text("{\"card\":\"\xc3\x28 4111\"}")), HIDDEN);
    cr_assert_str_eq(hide("/card", NULL, slice_text("{\"card\":4111,\"\xff\":1}")), HIDDEN);
    static const char with_nul[] = "{\"a\":1}\0{\"card\":4111}";
    cr_assert_str_eq(hide("/card", NULL, (slice_t){with_nul, sizeof with_nul - 1}), HIDDEN);
    cr_assert_str_eq(hide("/card", NULL, (slice_t){"\0[1]", 4}), HIDDEN);
}

Test(unit_hide, deep_payloads_are_hidden_as_a_whole) {
    scoped(buffer_free) buffer_t payload = {0};
    buffer_str(&payload, "{\"card\":4111,\"a\":");
    for (int i = 0; i < 1000; i++) buffer_str(&payload, "[");
    for (int i = 0; i < 1000; i++) buffer_str(&payload, "]");
    buffer_str(&payload, "}");
    cr_assert_str_eq(hide("/card", NULL, (slice_t){payload.data, payload.len}), HIDDEN);
}

Test(unit_hide, large_payloads_are_searched_to_their_end) {
    scoped(buffer_free) buffer_t payload = {0}, memory = {0};
    char *pointers[] = {"/text", "/card"};
    buffer_str(&payload, "{\"text\":\"");
    for (int i = 0; i < 8 * MIB / 16; i++) buffer_str(&payload, "0123456789abcdef");
    buffer_str(&payload, "\",\"card\":4111}");
    slice_t shown = hide_payload(&(strings_t){pointers, 2}, (slice_t){payload.data, payload.len}, &memory);
    cr_assert_str_eq(kept_printf("%.*s", (int)shown.len, shown.data), "{\"text\":\"(hidden)\",\"card\":\"(hidden)\"}");
    buffer_clear(&memory);
    shown = hide_payload(&(strings_t){&pointers[1], 1}, (slice_t){payload.data, payload.len}, &memory);
    cr_assert_eq(shown.len, payload.len - 4 + strlen("\"" HIDDEN "\""));
    cr_assert_null(memmem(shown.data, shown.len, "4111", 4));
}

/* An array that the reader of arrays does not take. */
Test(unit_hide, large_arrays_are_hidden_as_a_whole) {
    scoped(buffer_free) buffer_t payload = {0};
    buffer_str(&payload, "[4111");
    for (int i = 0; i < 10000; i++) buffer_str(&payload, ",1");
    buffer_str(&payload, "]");
    cr_assert_str_eq(hide("/0", NULL, (slice_t){payload.data, payload.len}), HIDDEN);
}

Test(unit_hide, more_pointers_than_a_queue_may_have_hide_the_payload) {
    char *pointers[HIDE_MAX + 1];
    scoped(buffer_free) buffer_t memory = {0};
    for (int i = 0; i <= HIDE_MAX; i++) pointers[i] = kept_printf("/p%d", i);
    slice_t payload = slice_text("{\"p15\":4111}"), shown = hide_payload(&(strings_t){pointers, HIDE_MAX}, payload, &memory);
    cr_assert(slice_is(shown, "{\"p15\":\"(hidden)\"}"));
    cr_assert(slice_is(hide_payload(&(strings_t){pointers, HIDE_MAX + 1}, payload, &memory), HIDDEN));
}
