/* base/: log, backoff, clock, buffer, UTF-8, wake-ups. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "base/wakeup.h"
#include "fixture.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>

/* The last line of the log from its second field on, kept. */
static char *last_line(void) {
    char *log = fixture_log();
    size_t len = strlen(log);
    cr_assert(len > 0 && log[len - 1] == '\n');
    log[len - 1] = '\0';
    char *line = strrchr(log, '\n') ? strrchr(log, '\n') + 1 : log;
    char *copy = mem_str(line);
    return kept(copy);
}

static void expect_line_end(const char *expected) {
    char *line = last_line();
    size_t len = strlen(line), want = strlen(expected);
    cr_assert(len >= want && strcmp(line + len - want, expected) == 0, "got      %s\nexpected ...%s", line, expected);
}

static void start_json(void) {
    fixture_capture_log();
    log_setup(LOG_INFO, 1);
}

TestSuite(unit_log, .init = start_json);

Test(unit_log, writes_one_object_per_line) {
    log_info("leader", "email", "hello", F_STR("a", "b"), F_INT("n", INT64_MIN), F_NUM("x", 0.5));
    char *line = last_line();
    int year, month, day, hour, minute, second, ms, used = 0;
    cr_assert_eq(
        sscanf(line, "{\"ts\":\"%4d-%2d-%2dT%2d:%2d:%2d.%3dZ\",%n", &year, &month, &day, &hour, &minute, &second, &ms, &used), 7);
    cr_assert_str_eq(line + used, "\"level\":\"info\",\"msg\":\"hello\",\"role\":\"leader\",\"queue\":\"email\",\"a\":\"b\","
                                  "\"n\":-9223372036854775808,\"x\":0.5}");
}

Test(unit_log, omits_null_fields) {
    log_info("leader", NULL, "hello", F_STR("a", NULL), F_INT("n", 0));
    expect_line_end("\"msg\":\"hello\",\"role\":\"leader\",\"n\":0}");
}

Test(unit_log, escapes_bytes_that_json_forbids) {
    static const struct {
        const char *text, *json;
    } rows[] = {
        {"a\"b\\c", "a\\\"b\\\\c"},
        {"\x01\x1f\n\r\t\x7f", "\\u0001\\u001f\\u000a\\u000d\\u0009\\u007f"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff|\xc3|\xe2\x82|\x80", "\\ufffd|\\ufffd|\\ufffd\\ufffd|\\ufffd"},
        {"\xc0\x80", "\\ufffd\\ufffd"},
        {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},
        {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *expected =
            kept_printf("\"level\":\"info\",\"msg\":\"%s\",\"role\":\"r\",\"k\":\"%s\"}", rows[i].json, rows[i].json);
        log_info("r", NULL, rows[i].text, F_STR("k", rows[i].text));
        expect_line_end(expected);
    }
}

Test(unit_log, writes_nan_and_infinity_as_strings) {
    log_info("r", NULL, "m", F_NUM("a", INFINITY), F_NUM("b", -INFINITY), F_NUM("c", NAN));
    expect_line_end("\"a\":\"inf\",\"b\":\"-inf\",\"c\":\"nan\"}");
}

Test(unit_log, writes_text_in_one_line) {
    log_setup(LOG_DEBUG, 0);
    log_debug("r", "q", "line\nbreak", F_STR("a", "plain"), F_STR("b", "two words"), F_STR("c", ""), F_STR("d", "e\\f\x1b[2J"),
              F_STR("g", "say \"x=1\""), F_STR("h", "\xc2\xad\xe2\x80\xae \xc2\x9b"));
    expect_line_end(" debug line\\u000abreak role=r queue=q a=plain b=\"two words\" c=\"\" d=e\\\\f\\u001b[2J "
                    "g=\"say \\\"x=1\\\"\" h=\"\\u00ad\\u202e \\u009b\"");
}

Test(unit_log, suppresses_lower_levels) {
    log_setup(LOG_WARN, 1);
    log_info("r", NULL, "quiet");
    log_debug("r", NULL, "quiet");
    log_warn("r", NULL, "heard");
    log_error("r", NULL, "heard");
    cr_assert_eq(fixture_log_count("quiet"), 0);
    cr_assert_eq(fixture_log_count("heard"), 2);
}

Test(unit_log, limits_and_counts_repeats) {
    for (int i = 0; i < 7; i++) log_warn("r", "q", "again", F_INT("n", i));
    cr_assert_eq(fixture_log_count("again"), 1);
    expect_line_end("\"queue\":\"q\",\"n\":0}");
    fixture_step_boottime(9900);
    log_warn("r", "q", "again", F_INT("n", 7));
    cr_assert_eq(fixture_log_count("again"), 1);
    fixture_step_boottime(200);
    log_warn("r", "q", "again", F_INT("n", 8));
    expect_line_end("\"n\":8,\"repeated\":7}");
    fixture_step_boottime(10100);
    log_warn("r", "q", "again", F_INT("n", 9));
    expect_line_end("\"n\":9}");
    cr_assert_eq(fixture_log_count("again"), 3);
}

/* The number of suppressed lines is reported when the repeats stop, though no further line of the message comes. */
Test(unit_log, reports_suppressed_repeats_when_they_stop) {
    fixture_hold_boottime();
    for (int i = 0; i < 60; i++) log_warn("r", "q", "failed", F_STR("reason", "why"), F_INT("n", i));
    for (int i = 0; i < 3; i++) log_error("r", NULL, "once");
    fixture_step_boottime(5000);
    log_warn("r", "q", "failed", F_STR("reason", "why"));
    fixture_step_boottime(9500);
    log_flush_suppressed();
    cr_assert_eq(fixture_log_count("\"failed\""), 1, "more repeats may come");
    cr_assert_eq(fixture_log_count("\"msg\":\"once\",\"role\":\"r\",\"seconds_ago\":14,\"repeated\":2}"), 1);
    fixture_step_boottime(1900);
    log_flush_suppressed();
    expect_line_end("\"level\":\"warn\",\"msg\":\"failed\",\"role\":\"r\",\"queue\":\"q\",\"reason\":\"why\","
                    "\"seconds_ago\":11,\"repeated\":60}");
    for (int i = 0; i < 3; i++) {
        fixture_step_boottime(11000);
        log_flush_suppressed();
    }
    cr_assert_eq(fixture_log_count("\"failed\""), 2, "nothing is reported twice");
}

/* Once its suppressed lines are reported, the next line of a message has all its fields again. */
Test(unit_log, writes_all_fields_when_a_message_comes_back) {
    fixture_hold_boottime();
    for (int storm = 0; storm < 4; storm++) {
        for (int i = 0; i < 3; i++) log_warn("r", "q", "failed", F_STR("reason", "why"), F_INT("number", 10 * storm + i));
        fixture_step_boottime(10500);
        log_flush_suppressed();
        fixture_step_boottime(1500);
    }
    for (int storm = 0; storm < 4; storm++) {
        char *fact = kept_printf("\"number\":%d}", 10 * storm);
        cr_assert_eq(fixture_log_count(fact), 1, "%s", fixture_log());
    }
    cr_assert_eq(fixture_log_count("\"seconds_ago\":10,\"repeated\":2}"), 4);
    cr_assert_eq(fixture_log_count("\"failed\""), 8);
}

/* With more messages than slots, the repeats of a message are reported before it loses its slot. */
Test(unit_log, reports_repeats_of_an_evicted_message) {
    char reason[16];
    fixture_hold_boottime();
    for (int i = 0; i < 4; i++) log_warn("r", NULL, "storm", F_STR("reason", "why"));
    fixture_step_boottime(1);
    for (int i = 0; i < 50000; i++) {
        snprintf(reason, sizeof reason, "%d", i);
        log_warn("r", NULL, "crowd", F_STR("reason", reason));
    }
    cr_assert_eq(fixture_log_count("\"storm\""), 2);
    cr_assert_eq(fixture_log_count("\"msg\":\"storm\",\"role\":\"r\",\"reason\":\"why\",\"seconds_ago\":0,\"repeated\":3}"), 1);
}

/* Logs an error for each of the queues q<first> to q<last>. */
static void crowd(int first, int last, const char *msg) {
    char queue[16];
    for (int i = first; i <= last; i++) {
        snprintf(queue, sizeof queue, "q%d", i);
        log_error("r", queue, msg, F_STR("reason", queue));
    }
}

Test(unit_log, sums_up_a_message_of_many_queues) {
    crowd(1, 1000, "no");
    for (int round = 0; round < 2; round++) crowd(500, 521, "no");
    crowd(1, 20, "few");
    log_error("r", NULL, "no");
    cr_assert_eq(fixture_log_count("\"no\""), 21);
    fixture_step_boottime(9000);
    log_flush_suppressed();
    cr_assert_eq(fixture_log_count("\"no\""), 21);
    fixture_step_boottime(1001);
    log_flush_suppressed();
    log_flush_suppressed();
    cr_assert_eq(fixture_log_count("\"no\""), 22);
    expect_line_end("\"level\":\"error\",\"msg\":\"no\",\"role\":\"r\",\"more\":980,"
                    "\"queues\":\"q21, q22, q23, q24, q25, q26, q27, q28, q29, q30\"}");
    cr_assert_eq(fixture_log_count("more"), 1, "all lines of \"few\" were written");
    crowd(500, 521, "no");
    fixture_step_boottime(10001);
    log_info("r", NULL, "something else"); /* the summary is written before it */
    cr_assert_eq(fixture_log_count("\"no\""), 22 + 20 + 1);
    cr_assert_eq(fixture_log_count("\"more\":2,\"queues\":\"q520, q521\""), 1);
    cr_assert_eq(fixture_log_count("\"repeated\":2"), 20, "each line still carries the number of its repeats");
}

/* A line that reports suppressed repeats counts as a line of its message. */
Test(unit_log, sums_up_suppressed_repeats_of_many_queues) {
    fixture_hold_boottime();
    crowd(1, 20, "no");
    fixture_step_boottime(9000);
    crowd(1, 20, "no");
    fixture_step_boottime(1100);
    for (int i = 0; i < 2; i++) crowd(101, 120, "no");
    cr_assert_eq(fixture_log_count("\"no\""), 40);
    fixture_step_boottime(10100);
    log_flush_suppressed();
    cr_assert_eq(fixture_log_count("\"repeated\":1}"), 20, "%s", fixture_log());
    fixture_step_boottime(10100);
    log_flush_suppressed();
    cr_assert_eq(fixture_log_count("\"repeated\":1}"), 20, "%s", fixture_log());
    cr_assert_eq(fixture_log_count("\"more\":20,"), 1, "%s", fixture_log());
}

/* A line for each job: 1,000 of a message in a second, and then the number of the others. Each message has its own limit. */
Test(unit_log, sums_up_a_storm_of_jobs) {
    fixture_hold_boottime();
    for (int i = 0; i < 1200; i++) log_info("r", i % 2 ? "mail" : "mail2", "retried", F_INT("job", i));
    for (int i = 0; i < 900; i++) log_info("r", "mail", "removed");
    for (int i = 0; i < 1200; i++) log_info("r", NULL, "of no queue");
    cr_assert_eq(fixture_log_count("\"retried\""), 1000);
    cr_assert_eq(fixture_log_count("\"of no queue\""), 1200);
    fixture_step_boottime(1001);
    log_flush_suppressed();
    cr_assert_eq(fixture_log_count("\"removed\""), 900);
    expect_line_end("\"level\":\"info\",\"msg\":\"retried\",\"role\":\"r\",\"more\":200,\"queues\":\"mail2, mail\"}");
    log_info("r", "mail", "retried", F_INT("job", 1));
    expect_line_end("\"msg\":\"retried\",\"role\":\"r\",\"queue\":\"mail\",\"job\":1}");
    cr_assert_eq(fixture_log_count("\"more\""), 1);
}

/* People search the log for the id of a job. */
Test(unit_log, a_warning_about_a_job_is_no_repeat) {
    fixture_hold_boottime();
    for (int i = 0; i < 1200; i++) log_warn("r", "mail", "failed", F_STR("reason", "reported"), F_INT("job", i));
    cr_assert_eq(fixture_log_count("\"failed\""), 1000);
    fixture_step_boottime(1001);
    log_flush_suppressed();
    expect_line_end("\"level\":\"warn\",\"msg\":\"failed\",\"role\":\"r\",\"more\":200,\"queues\":\"mail\"}");
    log_warn("r", "mail", "failed", F_STR("reason", "reported"), F_INT("job", 1));
    expect_line_end("\"queue\":\"mail\",\"reason\":\"reported\",\"job\":1}");
}

Test(unit_log, writes_every_line_at_level_debug) {
    log_setup(LOG_DEBUG, 1);
    for (int i = 0; i < 1200; i++) log_debug("r", "mail", "detail");
    cr_assert_eq(fixture_log_count("\"detail\""), 1200);
}

Test(unit_log, survives_more_bursts_than_slots) {
    static char messages[40][16]; /* the log borrows them */
    for (int round = 0; round < 40; round++) {
        snprintf(messages[round], sizeof messages[round], "m%d.", round);
        crowd(1, 25, messages[round]);
    }
    fixture_step_boottime(10001);
    log_flush_suppressed();
    cr_assert_eq(fixture_log_count("m0."), 21);
    cr_assert_eq(fixture_log_count("\"more\":5,"), 40);
}

Test(unit_log, writes_messages_that_differ) {
    log_warn("r", "q", "m", F_STR("reason", "one"));
    log_warn("r", "q", "m", F_STR("reason", "two"));
    log_warn("r", "p", "m", F_STR("reason", "one"));
    log_warn("s", "q", "m", F_STR("reason", "one"));
    log_warn("r", "q", "n", F_STR("reason", "one"));
    log_warn("r", NULL, "m", F_STR("reason", "one"));
    for (int i = 0; i < 3; i++) log_info("r", "q", "m");
    cr_assert_eq(fixture_log_count("ts"), 9);
}

enum { WRITERS = 4, LINES = 200 };

static void *write_lines(void *arg) {
    for (int i = 0; i < LINES; i++)
        log_info(arg, NULL, "from a thread", F_STR("pad", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
    return NULL;
}

Test(unit_log, keeps_lines_of_threads_apart) {
    static const char *const names[WRITERS] = {"a", "b", "c", "d"};
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, write_lines, (void *)(uintptr_t)names[i]), 0);
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
    char *log = fixture_log(), *rest = log;
    int lines = 0;
    for (char *line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n"), lines++)
        cr_assert(strncmp(line, "{\"ts\":", 6) == 0 && strcmp(line + strlen(line) - 3, "x\"}") == 0, "%s", line);
    cr_assert_eq(lines, WRITERS * LINES);
}

Test(unit_backoff, doubles_with_a_jitter_of_half_up_to_its_bound) {
    static const int64_t base_ms[] = {50, 100, 200, 400, 800, 1600, 2000, 2000, 2000};
    bool varied = false;
    int64_t first = 0;
    mono_t now = {0};
    for (int round = 0; round < 200; round++) {
        backoff_t backoff = BACKOFF_REDIS;
        for (size_t i = 0; i < sizeof base_ms / sizeof *base_ms; i++) {
            int64_t ns = mono_diff(backoff_failed(&backoff, now), now);
            cr_assert(ns >= base_ms[i] * NS_PER_MS / 2 && ns < base_ms[i] * NS_PER_MS, "step %zu: %lld ns", i, (long long)ns);
            if (i == 0 && round == 0) first = ns;
            varied |= i == 0 && ns != first;
        }
        backoff_reset(&backoff);
        cr_assert_lt(mono_diff(backoff_failed(&backoff, now), now), 50 * NS_PER_MS);
    }
    cr_assert(varied);
}

Test(unit_backoff, starts_again_after_a_calm_time) {
    backoff_t backoff = BACKOFF_REDIS;
    mono_t now = {0};
    for (int i = 0; i < 10; i++) now = backoff_failed(&backoff, now);
    mono_t soon = mono_add(now, BACKOFF_CALM_S * NS_PER_S);
    cr_expect_geq(mono_diff(backoff_failed(&backoff, soon), soon), 1000 * NS_PER_MS);
    mono_t late = mono_add(backoff.retry_at, BACKOFF_CALM_S * NS_PER_S + 1);
    cr_expect_lt(mono_diff(backoff_failed(&backoff, late), late), 50 * NS_PER_MS);
}

Test(unit_clock, saturates) {
    mono_t zero = {0}, five = {5}, early = {-7};
    cr_assert_eq(mono_add(five, INT64_MAX).ns, INT64_MAX);
    cr_assert_eq(mono_add(mono_never(), NS_PER_S).ns, INT64_MAX);
    cr_assert_eq(mono_add((mono_t){INT64_MAX - 5}, 5).ns, INT64_MAX);
    cr_assert_eq(mono_add(five, -8).ns, -3);
    cr_assert_eq(mono_diff(mono_never(), five), INT64_MAX);
    cr_assert_eq(mono_diff(mono_never(), early), INT64_MAX);
    cr_assert_eq(mono_diff(zero, five), -5);
    cr_assert(mono_reached(five, five) && !mono_reached(five, (mono_t){4}) && !mono_reached(mono_never(), mono_now()));
    cr_assert_eq(mono_min(five, mono_never()).ns, 5);
    cr_assert_eq(mono_min(mono_never(), early).ns, -7);
}

Test(unit_clock, counts_time_while_the_machine_sleeps) {
    mono_t before = mono_now();
    cr_assert_geq(mono_diff(mono_now(), before), 0);
    fixture_step_boottime(3600 * 1000);
    cr_assert_geq(mono_diff(mono_now(), before), 3600 * NS_PER_S);
}

Test(unit_clock, random_numbers_fill_the_unit) {
    double sum = 0, low = 1, high = 0;
    for (int i = 0; i < 4000; i++) {
        double x = random_unit();
        cr_assert(x >= 0 && x < 1);
        sum += x;
        low = fmin(low, x);
        high = fmax(high, x);
    }
    cr_assert_float_eq(sum / 4000, 0.5, 0.05);
    cr_assert(low < 0.01 && high > 0.99);
}

Test(unit_clock, wall_text_is_rfc_3339) {
    char text[25];
    wall_text(text, sizeof text);
    cr_assert_eq(strlen(text), 24);
    cr_assert(text[4] == '-' && text[10] == 'T' && text[19] == '.' && text[23] == 'Z');
}

Test(unit_buffer, a_grown_array_keeps_its_elements) {
    int *all = NULL;
    for (size_t count = 0; count < 40; count++) {
        all = mem_grown(all, count, sizeof *all);
        cr_expect_eq(all[count], 0, "%zu", count);
        all[count] = (int)count + 1;
    }
    for (size_t i = 0; i < 40; i++) cr_expect_eq(all[i], i + 1);
    free(all);
}

Test(unit_buffer, grows_and_always_ends_in_nul) {
    buffer_t buffer = {0};
    cr_assert_str_eq(buffer_text(&buffer), "");
    buffer_add(&buffer, NULL, 0);
    cr_assert_str_eq(buffer_text(&buffer), "");
    for (size_t i = 0; i < 1000; i++) {
        buffer_add(&buffer, "a\0b", 3);
        cr_assert_eq(buffer.len, 3 * (i + 1));
        cr_assert_eq(buffer.data[buffer.len], '\0');
        cr_assert_eq(memcmp(buffer.data + buffer.len - 3, "a\0b", 3), 0);
    }
    size_t cap = buffer.cap;
    buffer_clear(&buffer);
    cr_assert_eq(buffer.len, 0);
    cr_assert_eq(buffer.cap, cap);
    buffer_printf(&buffer, "%0*d", 5000, 7);
    cr_assert_eq(buffer.len, 5000);
    buffer_str(&buffer, "end");
    cr_assert_str_eq(buffer.data + 4999, "7end");
    buffer_free(&buffer);
    cr_assert_null(buffer.data);
    buffer_free(&buffer);
    char *empty = kept(mem_printf("%s", ""));
    cr_assert_str_eq(empty, "");
}

Test(unit_utf8, knows_well_formed_sequences) {
    static const struct {
        const char *text;
        size_t len, expected;
    } rows[] = {
        {"", 0, 0},
        {"a", 1, 1},
        {"\0", 1, 1},
        {"\x7f", 1, 1},
        {"\xc2\x80", 2, 2},
        {"\xdf\xbf", 2, 2},
        {"\xe0\xa0\x80", 3, 3},
        {"\xed\x9f\xbf", 3, 3},
        {"\xee\x80\x80", 3, 3},
        {"\xef\xbf\xbf", 3, 3},
        {"\xf0\x90\x80\x80", 4, 4},
        {"\xf4\x8f\xbf\xbf", 4, 4},
        {"\x80", 1, 0},
        {"\xc0\x80", 2, 0},
        {"\xc1\xbf", 2, 0},
        {"\xe0\x9f\xbf", 3, 0},
        {"\xed\xa0\x80", 3, 0},
        {"\xf0\x8f\xbf\xbf", 4, 0},
        {"\xf4\x90\x80\x80", 4, 0},
        {"\xf5\x80\x80\x80", 4, 0},
        {"\xfe\x80", 2, 0},
        {"\xc3\xa9", 1, 0},
        {"\xe2\x82\xac", 2, 0},
        {"\xe2\x82x", 3, 0},
        {"\xf0\x9f\x98\x80", 3, 0},
        {"\xf0\x9f\x98x", 4, 0},
        {"\xc3x", 2, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_assert_eq(utf8_sequence(rows[i].text, rows[i].len), rows[i].expected, "row %zu", i);
}

Test(unit_utf8, escaped_bytes_are_always_valid) {
    for (unsigned round = 0; round < 2000; round++) {
        char bytes[24];
        scoped(buffer_free) buffer_t out = {0};
        random_bytes(bytes, sizeof bytes);
        utf8_escape(&out, bytes, sizeof bytes, "\"\\");
        for (size_t i = 0; i < out.len;) {
            size_t step = utf8_sequence(out.data + i, out.len - i);
            cr_assert(step > 0 && (unsigned char)out.data[i] >= 0x20 && out.data[i] != 0x7f);
            i += step;
        }
    }
}

Test(unit_wakeup, raises_and_clears) {
    int fd = wakeup_new();
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    cr_assert_eq(poll(&ready, 1, 0), 0);
    wakeup_raise(fd);
    wakeup_raise(fd);
    cr_assert_eq(poll(&ready, 1, 0), 1);
    wakeup_clear(fd);
    cr_assert_eq(poll(&ready, 1, 0), 0);
    wakeup_clear(fd);
    wakeup_raise(-1);
    close(fd);
}

/* The reader of the log may stop reading. */
Test(unit_log, drops_lines_when_the_pipe_is_full, .timeout = 20) {
    int ends[2];
    char chunk[4096];
    cr_assert_eq(pipe(ends), 0);
    int saved = dup(STDERR_FILENO);
    cr_assert_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    memset(chunk, ' ', sizeof chunk);
    while (write(ends[1], chunk, sizeof chunk) > 0) {
    }
    cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
    dup2(ends[1], STDERR_FILENO);
    log_setup(LOG_INFO, 1);
    log_info("test", NULL, "no room for this one");
    log_info("test", NULL, "nor for this one");
    ssize_t got = read(ends[0], chunk, sizeof chunk);
    cr_assert_eq(got, (ssize_t)sizeof chunk);
    while (got > 0 && memchr(chunk, '}', (size_t)got) == NULL) {
        log_info("test", NULL, "room again");
        got = read(ends[0], chunk, sizeof chunk - 1);
    }
    dup2(saved, STDERR_FILENO);
    cr_assert_gt(got, 0);
    chunk[got] = '\0';
    cr_assert_not_null(strstr(chunk, "room again"));
    cr_assert_not_null(strstr(chunk, "\"lines_lost\":2"), "%s", chunk);
}
