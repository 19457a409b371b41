#include "cli/status/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *status_span(int64_t ms, char text[SPAN_SIZE]) {
    if (ms < 0) ms = 0;
    int64_t s = ms / 1000;
    if (ms < 9950)
        snprintf(text, SPAN_SIZE, "%" PRId64 ".%" PRId64 " s", ms / 1000, ms / 100 % 10);
    else if (s < 120)
        snprintf(text, SPAN_SIZE, "%" PRId64 " s", s);
    else if (s < 120 * 60)
        snprintf(text, SPAN_SIZE, "%" PRId64 " min", s / 60);
    else if (s < 48 * 3600)
        snprintf(text, SPAN_SIZE, "%" PRId64 " h", s / 3600);
    else
        snprintf(text, SPAN_SIZE, "%" PRId64 " d", s / 86400);
    return text;
}

const char *status_number(int64_t number, char text[SPAN_SIZE]) {
    if (number < 0)
        snprintf(text, SPAN_SIZE, "?");
    else if (number < 1000)
        snprintf(text, SPAN_SIZE, "%" PRId64, number);
    else if (number < 1000000)
        snprintf(text, SPAN_SIZE, "%" PRId64 ",%03" PRId64, number / 1000, number % 1000);
    else
        snprintf(text, SPAN_SIZE, "%.1f%s", (double)number / (number < 1000000000 ? 1e6 : 1e9), number < 1000000000 ? "M" : "G");
    return text;
}

const char *status_size(int64_t bytes, char text[SPAN_SIZE]) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) size /= 1024;
    snprintf(text, SPAN_SIZE, unit && size < 99.95 ? "%.1f %s" : "%.0f %s", size, units[unit]);
    return text;
}

void status_word(buffer_t *out, const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/@%+,=";
    if (*text && *text != '-' && strspn(text, plain) == strlen(text)) {
        buffer_str(out, text);
        return;
    }
    buffer_str(out, "'");
    for (const char *at = text; *at; at++) {
        if (*at == '\'')
            buffer_str(out, "'\\''");
        else
            buffer_add(out, at, 1);
    }
    buffer_str(out, "'");
}
