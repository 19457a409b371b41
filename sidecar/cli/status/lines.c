#include "cli/status/lines.h"

#include <stdlib.h>
#include <string.h>

#include "cli/terminal.h"
#include "cli/wrap.h"

void lines_wrap(buffer_t *out, const char *text, size_t indent, const status_view_t *view) {
    buffer_t safe = {0};
    // A long word stays whole, so that people can copy it. A screen has no room for it.
    const wrap_t wrap = {.width = view->width, .indent = indent, .column = indent, .hard = view->rows > 0};
    terminal_escape(&safe, slice_text(text), false);
    wrap_add(out, buffer_text(&safe), safe.len, &wrap);
    buffer_free(&safe);
}

void lines_labelled(buffer_t *out, const char *label, const char *text, const status_view_t *view) {
    buffer_printf(out, "%-*s", LINES_INDENT, label);
    lines_wrap(out, text, LINES_INDENT, view);
}

// How much of a line fits before the sign that it goes on. Whole words: half a number is another number.
static size_t lines_fitting(slice_t line, size_t width) {
    size_t fits = terminal_fit(line, width - 1), at = fits;
    while (at > 0 && line.data[at] != ' ' && line.data[at - 1] != ' ') at--;
    return at > 0 ? at : fits;
}

void lines_clip(buffer_t *out, const char *text, size_t width) {
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        slice_t line = {text, len};
        bool whole = width == 0 || terminal_width(line) <= width;
        buffer_add(out, text, whole ? len : lines_fitting(line, width));
        buffer_str(out, whole ? "\n" : "\u2026\n");
    }
}

size_t lines_count(const buffer_t *text) {
    size_t lines = 0;
    for (const char *at = buffer_text(text); (at = strchr(at, '\n')); at++) lines++;
    return lines;
}

void lines_cut(buffer_t *out, size_t max, size_t width) {
    size_t lines = lines_count(out);
    if (lines <= max) return;
    char *at = out->data,
         *more = mem_printf("... %zu lines more: enlarge the window, use --queue NAME, or omit --watch", lines - max + 1);
    for (size_t i = 0; i + 1 < max; i++) at = strchr(at, '\n') + 1;
    out->len = (size_t)(at - out->data);
    *at = '\0';
    lines_clip(out, more, width);
    free(more);
}
