/* Words of filters. */
#include "operate/filter.h"
#include "suite.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"

static void expect_check(audit_filter_t filter, const char *expected) {
    scoped(buffer_free) buffer_t why = {0};
    cr_expect_eq(filter_check(&filter, "--", &why), !*expected);
    cr_expect_str_eq(buffer_text(&why), expected);
}

Test(unit_filter, conditions_that_do_not_fit_together_are_refused) {
    expect_check((audit_filter_t){.since_ms = 1, .until_ms = 2, .grep = "a", .ignore_case = true, .state = "requeued"}, "");
    expect_check((audit_filter_t){.since_ms = 2, .until_ms = 2}, "--since must be before --until");
    expect_check((audit_filter_t){.grep = ""}, "--grep needs a text");
    expect_check((audit_filter_t){.trace = TRACE}, "");
    static const char *const wrong[] = {"", "4bf9", TRACE "0", "4BF92F3577B34DA6A3CE929D0E0E4736",
                                        "00-" TRACE "-00f067aa0ba902b7-01"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_check((audit_filter_t){.trace = wrong[i]}, "--trace needs the 32 hex digits of a trace id, in lower case");
    expect_check((audit_filter_t){.ignore_case = true}, "--ignore-case is for --grep: add a text");
    expect_check((audit_filter_t){.state = "failed", .kind = "gap"}, "--state is of final failures: omit --kind gap");
    expect_check((audit_filter_t){.state = "failed", .kind = "failed"}, "");
    expect_check((audit_filter_t){.state = "failed", .all_kinds = true}, "");
}

Test(unit_filter, open_is_failed) {
    scoped(buffer_free) buffer_t why = {0};
    audit_filter_t filter = {.state = "open"};
    cr_expect(filter_check(&filter, "", &why));
    cr_expect_str_eq(filter.state, "failed");
}

/* The whole log may be of one state and one group, so they do not choose what to requeue. */
Test(unit_filter, only_some_conditions_choose_among_failures) {
    static const audit_filter_t narrow[] = {{.queue = "a"},  {.reason = "a"}, {.type = ""},    {.job = "a"},
                                            {.worker = "a"}, {.grep = "a"},   {.since_ms = 1}, {.until_ms = 1}};
    static const audit_filter_t broad[] = {{.state = "failed"}, {.group = "g"}}, none[] = {{0}, {.kind = "failed"}, {.limit = 5}};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        cr_expect(filter_narrows(&narrow[i]) && filter_is_given(&narrow[i]), "%zu", i);
    for (size_t i = 0; i < sizeof broad / sizeof *broad; i++)
        cr_expect(!filter_narrows(&broad[i]) && filter_is_given(&broad[i]), "%zu", i);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) cr_expect(!filter_is_given(&none[i]), "%zu", i);
}

Test(unit_filter, a_word_near_a_time_is_suggested) {
    scoped(buffer_free) buffer_t why = {0};
    int64_t ms = 0;
    cr_expect(filter_read_time("2h30m", true, &ms, &why));
    cr_expect(!filter_read_time("yestreday", true, &ms, &why));
    cr_expect(strstr(buffer_text(&why), "`yestreday`: did you mean `yesterday`?"), "%s", buffer_text(&why));
}
