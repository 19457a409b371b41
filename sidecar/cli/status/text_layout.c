#include "cli/status/text_layout.h"

#include <stdarg.h>

#include "cli/terminal.h"

void text_wrap(buffer_t *out, const char *text, size_t indent, const status_view_t *view) {
    buffer_t safe = {0};
    // A long word stays whole, so that people can copy it; --watch breaks it, for lack of room.
    const wrap_t wrap = {.width = view->width, .indent = indent, .column = indent, .hard = view->rows > 0};
    terminal_escape(&safe, slice_text(text), false);
    wrap_add(out, buffer_text(&safe), safe.len, &wrap);
    buffer_free(&safe);
}

void text_labelled(buffer_t *out, const status_view_t *view, const char *label, const char *format, ...) {
    buffer_t text = {0};
    va_list args;
    va_start(args, format);
    buffer_vprintf(&text, format, args);
    va_end(args);
    buffer_printf(out, "%-*s", TEXT_INDENT, label);
    text_wrap(out, buffer_text(&text), TEXT_INDENT, view);
    buffer_free(&text);
}

// Returns how many bytes fit before the ellipsis. Cuts between words: half a number is another number.
static size_t text_fitting(slice_t line, size_t width) {
    size_t fits = terminal_fit(line, width - 1), at = fits;
    while (at > 0 && line.data[at] != ' ' && line.data[at - 1] != ' ') at--;
    return at > 0 ? at : fits;
}

void text_clip(buffer_t *out, const char *text, size_t width) {
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        slice_t line = {text, len};
        bool whole = terminal_width(line) <= width;
        buffer_add(out, text, whole ? len : text_fitting(line, width));
        buffer_str(out, whole ? "\n" : "\u2026\n");
    }
}

void text_cut(buffer_t *out, size_t max, size_t width) {
    size_t lines = 0;
    for (const char *at = buffer_text(out); (at = strchr(at, '\n')); at++) lines++;
    if (lines <= max) return;
    char *at = out->data,
         *more = mem_printf("... %zu lines more: enlarge the window, use --queue NAME, or omit --watch", lines - max + 1);
    for (size_t i = 0; i + 1 < max; i++) at = strchr(at, '\n') + 1;
    out->len = (size_t)(at - out->data);
    *at = '\0';
    text_clip(out, more, width);
    free(more);
}
