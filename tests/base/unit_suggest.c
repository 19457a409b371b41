
#include "base/text/suggest.h"
#include "suite.h"

typedef struct row {
    const char *word;
    const char *nearest; // NULL = none
} row_t;

static const char *const known[] = {"protected_timeout", "retry_times", "retry_delay", "host", NULL, "port", "ttl"};

Test(unit_suggest, finds_the_nearest_word_or_none) {
    static const row_t rows[] = {
        {"protected_timeuot", "protected_timeout"}, // neighbours swapped
        {"protectedtimeout", "protected_timeout"},  // one letter missing
        {"retry_time", "retry_times"},
        {"retry-delay", "retry_delay"}, // - for _ does not count
        {"HOST", "host"},               // case does not count
        {"hots", "host"},
        {"tlt", "ttl"}, // a swap is one edit, and two would be too many
        {"prot", "port"},
        {"tl", "ttl"},
        {"xx", NULL},
        {"tttl", "ttl"},
        {"x", NULL},
        {"", NULL},
        {"batch", NULL},
        {"completely_different", NULL},
        {"host", "host"},
        {"protect", "protected_timeout"}, // its beginning
        {"RETRY-T", "retry_times"},
        {"retry_", NULL}, // the beginning of two
        {"p", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = suggest_nearest(rows[i].word, known, sizeof known / sizeof *known);
        if (rows[i].nearest)
            cr_expect_str_eq(got ? got : "none", rows[i].nearest, "%s", rows[i].word);
        else
            cr_expect_null(got, "%s gave %s", rows[i].word, got);
    }
}

Test(unit_suggest, prefers_the_first_of_equals) {
    static const char *const pair[] = {"bart", "bark"};
    cr_expect_str_eq(suggest_nearest("barx", pair, 2), "bart");
}

Test(unit_suggest, knows_a_beginning_of_the_same_word_twice) {
    static const char *const twice[] = {"created_path", "created_path"};
    cr_expect_str_eq(suggest_nearest("crea", twice, 2), "created_path");
}

Test(unit_suggest, ignores_words_too_long_for_a_typo) {
    char word[300];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    const char *const same[] = {word};
    cr_expect_null(suggest_nearest(word, same, 1));
    cr_expect_null(suggest_nearest("host", same, 1));
    cr_expect_null(suggest_nearest("host", NULL, 0));
}
