#include "cli/wrap.h"

#include <string.h>

#include "cli/terminal.h"

// The bytes up to the next place where a line may end. A quote that never closes, or not within a line, is an ordinary letter.
static size_t wrap_piece(const char *text, size_t len, size_t width, bool brackets) {
    int depth = 0;
    for (size_t i = 0; i < len; i++) {
        if (brackets) depth += (text[i] == '[') - (text[i] == ']');
        if ((text[i] == ' ' && depth <= 0) || text[i] == '\n') return i;
        if (text[i] != '`') continue;
        const char *close = memchr(text + i + 1, '`', len - i - 1);
        if (close && (size_t)(close - text) < width) i = (size_t)(close - text);
    }
    return len;
}

void wrap_add(buffer_t *out, const char *text, size_t len, const wrap_t *wrap) {
    size_t column = wrap->column;
    bool begins = true; // nothing stands on this line yet
    for (size_t at = 0; at < len;) {
        size_t piece = wrap_piece(text + at, len - at, wrap->width, wrap->brackets),
               wide = terminal_width((slice_t){text + at, piece});
        if (!begins && column + 1 + wide > wrap->width) {
            buffer_printf(out, "\n%*s", (int)wrap->indent, "");
            column = wrap->indent;
        } else if (!begins) {
            buffer_str(out, " ");
            column++;
        }
        begins = false;
        if (wrap->hard && column + wide > wrap->width && wrap->width > wrap->indent + 1) {
            piece = terminal_fit((slice_t){text + at, piece}, wrap->width - column); // the rest is the next piece
            wide = terminal_width((slice_t){text + at, piece});
        }
        buffer_add(out, text + at, piece);
        column += wide;
        at += piece;
        for (; at < len && (text[at] == ' ' || text[at] == '\n'); at++) {
            if (text[at] != '\n') continue;
            buffer_printf(out, "\n%*s", (int)wrap->indent, "");
            column = wrap->indent;
            begins = true;
        }
    }
    buffer_str(out, "\n");
}

void wrap_at(buffer_t *out, const char *text, size_t indent, size_t width) {
    const wrap_t wrap = {.width = width, .indent = indent, .column = indent};
    wrap_add(out, text, strlen(text), &wrap);
}
