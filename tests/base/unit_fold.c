/* Search without regard to case. */
#include "base/text/fold.h"

#include <criterion/criterion.h>

Test(unit_fold, finds_both_cases_of_a_letter) {
    static const struct {
        const char *text, *wanted;
        bool found;
    } rows[] = {
        {"SMTP Timeout", "smtp timeout", true},
        {"smtp timeout", "TIMEOUT", true},
        {"aaab", "AAB", true},
        {"[@`{", "{`@[", false},
        {"zażółć gęślą jaźń", "GĘŚLĄ JAŹŃ", true},
        {"ÀÖØÞ×ÿ", "àöøþ×Ÿ", true},
        {"ĀĹŊŹ", "āĺŋź", true},
        {"ΆΈΌΎΏ ΑΡΣΫ ς", "άέόύώ αρσϋ σ", true},
        {"ЀЏ АЯ Ѡ Ҋ Ӏ Ӂ Ԯ", "ѐџ ая ѡ ҋ ӏ ӂ ԯ", true},
        {"×", "÷", false},
        {"Straße", "STRASSE", false},
        {"İ", "i", false},
        {"Ա", "ա", false},
        {"short", "shorter", false},
        {"", "a", false},
        {"a", "", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(fold_find(slice_text(rows[i].text), slice_text(rows[i].wanted)), rows[i].found, "%s in %s", rows[i].wanted,
                     rows[i].text);
}

Test(unit_fold, bytes_that_are_no_text_are_compared_as_they_are) {
    static const char text[] = "\0\xff\xc3\xc3\x89\xd0";
    slice_t all = {text, sizeof text - 1};
    cr_expect(fold_find(all, (slice_t){"\0\xff", 2}));
    cr_expect(fold_find(all, slice_text("\xc3\xa9")), "e acute behind half a letter");
    cr_expect(fold_find(all, slice_text("\xd0")));
    cr_expect(!fold_find(all, slice_text("\xd0\x90")));
    cr_expect(!fold_find(all, slice_text("\xdf")));
    cr_expect(fold_find(all, all));
    cr_expect(!fold_find(slice_cut(slice_text("shorter"), 5), slice_text("shorter")));
    cr_expect(!fold_find((slice_t){NULL, 0}, slice_text("a")));
}
