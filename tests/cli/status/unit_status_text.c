/* The text of `status` on narrow terminals, and its quotes for a shell. */
#include "operate/status/checks.h"
#include "operate/status/status_fixture.h"

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

/* At two in the morning the first line must name the cause. */
Test(unit_status_text, the_first_line_is_the_verdict) {
    scoped(end) world_t w = well("defaults = { heartbeat = \"off\"; }; queues = ( { name = \"email\"; }, { name = \"sms\"; } );");
    cr_assert_eq(strncmp(text_of(&w, 100), "all is well\ngroup ", 18), 0, "%s", text_of(&w, 100));
    w.s.recent[1] = (status_recent_t){.failed = 6, .reasons = {6}};
    w.s.recent[0] = (status_recent_t){.failed = 1, .reasons = {1}, .partial = true};
    w.s.log.open_gaps = 1;
    char *failed = text_of(&w, 100);
    cr_assert_eq(strncmp(failed, "at least 7 final failures in the last hour; 1 note: the local audit log has 1 gap", 80), 0,
                 "%s", failed);
    w.s.recent[1].answered = 6;
    failed = text_of(&w, 100);
    cr_assert_eq(strncmp(failed, "at least 1 final failure in the last hour; 1 note: ", 51), 0, "%s", failed);
    w.s.recent[0].answered = 1;
    failed = text_of(&w, 100);
    cr_assert_eq(strncmp(failed, "all is well; 1 note: the local audit log has 1 gap", 50), 0, "%s", failed);
    w.s.snapshot.queues[1].served = false;
    const char *verdict = "1 fault, 1 note: queue \"sms\": pod-1/1 does not serve this queue\n";
    cr_assert_eq(strncmp(text_of(&w, 100), verdict, strlen(verdict)), 0, "%s", text_of(&w, 100));
}

/* Redis takes no writes, so no instance leads, and the one on this machine is not ready. */
Test(unit_status_text, consequences_of_a_cause_are_no_findings) {
    static const struct { const char *check, *code; } rows[] = {{"lock", "preflight"}, {"redis", "redis_unreachable"}};
    for (size_t i = 0; i < 2; i++) {
        static char why[] = "no scripts";
        scoped(end) world_t w = well("queues = ( { name = \"email\"; } );");
        w.s.local.count = 1;
        snprintf(w.s.local.checks[0].name, sizeof w.s.local.checks[0].name, "%s", rows[i].check);
        snprintf(w.s.local.checks[0].why, sizeof w.s.local.checks[0].why, "refused");
        w.s.snapshot.locks[0] = (snapshot_lock_t){.pttl_ms = -2};
        w.s.reached = i == 0;
        w.s.preflight = mem_array(1, sizeof *w.s.preflight);
        w.s.preflight_count = i == 0;
        w.s.preflight[0] = (status_preflight_t){.kind = PREFLIGHT_REFUSED, .queue = SIZE_MAX, .text = why};
        scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
        cr_assert(found.count == 1 && strcmp(found.items[0].code, rows[i].code) == 0, "%zu findings, the first is %s",
                  found.count, found.items[0].code);
    }
}

Test(unit_status_text, idle_queues_share_a_line) {
    scoped(end) world_t w =
        well("queues = ( { name = \"a\"; }, { name = \"b\"; }, { name = \"c\"; }, { name = \"d\"; }, { name = \"e\"; },"
             " { name = \"f\"; } );");
    w.s.sizes[1].delayed = 1; /* each of these keeps its row */
    w.s.snapshot.queues[4].served = false;
    char *text = text_of(&w, 100);
    cr_assert(strstr(text, "\nb ") && strstr(text, "\ne ") && strstr(text, "\n4 idle queues: a, c, d, f\n"), "%s", text);
    cr_assert(!strstr(text, "\na ") && !strstr(text, "\nf "), "%s", text);
    w.s.sizes[0].ready = 1;
    text = text_of(&w, 100);
    cr_assert(strstr(text, "\nc ") && !strstr(text, "idle queues"), "few idle queues have rows: %s", text);
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
