#include "cli/status/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *count_text(int64_t number, char text[UNITS_TEXT_SIZE]) {
    if (number < 0)
        snprintf(text, UNITS_TEXT_SIZE, "?");
    else if (number < 1000)
        snprintf(text, UNITS_TEXT_SIZE, "%" PRId64, number);
    else if (number < 1000000)
        snprintf(text, UNITS_TEXT_SIZE, "%" PRId64 ",%03" PRId64, number / 1000, number % 1000);
    else
        snprintf(text, UNITS_TEXT_SIZE, "%.1f%s", (double)number / (number < 1000000000 ? 1e6 : 1e9),
                 number < 1000000000 ? "M" : "G");
    return text;
}

void shell_word(buffer_t *out, const char *text) {
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
