/* The lines that an import reads: of any length, in bounded memory. */
#include "cli/audit/event_output.h"
#include "kept.h"
#include "tempdir.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE(text) ((slice_t){text, sizeof(text) - 1})

static line_reader_t open_text(slice_t text) {
    char *path = temp_path(temp_root(), "lines");
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(text.data, 1, text.len, file), text.len);
    fclose(file);
    FILE *in = fopen(path, "r");
    cr_assert_not_null(in);
    free(path);
    return (line_reader_t){.in = in, .max_bytes = LINE_MAX_BYTES};
}

static void close_text(line_reader_t *reader) {
    fclose(reader->in);
    buffer_free(&reader->buffer);
}

/* Every line as "number:bytes|", one that is too long as "number!|". Then `end` comes. */
static void expect_lines_until(line_result_t end, slice_t text, size_t max_bytes, const char *expected) {
    line_reader_t reader = open_text(text);
    line_result_t result;
    slice_t line;
    buffer_t got = {0};
    if (max_bytes) reader.max_bytes = max_bytes;
    while ((result = line_reader_next(&reader, &line)) == LINE_READ || result == LINE_TOO_LONG) {
        if (result == LINE_READ)
            buffer_printf(&got, "%d:%.*s|", (int)reader.number, (int)line.len, line.data);
        else
            buffer_printf(&got, "%d!|", (int)reader.number);
    }
    cr_expect_eq(result, end, "%d", result);
    cr_expect_str_eq(buffer_text(&got), expected);
    buffer_free(&got);
    close_text(&reader);
}

static void expect_lines(slice_t text, size_t max_bytes, const char *expected) {
    expect_lines_until(LINE_END, text, max_bytes, expected);
}

Test(unit_audit_line_reader, lines_may_end_in_lf_crlf_or_the_file) {
    expect_lines(SLICE("{1}\n\n{2}\r\n{3}"), 0, "1:{1}|2:|3:{2}|4:{3}|");
    expect_lines(SLICE("{1}\n"), 0, "1:{1}|");
    expect_lines(SLICE(""), 0, "");
}

Test(unit_audit_line_reader, a_line_that_is_too_long_is_skipped) {
    expect_lines(SLICE("{1}\n{2345678}\n{345678}\n{45678901"), 8, "1:{1}|2!|3:{345678}|4!|");
}

/* A device or a stream without line ends must not be read for ever. */
Test(unit_audit_line_reader, an_input_that_is_no_export_is_not_read_on) {
    char words[5000], *long_line = kept_printf("{1}\n{%069d", 0);
    memset(words, 'w', sizeof words);
    expect_lines_until(LINE_FOREIGN, SLICE("SQLite format 3\0\n{2}\n"), 0, "");
    expect_lines_until(LINE_FOREIGN, SLICE("\0\0\0{1}\n"), 0, "");
    expect_lines_until(LINE_FOREIGN, (slice_t){words, sizeof words}, 0, "");
    expect_lines(slice_text(long_line), 8, "1:{1}|2!|");
    expect_lines_until(LINE_FOREIGN, slice_text(kept_printf("%s000", long_line)), 8, "1:{1}|");
    expect_lines(SLICE("\xef\xbb\xbf{1\0}\n{\0\n"), 0, "1:{1|2:{|"); /* NUL bytes where a line was torn */
}

Test(unit_audit_line_reader, a_byte_order_mark_is_skipped) { expect_lines(SLICE("\xef\xbb\xbf{1}\n{2}\n"), 0, "1:{1}|2:{2}|"); }

Test(unit_audit_line_reader, a_line_may_end_where_a_read_ends) {
    for (size_t len = 256 * 1024 - 3; len < 256 * 1024 + 3; len++) {
        buffer_t text = {0};
        buffer_str(&text, "{");
        while (text.len < len) buffer_add(&text, "x", 1);
        buffer_str(&text, "\n{2}\n");
        line_reader_t reader = open_text((slice_t){text.data, text.len});
        slice_t line;
        cr_assert_eq(line_reader_next(&reader, &line), LINE_READ);
        cr_assert_eq(line.len, len);
        cr_assert_eq(line_reader_next(&reader, &line), LINE_READ);
        cr_assert(slice_is(line, "{2}"));
        cr_assert_eq(line_reader_next(&reader, &line), LINE_END);
        close_text(&reader);
        buffer_free(&text);
    }
}
