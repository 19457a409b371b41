/* Candidates of the hidden command `complete`, by the words that bash passes. */
#include "base/buffer.h"
#include "cli/cli.h"
#include "suite.h"

enum { WORDS_MAX = 8 };

/* The candidates for these words, each followed by a space, without descriptions. Kept. */
static char *candidates(const char *const *words) {
    char *typed[WORDS_MAX] = {NULL}, *printed = NULL;
    size_t size = 0;
    int count = 0;
    for (; words[count]; count++) typed[count] = mem_str(words[count]);
    FILE *old = stdout;
    stdout = open_memstream(&printed, &size);
    cr_assert_eq(complete_print(cli_commands, count, typed), 0);
    fclose(stdout);
    stdout = old;
    buffer_t out = {0};
    for (const char *line = printed; *line; line = strchr(line, '\n') + 1)
        buffer_printf(&out, "%.*s ", (int)strcspn(line, "\t\n"), line);
    while (count > 0) free(typed[--count]);
    free(printed);
    return kept(out.data ? out.data : mem_str(""));
}

Test(unit_complete, offers_words_for_each_position) {
    static const struct {
        const char *words[WORDS_MAX], *candidates;
    } rows[] = {
        {{"r"}, "run "},
        {{"--v"}, "--version "},
        {{"audit", "re"}, "requeue "},
        {{"audit", "nonsense", ""}, ""},
        {{"jobs", ""}, "list run cancel "},
        {{"jobs", "list", "q", "--state", "r"}, "ready "},
        {{"check", "--r"}, "--redis "},
        {{"check", "-c", ""}, "<files> "},
        {{"check", "-c", "x", "--r"}, "--redis "},
        {{"status", "-o", "j"}, "json "},
        {{"status", "--output=j"}, "--output=json "},
        {{"status", "-oj"}, "-ojson "},
        {{"help", "au"}, "audit "},
        {{"help", "man", ""}, "1 5 "},
        {{"version", ""}, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *got = candidates(rows[i].words);
        cr_expect_str_eq(got, rows[i].candidates, "row %zu: %s", i, got);
    }
}

Test(unit_complete, joins_words_that_bash_splits) {
    static const char *const rows[][WORDS_MAX] = {{"status", "--output", "=", "j"}, {"status", "--outp", "ut=j"}};
    char *split = candidates(rows[0]), *apart = candidates(rows[1]);
    cr_expect_str_eq(split, "json ");
    cr_expect_str_eq(apart, "", "a space separates words: %s", apart);
}

Test(unit_complete, reads_quotes_as_a_shell_does) {
    static const char *const rows[][WORDS_MAX] = {{"status", "'-o'", "j"}, {"status", "-\\o", "\"j"}, {"\"sta"}};
    static const char *const expected[] = {"json ", "json ", "status "};
    for (size_t i = 0; i < 3; i++) {
        char *got = candidates(rows[i]);
        cr_expect_str_eq(got, expected[i], "row %zu: %s", i, got);
    }
}
