/* The text of `status` on narrow terminals, and its quotes for a shell. */
#include "cli/status/checks.h"
#include "status_fixture.h"

static char *text_of(world_t *w, size_t width) {
    buffer_t out = {0};
    scoped(status_findings_free) status_findings_t found = status_diagnose(&w->s, NULL);
    status_text(&w->s, &found, &(status_view_t){.width = width, .utc = true}, &out);
    return kept(out.data);
}

/* A cut inside a number would show another number. */
Test(unit_status_text, a_narrow_terminal_cuts_between_words) {
    scoped(end) world_t w = well("queues = ( { name = \"email\"; }, { name = \"sms\"; } );");
    size_t cut = 0;
    for (size_t i = 0; i < 2; i++) w.s.recent[i] = (status_recent_t){.retried = 6543, .failed = 4564};
    char *wide = text_of(&w, 87);
    for (size_t width = 20; width < 87; width++) {
        char *narrow = text_of(&w, width);
        for (const char *at = narrow; *at; at += strcspn(at, "\n") + 1) {
            size_t len = strcspn(at, "\n");
            if (strncmp(at, "email ", 6) != 0 || strncmp(at + len - 3, "…", 3) != 0) continue;
            const char *whole = strstr(wide, "\nemail ");
            cr_assert_eq(strncmp(whole + 1, at, len - 3), 0, "%s", narrow);
            cr_assert(whole[len - 2] == ' ' || whole[len - 3] == ' ', "%s", narrow);
            cut++;
        }
    }
    cr_assert_gt(cut, 20);
}

/* Late jobs make cells wider; the row must still fit. */
Test(unit_status_text, a_row_with_every_trouble_fits_80_columns) {
    scoped(end) world_t w = well("queues = ( { name = \"webhooks-outgoing\"; } );");
    w.s.sizes[0].now_ms = w.s.snapshot.now_ms;
    w.s.sizes[0].next_due_ms = w.s.snapshot.now_ms - 59 * 60000;
    w.s.sizes[0].ready = 50123;
    w.s.sizes[0].oldest_in_progress_ms = w.s.snapshot.now_ms - 59 * 60000;
    w.s.recent[0] = (status_recent_t){.retried = 50123, .failed = 50123, .partial = true};
    w.s.snapshot.queues[0].stream.length = 50123;
    w.s.snapshot.queues[0].uncopied_ms = w.s.snapshot.now_ms - 59 * 60000;
    char *text = text_of(&w, 80);
    cr_assert(strstr(text, "   FAILED        AUDIT\n"), "%s", text);
    cr_assert(strstr(text, "  59 min  50,123+  59 min late\n"), "%s", text);
    cr_assert(strstr(text, "\nFAILED counts the last hour") && !strstr(text, "RETRIED"), "%s", text);
    text = text_of(&w, 100);
    cr_assert(strstr(text, "RETRIED and FAILED count the last hour") && strstr(text, "  RETRIED  "), "%s", text);
}

Test(unit_status_text, quotes_words_for_a_shell) {
    static const char *const words[][2] = {{"email", "email"}, {"x y", "'x y'"}, {"it's", "'it'\\''s'"}, {"-c", "'-c'"},
                                           {"", "''"},         {"{a}", "'{a}'"}, {"a$b", "'a$b'"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        scoped(buffer_free) buffer_t out = {0};
        shell_word(&out, words[i][0]);
        cr_assert_str_eq(buffer_text(&out), words[i][1]);
    }
}
