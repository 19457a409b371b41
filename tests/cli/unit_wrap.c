/* The word wrapper of help and status. */
#include "cli/terminal.h"
#include "suite.h"

static void expect_wrapped(const char *text, wrap_t wrap, const char *expected) {
    scoped(buffer_free) buffer_t out = {0};
    wrap_add(&out, text, strlen(text), &wrap);
    cr_expect_str_eq(buffer_text(&out), expected, "<%s> became <%s>", text, buffer_text(&out));
}

Test(unit_wrap, breaks_lines_between_words) {
    expect_wrapped("one two three", (wrap_t){.width = 8}, "one two\nthree\n");
    expect_wrapped("one two three", (wrap_t){.width = 8, .indent = 2, .column = 2}, "one\n  two\n  three\n");
    expect_wrapped("a\n\nb", (wrap_t){.width = 8}, "a\n\nb\n");
    expect_wrapped("", (wrap_t){.width = 8}, "\n");
}

Test(unit_wrap, keeps_quoted_and_bracketed_words_together) {
    expect_wrapped("see `a b` now", (wrap_t){.width = 8}, "see\n`a b`\nnow\n");
    expect_wrapped("x [-c FILE] y", (wrap_t){.width = 8, .brackets = true}, "x\n[-c FILE]\ny\n");
    expect_wrapped("it`s a b c d e", (wrap_t){.width = 8}, "it`s a b\nc d e\n");
}

Test(unit_wrap, breaks_a_long_word_only_where_it_must_fit) {
    expect_wrapped("abcdefghij k", (wrap_t){.width = 4}, "abcdefghij\nk\n");
    expect_wrapped("abcdefghij k", (wrap_t){.width = 4, .hard = true}, "abcd\nefgh\nij k\n");
    expect_wrapped("\xc3\xa4\xc3\xb6\xc3\xbc x", (wrap_t){.width = 3}, "\xc3\xa4\xc3\xb6\xc3\xbc\nx\n");
}
